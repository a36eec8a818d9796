//! An MCP server beside the pages of an application. See README.md.

use std::io::{self, Write as _};

use axum_mount::application;
use tokio::net::TcpListener;

mod axum_mount;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:8421").await?;
    let (application, mcp) = application().await?;
    writeln!(io::stderr(), "a page is at http://127.0.0.1:8421/, and a server at http://127.0.0.1:8421/mcp")?;
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
