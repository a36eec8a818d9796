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
    /// How long who takes a task waits before it has one, if it has none at once.
    pub(super) told: Option<BoxFuture<'static, ()>>,
    /// Whose the call is that the task is.
    pub(super) whose: Whose,
}

/// Whose a call is that is followed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Whose {
    /// Its caller has made it, and nobody before it.
    Own,
    /// The same, at a process that seems to be gone; it may follow it still.
    GoneOnWith,
    /// Somebody has made it before.
    Anothers,
}

impl Again {
    /// Tells of the call that was made before: its task, to who takes one, or its end, for which this waits on whichever
    /// node it comes.
    ///
    /// It is one call, so that who makes it again can cancel it where it is at work, unless somebody else there waits
    /// for it as well.
    pub(super) async fn follow(mut self, found: Arc<Record>) {
        match self.whose {
            Whose::Own => {}
            // Before it is read again: whoever reads its end then does not erase it.
            Whose::GoneOnWith => orphan::note(Arc::clone(&self.inner), found.id.clone()).await,
            Whose::Anothers => orphan::came_back(&self.inner, &found),
        }
        match (self.plan.caller, found.outcome()) {
            (Caller::Waits, _) => {}
            // As whoever was first: a call that has ended before its caller was to have a task has a result.
            (Caller::TakesTask, Some(outcome)) if !self.plan.tells_at_once => {
                return self.tell_end(&found, outcome).await;
            }
            (Caller::TakesTask, None) if self.told.is_some() => {}
            _ => return self.waiter.tell(Answer::Task(found)),
        }
        if let Some(observer) = &self.observer {
            let is_own = self.whose != Whose::Anothers;
            observer.observe(Observed::Kept { record: &found, is_own }).await;
        }
        let following = self.inner.followers.follow(&found.id);
        let mut watch = self.inner.store.watch(&found.id);
        let (mut record, mut patient) = (found, true);
        loop {
            let mut look_again = None;
            match self.inner.store.get(Scope::Operator, &record.id).await {
                Ok(Some(now)) => record = Arc::new(now),
                // How it has ended is known all the same, if it was read before.
                Ok(None) if record.is_terminal() => {}
                Ok(None) => return self.waiter.tell(forgotten()),
                Err(error) => {
                    tracing::warn!(task = %record.id, %error, "a task could not be read");
                    look_again = Some(self.inner.environment.sleep(LOOK_AGAIN));
                }
            }
            if let Some(outcome) = record.outcome() {
                return self.tell_end(&record, outcome).await;
            }
            let takes_task = self.plan.caller == Caller::TakesTask;
            let is_asked = (self.plan.is_asked || takes_task) && !record.questions.is_empty();
            if is_asked || (!patient && self.plan.hands_over) {
                let answer = if takes_task { Answer::Task } else { Answer::HandOver };
                return self.waiter.tell(answer(record));
            }
            if let (Some(observer), Some(progress)) = (&self.observer, &record.progress) {
                observer.observe(Observed::Progress { progress, task: None }).await;
            }
            tokio::select! {
                biased;
                told = self.controls.next() => match told {
                    Control::Cancel | Control::Unwanted => {
                        drop(following);
                        return match self.whose {
                            Whose::Own | Whose::GoneOnWith => cancel_own(self.inner, &record).await,
                            Whose::Anothers => cancel_for_all(self.inner, &record).await,
                        };
                    }
                    Control::Leave | Control::Abandoned => return,
                    Control::Drain => patient = false,
                    Control::CutOff
                    | Control::LookAgain
                    | Control::WantsRow
                    | Control::Asks
                    | Control::Lease => {}
                },
                () = watch.changed() => {}
                () = self.inner.draining(), if patient => patient = false,
                () = self.waiter.gone() => return,
                () = optional(&mut self.hold) => (self.hold, patient) = (None, false),
                () = optional(&mut self.told) => (self.told, patient) = (None, false),
                () = optional(&mut look_again) => {}
            }
        }
    }

    /// Tells how the call has ended, and lets go of a row that was there for this alone: in one process there would
    /// have been none, and those of all callers would fill the store.
    async fn tell_end(self, record: &Record, outcome: &Outcome) {
        let was_told = self.waiter.try_tell(Answer::Outcome(outcome.clone()));
        if was_told
            && self.whose == Whose::Own
            && is_known_to_nobody(record, outcome)
            && let Err(error) = self.inner.store.erase(Scope::Operator, &record.id).await
        {
            tracing::debug!(task = %record.id, %error, "a task that nobody knows of goes when its time is up");
        }
    }
}

/// Whether nobody can ask after a task whose caller was told this: not by its id, nor by a key; nor can anybody have
/// joined it, on whichever node, and its owner has not come for it, nor another node gone on with it.
fn is_known_to_nobody(record: &Record, outcome: &Outcome) -> bool {
    let can_be_found = record.once.is_some() || record.join.is_some() || record.came_back_at.is_some();
    !can_be_found && !names(outcome, record.id.as_str())
}

/// Whether an outcome says the id of its task, as a link to its output does.
fn names(outcome: &Outcome, id: &str) -> bool {
    match outcome {
        Outcome::Result { value, .. } => value.as_str().contains(id),
        Outcome::Error { message, data, .. } => {
            message.contains(id) || data.as_ref().is_some_and(|data| data.as_str().contains(id))
        }
        Outcome::Cancelled { reason } => reason.as_ref().is_some_and(|reason| reason.contains(id)),
        Outcome::Lost { reason } => reason.contains(id),
        // Whatever it says, it is kept.
        _ => true,
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
    end(inner, record).await;
}

/// The same for who has made the call first, wherever it is at work by now. Who has joined it here may want it still.
async fn cancel_own(inner: Arc<Inner>, record: &Record) {
    if !inner.followers.any(&record.id) && inner.joins.give_up(record) {
        end(inner, record).await;
    }
}

async fn end(inner: Arc<Inner>, record: &Record) {
    cancel(Arc::clone(&inner), record.id.clone()).await;
    if let Some(job) = inner.workers.job_of(record) {
        stop(job, record.id.clone()).await;
    }
}

fn forgotten() -> Answer {
    Answer::Outcome(Outcome::lost("the task is forgotten"))
}

/// How long to wait before looking for a task again that could not be read.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
