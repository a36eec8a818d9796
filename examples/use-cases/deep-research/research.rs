//! The tool: in each round its caller's model says what to look for, and at the end it writes the report.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use longhaul::proto::model::{CreateMessageParams, SamplingMessage};
use longhaul::server::{State, ToolError};
use longhaul::{Cx, Server, tool};

/// How often it searches.
const ROUNDS: usize = 3;

/// Find out about a topic, in several rounds of searching, and report.
#[tool(task = "always", rerun = "resumable")]
async fn research(cx: Cx, archive: State<Archive>, topic: String) -> Result<String, ToolError> {
    let mut notes = format!("The topic is {topic}.");
    for round in 1..=ROUNDS {
        cx.status(format!("round {round} of {ROUNDS}"));
        let words = cx.sample(prompt("Say in a few words what to search for next.", &notes)).await?.text();
        let found = cx.step("search", || archive.search(&words)).await?;
        cx.emit(found.as_str()).await?;
        write!(notes, "\n\nRound {round}: {found}")?;
    }
    Ok(cx.sample(prompt("Write a report.", &notes)).await?.text())
}

fn prompt(task: &str, notes: &str) -> CreateMessageParams {
    CreateMessageParams::new(vec![SamplingMessage::user(notes)], 1000).with_system_prompt(task)
}

/// What is searched, which costs something each time: a file has a line for each search.
struct Archive(PathBuf);

impl Archive {
    async fn search(&self, words: &str) -> Result<String, ToolError> {
        let mut paid = OpenOptions::new().create(true).append(true).open(self.0.join("searches"))?;
        writeln!(paid, "{words}")?;
        Ok(format!("there are many papers on {words}"))
    }
}

/// The server, which notes its searches here.
pub(crate) fn server(folder: &Path) -> Server {
    Server::new("research", "1.0.0").state(Archive(folder.to_owned())).tool(research)
}
