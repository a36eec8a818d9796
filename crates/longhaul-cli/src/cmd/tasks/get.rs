//! `longhaul tasks get`: where one task stands.

use longhaul::store::{Phase, Record};
use longhaul::tasks::shown_arguments;

use super::node::settled;
use super::origin::{Local, Origin};
use super::view::{Shown, age, ask, now, past, took};
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::term::{Manner, clean, is_terminal, note, print};

/// Show where a task stands.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  longhaul tasks get test-3q9v --json")]
pub(crate) struct Args {
    /// The task's id, or its beginning.
    pub(super) id: String,
}

pub(super) async fn run(origin: &Origin, args: &Args, manner: Manner) -> Outcome {
    match origin {
        Origin::Store(local) => {
            let record = settled(local, local.find(&args.id).await?).await?;
            if manner.is_json() {
                print(&Shown::of_record(&record).json()?)?;
            } else {
                show(&record, local)?;
            }
        }
        Origin::Server(remote) => {
            let task = ask(&remote.task(&args.id)).await?;
            let shown = Shown::of_task(&task);
            if manner.is_json() {
                print(&shown.json()?)?;
            } else {
                let message = clean::line(shown.status_message.as_deref().unwrap_or_default(), 200);
                print(
                    format!("{}  {}  {message}", clean::line(&shown.task_id, 128), shown.status).trim_end(),
                )?;
                print(&format!("  created   {}", clean::line(&shown.created_at, 40)))?;
                print(&format!("  changed   {}", clean::line(&shown.last_updated_at, 40)))?;
            }
        }
    }
    Ok(Exit::Done)
}

fn show(record: &Record, local: &Local) -> Outcome<()> {
    let at = local.store.now();
    let shown = Shown::of_record(record);
    let tool = clean::line(&record.tool, 128);
    let (id, status) = (&record.id, shown.status.replace('_', " "));
    print(format!("{id}  {tool}  {status}  {}", now(record)).trim_end())?;
    print(&format!("  arguments   {}", clean::line(shown_arguments(record).as_str(), 200)))?;
    let started = past(at.since(record.created_at));
    let ended = if record.is_terminal() { "took" } else { "running" };
    print(&format!("  time        started {started}, {ended} {}", took(record, at)))?;
    let node = shown.node.map(|node| format!(", on node {node}")).unwrap_or_default();
    let work = match &record.phase {
        Phase::Parked { until: Some(until) } => format!("put aside, goes on in {}", age(until.since(at))),
        Phase::Parked { until: None } => "put aside".to_owned(),
        _ => format!("attempt {}{node}", record.attempt),
    };
    print(&format!("  work        {work}"))?;
    if let Some(parent) = &record.parent {
        print(&format!("  made by     {}", parent.task))?;
    }
    let children = record.children;
    if children.open + children.ended > 0 {
        let made = children.open + children.ended;
        print(&format!("  has made    {made} tasks; {} of them ended while it was open", children.ended))?;
    }
    if let Some(undo) = &record.undo {
        let done = match (record.owed, undo.failed) {
            (0, 0) => "all that it did".to_owned(),
            (0, failed) => format!("not all that it did: {failed} failed, see the log of the server"),
            (left, _) => format!("not yet: {left} left"),
        };
        print(&format!("  undone      {done}"))?;
    }
    print(&format!("  caller      {}", clean::line(shown.owner.as_deref().unwrap_or_default(), 200)))?;
    if let Some(at_end) = record.expires_at {
        print(&format!("  forgotten   in {}", age(at_end.since(at))))?;
    }
    if is_terminal() {
        let next = if record.is_terminal() { "result" } else { "watch" };
        let id = id.as_str();
        note(&format!("{}   {}", local.command(next, id), local.command("log", id)));
    }
    Ok(())
}
