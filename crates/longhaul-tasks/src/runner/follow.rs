//! A call that was made before: whoever makes it again, under the same key or with answers to what it asked, is told of
//! that one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_store::{Outcome, Record, Scope, TaskId};

use super::Inner;
use super::call::{Answer, Observed, Observer, Waiter};
use super::control::{Control, Controls};
use super::operation::{cancel, is_ours, stop};
use super::orphan;
use super::run::optional;
use crate::environment::BoxFuture;
use crate::machine::{Caller, Plan};

/// Who waits on this node for calls that were made before. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Followers(Arc<Mutex<HashMap<TaskId, usize>>>);

impl Followers {
    /// Whether anybody waits for the end of this task.
    pub(super) fn any(&self, id: &TaskId) -> bool {
        self.lock().contains_key(id)
    }

    fn follow(&self, id: &TaskId) -> Following {
        *self.lock().entry(id.clone()).or_default() += 1;
        Following { followers: self.clone(), id: id.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who waits, until dropped.
struct Following {
    followers: Followers,
    id: TaskId,
}

impl Drop for Following {
    fn drop(&mut self) {
        let mut all = self.followers.lock();
        if let Some(count) = all.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.id);
            }
        }
    }
}

/// A caller who has made a call again.
pub(super) struct Again {
    pub(super) inner: Arc<Inner>,
    pub(super) plan: Plan,
    pub(super) controls: Controls,
    pub(super) waiter: Waiter,
    pub(super) observer: Option<Arc<dyn Observer>>,
    /// How long it waits before it is handed over.
    pub(super) hold: Option<BoxFuture<'static, ()>>,
}

impl Again {
    /// Tells of the call that was made before: its task, to who takes one, or its end, for which this waits on whichever
    /// node it comes.
    ///
    /// It is one call, so that who makes it again can cancel it where it is at work, unless somebody else there waits
    /// for it as well.
    pub(super) async fn follow(mut self, found: Arc<Record>) {
        orphan::came_back(&self.inner, &found);
        if self.plan.caller != Caller::Waits {
            return self.waiter.tell(Answer::Task(found));
        }
        if let Some(observer) = &self.observer {
            observer.observe(Observed::Kept(&found)).await;
        }
        let following = self.inner.followers.follow(&found.id);
        let mut watch = self.inner.store.watch(&found.id);
        let (mut record, mut patient) = (found, true);
        loop {
            let mut look_again = None;
            match self.inner.store.get(Scope::Operator, &record.id).await {
                Ok(Some(now)) => record = Arc::new(now),
                Ok(None) => return self.waiter.tell(forgotten()),
                Err(error) => {
                    tracing::warn!(task = %record.id, %error, "a task could not be read");
                    look_again = Some(self.inner.environment.sleep(LOOK_AGAIN));
                }
            }
            if let Some(outcome) = record.outcome() {
                return self.waiter.tell(Answer::Outcome(outcome.clone()));
            }
            let is_asked = self.plan.is_asked && !record.questions.is_empty();
            if is_asked || (!patient && self.plan.hands_over) {
                return self.waiter.tell(Answer::HandOver(record));
            }
            if let (Some(observer), Some(progress)) = (&self.observer, &record.progress) {
                observer.observe(Observed::Progress { progress, task: None }).await;
            }
            tokio::select! {
                biased;
                told = self.controls.next() => match told {
                    Control::Cancel | Control::Unwanted => {
                        drop(following);
                        return cancel_for_all(self.inner, &record).await;
                    }
                    Control::Leave | Control::Abandoned => return,
                    Control::Drain => patient = false,
                    Control::LookAgain | Control::WantsRow | Control::Asks => {}
                },
                () = watch.changed() => {}
                () = self.inner.draining(), if patient => patient = false,
                () = self.waiter.gone() => return,
                () = optional(&mut self.hold) => (self.hold, patient) = (None, false),
                () = optional(&mut look_again) => {}
            }
        }
    }
}

/// Ends the call for who has made it again, if this node is at work on it and nobody else here waits for it: who first
/// called does, or another who has made it again. Who waits on other nodes is not known here, so that what they are at
/// work on is only left, and so is what no node is at work on. By its task anybody can cancel it who may.
pub(super) async fn cancel_for_all(inner: Arc<Inner>, record: &Record) {
    let id = &record.id;
    if !is_ours(&inner, record) || inner.followers.any(id) || inner.runs.is_waited_for(id) {
        return;
    }
    cancel(Arc::clone(&inner), record.id.clone()).await;
    if let Some(job) = inner.workers.job(&record.tool) {
        stop(job, record.id.clone()).await;
    }
}

fn forgotten() -> Answer {
    Answer::Outcome(Outcome::lost("the task is forgotten"))
}

/// How long to wait before looking for a task again that could not be read.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
