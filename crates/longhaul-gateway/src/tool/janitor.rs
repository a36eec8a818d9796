//! Ends and removes what no task needs any more.
//!
//! A server can die between recording that a task is cancelled and ending its command, or before it
//! removes a run whose task is forgotten. Whoever comes next puts that right.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use longhaul::store::{Record, Scope, StoreError, TaskId, TaskStore};

use super::run;
use crate::command::{RunsDir, State};

/// Tidies `runs` at once and then every `every`, for as long as the runtime lives.
pub async fn keep_tidy(store: Arc<dyn TaskStore>, runs: RunsDir, every: Duration) {
    let mut cleared = HashSet::new();
    loop {
        match tidy_all(&*store, &runs, &mut cleared).await {
            Ok(Tidied { ended: 0, removed: 0 }) => {}
            Ok(tidied) => tracing::info!(tidied.ended, tidied.removed, "tidied up after old runs"),
            Err(error) => tracing::warn!(%error, "old runs could not be looked through"),
        }
        tokio::time::sleep(every).await;
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Tidied {
    /// Runs that went on although their task had ended.
    pub ended: usize,
    /// Runs whose task is forgotten.
    pub removed: usize,
}

/// Ends runs whose task has ended, and removes those whose task is forgotten. Runs that belong to a call
/// which is not on disk yet are left to their server.
///
/// # Errors
///
/// When the store cannot be read.
pub async fn tidy(store: &dyn TaskStore, runs: &RunsDir) -> Result<Tidied, StoreError> {
    tidy_all(store, runs, &mut HashSet::new()).await
}

/// As [`tidy`]; `cleared` are the runs of which nothing is left or will come, so that each is seen to once.
async fn tidy_all(
    store: &dyn TaskStore,
    runs: &RunsDir,
    cleared: &mut HashSet<String>,
) -> Result<Tidied, StoreError> {
    let mut tidied = Tidied::default();
    let Some(ids) = listed(runs).await else { return Ok(tidied) };
    cleared.retain(|id| ids.contains(id));
    for id in ids {
        let Ok(task) = TaskId::new(id.as_str()) else { continue };
        // The run is looked at first: a task that is not there afterwards was not there before.
        let Some(state) = state(runs, &id).await else { continue };
        let record = store.get(Scope::Operator, &task).await?;
        match (state, record) {
            (State::Alive { .. }, Some(record)) if record.is_terminal() => {
                tidied.ended += usize::from(end(runs, &id, &record).await);
            }
            // Its task may have ended before its supervisor was killed, or have been lost with both.
            (State::Lost, record) if record.as_ref().is_none_or(Record::is_terminal) => {
                if !cleared.contains(&id) && end_leftovers(runs, &id).await {
                    cleared.insert(id.clone());
                }
                if record.is_none() && is_old(runs, &id).await {
                    tidied.removed += usize::from(remove(runs, &id).await);
                }
            }
            // A supervisor on its way, started by a server that was killed, must not begin now.
            (State::Fresh, Some(record))
                if record.is_terminal() && !cleared.contains(&id) && end(runs, &id, &record).await =>
            {
                cleared.insert(id.clone());
            }
            // Prepared by a server that was killed before it started anything.
            (State::Exited(_) | State::Fresh, None) if is_old(runs, &id).await => {
                tidied.removed += usize::from(remove(runs, &id).await);
            }
            _ => {}
        }
    }
    Ok(tidied)
}

async fn end(runs: &RunsDir, id: &str, record: &Record) -> bool {
    tracing::info!(id, tool = %record.tool, "ending a command whose task has ended");
    match run::cancel(runs, id).await {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(id, %error, "a command could not be ended");
            false
        }
    }
}

/// Ends what a killed supervisor left behind; says whether nothing of it lives any more.
async fn end_leftovers(runs: &RunsDir, id: &str) -> bool {
    let (runs, run) = (runs.clone(), id.to_owned());
    match tokio::task::spawn_blocking(move || runs.end_leftovers(&run)).await {
        Ok(Ok(survivors)) => survivors == 0,
        Ok(Err(error)) => {
            tracing::warn!(id, %error, "what is left of a run could not be ended");
            false
        }
        // The next server looks again.
        Err(_shutting_down) => false,
    }
}

async fn listed(runs: &RunsDir) -> Option<Vec<String>> {
    let runs = runs.clone();
    let ids = tokio::task::spawn_blocking(move || runs.ids()).await.ok()?;
    ids.inspect_err(|error| tracing::warn!(%error, "the runs cannot be listed")).ok()
}

async fn state(runs: &RunsDir, id: &str) -> Option<State> {
    let (runs, id) = (runs.clone(), id.to_owned());
    tokio::task::spawn_blocking(move || runs.state(&id)).await.ok()?.ok()
}

/// Whether nothing has happened in a run for so long that no server can still be reading it. A call that
/// never became a task has its run removed by its own server.
async fn is_old(runs: &RunsDir, id: &str) -> bool {
    let Ok(dir) = runs.dir(id) else { return false };
    let modified = tokio::task::spawn_blocking(move || {
        let files = std::fs::read_dir(dir)?.map(|entry| entry?.metadata()?.modified());
        files.collect::<std::io::Result<Vec<_>>>()
    });
    let Ok(Ok(modified)) = modified.await else { return false };
    modified.iter().all(|at| at.elapsed().is_ok_and(|age| age >= OLD))
}

/// How long a run without a task is left alone after its last change.
const OLD: Duration = Duration::from_secs(10 * 60);

async fn remove(runs: &RunsDir, id: &str) -> bool {
    let (runs, id) = (runs.clone(), id.to_owned());
    let removed = tokio::task::spawn_blocking(move || runs.remove(&id)).await;
    matches!(removed, Ok(Ok(true)))
}
