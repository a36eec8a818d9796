//! The smallest server: one tool, which says back what it is told. See README.md.

use longhaul::{Server, tool};

/// Say the message back.
#[tool(read_only)]
async fn echo(
    /// What to say back.
    message: String,
) -> String {
    message
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    Ok(Server::new("echo", "1.0.0").tool(echo).serve_stdio().await?)
}
