//! Telling a caller what happens to its call: on its request's stream while it waits, and where the
//! revision allows it, on its session's stream once it has a task.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longhaul_proto::model::Progress;
use longhaul_tasks::environment::BoxFuture;
use longhaul_tasks::runner::{Engine, Observed, Observer};
use longhaul_tasks::store::{self, Record, Scope, TaskId};
use tokio::sync::oneshot;

#[cfg(feature = "http")]
use super::again::Again;
use super::context::Cx;
use super::outlet::{HeldPush, Push as _};
use super::told_progress::ToldProgress;
use crate::hosted::TaskNews;
use crate::wire::By;

/// What tells of a call while it runs.
#[derive(Debug)]
pub(super) struct CallObserver {
    cx: Cx,
    /// Where a caller that asked for a task is told of it.
    line: Option<TaskNews>,
    /// Who is told once the run is over, and with this is dropped.
    running: Option<oneshot::Sender<ToldProgress>>,
    /// Who is told once the caller knows of its drafted task, and of which.
    kept: Mutex<Option<oneshot::Sender<TaskId>>>,
}

/// What tells of a task whose run is over: it was put aside, and is gone on with by another. It holds nothing of the call
/// that made the task, for what is put aside may be many and take days.
#[derive(Debug)]
pub(super) struct Afterwards {
    line: TaskNews,
    over: oneshot::Receiver<ToldProgress>,
}

impl CallObserver {
    /// What tells of a call, and of its task afterwards if its caller is told of one.
    pub(super) fn new(cx: Cx, push: Option<Arc<HeldPush>>) -> (Self, Option<Afterwards>) {
        let kept = Mutex::default();
        let Some(push) = push else { return (Self { cx, line: None, running: None, kept }, None) };
        let line = TaskNews::new(By::Server, cx.dialect(), push);
        let (running, over) = oneshot::channel();
        let afterwards = Afterwards { line: line.clone(), over };
        (Self { cx, line: Some(line), running: Some(running), kept }, Some(afterwards))
    }

    /// Completes once the caller has been told that there is its drafted task, with how the store knows it.
    pub(super) fn kept(&mut self) -> oneshot::Receiver<TaskId> {
        let (sender, kept) = oneshot::channel();
        *self.kept.get_mut().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        kept
    }
}

#[cfg(feature = "http")]
impl CallObserver {
    /// Whoever waits for the call can be answered by any process that the store is shared with from now on.
    fn note_again(&self, record: &Record, is_own: bool) {
        if !self.cx.is_waited_for() {
            return;
        }
        let again = match self.cx.drafted() {
            Some(id) => Again::asked("tasks/result", &serde_json::json!({ "taskId": id })),
            None => Again::followed(record, is_own),
        };
        self.cx.outlet().found_again(again);
    }
}

#[cfg(not(feature = "http"))]
impl CallObserver {
    /// What is told over anything else ends with this process.
    fn note_again(&self, _: &Record, _: bool) {}
}

impl Drop for CallObserver {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            // Nobody may be told of it afterwards.
            let _ = running.send(self.cx.told_progress());
        }
    }
}

impl Afterwards {
    /// Tells of each change since the task was `created`, from when the run is over until the task has ended, or its
    /// session has.
    pub(super) async fn tell(self, engine: Engine, created: Arc<Record>) {
        let Self { line, over } = self;
        let (scope, id) = (Scope::Owner(&created.owner), &created.id);
        line.note(created.seq);
        // Whoever knew how far it was is gone without a word only with the whole process.
        let Ok(mut progress) = over.await else { return };
        loop {
            let told = line.told();
            // Of what has ended nothing changes any more.
            let found = engine.find(scope, id).await;
            if matches!(found, Ok(Some(record)) if record.is_terminal() && record.seq <= told) {
                return;
            }
            let changed = engine.changed(scope, id, told);
            let changed = match tokio::time::timeout(SELDOM, changed).await {
                _ if line.is_over() => return,
                Err(_) => continue,
                Ok(changed) => changed,
            };
            match changed {
                Ok(Some(record)) => {
                    // Progress goes on under the original token for as long as the task is open (2025-11-25, Tasks,
                    // Progress).
                    if let Some(point) = record.progress.as_ref().filter(|_| !record.is_terminal())
                        && let Some(message) = progress.message(&of(point), id.as_str())
                    {
                        line.push.push(message);
                    }
                    line.tell(&record);
                    if record.is_terminal() {
                        return;
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(task = %id, %error, "a task that is told of cannot be read now");
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
            }
        }
    }
}

/// How seldom it is looked whether a session is there still.
const SELDOM: Duration = Duration::from_secs(60);

/// How soon a task is read again that could not be read.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Observer for CallObserver {
    fn observe<'a>(&'a self, observed: Observed<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            match (observed, &self.line) {
                (Observed::Kept { record, is_own }, _) => {
                    self.cx.notify_created();
                    self.note_again(record, is_own);
                    let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
                    if let Some(kept) = kept {
                        // Its caller may have gone.
                        let _ = kept.send(record.id.clone());
                    }
                }
                (Observed::Progress { progress, task: None }, _) => {
                    // The call must not wait for a caller that does not read.
                    self.cx.try_notify_progress(&of(progress));
                }
                (Observed::Progress { progress, task: Some(task) }, Some(line)) => {
                    if let Some(message) = self.cx.task_progress_message(&of(progress), task) {
                        line.push.push(message);
                    }
                }
                (Observed::Changed(record), Some(line)) => line.tell(record),
                (Observed::Progress { .. } | Observed::Changed(_), None) => {}
            }
        })
    }
}

fn of(progress: &store::Progress) -> Progress {
    let mut point = Progress::new(progress.value);
    point.total = progress.total;
    point.message = progress.message.as_deref().map(str::to_owned);
    point
}

#[cfg(test)]
mod tests {
    use longhaul_proto::dialect::{Dialect, Revision};

    use super::super::dispatch::Caller;
    use super::super::grant::Grant;
    use super::super::outlet::{Outlet, Push};
    use super::*;

    #[derive(Debug)]
    struct Nowhere;

    impl Push for Nowhere {
        fn push(&self, _: Vec<u8>) {}
    }

    #[test]
    fn whoever_tells_of_a_task_afterwards_holds_nothing_of_its_call() {
        let grant = Arc::new(Grant::new(None, serde_json::Map::new()));
        let mut caller = Caller::new(None);
        caller.grant = Some(Arc::clone(&grant));
        let dialect = Dialect::of(Revision::V2025_11_25);
        let cx = Cx::new(None, dialect, caller, None, Outlet::own(), None);
        let push = Arc::new(HeldPush::new(Arc::new(Nowhere)));
        let (observer, afterwards) = CallObserver::new(cx, Some(push));
        assert_eq!(Arc::strong_count(&grant), 2);
        drop(observer);
        assert_eq!(Arc::strong_count(&grant), 1, "the run is over, and its task is put aside");
        drop(afterwards);
    }
}
