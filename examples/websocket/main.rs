//! A server over WebSockets, and a client of it. See README.md.

use std::io::Write as _;

use longhaul::Client;
use longhaul::client::Target;
use tokio::net::TcpListener;

mod server;
mod socket;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Some(url) = std::env::args().nth(1) else {
        let listener = TcpListener::bind("127.0.0.1:8422").await?;
        writeln!(std::io::stderr(), "the server is at ws://127.0.0.1:8422; name that to be its client")?;
        return Ok(server::serve(listener).await?);
    };
    let (reader, writer) = socket::connect(&url, 4 << 20).await?;
    let client = Client::connect(Target::stream(reader, writer)).await?;
    let counted = client.call("count", &serde_json::json!({ "to": 10 })).await?;
    client.close().await;
    writeln!(std::io::stdout(), "{}", counted.content[0].as_text().unwrap_or_default())?;
    Ok(())
}
