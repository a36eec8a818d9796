//! A server whose tools take its process with them, in each way that no handler of panics sees.

use std::alloc::{Layout, handle_alloc_error};
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::abort;
use std::time::Duration;

use longhaul::server::{TaskPolicy, ToolError};
use longhaul::store::Rerun;
use longhaul::{Cx, Server, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Death {
    /// What C's `abort` does.
    Abort,
    /// Calls itself until there is no stack left.
    Overflow,
    /// Asks for memory that nobody has.
    Memory,
}

#[derive(Deserialize, JsonSchema)]
struct Deadly {
    how: Death,
    /// Where it notes that it has begun: who finds this lives.
    mark: PathBuf,
}

pub(crate) fn server() -> Server {
    let tool = |name: &str, rerun: Rerun| {
        let mut policy = TaskPolicy::always();
        policy.rerun = rerun;
        Tool::typed(name, "Die the first time", die).task(policy)
    };
    Server::new("deadly", "1.0.0").tool(tool("once", Rerun::Never)).tool(tool("again", Rerun::Restart))
}

async fn die(_: Cx, Deadly { how, mark }: Deadly) -> Result<&'static str, ToolError> {
    if mark.exists() {
        return Ok("lives");
    }
    OpenOptions::new().create_new(true).write(true).open(mark)?;
    // Its caller is told of the task first.
    tokio::time::sleep(Duration::from_millis(500)).await;
    match how {
        Death::Abort => abort(),
        Death::Overflow => Ok(if deeper(1) == 0 { "never" } else { "back" }),
        Death::Memory => handle_alloc_error(Layout::new::<[u8; 1 << 20]>()),
    }
}

fn deeper(depth: u64) -> u64 {
    let here = std::hint::black_box([depth; 64]);
    if depth == u64::MAX { 0 } else { deeper(depth + 1) + here[0] }
}
