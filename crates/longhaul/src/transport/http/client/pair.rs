//! HTTP+SSE of 2024-11-05: a stream of events from the server, and an address to which messages are posted.
//!
//! It carries whole messages both ways, so it is driven as a byte stream is: an event is a line in, a line out is a POST.

use std::sync::Arc;

use longhaul_proto::http::Event;
use reqwest::Url;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};

use super::read::{Events, Kind, failure, kind, whole};
use super::{Shared, access};
use crate::client::error::Error;
use crate::driver::StreamLink;

/// How many bytes wait between a connection and who drives it.
const ROOM: usize = 64 << 10;

/// Opens such a connection to the server.
///
/// # Errors
///
/// When the server has no stream of events there, or the stream does not begin by saying where messages go.
pub(super) async fn open(shared: &Arc<Shared>) -> Result<StreamLink, Error> {
    let after = shared.table.options().request_timeout;
    let begun = tokio::time::timeout(after, begin(shared)).await;
    let (events, heard, address) = begun.unwrap_or(Err(Error::TimedOut { after }))?;
    let (reader, fed) = duplex(ROOM);
    let (written, writer) = duplex(ROOM);
    let hearing = tokio::spawn(hear(events, heard, fed));
    let shared = Arc::clone(shared);
    let table = Arc::clone(&shared.table);
    tokio::spawn(async move {
        if let Err(error) = post(&shared, &address, written).await {
            shared.table.end(error);
        }
        // Who writes no more hears no more: the server ends with its stream.
        hearing.abort();
    });
    Ok(StreamLink::new(table, reader, writer, None))
}

/// Opens the stream, and reads on until it says where messages go: what came with that, and the address.
async fn begin(shared: &Shared) -> Result<(Events, Vec<Event>, Url), Error> {
    let request = || shared.http.get(shared.url.clone()).header(ACCEPT, "text/event-stream");
    let mut response = access::send(shared, "GET", request).await?;
    let limits = shared.table.options().limits;
    if !response.status().is_success() || !matches!(kind(&response), Kind::Events) {
        let body = whole(&mut response, limits.max_bytes).await?;
        return Err(failure(shared, &response, &body));
    }
    let mut events = Events::new(response, &limits);
    while let Some(more) = events.next().await? {
        let Some(at) = more.iter().position(|event| event.kind == "endpoint") else { continue };
        let mut more = more;
        let rest = more.split_off(at + 1);
        let address = shared.url.join(more[at].data.trim());
        let address =
            address.map_err(|error| Error::protocol(format!("an endpoint that is no URL: {error}")))?;
        // Whatever the messages carry is for this server.
        if address.origin() != shared.url.origin() {
            return Err(Error::protocol("an endpoint at another origin than the stream that names it"));
        }
        return Ok((events, rest, address));
    }
    Err(Error::Lost { cause: None })
}

/// Hands on what the server says, until it says no more or nobody listens.
async fn hear(mut events: Events, heard: Vec<Event>, mut fed: DuplexStream) {
    let mut heard = Some(heard);
    while let Some(more) = heard {
        for event in more.iter().filter(|event| matches!(event.kind.as_str(), "" | "message")) {
            // In JSON, whatever ends a line is a space.
            let line = event.data.replace(['\n', '\r'], " ") + "\n";
            if fed.write_all(line.as_bytes()).await.is_err() {
                return;
            }
        }
        heard = match events.next().await {
            Ok(more) => more,
            Err(error) => {
                tracing::debug!(%error, "the stream of a server broke");
                return;
            }
        };
    }
}

/// Posts one line after the other, until there are no more.
async fn post(shared: &Shared, address: &Url, written: DuplexStream) -> Result<(), Error> {
    let mut lines = BufReader::new(written);
    loop {
        let mut line = Vec::new();
        if lines.read_until(b'\n', &mut line).await.map_err(Error::lost)? == 0 {
            return Ok(());
        }
        let patience = shared.table.options().request_timeout;
        let request = || {
            let request = shared.http.post(address.clone()).header(CONTENT_TYPE, "application/json");
            request.body(line.clone()).timeout(patience)
        };
        let mut response = access::send(shared, "POST", request).await?;
        if !response.status().is_success() {
            let body = whole(&mut response, shared.table.options().limits.max_bytes).await?;
            return Err(failure(shared, &response, &body));
        }
    }
}
