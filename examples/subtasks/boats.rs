//! The tools: one builds a boat, and makes a task of each part for the other.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use longhaul::server::{State, ToolError};
use longhaul::{Cx, Server, tool};

/// What was built: a file with a line for each part.
struct Yard(PathBuf);

impl Yard {
    async fn build(&self, part: &str) -> Result<(), ToolError> {
        let mut yard = OpenOptions::new().create(true).append(true).open(&self.0)?;
        writeln!(yard, "{part}")?;
        Ok(())
    }
}

/// Build a part of a boat.
#[tool(task = "always", rerun = "resumable")]
async fn build_part(cx: Cx, yard: State<Yard>, part: String) -> Result<String, ToolError> {
    if part == "anchor" {
        return Err(ToolError::new("there is no iron left"));
    }
    cx.sleep(Duration::from_millis(500)).await;
    cx.step("build", || yard.build(&part)).await?;
    Ok(part)
}

/// Build a boat, all its parts at the same time.
#[tool(task = "always", rerun = "resumable")]
async fn build_boat(cx: Cx, parts: Vec<String>) -> Result<String, ToolError> {
    let mut tasks = Vec::new();
    for part in &parts {
        tasks.push(cx.spawn("build_part", serde_json::json!({ "part": part })).await?);
    }
    let mut built = Vec::new();
    // Nothing of this task is in memory while its parts are built, if that takes longer than a moment.
    for (part, end) in parts.iter().zip(cx.join_all(&tasks).await) {
        match end {
            Ok(_) => built.push(part.as_str()),
            Err(error) => return Err(ToolError::new(format!("no boat without {part}: {error}"))),
        }
    }
    Ok(format!("a boat of {}", built.join(", ")))
}

/// The server, which writes here what it has built.
pub(crate) fn server(yard: PathBuf) -> Server {
    Server::new("boats", "1.0.0").state(Yard(yard)).tool(build_boat).tool(build_part)
}
