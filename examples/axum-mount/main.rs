//! An MCP server beside the pages of an application. See README.md.

use axum_mount::application;
use tokio::net::TcpListener;

mod axum_mount;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:8421").await?;
    let (application, mcp) = application().await?;
    axum::serve(listener, application)
        .with_graceful_shutdown(async move {
            // Without signals there is no end to wait for.
            if tokio::signal::ctrl_c().await.is_ok() {
                mcp.stop().await;
            }
        })
        .await?;
    Ok(())
}
