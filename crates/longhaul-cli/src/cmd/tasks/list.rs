//! `longhaul tasks list`: the tasks of a store, newest first.

use longhaul::store::{Filter, Record, Scope};
use serde::Serialize;
use serde_json::json;

use super::node::settle;
use super::origin::{Local, Origin};
use super::table::Rows;
use super::view::{Shown, now, past, stands_in, took};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::handles::{self, Handle};
use crate::term::{Manner, clean, is_terminal, note, print};

/// List the tasks of a store, newest first; where none is, those that `longhaul call` started from this account.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  longhaul tasks list --open --tool test")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) which: Which,
}

/// Which are listed, and how many.
#[derive(clap::Args, Debug, PartialEq)]
pub(crate) struct Which {
    /// Only those that have not ended.
    #[arg(long)]
    open: bool,
    /// Only those of this tool.
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
    /// At most so many, 1 to 1000.
    #[arg(long, value_name = "NUMBER", default_value_t = 25, value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: u64,
}

impl Default for Which {
    fn default() -> Self {
        Self { open: false, tool: None, limit: 25 }
    }
}

pub(super) async fn run(origin: &Origin, which: &Which, manner: Manner) -> Outcome {
    let local = match origin {
        Origin::Store(local) => local,
        Origin::Server(_) => {
            return Err(Failure::usage(
                "the tasks of a server are known by their ids: it is not asked to list them",
            )
            .next("`longhaul tasks get ID --url …`, or list the store: --store sqlite:FILE"));
        }
    };
    let mut found = read(local, which).await?;
    if found.records.iter().any(|record| !record.is_terminal()) {
        settle(local, &found.records).await;
        found = read(local, which).await?;
    }
    if manner.is_json() {
        print(&found.json()?)?;
        return Ok(Exit::Done);
    }
    if found.unopened > 0 {
        note(&not_shown(found.unopened));
    } else if found.records.is_empty() {
        note(if which.open { "no open tasks" } else { "no tasks" });
    }
    if found.records.is_empty() {
        return Ok(Exit::Done);
    }
    print(&table(&found.records, local.store.now()))?;
    hint(&found.records, found.has_more, local).await
}

/// That there are tasks which do not open.
fn not_shown(unopened: usize) -> String {
    let tasks = if unopened == 1 { "1 task is".to_owned() } else { format!("{unopened} tasks are") };
    format!(
        "note: {tasks} not shown, written without a key or with one that is not given: `[store] read_plain = true` reads the \
         former, and `keys` names the others"
    )
}

/// How much of how far a task is has room in a table.
const NOW: usize = 60;

/// Where no store is: the tasks that `longhaul call` started from here, as far as they are known without asking for them.
/// Says whether there are any.
pub(super) fn remembered(which: &Which, manner: Manner) -> Outcome<bool> {
    let Some(path) = handles::path().filter(|_| !which.open) else { return Ok(false) };
    let mut handles = handles::read(&path).map_err(anyhow::Error::from)?;
    handles.retain(|handle| which.tool.as_ref().is_none_or(|tool| *tool == handle.tool));
    if handles.is_empty() {
        return Ok(false);
    }
    let shown = usize::try_from(which.limit).unwrap_or(usize::MAX).min(handles.len());
    if manner.is_json() {
        let task = |handle: &Handle| json!({ "taskId": handle.task, "tool": handle.tool, "server": handle.server.name(), "createdAt": handle.started });
        let tasks: Vec<_> = handles.iter().take(shown).map(task).collect();
        let list = json!({ "tasks": tasks, "hasMore": shown < handles.len() });
        print(&clean::json(&list.to_string()))?;
        return Ok(true);
    }
    let mut rows = vec![["ID", "TOOL", "SERVER", "STARTED"].map(str::to_owned)];
    rows.extend(handles.iter().take(shown).map(|handle| {
        [&handle.task, &handle.tool, &handle.server.name(), &handle.started].map(|text| clean::line(text, 80))
    }));
    print(&Rows { rows, id: 0, give_way: &[2, 1] }.shown())?;
    if is_terminal() {
        note(&format!(
            "{shown} of {} that were started from here.   how is it: longhaul tasks get ID",
            handles.len()
        ));
    }
    Ok(true)
}

/// What there is to be listed.
struct Found {
    records: Vec<Record>,
    has_more: bool,
    /// How many there are among these that do not open.
    unopened: usize,
}

async fn read(local: &Local, which: &Which) -> Outcome<Found> {
    let mut filter = if which.open { Filter::open() } else { Filter::all() };
    if let Some(tool) = &which.tool {
        filter = filter.of_tool(tool.as_str());
    }
    let limit = usize::try_from(which.limit).unwrap_or(usize::MAX);
    let mut records = Vec::new();
    let (mut after, mut unopened) = (None, 0);
    loop {
        // One page may be shorter than asked while there is more.
        let page = local.store.list(Scope::Operator, &filter, after.as_ref(), limit - records.len()).await?;
        records.extend(page.tasks);
        unopened += page.unopened;
        after = page.next;
        if after.is_none() || records.len() >= limit {
            return Ok(Found { records, has_more: after.is_some(), unopened });
        }
    }
}

fn table(records: &[Record], at: longhaul::store::Time) -> String {
    let mut rows = vec![["STATUS", "ID", "TOOL", "NOW", "STARTED", "TOOK"].map(str::to_owned)];
    for record in records {
        let status = stands_in(record).as_str().replace('_', " ");
        let started = past(at.since(record.created_at));
        let tool = clean::line(&record.tool, 40);
        rows.push([status, record.id.to_string(), tool, now(record, NOW), started, took(record, at)]);
    }
    // An id begins with its tool.
    Rows { rows, id: 1, give_way: &[3, 2, 4, 5] }.shown()
}

async fn hint(records: &[Record], has_more: bool, local: &Local) -> Outcome {
    if is_terminal() {
        let counts = local.store.counts().await?;
        let newest = records.first().map(|record| local.command("watch", record.id.as_str()));
        let newest = newest.unwrap_or_default();
        let more = if has_more { "   more: --limit 1000" } else { "" };
        let (shown, kept) = (records.len(), counts.retained);
        note(&format!("{shown} of {kept}.   watch one: {newest}{more}"));
    }
    Ok(Exit::Done)
}

impl Found {
    fn json(&self) -> Outcome<String> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct List {
            tasks: Vec<Shown>,
            has_more: bool,
            /// Left out where all opens, as in most stores.
            #[serde(skip_serializing_if = "Option::is_none")]
            unopened: Option<usize>,
        }
        let tasks = self.records.iter().map(Shown::of_record).collect();
        let unopened = Some(self.unopened).filter(|unopened| *unopened > 0);
        let list = List { tasks, has_more: self.has_more, unopened };
        let text = serde_json::to_string(&list).map_err(anyhow::Error::new)?;
        Ok(clean::json(&text))
    }
}
