//! `longhaul tasks wait`: until tasks have ended, for scripts.

use std::pin::Pin;
use std::time::Duration;

use longhaul::client::Error;
use longhaul::proto::model::CallToolResult;
use longhaul_gateway::config::parse_duration;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::origin::{Origin, OriginArgs, Remote};
use super::watch::{Asked, watch};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::interrupt::{Interrupt, Waited};
use crate::term::{Manner, Show, clean, note, print};

/// Wait until tasks have ended, and say how.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Each task that ends is a line: its id, how it ended, and why if it failed. The exit code is 0 if all have succeeded, else \
that of one that has not; 7 if the time was up first.

Examples:
  longhaul tasks wait build-77a test-3q9v --fail-fast
  longhaul tasks wait test-3q9v --for 10m && notify-send done")]
pub(crate) struct Args {
    /// The tasks' ids, or their beginnings.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    /// Until the first has ended.
    #[arg(long)]
    any: bool,
    /// Until the first has failed, or all have ended.
    #[arg(long, conflicts_with = "any")]
    fail_fast: bool,
    /// At most so long (such as 90s or 1h30m).
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    most: Option<Duration>,
    /// Print each task that ends as a line of JSON.
    #[arg(long)]
    pub(super) events: bool,
}

/// How a task ended.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct End {
    task_id: String,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip)]
    exit: Exit,
}

impl End {
    fn of(task_id: String, ended: Outcome<CallToolResult>) -> Self {
        let (status, message, exit) = match ended {
            Ok(result) if result.is_error => {
                let text = result.content.iter().rev().find_map(|content| content.as_text());
                let last = text.and_then(|text| text.lines().rev().find(|line| !line.trim().is_empty()));
                ("failed", last.map(|line| clean::line(line, 200)), Exit::Failed)
            }
            Ok(_) => ("completed", None, Exit::Done),
            Err(failure) if failure.exit == Exit::Cancelled => ("cancelled", None, Exit::Cancelled),
            Err(failure) if failure.exit == Exit::Failed => ("failed", Some(failure.line()), Exit::Failed),
            Err(failure) => ("unknown", Some(failure.line()), failure.exit),
        };
        Self { task_id, status, message, exit }
    }

    fn line(&self) -> String {
        let message = self.message.as_deref().unwrap_or_default();
        format!("{}  {}  {message}", clean::line(&self.task_id, 128), self.status).trim_end().to_owned()
    }
}

pub(super) async fn run(place: &OriginArgs, args: &Args, manner: Manner) -> Outcome {
    let interrupt = Interrupt::listen();
    let until = args.most.map(|most| Instant::now() + most);
    let mut open: Vec<String> = args.ids.clone();
    open.sort_unstable();
    open.dedup();
    let mut waits = JoinSet::new();
    for id in open.clone() {
        let origin = place.open(Some(&id), manner.is_json(), |_, options| options).await?;
        waits.spawn(async move {
            let (id, ended) = ended(&origin, &id).await;
            origin.close().await;
            (id, ended)
        });
    }
    let mut ends: Vec<End> = Vec::new();
    let all = async {
        while let Some(ended) = waits.join_next().await {
            let ((given, id), ended) = ended.map_err(anyhow::Error::from)?;
            open.retain(|open| *open != given);
            let end = End::of(id, ended);
            match manner {
                Manner::Words => print(&end.line())?,
                Manner::Events => {
                    let text = serde_json::to_string(&end).map_err(anyhow::Error::from)?;
                    print(&clean::json(&text))?;
                }
                Manner::Quiet => {}
            }
            let is_over = args.any || args.fail_fast && end.exit != Exit::Done;
            ends.push(end);
            if is_over {
                break;
            }
        }
        Ok::<_, Failure>(())
    };
    let waited = interrupt.unless_left(until, Box::pin(all)).await;
    waits.abort_all();
    let time_is_up = match waited {
        Waited::For(done) => {
            done?;
            false
        }
        Waited::TimeUp => true,
        Waited::Left if manner != Manner::Words => return Err(place.detached(&open)),
        Waited::Left => return Err(Failure::silent(Exit::Detached)),
    };
    if manner == Manner::Quiet {
        #[derive(Serialize)]
        struct Ends<'e> {
            tasks: &'e [End],
            waiting: &'e [String],
        }
        let text = serde_json::to_string(&Ends { tasks: &ends, waiting: &open });
        print(&clean::json(&text.map_err(anyhow::Error::from)?))?;
    }
    if time_is_up {
        let message = format!("still running: {}", clean::line(&open.join(" "), 400));
        return Err(Failure::new(Exit::StillRunning, "still_running", message)
            .next("a longer --for may do; `longhaul tasks watch` follows one"));
    }
    // The first that did not succeed says how it went: each has said why.
    Ok(ends.iter().map(|end| end.exit).find(|exit| *exit != Exit::Done).unwrap_or(Exit::Done))
}

/// Waits for the end of a task: its id as it was given and in full, and what it came to.
async fn ended(origin: &Origin, given: &str) -> ((String, String), Outcome<CallToolResult>) {
    match origin {
        Origin::Store(local) => {
            let id = match local.find(given).await {
                Ok(record) => record.id.to_string(),
                Err(failure) => return ((given.to_owned(), given.to_owned()), Err(failure)),
            };
            let show = Show::quiet(&id);
            let ended: Pin<Box<dyn Future<Output = _> + Send + '_>> =
                Box::pin(watch(local, &id, &show, Asked::Notes));
            let ended = ended.await;
            ((given.to_owned(), id), ended)
        }
        Origin::Server(remote) => {
            ((given.to_owned(), remote.id(given).to_owned()), at_server(remote, given).await)
        }
    }
}

/// A task that asks is waited for still: whoever answers it may be anywhere.
async fn at_server(remote: &Remote, given: &str) -> Outcome<CallToolResult> {
    let mut is_said = false;
    loop {
        match remote.task(given).wait().await {
            Err(Error::InputRequired { .. }) => {
                if !std::mem::replace(&mut is_said, true) {
                    let id = remote.id(given);
                    note(&format!(
                        "note: {} waits for an answer: {}",
                        clean::line(id, 128),
                        remote.command("answer", id)
                    ));
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            ended => return Ok(ended?),
        }
    }
}

/// How often a task that asks is looked at.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
