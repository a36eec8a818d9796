//! A server that is killed and started again, under the hands of a node.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use longhaul_store::{Batch, Json, NewTask, Outcome, Owner, Scope, Settings, StoreError, TaskId, TaskStore};

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
    pub(crate) failed: AtomicU32,
    pub(crate) stop: AtomicBool,
}

impl Kept {
    pub(crate) fn acknowledged(&self) -> usize {
        self.made.lock().unwrap().len()
    }

    /// Nothing of it is lost.
    pub(crate) async fn is_all_in(&self, store: &dyn TaskStore) {
        let (made, ended) = (self.made.lock().unwrap().clone(), self.ended.lock().unwrap().clone());
        for id in &made {
            let task = store.get(Scope::Operator, id).await.unwrap();
            assert!(task.is_some(), "the create of {id} was acknowledged");
        }
        for id in &ended {
            let task = store.get(Scope::Operator, id).await.unwrap().expect("it exists");
            assert!(task.is_terminal(), "the end of {id} was acknowledged");
        }
    }

    /// Makes tasks and ends every second of them; what fails must be worth another try.
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
            if number % 2 == 0 {
                continue;
            }
            let epoch = made.into_record().epoch;
            let outcome = Outcome::result(Json::parse("{}").unwrap(), false);
            if self.tried(store.finish(&id, epoch, outcome, Batch::new()).await).await.is_some() {
                self.ended.lock().unwrap().push(id);
            }
        }
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
