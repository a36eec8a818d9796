//! After the kills: settles everything, then holds every call's history against what is there.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use longhaul_store::{Cursor, Filter, Page, Record, Scope, Sqlite, TaskStore as _};
use serde_json::Value;

use crate::history::{Call, Terminal};
use crate::mcp::{Address, Client, Era};
use crate::place::Place;
use crate::processes;

/// How long everything may take to come to its end: only a hang gets there.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long the processes of something that has ended may take to be gone.
const GONE: Duration = Duration::from_secs(20);

/// What may have happened to a call, beside what must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Losses {
    /// Only servers were killed: nothing acknowledged may be lost.
    None,
    /// Supervisors were killed too: their tasks may end as lost, and honestly so.
    Supervisors,
}

/// What the audit has looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Summary {
    pub(crate) calls: usize,
    pub(crate) acknowledged: usize,
    pub(crate) tasks: usize,
    pub(crate) completed: usize,
    pub(crate) cancelled: usize,
    pub(crate) lost: usize,
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { calls, acknowledged, tasks, completed, cancelled, lost } = self;
        write!(
            f,
            "{calls} calls, {acknowledged} acknowledged, {tasks} tasks: \
             {completed} completed, {cancelled} cancelled, {lost} lost"
        )
    }
}

/// Starts a server, lets everything come to its end, checks it, starts another, and checks that nothing has changed.
///
/// # Errors
///
/// Everything that must not be, each on a line.
pub(crate) fn settle_and_check(place: &Place, calls: &mut [Call], losses: Losses) -> Result<Summary> {
    let mut server = place.serve(&[])?;
    let address = Address::of(server.ready()?);
    let clients = Era::BOTH.map(|era| Client::new(era, address.clone()));
    find_rows(place, calls)?;
    settle(place, calls, &clients)?;
    let mut problems = Vec::new();
    let mut summary = Summary { calls: calls.len(), ..Summary::default() };
    for call in calls.iter_mut() {
        if let Err(problem) = check(place, call, client_of(&clients, call), losses, &mut summary) {
            call.violations.push(format!("{problem:#}"));
        }
    }
    if let Err(problem) = processes::expect_none(place, Some(server.number()), GONE) {
        problems.push(format!("{problem:#}"));
    }
    server.kill()?;

    let server = place.serve(&[])?;
    address.set(Some(server.ready()?));
    for call in calls.iter_mut().filter(|call| call.terminal().is_some()) {
        if call.look(client_of(&clients, call)).is_none() {
            call.violations.push("it cannot be looked at after another start".to_owned());
        }
        if place.effects(&call.job.key)? > 1 {
            call.violations.push("it ran again after another start".to_owned());
        }
    }
    for call in calls.iter() {
        let of = |problem: &String| format!("{} ({}): {problem}", call.job.key, call.era.name());
        problems.extend(call.violations.iter().map(of));
    }
    if problems.is_empty() {
        return Ok(summary);
    }
    bail!("{summary}\n{}\nthe last server said:\n{}", problems.join("\n"), server.said());
}

fn client_of<'c>(clients: &'c [Client; 2], call: &Call) -> &'c Client {
    if clients[0].era() == call.era { &clients[0] } else { &clients[1] }
}

/// Every task of the store.
pub(crate) fn rows(place: &Place) -> Result<Vec<Record>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let store = Sqlite::open(place.store()).context("the store cannot be opened beside the server")?;
    let (mut rows, mut after): (Vec<Record>, Option<Cursor>) = (Vec::new(), None);
    loop {
        let page =
            runtime.block_on(store.list(Scope::Operator, &Filter::all(), after.as_ref(), Page::MAX))?;
        rows.extend(page.tasks);
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(rows),
        }
    }
}

/// The key that a row's arguments name.
pub(crate) fn key_of(row: &Record) -> Option<String> {
    let arguments: Value = serde_json::from_str(row.arguments.as_str()).ok()?;
    Some(arguments["key"].as_str()?.to_owned())
}

/// What was not acknowledged and has a row all the same is followed, too. No call has two.
fn find_rows(place: &Place, calls: &mut [Call]) -> Result<()> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in rows(place)? {
        let key = key_of(&row).context("a row whose arguments name no key")?;
        found.entry(key).or_default().push(row.id.as_str().to_owned());
    }
    for call in calls {
        let tasks = found.remove(&call.job.key).unwrap_or_default();
        match (&call.task, tasks.as_slice()) {
            (_, [_, _, ..]) => call.violations.push(format!("it became several tasks: {tasks:?}")),
            (Some(told), [task]) if told == task => {}
            (Some(told), _) => {
                call.violations.push(format!("acknowledged as {told}, and the store has {tasks:?}"));
            }
            // Its client was given the outcome, or nothing.
            (None, [task]) => call.task = Some(task.clone()),
            (None, []) => {}
        }
    }
    if let Some((key, tasks)) = found.pop_first() {
        bail!("the store has the tasks {tasks:?} of {key}, which nobody called");
    }
    Ok(())
}

/// Lets every task come to its end. What would never end is cancelled.
fn settle(place: &Place, calls: &mut [Call], clients: &[Client; 2]) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        let mut open = Vec::new();
        for call in calls.iter_mut().filter(|call| call.task.is_some() && call.terminal().is_none()) {
            let client = client_of(clients, call);
            if call.look(client) == Some(true) {
                continue;
            }
            if call.job.is_endless() && !call.cancelled {
                call.cancel(client)?;
            }
            open.push(call.task.clone().unwrap_or_default());
        }
        if open.is_empty() {
            return Ok(());
        }
        if Instant::now() >= until {
            let left = processes::of(place);
            bail!("tasks that never end: {open:?}\nprocesses: {left:#?}");
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Everything that is promised of one call.
fn check(place: &Place, call: &Call, client: &Client, losses: Losses, summary: &mut Summary) -> Result<()> {
    summary.acknowledged += usize::from(call.acknowledged);
    if let Some(task) = &call.task {
        // Counted when nothing of it can count any more.
        check_gone(place, task)?;
    }
    let ran = place.effects(&call.job.key)?;
    if ran > 1 {
        bail!("its command ran {ran} times");
    }
    if let Some(answer) = call.answer.clone() {
        check_answer(call, &answer, ran, losses)?;
    }
    let Some(task) = call.task.clone() else { return Ok(()) };
    summary.tasks += 1;
    let terminal = call.terminal().context("a task that was settled has ended")?.clone();
    let outcome = terminal.outcome()?;
    match terminal.status.as_str() {
        "cancelled" => {
            summary.cancelled += 1;
            if !call.job.is_endless() && !call.asked_to_cancel && call.acknowledged {
                bail!("{task} is cancelled, and nobody asked for that");
            }
            prefix_of(call, client, &task, ran)
        }
        "completed" if call.job.is_endless() && is_success(&outcome) => {
            bail!("{task} completed, and its command never does")
        }
        "completed" if is_success(&outcome) => {
            summary.completed += 1;
            check_complete(call, client, &task, &outcome, ran)
        }
        _ => {
            summary.lost += 1;
            let may_be_lost = !call.acknowledged || losses == Losses::Supervisors;
            // D3 acknowledges a cancel of what has ended in the same words.
            let was_cancelled = call.cancelled && (call.era == Era::D2 || losses == Losses::None);
            if !may_be_lost || was_cancelled {
                bail!("{task} ended as {terminal:?}");
            }
            if call.answer.as_ref().is_some_and(is_success) {
                bail!("{task} was answered with its result and ended as {terminal:?}");
            }
            check_honest(&task, &terminal, &outcome)?;
            prefix_of(call, client, &task, ran)
        }
    }
}

/// An answer that was no task is the command's result, or says honestly that it was lost.
fn check_answer(call: &Call, answer: &Result<Value, Value>, ran: usize, losses: Losses) -> Result<()> {
    if is_success(answer) {
        if ran != 1 {
            bail!("it was answered with a result, and its command ran {ran} times");
        }
        return check_text(call, answer);
    }
    if losses == Losses::None {
        bail!("it was answered with {answer:?}");
    }
    if !says_lost(&format!("{answer:?}")) {
        bail!("it failed, and not for the loss of its supervisor: {answer:?}");
    }
    Ok(())
}

fn check_complete(
    call: &Call,
    client: &Client,
    task: &str,
    outcome: &Result<Value, Value>,
    ran: usize,
) -> Result<()> {
    if ran != 1 {
        bail!("{task} completed, and its command ran {ran} times");
    }
    check_text(call, outcome)?;
    for (stream, expected) in [("stdout", call.job.stdout()), ("stderr", call.job.stderr())] {
        let found = client.output(task, stream)?;
        if found != expected.as_bytes() {
            let found = String::from_utf8_lossy(&found).into_owned();
            bail!("{task}: {stream} is {found:?} and not {expected:?}");
        }
    }
    Ok(())
}

fn check_text(call: &Call, outcome: &Result<Value, Value>) -> Result<()> {
    let text = outcome.as_ref().ok().and_then(|result| result["content"][0]["text"].as_str());
    let expected = call.job.stdout();
    if text != Some(expected.as_str()) {
        bail!("the result has the text {text:?} and not {expected:?}");
    }
    Ok(())
}

/// What was written before the end is the beginning of what was to be written.
fn prefix_of(call: &Call, client: &Client, task: &str, ran: usize) -> Result<()> {
    for (stream, expected) in [("stdout", call.job.stdout()), ("stderr", call.job.stderr())] {
        let found = client.output(task, stream)?;
        if !expected.as_bytes().starts_with(&found) {
            let found = String::from_utf8_lossy(&found).into_owned();
            bail!("{task}: {stream} is {found:?}, which it never wrote");
        }
        if ran == 0 && !found.is_empty() {
            bail!("{task}: it has {stream} and never ran");
        }
    }
    Ok(())
}

fn is_success(outcome: &Result<Value, Value>) -> bool {
    outcome.as_ref().is_ok_and(|result| result["isError"] != Value::Bool(true))
}

/// A task that was lost says so: that its worker was, or that its supervisor never came to start it.
fn check_honest(task: &str, terminal: &Terminal, outcome: &Result<Value, Value>) -> Result<()> {
    let text = format!("{outcome:?}");
    if says_lost(&text) { Ok(()) } else { bail!("{task} ended without an honest reason: {terminal:?}") }
}

fn says_lost(text: &str) -> bool {
    text.contains("worker_lost") || text.contains("did not start")
}

/// Nothing of an ended run lives on.
fn check_gone(place: &Place, task: &str) -> Result<()> {
    let until = Instant::now() + GONE;
    loop {
        let left = processes::of_run(place, task)?;
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= until {
            bail!("{task} has ended, and of it live {left:?}");
        }
        thread::sleep(Duration::from_millis(20));
    }
}
