//! `longhaul tasks get`: where one task stands, and what it asks.

use longhaul::proto::model::{Task, TaskStatus};
use longhaul::store::{Phase, Record};
use longhaul::tasks::shown_arguments;

use super::node::settled;
use super::origin::{Local, Origin, Remote};
use super::view::{Shown, age, ahead, ask, now, past, stands, stands_in, took};
use super::watch::asked_of;
use crate::ask::Question;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::term::{Manner, clean, is_terminal, note, print};

/// Show where a task stands, and what it asks.
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
            if manner.is_json() {
                print(&Shown::of_task(&task).json()?)?;
            } else {
                show_remote(&task, remote)?;
            }
        }
    }
    Ok(Exit::Done)
}

fn show(record: &Record, local: &Local) -> Outcome<()> {
    let at = local.store.now();
    let shown = Shown::of_record(record);
    let tool = clean::line(&record.tool, 128);
    let (id, status) = (&record.id, stands_in(record).as_str().replace('_', " "));
    print(format!("{id}  {tool}  {status}  {}", now(record, WHOLE)).trim_end())?;
    let asked = asked_of(record);
    if !asked.is_empty() {
        let who = "its caller, or whoever uses this store";
        show_asked(&asked, who, &local.command("answer", id.as_str()))?;
    }
    if asked.len() < record.questions.len() {
        put("asks", "its caller's program, what no person answers")?;
    }
    if let Some(deadline) = record.questions.iter().filter_map(|question| question.deadline).min() {
        put("time left", &age(deadline.since(at)))?;
    }
    put("arguments", &clean::line(shown_arguments(record).as_str(), 200))?;
    let started = past(at.since(record.created_at));
    let ended = if record.is_terminal() { "took" } else { "running" };
    put("time", &format!("started {started}, {ended} {}", took(record, at)))?;
    let node = shown.node.map(|node| format!(", on node {node}")).unwrap_or_default();
    let work = match &record.phase {
        Phase::Parked { until: Some(until) } => format!("put aside, goes on {}", ahead(until.since(at))),
        Phase::Parked { until: None } => "put aside".to_owned(),
        _ => format!("attempt {}{node}", record.attempt),
    };
    put("work", &work)?;
    if let Some(parent) = &record.parent {
        put("made by", parent.task.as_str())?;
    }
    let children = record.children;
    if children.open + children.ended > 0 {
        let made = children.open + children.ended;
        put("has made", &format!("{made} tasks; {} of them ended while it was open", children.ended))?;
    }
    if let Some(undo) = &record.undo {
        let done = match (record.owed, undo.failed) {
            (0, 0) => "all that it did".to_owned(),
            (0, failed) => format!("not all that it did: {failed} failed, see the log of the server"),
            (left, _) => format!("not yet: {left} left"),
        };
        put("undone", &done)?;
    }
    put("caller", &clean::line(shown.owner.as_deref().unwrap_or_default(), 200))?;
    if let Some(at_end) = record.expires_at {
        put("forgotten", &ahead(at_end.since(at)))?;
    }
    if is_terminal() {
        let next = if record.is_terminal() { "result" } else { "watch" };
        let id = id.as_str();
        note(&format!("{}   {}", local.command(next, id), local.command("log", id)));
    }
    Ok(())
}

fn show_remote(task: &Task, remote: &Remote) -> Outcome<()> {
    let message = clean::line(task.status_message.as_deref().unwrap_or_default(), WHOLE);
    print(format!("{}  {}  {message}", clean::line(&task.id, 128), stands(task).as_str()).trim_end())?;
    if task.status == TaskStatus::InputRequired {
        let who = "you, as the server knows its caller";
        show_asked(&Question::of_task(task), who, &remote.command("answer", &task.id))?;
    }
    put("created", &clean::line(&task.created_at, 40))?;
    put("changed", &clean::line(&task.last_updated_at, 40))
}

/// What is asked, whole, with who may answer and how: `command` and what follows it.
///
/// There are servers that tell what is asked only to who answers.
fn show_asked(asked: &[Question], who: &str, command: &str) -> Outcome<()> {
    for question in asked {
        put("asks", &question.whole())?;
        let key = question.key.as_deref().filter(|_| asked.len() > 1);
        put("answer with", &format!("{command}{}", question.answered_by(key)))?;
    }
    if asked.is_empty() {
        put("answer with", command)?;
    }
    put("may answer", who)
}

/// Prints a text behind what it is; its lines stand below one another.
fn put(what: &str, text: &str) -> Outcome<()> {
    let mut lines = text.lines();
    print(format!("  {what:<12}{}", lines.next().unwrap_or_default()).trim_end())?;
    lines.try_for_each(|line| print(format!("  {:<12}{line}", "").trim_end()))
}

/// Nothing of it is left out.
const WHOLE: usize = usize::MAX;
