//! Joining a call that is open already: a second call of the same owner with the same arguments waits for
//! the first instead of running again.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_store::{Digest, Outcome, Owner, Record, Scope, TaskId};
use tokio::sync::watch;

use super::Inner;
use super::call::{Answer, Observed, Observer, Waiter};
use super::control::{Control, Controls};
use super::orphan;
use crate::machine::Refusal;

/// How far the call that others may join has come.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// Nothing of it is on disk.
    Loose,
    /// It is this task.
    Durable(TaskId),
    /// It has ended so.
    Ended(Outcome),
    /// It was not begun.
    Refused(Refusal),
}

/// The calls of this node that others may join. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Joins(Arc<Mutex<Open>>);

type Key = (Owner, Digest);
type Open = HashMap<Key, Entry>;

#[derive(Debug)]
struct Entry {
    stage: watch::Receiver<Stage>,
    /// Reaches the call's run.
    run: Controls,
    /// How many want it: its caller and those who joined, less those who cancelled, or left before it was a task.
    /// Whoever was handed over or lost its connection still wants it.
    wanted: usize,
}

impl Joins {
    /// The open call to join, or the right to be it, found at `first` and reached by `run`.
    pub(super) fn join_or_lead(
        &self,
        owner: &Owner,
        digest: Digest,
        first: Stage,
        run: &Controls,
    ) -> Result<Lead, Joined> {
        let mut joins = self.lock();
        let key = (owner.clone(), digest);
        let is_open = |stage: &Stage| matches!(stage, Stage::Loose | Stage::Durable(_));
        if let Some(open) = joins.get_mut(&key).filter(|open| is_open(&open.stage.borrow())) {
            open.wanted += 1;
            let (stage, run) = (open.stage.clone(), open.run.clone());
            return Err(Joined { joins: self.clone(), key, stage, run });
        }
        let (stage, receiver) = watch::channel(first);
        joins.insert(key.clone(), Entry { stage: receiver, run: run.clone(), wanted: 1 });
        Ok(Lead { joins: self.clone(), key, stage, run: run.clone() })
    }

    /// One of those who wanted the call behind `run` cancels; says whether nobody is left. Then it is to end, and
    /// nobody joins it any more.
    fn leave(&self, key: &Key, run: &Controls) -> bool {
        let mut joins = self.lock();
        let Some(open) = joins.get_mut(key).filter(|open| open.run.same(run)) else { return true };
        open.wanted -= 1;
        let unwanted = open.wanted == 0;
        if unwanted {
            joins.remove(key);
        }
        unwanted
    }

    /// Whoever made the call that is this task now cancels it elsewhere than at its run; says whether nobody is left here who wants it.
    pub(super) fn give_up(&self, record: &Record) -> bool {
        let Some(digest) = &record.join else { return true };
        let key = (record.owner.clone(), *digest);
        let run = {
            let joins = self.lock();
            let is_it =
                |open: &&Entry| matches!(&*open.stage.borrow(), Stage::Durable(id) if *id == record.id);
            joins.get(&key).filter(is_it).map(|open| open.run.clone())
        };
        run.is_none_or(|run| self.leave(&key, &run))
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The call that others may join. Once it is dropped a later call runs anew.
#[derive(Debug)]
pub(super) struct Lead {
    joins: Joins,
    key: Key,
    stage: watch::Sender<Stage>,
    run: Controls,
}

impl Lead {
    /// It is this task now.
    pub(super) fn durable(&self, id: &TaskId) {
        self.stage.send_replace(Stage::Durable(id.clone()));
    }

    pub(super) fn ended(&self, outcome: &Outcome) {
        self.stage.send_replace(Stage::Ended(outcome.clone()));
    }

    pub(super) fn refused(&self, refusal: &Refusal) {
        self.stage.send_replace(Stage::Refused(refusal.clone()));
    }

    /// Whether anybody who joined it waits for it.
    pub(super) fn is_waited_for(&self) -> bool {
        // One is for those to come.
        self.stage.receiver_count() > 1
    }

    /// Its own caller cancels; says whether nobody else wants it.
    pub(super) fn leave(&self) -> bool {
        self.joins.leave(&self.key, &self.run)
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        let mut joins = self.joins.lock();
        if joins.get(&self.key).is_some_and(|open| open.run.same(&self.run)) {
            joins.remove(&self.key);
        }
    }
}

/// A caller's part in an open call that another began.
#[derive(Debug)]
pub(super) struct Joined {
    joins: Joins,
    key: Key,
    stage: watch::Receiver<Stage>,
    run: Controls,
}

impl Joined {
    /// This caller is told to cancel, or is gone for good: the last to do so ends the call, the latter if there is
    /// nothing to come back for.
    fn leave(&self, told: Control) {
        let gone = told == Control::Leave;
        if gone && !matches!(*self.stage.borrow(), Stage::Loose) {
            return;
        }
        if self.joins.leave(&self.key, &self.run) {
            self.run.tell(if gone { Control::Abandoned } else { Control::Unwanted });
        }
    }
}

/// Waits with `waiter` for the end of an open call, unless it is cancelled by `controls`. Once `hold` has passed, the
/// process is about to go, or somebody else works on the task, it is handed over to the task, if the call is one by
/// then or when it becomes one.
pub(super) async fn wait_for(
    inner: Arc<Inner>,
    mut open: Joined,
    hold: Option<Duration>,
    observer: Arc<dyn Observer>,
    mut waiter: Waiter,
    controls: Controls,
) {
    let mut patience = pin!(async {
        match hold {
            Some(hold) => tokio::select! {
                () = inner.environment.sleep(hold) => {}
                () = inner.draining() => {}
            },
            None => inner.draining().await,
        }
    });
    let (mut patient, mut over, mut noted) = (true, false, false);
    loop {
        let stage = open.stage.borrow_and_update().clone();
        if let (Stage::Durable(id), false) = (&stage, noted) {
            noted = true;
            inner.environment.spawn(Box::pin(tell(Arc::clone(&inner), id.clone(), Arc::clone(&observer))));
        }
        let task = match stage {
            Stage::Ended(outcome) => return waiter.tell(Answer::Outcome(outcome)),
            Stage::Refused(refusal) => return waiter.tell(Answer::Refused(refusal)),
            Stage::Durable(id) if over || !patient => Some(id),
            Stage::Loose if over => return waiter.tell(gone()),
            Stage::Durable(_) | Stage::Loose => None,
        };
        if let Some(id) = &task {
            match inner.store.get(Scope::Operator, id).await {
                Ok(Some(record)) => return waiter.tell(Answer::HandOver(Arc::new(record))),
                Ok(None) if over => return waiter.tell(gone()),
                // Forgotten as soon as it ended: its end is about to be told.
                Ok(None) => {}
                Err(error) => tracing::warn!(task = %id, %error, "a task could not be read"),
            }
        }
        tokio::select! {
            biased;
            // Whoever joined is told nothing but to cancel or leave. Before its absence, which alone ends nothing.
            told = controls.next() => return open.leave(told),
            changed = open.stage.changed(), if !over => over = changed.is_err(),
            () = waiter.gone() => return,
            () = &mut patience, if patient => patient = false,
            () = inner.environment.sleep(LOOK_AGAIN), if task.is_some() => {}
        }
    }
}

/// Tells who has joined a call that it is this task now, and notes that somebody more waits for it.
async fn tell(inner: Arc<Inner>, id: TaskId, observer: Arc<dyn Observer>) {
    loop {
        match inner.store.get(Scope::Operator, &id).await {
            Ok(Some(record)) => {
                observer.observe(Observed::Kept { record: &record, is_own: false }).await;
                return orphan::came_back(&inner, &record);
            }
            Ok(None) => return,
            Err(error) => tracing::warn!(task = %id, %error, "a task could not be read"),
        }
        inner.environment.sleep(LOOK_AGAIN).await;
    }
}

/// The run that was waited for has ended and said nothing.
fn gone() -> Answer {
    Answer::Outcome(Outcome::lost("the call it waited for ended without an answer"))
}

/// How long to wait before looking for a task again that could not be read.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
