//! Tasks for which nobody comes back: when one is, and who has come.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_store::{OnOrphan, OrphanRule, Record, Scope, Swept, TaskId};

use super::Inner;
use super::call::Call;

/// How many times in its caller's pace a task is waited for, at least.
const LOOKS: u32 = 10;

/// How long it may take until it is noted that an owner has come back.
const MOMENT: Duration = Duration::from_secs(5);

/// For how many tasks that is put off at once.
const MOST: usize = 10_000;

/// The rule of a call's task, from when there is a row of it.
pub(super) fn rule(call: &Call) -> Option<OrphanRule> {
    let OrphanRule { grace, then, .. } = call.orphan?;
    let told = call.plan.tells_within(call.after, call.hold)?;
    let looks = Duration::from_millis(call.poll_interval_ms.unwrap_or(0)).saturating_mul(LOOKS);
    Some(OrphanRule::new(told.saturating_add(grace.max(looks)), then))
}

/// Tasks whose owners have come back, which is yet to be noted.
#[derive(Debug, Default)]
pub(super) struct Came(Mutex<BTreeSet<TaskId>>);

/// What becomes of one of them.
enum Noted {
    Soon { is_first: bool },
    Now,
}

impl Came {
    /// `None` if that is known.
    fn add(&self, id: &TaskId) -> Option<Noted> {
        let mut came = self.lock();
        match came.len() {
            _ if came.contains(id) => None,
            MOST.. => Some(Noted::Now),
            many => came.insert(id.clone()).then_some(Noted::Soon { is_first: many == 0 }),
        }
    }

    fn forget(&self, id: &TaskId) {
        self.lock().remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<TaskId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes that the owner of a task has come back for it, who was shown this record. Nobody waits for that: a store that
/// cannot be written now can still be read, and what is lost is noted when the owner comes next.
///
/// It is noted after a moment, where there is time: of a task whose owner has seen it end by then, as of most, it need not be.
pub(super) fn came_back(inner: &Arc<Inner>, record: &Record) {
    let Some(at) = record.orphan_at else {
        if record.is_terminal() {
            inner.came.forget(&record.id);
        }
        return;
    };
    let is_soon = at.since(inner.store.now()) <= MOMENT * 4;
    match if is_soon { Some(Noted::Now) } else { inner.came.add(&record.id) } {
        None | Some(Noted::Soon { is_first: false }) => {}
        Some(Noted::Now) => inner.environment.spawn(Box::pin(note(Arc::clone(inner), record.id.clone()))),
        Some(Noted::Soon { is_first: true }) => {
            let inner = Arc::clone(inner);
            let environment = Arc::clone(&inner.environment);
            environment.spawn(Box::pin(async move {
                inner.environment.sleep(MOMENT).await;
                let came = std::mem::take(&mut *inner.came.lock());
                for id in came {
                    note(Arc::clone(&inner), id).await;
                }
            }));
        }
    }
}

/// The same of a task that was not read.
pub(super) fn came_back_by_id(inner: &Arc<Inner>, id: &TaskId) {
    let (noting, id) = (Arc::clone(inner), id.clone());
    inner.environment.spawn(Box::pin(async move {
        match noting.store.get(Scope::Operator, &id).await {
            Ok(Some(record)) => came_back(&noting, &record),
            Ok(None) => {}
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
