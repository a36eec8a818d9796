//! The operations of a run: what it asks of its store and of its job, one at a time, as futures that own what they need.

use std::sync::Arc;

use longhaul_store::{
    Batch, Cancellation, Created, Epoch, Finished, Json, NewTask, Outcome, Record, Scope, Step, StoreError,
    TaskId,
};

use super::Inner;
use super::control::Controls;
use super::pause::Pauses;
use super::recovery::wake_parent;
use crate::environment::BoxFuture;
use crate::job::{ExternalJob, JobRun, NotStarted};
use crate::machine::{Event, Refusal};
use crate::report::Reporter;

/// What one operation reports.
pub(super) enum Done {
    /// This happened.
    Event(Event),
    /// The row is on disk.
    Committed(Arc<Record>),
    /// The call was made before, under its key, and is this task.
    Again(Arc<Record>),
    /// The job runs.
    Started(Arc<dyn JobRun>),
    /// The task is put aside.
    Parked,
    /// It could not be.
    NotParked,
    /// The record as it is now.
    Seen(Option<Arc<Record>>),
    /// It could not be read.
    Unseen,
    /// Nothing to report.
    Nothing,
}

pub(super) type Operation = BoxFuture<'static, Done>;

/// What a job that has ended comes to, for a task or for a call of which there is no row.
pub(super) fn read(run: Arc<dyn JobRun>, kept: bool) -> Operation {
    Box::pin(async move { Done::Event(Event::Ended(run.outcome(kept).await)) })
}

/// Starts a job.
pub(super) fn start(
    job: Arc<dyn ExternalJob>,
    id: TaskId,
    arguments: Json,
    durable: bool,
    reporter: Reporter,
) -> Operation {
    Box::pin(async move {
        match job.start(&id, &arguments, durable, reporter).await {
            Ok(run) => Done::Started(run),
            Err(NotStarted::Failed(outcome)) => Done::Event(Event::Ended(outcome)),
            Err(NotStarted::Overloaded(message)) => Done::Event(Event::Refused(Refusal::new(message, true))),
        }
    })
}

/// What a caller is told while the store cannot be reached.
const UNREACHABLE: &str =
    "the task store cannot be reached; the call may have been begun: make it again if it has a key";

/// Writes the row of a call; `is_begun`: its work is.
pub(super) fn commit(inner: Arc<Inner>, task: NewTask, is_begun: bool) -> Operation {
    Box::pin(async move {
        let has_key = task.once.is_some();
        let mut created = inner.store.create(task.clone()).await;
        if let Ok(Created::Joined(record)) = created {
            // One that was put aside has no run to be joined at: whoever has not begun leaves the call to it.
            if !is_begun && record.started && record.lease().is_none() {
                return Done::Again(Arc::new(record));
            }
            // Another node has one like it, which this call could not know when it began.
            let mut alone = task.clone();
            alone.join = None;
            created = inner.store.create(alone).await;
        }
        let error = match created {
            Ok(Created::Again(record)) if record.id != task.id => return Done::Again(Arc::new(record)),
            Ok(Created::Again(record)) => match written_before(&inner, Arc::new(record), task.steps).await {
                Ok(done) => return done,
                Err(error) => error,
            },
            Ok(created) => return Done::Committed(Arc::new(created.into_record())),
            Err(error @ StoreError::AlreadyExists { .. }) => match look(Arc::clone(&inner), task.id).await {
                Done::Seen(Some(record)) => match written_before(&inner, record, task.steps).await {
                    Ok(done) => return done,
                    Err(error) => error,
                },
                _ => error,
            },
            Err(error) => error,
        };
        let overloaded = matches!(error, StoreError::Overloaded { .. });
        let taken = match error {
            StoreError::KeyTaken => Some("idempotency_conflict"),
            StoreError::KeySpent { .. } => Some("idempotency_key_spent"),
            _ => None,
        };
        if let Some(reason) = taken {
            let refusal = Refusal::new(error.to_string(), false).because(reason);
            return Done::Event(Event::CommitFailed(refusal));
        }
        if !overloaded {
            tracing::warn!(%error, "a call could not be made durable");
        }
        // Where the database is, is nothing to its callers.
        let words = match &error {
            StoreError::Unreachable { .. } => UNREACHABLE.to_owned(),
            error => error.to_string(),
        };
        // Anything else may have befallen the answer alone, of this try or of one before.
        let is_unwritten = overloaded || matches!(error, StoreError::TooLarge { .. });
        let refusal = Refusal::new(words, overloaded).unsure(!is_unwritten);
        Done::Event(Event::CommitFailed(match &error {
            error if is_final(error) => refusal.lasting(),
            error if error.is_retryable() && has_key => refusal.again(),
            _ => refusal,
        }))
    })
}

/// An earlier try had written the row, and could not say so. Somebody else may have taken it up since, or ended it: then
/// the call is left to what was made of it.
async fn written_before(inner: &Inner, record: Arc<Record>, steps: Vec<Step>) -> Result<Done, StoreError> {
    if is_ours(inner, &record) && record.epoch.succeeds(Epoch::FIRST) {
        catch_up(inner, record, steps).await.map(Done::Committed)
    } else {
        Ok(Done::Again(record))
    }
}

/// Writes what the work has learnt since an earlier try wrote the row, in the place of what it has replaced since.
async fn catch_up(inner: &Inner, record: Arc<Record>, steps: Vec<Step>) -> Result<Arc<Record>, StoreError> {
    let written = inner.store.steps(&record.id, record.epoch).await?;
    let mut batch = Batch::new();
    let is_known = |step: &Step| steps.iter().any(|known| known.is(step));
    batch.forget = written.into_iter().filter(|step| !is_known(step)).map(|step| step.key).collect();
    batch.steps = steps;
    if batch != Batch::new() {
        inner.store.write(&record.id, record.epoch, batch).await?;
    }
    Ok(record)
}

/// Whether waiting mends nothing: this store will never take that write from this process. A full disk, a lock, or
/// a file system that is read-only for now will pass, with or without a person's help.
pub(super) fn is_final(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::TooLarge { .. }
            | StoreError::Closed
            | StoreError::Corrupt { .. }
            | StoreError::Foreign { .. }
            | StoreError::Newer { .. }
            | StoreError::OutOfService { .. }
    )
}

pub(super) fn tell(run: Option<Arc<dyn JobRun>>) -> Operation {
    Box::pin(async move {
        let Some(run) = run else { return Done::Event(Event::Told) };
        match run.keep().await {
            Ok(()) => Done::Event(Event::Told),
            Err(error) => {
                tracing::warn!(?error, "a job could not be told to outlive this process");
                run.ended().await;
                Done::Event(Event::Ended(run.outcome(true).await))
            }
        }
    })
}

pub(super) fn stop(job: Arc<dyn ExternalJob>, id: TaskId) -> Operation {
    Box::pin(async move {
        if let Err(error) = job.cancel(&id).await {
            tracing::warn!(task = %id, ?error, "a job could not be ended");
        }
        Done::Nothing
    })
}

/// Whether an open task is this node's, under whichever epoch.
pub(super) fn is_ours(inner: &Inner, record: &Record) -> bool {
    !record.is_terminal() && is_leased_here(inner, record)
}

/// Whether the lease on a task is this node's.
pub(super) fn is_leased_here(inner: &Inner, record: &Record) -> bool {
    record.lease().is_some_and(|lease| lease.node == *inner.store.node())
}

pub(super) fn look(inner: Arc<Inner>, id: TaskId) -> Operation {
    Box::pin(async move {
        match inner.store.get(Scope::Operator, &id).await {
            Ok(record) => Done::Seen(record.map(Arc::new)),
            Err(error) => {
                tracing::warn!(task = %id, %error, "a task could not be read");
                Done::Unseen
            }
        }
    })
}

/// Puts the task aside, with the latest report. Nothing happens where that cannot be written: the work stays.
pub(super) fn put_aside(inner: Arc<Inner>, id: TaskId, epoch: Epoch, batch: Batch) -> Operation {
    let hands_over = inner.runs.hands_over();
    Box::pin(async move {
        let _hands_over = hands_over;
        match inner.store.write(&id, epoch, batch).await {
            Ok(_) => Done::Parked,
            Err(error) => {
                inner.counts.refused(&error);
                tracing::warn!(task = %id, %error, "a task that waits could not be put aside");
                Done::NotParked
            }
        }
    })
}

/// Gives the task back, for another node to go on with: nothing is charged for it.
/// `spared`: the attempt that is not charged for the work [yet](super::begin::spare), which the release would take back once more.
pub(super) fn give_back(inner: Arc<Inner>, id: TaskId, epoch: Epoch, spared: Option<u32>) -> Operation {
    let hands_over = inner.runs.hands_over();
    Box::pin(async move {
        let _hands_over = hands_over;
        if let Some(attempt) = spared
            && let Err(error) = inner.store.write(&id, epoch, Batch::new().with_attempt(attempt)).await
        {
            inner.counts.refused(&error);
            tracing::warn!(task = %id, %error, attempt, "an attempt at a task could not be charged");
        }
        match inner.store.release(&id, epoch).await {
            Ok(_) => Done::Parked,
            Err(error) => {
                inner.counts.refused(&error);
                tracing::warn!(task = %id, %error, "a task could not be given back: its lease ends with this process");
                Done::NotParked
            }
        }
    })
}

pub(super) fn report(inner: Arc<Inner>, id: TaskId, epoch: Epoch, batch: Batch) -> Operation {
    Box::pin(async move {
        match inner.store.write(&id, epoch, batch).await {
            Ok(_) => look(inner, id).await,
            Err(StoreError::Fenced { .. }) => {
                inner.counts.fenced_writes.add(1);
                look(inner, id).await
            }
            Err(error) => {
                tracing::warn!(task = %id, %error, "a report could not be written");
                Done::Nothing
            }
        }
    })
}

/// Writes the outcome, however long the store takes to be writable again. The run ends with an outcome that never
/// will be: the row stays open, for a process that can reach it. It is the outcome of the run that `controls` reach, and
/// of no other that has begun since.
pub(super) fn finish(
    inner: Arc<Inner>,
    id: TaskId,
    controls: Controls,
    epoch: Epoch,
    outcome: Outcome,
    last: Batch,
) -> Operation {
    Box::pin(async move {
        let (mut outcome, mut last, mut epoch, mut pauses) = (outcome, last, epoch, Pauses::of_store());
        let mut shrunk = false;
        loop {
            match inner.store.finish(&id, epoch, outcome.clone(), last.clone()).await {
                Ok(Finished::Recorded(record) | Finished::AlreadyTerminal(record)) => {
                    wake_parent(&inner, &record);
                    return Done::Seen(Some(Arc::new(record)));
                }
                Err(StoreError::Fenced { .. }) => {
                    inner.counts.fenced_writes.add(1);
                    match look(Arc::clone(&inner), id.clone()).await {
                        Done::Seen(Some(record))
                            if record.epoch == epoch.next()
                                && is_ours(&inner, &record)
                                && inner.runs.is(&id, &controls) =>
                        {
                            epoch = record.epoch;
                        }
                        // Whose it is will be seen when the store can be read.
                        Done::Unseen => pauses.wait(&inner).await,
                        seen => return seen,
                    }
                }
                // What was said last is worth less than how it ended.
                Err(StoreError::TooLarge { .. }) if last != Batch::new() => last = Batch::new(),
                Err(error @ StoreError::TooLarge { .. }) if !shrunk => {
                    shrunk = true;
                    outcome = Outcome::error(INTERNAL_ERROR, error.to_string(), None);
                }
                Err(error) if is_final(&error) => {
                    tracing::error!(task = %id, %error, "an outcome cannot be written: the task stays open");
                    return Done::Event(Event::Recorded(outcome));
                }
                Err(error) => {
                    tracing::warn!(task = %id, %error, "an outcome could not be written yet");
                    pauses.wait(&inner).await;
                }
            }
        }
    })
}

pub(super) fn cancel(inner: Arc<Inner>, id: TaskId) -> Operation {
    Box::pin(async move {
        let mut pauses = Pauses::of_store();
        loop {
            match inner.store.request_cancel(Scope::Operator, &id, Some("the caller cancelled it")).await {
                Ok(Cancellation::Cancelled(record) | Cancellation::AlreadyTerminal(record)) => {
                    wake_parent(&inner, &record);
                    return Done::Seen(Some(Arc::new(record)));
                }
                Ok(Cancellation::NotFound) => return Done::Seen(None),
                Err(error) if is_final(&error) => {
                    tracing::error!(task = %id, %error, "a cancellation cannot be written: the task stays open");
                    return Done::Event(Event::Recorded(Outcome::cancelled(None)));
                }
                Err(error) => {
                    tracing::warn!(task = %id, %error, "a cancellation could not be written yet");
                    pauses.wait(&inner).await;
                }
            }
        }
    })
}

const INTERNAL_ERROR: i64 = -32603;
