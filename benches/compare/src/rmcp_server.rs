//! rmcp, set up for speed as its documentation advises: its router built once and stored, JSON answers.
//! `rmcp-server stdio`, `rmcp-server http [TOOLS]` or, with sessions, `rmcp-server sessions`; over HTTP it prints its URL as
//! the first line.

use std::error::Error;
use std::sync::Arc;

use axum::Router;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, Implementation, ProgressNotificationParam,
    PromptMessage, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, RequestMetaObject,
    ResourceContents, Role, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, Peer, RoleServer, ServerHandler, ServiceExt, tool, tool_handler, tool_router};
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
    /// With so many tools, but never fewer than two.
    fn new(tools: usize) -> Self {
        let mut router = Self::tool_router();
        for nth in 2..tools {
            let Some(mut other) = router.map.get("echo").cloned() else { continue };
            other.attr.name = format!("echo_{nth:03}").into();
            router.add_route(other);
        }
        Self { tool_router: Arc::new(router) }
    }

    #[tool(description = "Say the message back")]
    async fn echo(&self, Parameters(Message { message }): Parameters<Message>) -> String {
        message
    }

    #[tool(description = "Say how far it is, then the message back")]
    async fn tell(
        &self,
        Parameters(Message { message }): Parameters<Message>,
        meta: RequestMetaObject,
        peer: Peer<RoleServer>,
    ) -> Result<String, ErrorData> {
        if let Some(token) = meta.get_progress_token() {
            let told = peer.notify_progress(ProgressNotificationParam::new(token, 1.0)).await;
            told.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        }
        Ok(message)
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_resources().enable_prompts().build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("bench", "1.0.0"))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let contents = ResourceContents::text("a text", request.uri);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let given = request.arguments.as_ref().and_then(|arguments| arguments.get("message")?.as_str());
        let message = given.ok_or_else(|| ErrorData::invalid_params("message is missing", None))?;
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, message)]).into())
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let json = StreamableHttpServerConfig::default().with_json_response(true);
    match &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        ["stdio"] => {
            Echo::new(2).serve(rmcp::transport::stdio()).await?.waiting().await?;
            Ok(())
        }
        ["http"] => serve_http(Echo::new(2), json.with_legacy_session_mode(false)).await,
        ["http", tools] => serve_http(Echo::new(tools.parse()?), json.with_legacy_session_mode(false)).await,
        ["sessions"] => serve_http(Echo::new(2), json).await,
        _ => Err("say `stdio`, `http` or `sessions`".into()),
    }
}

async fn serve_http(echo: Echo, config: StreamableHttpServerConfig) -> Result<(), Box<dyn Error>> {
    let service = StreamableHttpService::new(
        move || Ok(echo.clone()),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    Ok(axum::serve(listener, Router::new().nest_service("/mcp", service)).await?)
}
