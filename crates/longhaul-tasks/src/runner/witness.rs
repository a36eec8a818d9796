//! Whether whatever is open has something that moves it on: looked at seldom, for the machine and the stores see to it.

use std::collections::HashSet;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use longhaul_store::{Filter, Scope, StoreError, TaskId};

use super::Inner;
use crate::machine::has_witness;

/// How many tasks are read at once.
const AT_A_TIME: usize = 100;

/// How long others may read between two of these.
const PAUSE: Duration = Duration::from_millis(20);

/// Looks for tasks that nothing moves on, for ever.
pub(super) async fn keep_checking(inner: Arc<Inner>) {
    let mut told = HashSet::new();
    loop {
        inner.environment.sleep(inner.pace.check_every).await;
        if let Err(error) = check(&inner, &mut told).await {
            tracing::warn!(%error, "could not look for tasks that nothing moves on");
        }
    }
}

/// Tells of each once.
async fn check(inner: &Inner, told: &mut HashSet<TaskId>) -> Result<(), StoreError> {
    let (before, mut after) = (mem::take(told), None);
    loop {
        let page = inner.store.list(Scope::Operator, &Filter::open(), after.as_ref(), AT_A_TIME).await?;
        for record in page.tasks.into_iter().filter(|record| !has_witness(record)) {
            if !before.contains(&record.id) {
                inner.counts.witness_violations.add(1);
                let (task, tool) = (&record.id, &record.tool);
                tracing::error!(%task, %tool, "nothing will move a task on: cancel it, and report this");
            }
            told.insert(record.id);
        }
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
        inner.environment.sleep(PAUSE).await;
    }
}
