//! A notebook that lets in who shows a token, and lets write who may. See README.md.

mod notebook;

use std::env;
use std::io::{self, Write as _};

use anyhow::Context as _;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let token =
        |name: &str| env::var(name).with_context(|| format!("set {name} to 32 random characters or more"));
    let options = notebook::options(&token("ANN_TOKEN")?, &token("BOB_TOKEN")?)?;
    let listener = TcpListener::bind("127.0.0.1:8423").await?;
    writeln!(io::stderr(), "the notebook is at http://127.0.0.1:8423/mcp, for whoever shows a token")?;
    Ok(notebook::server()?.serve_http(listener, options).await?)
}
