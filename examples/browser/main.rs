//! A guest book that pages of listed origins may use straight from a browser. See README.md.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use longhaul::proto::http::AllowList;
use longhaul::proto::model::Progress;
use longhaul::transport::http::server::Options;
use longhaul::{Cx, Server, Tool, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::net::TcpListener;

#[derive(Deserialize, JsonSchema)]
struct Guest {
    /// Who was here.
    name: String,
}

/// Count down to zero.
#[tool(read_only)]
async fn count_down(cx: Cx, from: u8) -> &'static str {
    for done in 1..=from {
        tokio::time::sleep(Duration::from_millis(100)).await;
        cx.progress(Progress::new(f64::from(done)).of(f64::from(from))).await;
    }
    "zero"
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().context("where? usage: browser 127.0.0.1:8420 http://localhost:8000")?;
    let address: SocketAddr = address.parse()?;
    let allow = AllowList::new(["localhost", "127.0.0.1"], arguments);

    let guests = Arc::new(Mutex::new(Vec::new()));
    let sign = Tool::inline("sign", "Sign the guest book", move |_, Guest { name }| {
        let mut guests = guests.lock().unwrap_or_else(PoisonError::into_inner);
        guests.push(name);
        guests.join(", ")
    });
    let server = Server::new("guest-book", "1.0.0").tool(sign).tool(count_down);
    let listener = TcpListener::bind(address).await?;
    writeln!(io::stderr(), "the guest book is at http://{}/mcp", listener.local_addr()?)?;
    Ok(server.serve_http(listener, Options::default().allow(allow)).await?)
}
