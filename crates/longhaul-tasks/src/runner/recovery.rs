//! Taking up what other processes left, and doing what time demands.

use std::sync::Arc;

use longhaul_store::{Batch, Outcome, Record, Rerun, StoreError};

use super::Inner;
use super::control::Control;
use super::run::Run;
use crate::job::Attached;
use crate::note::Note;
use crate::report::Reporter;

/// How many tasks to take up, or to sweep, at a time.
const AT_A_TIME: usize = 64;

/// Takes up every task of this node's tools that nobody works on; says how many.
pub(super) async fn recover(inner: &Arc<Inner>) -> Result<usize, StoreError> {
    let tools = inner.workers.tools();
    if tools.is_empty() {
        return Ok(0);
    }
    let mut taken = 0;
    loop {
        let claimed = inner.store.claim(AT_A_TIME, Some(&tools)).await?;
        let count = claimed.len();
        for record in claimed {
            // Apart: to end what is left of a lost job takes its time, and the next must not wait for it.
            inner.environment.spawn(Box::pin(take_up(Arc::clone(inner), record)));
        }
        taken += count;
        if count < AT_A_TIME {
            return Ok(taken);
        }
    }
}

/// Apart, for to end what is left of a lost job takes its time, and the next must not wait for it.
pub(super) fn take_up_apart(inner: &Arc<Inner>, claim: Record) {
    inner.environment.spawn(Box::pin(take_up(Arc::clone(inner), claim)));
}

async fn take_up(inner: Arc<Inner>, record: Record) {
    // Its lease had run out while this process stood still: the run looks at it and goes on.
    if inner.runs.tell(&record.id, Control::LookAgain) {
        return;
    }
    let Some(job) = inner.workers.job(&record.tool) else {
        // A future of the process that is gone: it is not run twice.
        return lose(&inner, &record, "the process that ran it is gone").await;
    };
    if record.rerun != Rerun::Reattach {
        // What may still run of it is nobody's.
        if let Err(error) = job.cancel(&record.id).await {
            tracing::warn!(task = %record.id, ?error, "what is left of a lost job could not be ended");
        }
        return lose(&inner, &record, "the server that ran it is gone, and it is not taken up again").await;
    }
    let (reporter, reports) = Reporter::new();
    match job.attach(&record.id, Note::of(&record).begun, reporter.clone()).await {
        Attached::Lost { reason } => lose(&inner, &record, &reason).await,
        found => {
            tracing::info!(task = %record.id, tool = %record.tool, "took up a task");
            let run = Run::take_up(Arc::clone(&inner), record, job, found, (reporter, reports));
            inner.environment.spawn(Box::pin(run.drive()));
        }
    }
}

async fn lose(inner: &Inner, record: &Record, reason: &str) {
    tracing::warn!(task = %record.id, tool = %record.tool, reason, "a task is lost");
    let outcome = Outcome::lost(reason);
    if let Err(error) = inner.store.finish(&record.id, record.epoch, outcome, Batch::new()).await {
        // Its lease is ours and runs out: the next look finds it again.
        tracing::warn!(task = %record.id, %error, "could not record that a task is lost");
    }
}

/// Looks for tasks of dead nodes, for ever.
pub(super) async fn keep_recovering(inner: Arc<Inner>) {
    loop {
        inner.environment.sleep(inner.pace.recover_every).await;
        if let Err(error) = recover(&inner).await {
            tracing::warn!(%error, "could not look for tasks to take up");
        }
    }
}

/// Ends and forgets what is past its time, for ever.
pub(super) async fn keep_sweeping(inner: Arc<Inner>) {
    loop {
        match inner.store.sweep(AT_A_TIME).await {
            // There may be more: go on without a pause, but let others in.
            Ok(swept) if swept.total() >= AT_A_TIME => continue,
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "could not sweep the store"),
        }
        inner.environment.sleep(inner.pace.sweep_every).await;
    }
}
