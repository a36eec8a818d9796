//! Work that is put aside: while it only waits, and when this process goes.

use std::sync::Arc;
use std::time::Duration;

use longhaul_store::{Outcome, Park, Record, Rerun};

use super::{Done, Run};
use crate::job::JobRun;
use crate::machine::Event;
use crate::runner::begin;
use crate::runner::join::Lead;
use crate::runner::keeper::Keeper;
use crate::runner::operation::{give_back, look, put_aside};
use crate::runner::recovery::{go_on, wake};
use crate::runner::undo;

impl Run {
    /// A task that was put aside may be due already, for what it waits for came in between.
    pub(super) async fn leave_parked(self: Box<Self>) {
        let (inner, id) = (Arc::clone(&self.listed.inner), self.listed.id.clone());
        let job = self.kept.clone();
        drop(self);
        let is_woken = match job {
            Some(job) => job.is_woken().await,
            None => false,
        };
        if is_woken {
            go_on(&inner, &id).await;
        }
        if let Done::Seen(Some(record)) = look(Arc::clone(&inner), id).await {
            wake(&inner, &record).await;
        }
    }

    /// The task has ended, whoever ended it, and its work is over: what it did is undone from now on.
    pub(super) async fn leave_to_be_undone(self: Box<Self>, record: Arc<Record>) {
        let this = *self;
        undo::begin(this.listed, &record).await;
    }

    /// Puts the task aside, if its caller has it and nothing else is under way. `asleep`: its job waits for so long.
    pub(super) fn park(&mut self, asleep: Option<Duration>) {
        let inner = Arc::clone(&self.listed.inner);
        let park = match (&self.keeper, asleep) {
            (Some(keeper), _) => keeper.idle(),
            (None, Some(left)) if !self.is_waited_for() => {
                Some(Park::new(Vec::new(), Some(inner.store.now().after(left))))
            }
            _ => None,
        };
        match park {
            Some(park) if self.operation.is_none() && self.machine.is_answered() => {
                let batch = self.batch().with_park(park);
                self.operation = Some(put_aside(inner, self.listed.id.clone(), self.epoch, batch));
                // Before it is put aside: whoever takes it up must not take this run for one that goes on.
                self.listed.leave();
            }
            _ => {}
        }
    }

    /// Whether somebody here waits for it besides its own caller.
    fn is_waited_for(&self) -> bool {
        let joined = self.lead.as_ref().is_some_and(Lead::is_waited_for);
        joined || self.listed.inner.followers.any(&self.listed.id)
    }

    /// The job of a task that any node goes on to follow. The place of a tool's limit is held as long as its job runs.
    fn followed_anywhere(&self) -> Option<Arc<dyn JobRun>> {
        let record = self.record.as_ref()?;
        let run = self.kept.clone().filter(|_| record.rerun == Rerun::Reattach);
        run.filter(|_| !self.listed.inner.workers.limits(&self.tool))
    }

    /// The keeper of work that can be entered again, once there is a row.
    fn re_entrant(&self) -> Option<Keeper> {
        let record = self.record.as_ref()?;
        self.keeper.clone().filter(|_| matches!(record.rerun, Rerun::Resumable | Rerun::Restart))
    }

    /// The keeper of work that another node may go on with, once there is a row: it can be entered again, or has not begun.
    fn returnable(&self) -> Option<Keeper> {
        let has_not_begun = self.begins_once && self.unstarted.is_some() && self.record.is_some();
        self.re_entrant().or_else(|| self.keeper.clone().filter(|_| has_not_begun))
    }

    /// Gives the task back once no effect is under way: the next node enters its work again.
    pub(super) fn leave_soon(&mut self) {
        if let Some(keeper) = self.returnable() {
            self.leaving = Some(Box::pin(async move { keeper.quiet().await }));
        }
    }

    /// The process goes now, and work that ends with it is dropped, so that it takes nothing that ends before it for a failure. What
    /// nobody may go on with is lost, which its task need not wait to say until somebody finds it.
    pub(super) fn cut_off(&mut self) -> Option<Event> {
        let is_here = self.work.is_some() && self.job.is_none() && self.record.is_some();
        if !is_here {
            return None;
        }
        if let Some(keeper) = &self.keeper {
            keeper.cut_off();
        }
        self.work = None;
        let is_lost = self.returnable().is_none();
        is_lost.then(|| {
            let why = "its server was stopped before it had ended, and it is never run twice";
            Event::Ended(Outcome::lost(why))
        })
    }

    pub(super) fn give_back(&mut self) {
        self.leaving = None;
        if self.returnable().is_none() {
            // It has begun meanwhile, and is never run twice.
            return;
        }
        let is_at_work = self.work.is_some() || self.unstarted.is_some();
        if self.operation.is_some() || !self.machine.is_answered() || !is_at_work {
            // Its caller is let go first, and what is being written is written.
            let (pause, keeper) = (self.listed.inner.environment.sleep(AGAIN), self.keeper.clone());
            self.leaving = Some(Box::pin(async move {
                pause.await;
                if let Some(keeper) = keeper {
                    keeper.quiet().await;
                }
            }));
            return;
        }
        let (inner, id) = (Arc::clone(&self.listed.inner), self.listed.id.clone());
        let has_not_begun = self.record.as_ref().filter(|_| self.unstarted.is_some());
        let spared = has_not_begun.and_then(|record| begin::losses(record).map(|_| record.attempt));
        self.operation = Some(give_back(inner, id, self.epoch, spared));
        self.listed.leave();
    }

    /// Looks out for what the work lets go of, and for work that does nothing but wait, where it can be entered again. The same
    /// of a job that can be followed from anywhere, and sleeps for longer than is waited for that.
    pub(super) fn watch_for_idleness(&mut self) {
        let (inner, hot) = (Arc::clone(&self.listed.inner), self.listed.inner.pace.hot_wait);
        if let Some(keeper) = self.keeper.clone() {
            let hot = self.re_entrant().map(|_| hot);
            self.idle = Some(Box::pin(async move {
                keeper.idled(hot).await;
                None
            }));
        } else if let Some(run) = self.followed_anywhere() {
            self.idle = Some(Box::pin(async move {
                loop {
                    inner.environment.sleep(hot).await;
                    let left = run.asleep().await;
                    if left > hot {
                        return Some(left);
                    }
                }
            }));
        }
    }
}

/// How soon to see again whether a task can be given back.
const AGAIN: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use longhaul_store::{Json, Memory, Outcome, Owner, Phase, Scope, TaskId, TaskStore as _};

    use super::*;
    use crate::environment::{BoxFuture, Tokio};
    use crate::job::{Attached, ExternalJob, JobError, NotStarted};
    use crate::machine::{Caller, Plan};
    use crate::report::Reporter;
    use crate::runner::{Answer, Call, Engine, Pace, Work, Worker};

    /// A job for which nothing is done for an hour.
    #[derive(Debug)]
    struct Sleeping;

    impl JobRun for Sleeping {
        fn keep(&self) -> BoxFuture<'_, Result<(), JobError>> {
            Box::pin(ready(Ok(())))
        }

        fn ended(&self) -> BoxFuture<'_, ()> {
            Box::pin(pending())
        }

        fn asleep(&self) -> BoxFuture<'_, Duration> {
            Box::pin(ready(Duration::from_secs(3600)))
        }

        fn outcome(&self, _kept: bool) -> BoxFuture<'_, Outcome> {
            Box::pin(pending())
        }
    }

    impl ExternalJob for Sleeping {
        fn start<'a>(
            &'a self,
            _key: &'a TaskId,
            _arguments: &'a Json,
            _durable: bool,
            _reporter: Reporter,
        ) -> BoxFuture<'a, Result<Arc<dyn JobRun>, NotStarted>> {
            let run: Arc<dyn JobRun> = Arc::new(Self);
            Box::pin(ready(Ok(run)))
        }

        fn attach<'a>(&'a self, _key: &'a TaskId, _begun: bool, _: Reporter) -> BoxFuture<'a, Attached> {
            Box::pin(ready(Attached::Running(Arc::new(Self))))
        }

        fn cancel<'a>(&'a self, _key: &'a TaskId) -> BoxFuture<'a, Result<(), JobError>> {
            Box::pin(ready(Ok(())))
        }

        fn discard<'a>(&'a self, _key: &'a TaskId) -> BoxFuture<'a, ()> {
            Box::pin(ready(()))
        }
    }

    #[tokio::test(start_paused = true)]
    #[expect(clippy::disallowed_methods, reason = "a test steps the runtime's paused clock")]
    async fn of_a_job_that_sleeps_nothing_is_held() {
        let store = Arc::new(Memory::new());
        let job: Arc<dyn ExternalJob> = Arc::new(Sleeping);
        let worker = Worker::new("job").with_job(Arc::clone(&job));
        let engine =
            Engine::new(Arc::<Memory>::clone(&store), Arc::new(Tokio::new()), Pace::default(), [worker]);
        let owner = Owner::principal("ann").unwrap();
        let mut call = Call::new(owner, "job", Json::parse("{}").unwrap(), Work::Job(Arc::clone(&job)));
        (call.plan, call.rerun) = (Plan::new(Caller::AsksForTask, true), Rerun::Reattach);
        let Answer::Task(record) = engine.call(call).await else { panic!("it is a task") };
        tokio::time::sleep(engine.0.pace.hot_wait / 2).await;
        assert!(engine.0.runs.tell(&record.id, crate::runner::control::Control::LookAgain));
        tokio::time::sleep(engine.0.pace.hot_wait).await;
        let record = store.get(Scope::Operator, &record.id).await.unwrap().unwrap();
        assert!(matches!(record.phase, Phase::Parked { until: Some(_) }), "{record:?}");
        assert_eq!((engine.0.runs.len(), Arc::strong_count(&job)), (0, 2), "ours, and the worker's");
    }
}
