//! tower-mcp. `tower-server stdio` or `tower-server http [TOOLS]`; over HTTP, where it has sessions too, it prints its URL
//! as the first line.

use std::collections::HashMap;
use std::error::Error;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::net::TcpListener;
use tower_mcp::extract::{Context, Json};
use tower_mcp::protocol::GetPromptResult;
use tower_mcp::{
    CallToolResult, HttpTransport, McpRouter, Prompt, PromptBuilder, ResourceBuilder, StdioTransport, Tool,
    ToolBuilder,
};

#[derive(Deserialize, JsonSchema)]
struct Message {
    /// What to say back.
    message: String,
}

fn echo(name: String) -> Tool {
    ToolBuilder::new(name)
        .description("Say the message back")
        .handler(|Message { message }| async move { Ok(CallToolResult::text(message)) })
        .build()
}

fn tell() -> Tool {
    ToolBuilder::new("tell")
        .description("Say how far it is, then the message back")
        .extractor_handler((), |cx: Context, Json(Message { message }): Json<Message>| async move {
            cx.report_progress(1.0, None, None).await;
            Ok(CallToolResult::text(message))
        })
        .build()
}

fn greet() -> Prompt {
    PromptBuilder::new("greet")
        .description("Greet somebody")
        .required_arg("message", "What to say back.")
        .handler(|mut arguments: HashMap<String, String>| async move {
            Ok(GetPromptResult::user_message(arguments.remove("message").unwrap_or_default()))
        })
        .build()
}

/// With so many tools, but never fewer than two.
fn router(tools: usize) -> McpRouter {
    let text = ResourceBuilder::new("bench://text").name("text").text("a text");
    let router = McpRouter::new().server_info("bench", "1.0.0").resource(text).prompt(greet());
    let others = (2..tools).map(|nth| echo(format!("echo_{nth:03}")));
    others.fold(router.tool(echo("echo".to_owned())).tool(tell()), McpRouter::tool)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        ["stdio"] => Ok(StdioTransport::new(router(2)).run().await?),
        ["http"] => serve_http(router(2)).await,
        ["http", tools] => serve_http(router(tools.parse()?)).await,
        _ => Err("say `stdio` or `http`".into()),
    }
}

async fn serve_http(router: McpRouter) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    Ok(axum::serve(listener, HttpTransport::new(router).into_router_at("/mcp")).await?)
}
