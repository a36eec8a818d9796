//! Tasks for which nobody comes back: when one is, and who has come.

use std::sync::Arc;
use std::time::Duration;

use longhaul_store::{OnOrphan, OrphanRule, Record, Scope, Swept, TaskId};

use super::Inner;
use super::call::Call;

/// How many times in its caller's pace a task is waited for, at least.
const LOOKS: u32 = 10;

/// The rule of a call's task, from when there is a row of it.
pub(super) fn rule(call: &Call) -> Option<OrphanRule> {
    let OrphanRule { grace, then, .. } = call.orphan?;
    let told = call.plan.tells_within(call.after, call.hold)?;
    let looks = Duration::from_millis(call.poll_interval_ms.unwrap_or(0)).saturating_mul(LOOKS);
    Some(OrphanRule::new(told.saturating_add(grace.max(looks)), then))
}

/// Notes that the owner of a task has come back for it, who was shown this record. Nobody waits for that: a store that
/// cannot be written now can still be read, and what is lost is noted when the owner comes next.
pub(super) fn came_back(inner: &Arc<Inner>, record: &Record) {
    if record.orphan_at.is_some() {
        inner.environment.spawn(Box::pin(note(Arc::clone(inner), record.id.clone())));
    }
}

/// The same of a task that was not read.
pub(super) fn came_back_by_id(inner: &Arc<Inner>, id: &TaskId) {
    let (noting, id) = (Arc::clone(inner), id.clone());
    inner.environment.spawn(Box::pin(async move {
        match noting.store.get(Scope::Operator, &id).await {
            Ok(Some(record)) if record.orphan_at.is_some() => note(noting, id).await,
            Ok(_) => {}
            Err(error) => tracing::warn!(task = %id, %error, "a task could not be read"),
        }
    }));
}

/// Notes it of this task, whatever is known of it.
pub(super) async fn note(inner: Arc<Inner>, id: TaskId) {
    if let Err(error) = inner.store.came_back(Scope::Operator, &id).await {
        tracing::warn!(task = %id, %error, "that its owner came back for a task could not be noted yet");
    }
}

/// Tells of the orphans that a sweep has found. Whoever works on one that is cancelled hears of it as of any other end.
pub(super) fn tell(inner: &Inner, swept: &Swept) {
    for (task, then) in &swept.orphans {
        inner.counts.orphans.add(1);
        match then {
            OnOrphan::Keep => tracing::info!(%task, "nobody has asked after a task: it goes on"),
            OnOrphan::Cancel => {
                inner.counts.orphans_cancelled.add(1);
                tracing::warn!(%task, "nobody has asked after a task: it is cancelled");
            }
        }
    }
}
