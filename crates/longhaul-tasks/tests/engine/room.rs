//! Work for which there is no room yet.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul_store::{Json, Memory, Scope, TaskId};
use longhaul_tasks::environment::{BoxFuture, Tokio};
use longhaul_tasks::job::{Attached, ExternalJob, JobError, JobRun, NotStarted};
use longhaul_tasks::machine::Caller;
use longhaul_tasks::report::Reporter;
use longhaul_tasks::runner::{Engine, Pace, Work, Worker};
use tokio::time::Instant;

use super::rig::{call, task};

/// A world outside without room; when each job was refused.
#[derive(Debug, Default)]
struct Full(Mutex<Vec<Instant>>);

impl ExternalJob for Full {
    fn start<'a>(
        &'a self,
        _: &'a TaskId,
        _: &'a Json,
        _: bool,
        _: Reporter,
    ) -> BoxFuture<'a, Result<Arc<dyn JobRun>, NotStarted>> {
        let mut refused = self.0.lock().unwrap();
        refused.push(Instant::now());
        let message = format!("{} bytes are taken", refused.len());
        Box::pin(std::future::ready(Err(NotStarted::Overloaded(message.into()))))
    }

    fn attach<'a>(&'a self, _: &'a TaskId, _: bool, _: Reporter) -> BoxFuture<'a, Attached> {
        Box::pin(std::future::ready(Attached::NeverStarted))
    }

    fn cancel<'a>(&'a self, _: &'a TaskId) -> BoxFuture<'a, Result<(), JobError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn discard<'a>(&'a self, _: &'a TaskId) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_for_which_there_is_no_room_asks_less_often_and_is_not_written_each_time() {
    let full = Arc::new(Full::default());
    let job: Arc<dyn ExternalJob> = Arc::clone(&full) as _;
    let workers = [Worker::new("job").with_job(Arc::clone(&job))];
    let engine = Engine::new(Arc::new(Memory::new()), Arc::new(Tokio::new()), Pace::default(), workers);
    let id = task(engine.call(call(Caller::AsksForTask, Work::Job(job))).await);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let before = engine.find(Scope::Operator, &id).await.unwrap().unwrap();
    assert_eq!(before.status_message.as_deref(), Some("waiting to be started: 1 bytes are taken"));
    tokio::time::sleep(Duration::from_secs(600)).await;
    let after = engine.find(Scope::Operator, &id).await.unwrap().unwrap();
    assert_eq!(after.seq, before.seq, "nothing was written");
    let refused = full.0.lock().unwrap();
    let waits = refused.windows(2).map(|at| (at[1] - at[0]).as_secs_f64());
    for (wait, longest) in waits.zip([1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]) {
        assert!(wait > longest * 0.74 && wait < longest * 1.01, "{wait} of {longest}");
    }
}
