//! rmcp, set up for speed as its documentation advises: its router built once and stored, JSON answers.
//! `rmcp-server stdio` or `rmcp-server http`; over HTTP it prints its URL as the first line.

use std::error::Error;
use std::sync::Arc;

use axum::Router;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{Implementation, ServerCapabilities, ServerConfig};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ServerHandler, ServiceExt, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::net::TcpListener;

#[derive(Clone)]
struct Echo {
    tool_router: Arc<ToolRouter<Self>>,
}

#[derive(Deserialize, JsonSchema)]
struct Message {
    /// What to say back.
    message: String,
}

#[tool_router]
impl Echo {
    fn new() -> Self {
        Self { tool_router: Arc::new(Self::tool_router()) }
    }

    #[tool(description = "Say the message back")]
    async fn echo(&self, Parameters(Message { message }): Parameters<Message>) -> String {
        message
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("bench", "1.0.0"))
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1).as_deref() {
        Some("stdio") => {
            Echo::new().serve(rmcp::transport::stdio()).await?.waiting().await?;
            Ok(())
        }
        Some("http") => serve_http().await,
        _ => Err("say `stdio` or `http`".into()),
    }
}

async fn serve_http() -> Result<(), Box<dyn Error>> {
    let config =
        StreamableHttpServerConfig::default().with_legacy_session_mode(false).with_json_response(true);
    let echo = Echo::new();
    let service = StreamableHttpService::new(
        move || Ok(echo.clone()),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    Ok(axum::serve(listener, Router::new().nest_service("/mcp", service)).await?)
}
