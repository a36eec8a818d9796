//! rmcp's client, calling `echo` of a server over HTTP: `rmcp-client URL CALLS IN_FLIGHT`.

#[path = "../../src/calling.rs"]
mod calling;
#[path = "../../src/cpu.rs"]
mod cpu;

use calling::{Arguments, Failure};
use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientLifecycleMode, ClientServiceExt};

/// As ours has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments = Arguments::read()?;
    let transport = StreamableHttpClientTransport::from_uri(arguments.url.as_str());
    let lifecycle = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    let client = ().serve_with_lifecycle(transport, lifecycle).await?;
    let peer = client.peer().clone();
    arguments
        .run(move |message| {
            let peer = peer.clone();
            async move {
                let mut arguments = serde_json::Map::new();
                arguments.insert("message".to_owned(), message.into());
                let call = CallToolRequestParams::new("echo").with_arguments(arguments);
                let result = peer.call_tool(call).await?;
                let text = result.content.first().and_then(|content| content.as_text());
                Ok(text.ok_or("an answer without a text")?.text.clone())
            }
        })
        .await?;
    client.cancel().await?;
    Ok(())
}
