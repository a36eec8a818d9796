//! A tool that takes a while and says how far it is; its calls are tasks where they can be. See README.md.

use std::time::Duration;

use longhaul::proto::model::Progress;
use longhaul::{Cx, Server, tool};

/// Brew so many cups of tea, one after the other.
#[tool(task = "after 2s")]
async fn brew(cx: Cx, cups: u16) -> String {
    for cup in 1..=cups {
        tokio::time::sleep(Duration::from_millis(200)).await;
        cx.status(format!("cup {cup} is ready"));
        cx.progress(Progress::new(f64::from(cup)).of(f64::from(cups))).await;
    }
    format!("{cups} cups of tea")
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    Ok(Server::new("tea", "1.0.0").tool(brew).serve_stdio().await?)
}
