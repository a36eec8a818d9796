//! A server that is killed and started again, under the hands of a node.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use longhaul_store::{
    Batch, Fingerprint, Json, NewTask, Outcome, Owner, Phase, Question, Record, Reply, Scope, SeenState,
    Settings, Step, StepState, StoreError, TaskId, TaskStore,
};

use super::{Rig, until};

const KILLS: usize = 3;

pub(crate) async fn what_was_acknowledged_is_there_however_often_the_server_is_killed<R: Rig>() {
    let mut server = R::start();
    let store = R::join(&server.store(), Settings::default()).await;
    let kept = Arc::new(Kept::default());
    let workers: Vec<_> =
        (0..4).map(|worker| tokio::spawn(Arc::clone(&kept).work(Arc::clone(&store), worker))).collect();
    for _ in 0..KILLS {
        let (before, failed) = (kept.acknowledged(), kept.failed.load(Ordering::Relaxed));
        until(async || kept.acknowledged() > before + 20).await;
        let down = tokio::task::spawn_blocking(move || {
            server.kill();
            server
        });
        server = down.await.unwrap();
        until(async || kept.failed.load(Ordering::Relaxed) > failed).await;
        let up = tokio::task::spawn_blocking(move || {
            server.launch();
            server
        });
        server = up.await.unwrap();
    }
    let before = kept.acknowledged();
    until(async || kept.acknowledged() > before + 20).await;
    kept.stop.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.await.unwrap();
    }
    kept.is_all_in(&*store).await;
    let counts = store.counts().await.unwrap();
    let page = store.list(Scope::Operator, &longhaul_store::Filter::open(), None, 1000).await.unwrap();
    assert_eq!(counts.open, page.tasks.len() as u64, "what is counted is what there is");
}

/// What workers were told.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    made: Mutex<Vec<TaskId>>,
    ended: Mutex<Vec<TaskId>>,
    cancelled: Mutex<Vec<TaskId>>,
    answered: Mutex<Vec<TaskId>>,
    pub(crate) failed: AtomicU32,
    pub(crate) stop: AtomicBool,
}

impl Kept {
    pub(crate) fn acknowledged(&self) -> usize {
        self.made.lock().unwrap().len()
    }

    /// Nothing of it is lost.
    pub(crate) async fn is_all_in(&self, store: &dyn TaskStore) {
        let told = |what: &Mutex<Vec<TaskId>>| what.lock().unwrap().clone();
        for id in &told(&self.made) {
            let task = store.get(Scope::Operator, id).await.unwrap();
            assert!(task.is_some(), "the create of {id} was acknowledged");
        }
        let (ended, cancelled, answered) = (told(&self.ended), told(&self.cancelled), told(&self.answered));
        assert!(!ended.is_empty() && !cancelled.is_empty() && !answered.is_empty());
        for id in &ended {
            let task = store.get(Scope::Operator, id).await.unwrap().expect("it exists");
            assert!(
                matches!(task.outcome(), Some(Outcome::Result { .. })),
                "the end of {id} was acknowledged"
            );
        }
        for id in &cancelled {
            let task = store.get(Scope::Operator, id).await.unwrap().expect("it exists");
            let is_cancelled = matches!(task.phase, Phase::Done(Outcome::Cancelled { .. }));
            assert!(is_cancelled, "the cancel of {id} was acknowledged");
        }
        for id in &answered {
            let seen = store.seen_steps(Scope::Operator, id, 0, 10).await.unwrap().expect("it exists");
            let states: Vec<_> = seen.steps.iter().map(|step| &step.state).collect();
            assert_eq!(states, [&SeenState::Learnt], "the answer to {id} was acknowledged");
        }
    }

    /// Makes tasks, and of four ends one, cancels one and answers one; what fails must be worth another try.
    pub(crate) async fn work(self: Arc<Self>, store: Arc<dyn TaskStore>, worker: usize) {
        for number in 0.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let id = TaskId::new(format!("w{worker}-{number}")).unwrap();
            // Each has its owner, for there is a bound on what one may have.
            let owner = Owner::principal(format!("owner {worker} {}", number / 100)).unwrap();
            let new = NewTask::new(id.clone(), owner, "build", Json::parse("{}").unwrap());
            let Some(made) = self.tried(store.create(new).await).await else { continue };
            self.made.lock().unwrap().push(id.clone());
            let (done, kept) = match number % 4 {
                0 => continue,
                1 => (self.finish(&*store, &made.into_record()).await, &self.ended),
                2 => {
                    let cancelled = store.request_cancel(Scope::Operator, &id, None).await;
                    (self.tried(cancelled).await.map(drop), &self.cancelled)
                }
                _ => (self.answer(&*store, &made.into_record()).await, &self.answered),
            };
            if done.is_some() {
                kept.lock().unwrap().push(id);
            }
        }
    }

    async fn finish(&self, store: &dyn TaskStore, made: &Record) -> Option<()> {
        let outcome = Outcome::result(Json::parse("{}").unwrap(), false);
        self.tried(store.finish(&made.id, made.epoch, outcome, Batch::new()).await).await.map(drop)
    }

    /// Has it ask something, and answers that.
    async fn answer(&self, store: &dyn TaskStore, made: &Record) -> Option<()> {
        let (of, json) = (Fingerprint::new([1; Fingerprint::LEN]), || Json::parse("1").unwrap());
        let asks = Step::new("ask", of, StepState::Asked(Question::new("q", json())));
        self.tried(store.write(&made.id, made.epoch, Batch::new().with_step(asks)).await).await?;
        let replies = [Reply::new("q", json())];
        self.tried(store.answer(Scope::Operator, &made.id, &replies).await).await.map(drop)
    }

    async fn tried<T>(&self, result: Result<T, StoreError>) -> Option<T> {
        match result {
            Ok(done) => Some(done),
            Err(error) => {
                assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
                assert!(error.is_retryable());
                self.failed.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(10)).await;
                None
            }
        }
    }
}
