//! A notebook that lets in who shows a token, and lets write who may. See README.md.

mod notebook;

use std::env;

use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let token =
        |name: &str| env::var(name).map_err(|_| format!("set {name} to 32 random characters or more"));
    let options = notebook::options(&token("ANN_TOKEN")?, &token("BOB_TOKEN")?)?;
    let listener = TcpListener::bind("127.0.0.1:8423").await?;
    Ok(notebook::server()?.serve_http(listener, options).await?)
}
