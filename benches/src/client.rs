//! Our client, calling `echo` of a server over HTTP: `bench-client URL CALLS IN_FLIGHT`.
#![expect(clippy::print_stdout, reason = "whoever measures reads the figures from there")]

mod calling;
mod cpu;

use calling::{Arguments, Failure};
use longhaul::client::{Client, Options};
use longhaul::proto::dialect::Revision;
use longhaul::proto::model::Content;
use serde::Serialize;

/// As the program has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Serialize)]
struct Message {
    message: String,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments = Arguments::read()?;
    let options = Options::default().revision(Revision::V2026_07_28);
    let client = Client::connect_with(arguments.url.as_str(), options).await?;
    arguments
        .run(move |message| {
            let client = client.clone();
            async move {
                let result = client.call("echo", &Message { message }).await?;
                let text = result.content.first().and_then(Content::as_text);
                Ok(text.ok_or("an answer without a text")?.to_owned())
            }
        })
        .await
}
