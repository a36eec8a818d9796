//! The server: a tool, and a connection for each client.

use std::time::Duration;

use longhaul::driver::{self, Options};
use longhaul::proto::http::AllowList;
use longhaul::server::{Dispatcher, Principal};
use longhaul::{Cx, Server, tool};
use tokio::net::{TcpListener, TcpStream};

use crate::socket;

/// Count to a number, a little later each.
#[tool(read_only)]
async fn count(cx: Cx, to: u32) -> u32 {
    for number in 1..=to {
        cx.progress(longhaul::proto::model::Progress::new(f64::from(number))).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    to
}

/// Serves every client that connects to `listener`.
pub(crate) async fn serve(listener: TcpListener) -> std::io::Result<()> {
    let server = Server::new("counter", "1.0.0").tool(count);
    let dispatcher = server.dispatcher().map_err(std::io::Error::other)?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(converse(dispatcher.clone(), stream));
    }
}

async fn converse(dispatcher: Dispatcher, stream: TcpStream) {
    let options = Options::default();
    let accepted = socket::accept(stream, AllowList::loopback(), options.limits.max_bytes);
    let Ok(Ok((reader, writer))) = tokio::time::timeout(Duration::from_secs(10), accepted).await else {
        return;
    };
    // Who calls is for the transport to find out; here everybody of this machine is one.
    let Ok(principal) = Principal::new("websocket") else { return };
    if let Err(error) =
        driver::serve(dispatcher, principal, reader, writer, options, std::future::pending()).await
    {
        tracing::warn!(%error, "a connection failed");
    }
}
