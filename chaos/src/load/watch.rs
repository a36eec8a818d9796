//! Who looks at the store itself: whatever is open there has something that will move it.

use std::collections::HashMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use longhaul_store::transfer::{Miscount, Transfer};
use longhaul_store::{
    Cursor, Epoch, Filter, Page, Phase, Record, Scope, StoreError, TaskId, TaskStore, Time,
};
use tokio::runtime::Runtime;

use super::World;

/// How often it looks.
const LOOK: Duration = Duration::from_millis(200);

/// How long what is due may be left lying. Nodes come and go, and look several times a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// What it has found.
#[derive(Debug, Default)]
pub(super) struct Watched {
    pub(super) looks: usize,
    /// Open tasks, each as often as it was seen.
    pub(super) rows: usize,
    /// The longest that something was left lying that was due.
    pub(super) longest: Duration,
    pub(super) broken: Vec<String>,
}

/// Looks at all that is open, until everything is over.
pub(super) fn watch(world: &World, store: &dyn TaskStore) -> Result<Watched> {
    let runtime = runtime()?;
    let (mut watched, mut epochs) = (Watched::default(), HashMap::new());
    world.waits.on("the store");
    while !world.is_over() {
        let open = match runtime.block_on(list(store, &Filter::open())) {
            // It was killed, and comes back.
            Err(StoreError::Unreachable { .. } | StoreError::Busy { .. }) => {
                thread::sleep(LOOK);
                continue;
            }
            open => open?,
        };
        watched.looks += 1;
        watched.rows += open.len();
        for record in &open {
            watched.see(record, store.now(), &mut epochs);
        }
        thread::sleep(LOOK);
    }
    Ok(watched)
}

impl Watched {
    fn see(&mut self, record: &Record, now: Time, epochs: &mut HashMap<TaskId, Epoch>) {
        let mut complain = |what: &str| {
            let Record { id, tool, phase, questions, .. } = record;
            self.broken.push(format!("{what}: {tool} {id}: {phase:?}, asks {questions:?}"));
        };
        let due = match &record.phase {
            Phase::Queued { not_before } => Some(*not_before),
            Phase::Running { lease } => Some(lease.until),
            Phase::Parked { until: Some(until) } => Some(*until),
            Phase::Parked { until: None } => {
                if record.questions.is_empty() && record.children.open == 0 {
                    complain("I8: nothing will ever move it on");
                }
                None
            }
            _ => {
                complain("I8: it is open, and nobody knows how");
                None
            }
        };
        let late = due.map_or(0, |due| now.unix_ms().saturating_sub(due.unix_ms()));
        let late = Duration::from_millis(u64::try_from(late).unwrap_or(0));
        if late > PATIENCE {
            complain("I8: it is due, and nobody comes");
        }
        if epochs.insert(record.id.clone(), record.epoch).is_some_and(|before| before > record.epoch) {
            complain("I6: its epoch was set back");
        }
        self.longest = self.longest.max(late);
    }
}

/// What there is in the end, with nobody at it.
#[derive(Debug)]
pub(super) struct Rest {
    pub(super) rows: Vec<Record>,
    /// How many of them are counted as open, and as kept.
    pub(super) counts: (u64, u64),
}

/// Waits until nothing is to be undone any more, and reads everything.
pub(super) fn rest(store: &dyn TaskStore, patience: Duration) -> Result<Rest> {
    let runtime = runtime()?;
    let until = std::time::Instant::now() + patience;
    loop {
        let rows = runtime.block_on(list(store, &Filter::all()))?;
        let is_quiet = rows.iter().all(|row| row.is_terminal() && !row.is_undoing());
        if is_quiet || std::time::Instant::now() > until {
            let counts = runtime.block_on(store.counts())?;
            return Ok(Rest { rows, counts: (counts.open, counts.retained) });
        }
        thread::sleep(LOOK);
    }
}

/// The owners that are charged for other bytes of tasks than they have.
pub(super) fn miscounted(store: &dyn Transfer) -> Result<Vec<Miscount>> {
    Ok(runtime()?.block_on(store.miscounted())?)
}

/// What SQLite says of the file once nobody has it open, and how many rows there are, forgotten ones too: all, those of
/// calls, and their keys.
pub(super) fn file(path: &Path) -> Result<(String, [i64; 3])> {
    let conn = rusqlite::Connection::open(path)?;
    let sound = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    let calls =
        "SELECT count(*), count(*) FILTER (WHERE once_key IS NOT NULL), count(DISTINCT once_key) FROM tasks";
    let counts = conn.query_row(calls, [], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?;
    Ok((sound, counts))
}

async fn list(store: &dyn TaskStore, filter: &Filter) -> Result<Vec<Record>, StoreError> {
    let (mut rows, mut after): (Vec<Record>, Option<Cursor>) = (Vec::new(), None);
    loop {
        let page = store.list(Scope::Operator, filter, after.as_ref(), Page::MAX).await?;
        rows.extend(page.tasks);
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(rows),
        }
    }
}

fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().build()?)
}
