//! The smallest server on longhaul.

use longhaul::{Server, tool};

/// Say the message back.
#[tool]
async fn echo(
    /// What to say back.
    message: String,
) -> String {
    message
}

#[tokio::main]
async fn main() -> Result<(), longhaul::ServeError> {
    Server::new("echo", "1.0.0").tool(echo).serve_stdio().await
}
