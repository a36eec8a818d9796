//! Undoing what a task did that has failed: its work is entered once more, up to where it was, to learn how.

use std::sync::Arc;
use std::time::Duration;

use longhaul_store::{Batch, Json, Record, Step, StepState, StoreError};

use super::Inner;
use super::control::{Control, Controls};
use super::keeper::{Keeper, Undoing};
use super::operation::{FIRST_PAUSE, is_final, wait};
use super::runs::Listed;
use crate::note::Note;
use crate::report::Reporter;

/// Undoes what a task owes that was claimed for it.
pub(super) async fn undo(inner: Arc<Inner>, record: Record) {
    // A run of this node that has not heard of the end yet is let go first.
    while inner.runs.tell(&record.id, Control::LookAgain) {
        inner.environment.sleep(AGAIN).await;
    }
    let listed = Listed::new(Arc::clone(&inner), record.id.clone(), Controls::default());
    listed.hold(&record);
    let id = &record.id;
    let mut steps = match inner.store.steps(id, record.epoch).await {
        Ok(steps) => steps,
        // Whoever finds it next tries again, when the lease has run out.
        Err(error) => return tracing::warn!(task = %id, %error, "the steps of a task could not be read yet"),
    };
    let attempt = record.undo.as_ref().map_or(0, |undo| undo.attempt);
    // What was being undone each time a process ended is given up; the others are not.
    if attempt > inner.pace.max_attempts
        && let Some(step) = steps.iter_mut().rfind(|step| matches!(step.state, StepState::Owed))
    {
        let why = "given up after as many attempts as there may be".to_owned();
        *step = done_step(&record, step, Err(why));
        if !note(&inner, &record, step.clone()).await {
            return;
        }
    }
    let keeper = Keeper::undo(steps.clone(), &record);
    keeper.seat(&inner, id, &listed.controls);
    tracing::info!(task = %id, tool = %record.tool, attempt, "a task is undone");
    learn(&inner, &record, &keeper).await;
    for key in keeper.owed() {
        let done = match keeper.take_undoing(&key) {
            Some(undoing) => until_done(&inner, &listed, undoing).await,
            None => Err("its tool does not reach the step any more that would be undone".to_owned()),
        };
        let Some(step) = steps.iter().find(|step| step.key == key) else { continue };
        if !note(&inner, &record, done_step(&record, step, done)).await {
            return;
        }
    }
}

/// Enters the work, and drops it once it has said how all is undone that is owed.
async fn learn(inner: &Arc<Inner>, record: &Record, keeper: &Keeper) {
    let Some(entry) = inner.workers.entry(&record.tool) else { return };
    let (reporter, _unheard) = Reporter::new();
    let note = Note::of(record);
    let work = entry.enter(record, note.caller.as_deref(), keeper.clone(), reporter);
    tokio::select! {
        biased;
        () = keeper.is_all_known() => {}
        _ = work => {}
        // It waits where it was, and has said what it will.
        () = inner.environment.sleep(PATIENCE) => {}
    }
}

/// Undoes one step, which may take several tries.
async fn until_done(inner: &Arc<Inner>, listed: &Listed, mut undoing: Undoing) -> Result<(), String> {
    let mut tries = 0;
    loop {
        let why = match undoing().await {
            Ok(()) => return Ok(()),
            Err(why) => why,
        };
        tries += 1;
        tracing::warn!(task = %listed.id, why, tries, "a step could not be undone yet");
        if tries == inner.pace.max_attempts.max(1) {
            return Err(why);
        }
        let pause = inner.pace.retry_work.saturating_mul(1 << (tries - 1).min(10));
        inner.environment.sleep(pause.min(LONGEST_PAUSE)).await;
    }
}

/// What is recorded of a step that was owed: that it is undone, or why it will not be, which is logged too.
fn done_step(record: &Record, owed: &Step, done: Result<(), String>) -> Step {
    let state = match done {
        Ok(()) => StepState::learnt(Json::null()),
        Err(mut why) => {
            let (task, tool, step) = (&record.id, &record.tool, &owed.key);
            tracing::error!(%task, %tool, %step, why, "a step could not be undone");
            why.truncate(why.floor_char_boundary(LONGEST_REASON));
            let value = serde_json::value::to_raw_value(&why).map_or_else(|_| Json::null(), Json::from);
            StepState::Learnt { value, is_error: true }
        }
    };
    Step::new(owed.key.clone(), owed.of, state)
}

/// Records that a step is undone, or will not be; whether the task is still held.
async fn note(inner: &Arc<Inner>, record: &Record, step: Step) -> bool {
    let mut pause = FIRST_PAUSE;
    loop {
        match inner.store.write(&record.id, record.epoch, Batch::new().with_step(step.clone())).await {
            Ok(_) => return true,
            Err(StoreError::Fenced { .. }) => return false,
            Err(error) if is_final(&error) => {
                tracing::error!(task = %record.id, %error, "that a step is undone cannot be recorded");
                return false;
            }
            Err(error) => {
                tracing::warn!(task = %record.id, %error, "that a step is undone could not be recorded yet");
                wait(inner, &mut pause).await;
            }
        }
    }
}

/// How soon to see again whether a run has heard of the end.
const AGAIN: Duration = Duration::from_millis(20);

/// How long work may take to get to where it was.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest pause before a step is tried again to be undone.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Bytes of why a step could not be undone: there is room for them in what is owed.
const LONGEST_REASON: usize = 200;
