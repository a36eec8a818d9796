//! The application: a page that counts its visits, and a tool that tells their number.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use longhaul::transport::http::server::{HttpService, Options};
use longhaul::{ServeError, Server, Tool};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// The application, and what of it has to be stopped.
pub(crate) async fn application() -> Result<(Router, HttpService), ServeError> {
    let visits = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&visits);
    let tool = Tool::typed("visits", "How often the page was visited", move |_, Nothing {}| {
        let visits = counted.load(Ordering::Relaxed);
        async move { visits }
    });
    let mcp = Server::new("visits", "1.0.0").tool(tool).into_http_service(Options::default()).await?;
    let page = get(async |State(visits): State<Arc<AtomicU64>>| {
        format!("You are visitor number {}.\n", visits.fetch_add(1, Ordering::Relaxed) + 1)
    });
    let application = Router::new().route("/", page).route_service("/mcp", mcp.clone()).with_state(visits);
    Ok((application, mcp))
}
