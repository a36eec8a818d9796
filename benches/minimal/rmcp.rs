//! The smallest server on rmcp, as its documentation has it.

use rmcp::handler::server::wrapper::Parameters;
use rmcp::transport::stdio;
use rmcp::{ServerHandler, ServiceExt, schemars, tool, tool_handler, tool_router};

#[derive(Clone)]
struct Echo;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Message {
    /// What to say back.
    message: String,
}

#[tool_router]
impl Echo {
    #[tool(description = "Say the message back")]
    async fn echo(&self, Parameters(Message { message }): Parameters<Message>) -> String {
        message
    }
}

#[tool_handler]
impl ServerHandler for Echo {}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    Echo.serve(stdio()).await?.waiting().await?;
    Ok(())
}
