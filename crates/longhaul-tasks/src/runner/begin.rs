//! What is on disk before work begins that may have stood in line for long: until then whoever takes its task up begins it,
//! and the end of a process says nothing of it.

use std::sync::Arc;

use longhaul_store::{Batch, Fingerprint, Outcome, Record, Rerun, Step, StepState};

use super::Inner;
use super::keeper::Keeper;
use super::worker::Entry;
use crate::environment::BoxFuture;
use crate::note::Note;
use crate::report::Reporter;

/// What work that is never run twice has recorded once it has begun, where it may have stood in line or was queued. No name of
/// a step begins so.
const BEGUN: &str = "/begun";

/// Work that is never run twice, though its row says that whoever claims it begins it: that it begins is on disk before it does.
pub(super) fn once<W>(keeper: Keeper, work: W) -> BoxFuture<'static, Outcome>
where
    W: FnOnce() -> BoxFuture<'static, Outcome> + Send + 'static,
{
    Box::pin(async move {
        // A row that nobody knows of would have it begun by others as well.
        if !keeper.know_row().await {
            return Outcome::lost("it cannot be told whether another node has begun its work");
        }
        let begins = Step::new(BEGUN, Fingerprint::new([0; Fingerprint::LEN]), StepState::Begun);
        if let Err(error) = keeper.record(begins).await {
            return Outcome::lost(format!("it could not be recorded that its work begins: {error}"));
        }
        work().await
    })
}

/// Work that is entered again, and of which nothing is charged for this attempt [yet](spare): the attempt is charged before it
/// begins.
pub(super) fn charged<W>(keeper: Keeper, attempt: u32, work: W) -> BoxFuture<'static, Outcome>
where
    W: FnOnce() -> BoxFuture<'static, Outcome> + Send + 'static,
{
    Box::pin(async move {
        if let Err(error) = keeper.note_attempt(attempt).await {
            // What it is to record next, or its end, meets the same.
            tracing::warn!(%error, attempt, "an attempt at a task could not be charged");
        }
        work().await
    })
}

/// How the work of a task is entered, once it is to begin.
pub(super) fn entered(
    entry: Arc<dyn Entry>,
    record: Record,
    keeper: Keeper,
    reporter: Reporter,
) -> impl FnOnce() -> BoxFuture<'static, Outcome> + Send + 'static {
    move || {
        let note = Note::of(&record);
        entry.enter(&record, note.caller.as_deref(), keeper, reporter)
    }
}

/// Whether work that is never run twice has begun, by what it has recorded.
pub(super) fn has_begun(steps: &[Step]) -> bool {
    steps.iter().any(|step| &*step.key == BEGUN)
}

/// How many processes beyond the first work has taken with it that is entered again, if it has taken several: it waits before it
/// begins again.
pub(super) fn losses(record: &Record) -> Option<u32> {
    let twice = matches!(record.rerun, Rerun::Resumable | Rerun::Restart);
    record.attempt.checked_sub(3).filter(|_| twice)
}

/// Takes back what the claim has charged, for as long as the work waits to begin: others may end the process meanwhile, one after the
/// other, and this one has not run.
pub(super) async fn spare(inner: &Inner, record: &Record) {
    let spared = Batch::new().with_attempt(record.attempt.saturating_sub(1));
    if let Err(error) = inner.store.write(&record.id, record.epoch, spared).await {
        inner.counts.refused(&error);
        tracing::warn!(task = %record.id, %error, "an attempt at a task is charged before it begins");
    }
}
