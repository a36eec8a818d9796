//! Telling a caller what happens to its call: on its request's stream while it waits, and where the
//! revision allows it, on its session's stream once it has a task.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use longhaul_proto::method::Notice;
use longhaul_proto::model::Progress;
use longhaul_tasks::environment::BoxFuture;
use longhaul_tasks::project::{self, View};
use longhaul_tasks::runner::{Engine, Observed, Observer};
use longhaul_tasks::store::{self, Record, Scope};
use tokio::sync::oneshot;

use super::context::Cx;
use super::outlet::{HeldPush, Push as _, Reach};
use crate::wire::{self, By};

/// What tells of a call while it runs.
#[derive(Debug)]
pub(super) struct CallObserver {
    telling: Arc<Telling>,
    /// Dropped with this, when the run is over.
    _running: Option<oneshot::Sender<()>>,
}

#[derive(Debug)]
struct Telling {
    cx: Cx,
    /// Where a caller that asked for a task is told of it.
    push: Option<Arc<HeldPush>>,
    /// The number of the last change that it was told.
    told: AtomicU64,
}

/// What tells of a task whose run is over: it was put aside, and is gone on with by another.
#[derive(Debug)]
pub(super) struct Afterwards {
    telling: Arc<Telling>,
    over: oneshot::Receiver<()>,
}

impl CallObserver {
    /// What tells of a call, and of its task afterwards if its caller is told of one.
    pub(super) fn new(cx: Cx, push: Option<Arc<HeldPush>>) -> (Self, Option<Afterwards>) {
        let pushes = push.is_some();
        let telling = Arc::new(Telling { cx, push, told: AtomicU64::new(0) });
        if !pushes {
            return (Self { telling, _running: None }, None);
        }
        let (running, over) = oneshot::channel();
        let afterwards = Afterwards { telling: Arc::clone(&telling), over };
        (Self { telling, _running: Some(running) }, Some(afterwards))
    }
}

impl Telling {
    /// Progress goes on under the original token for as long as the task is open (2025-11-25, Tasks,
    /// Progress).
    fn push_progress(&self, progress: &Progress, task: &str) {
        if let Some(push) = &self.push
            && let Some(message) = self.cx.task_progress_message(progress, task)
        {
            push.push(message);
        }
    }

    fn push_status(&self, record: &Record) {
        let Some(push) = &self.push else { return };
        self.told.fetch_max(record.seq, Ordering::Relaxed);
        let task = project::task(record, View::D2);
        let dialect = self.cx.dialect();
        let message = wire::notification(By::Server, dialect, Notice::TaskStatus, |params| {
            dialect.write_task_status(&task, params);
            if !task.meta.is_empty() {
                params.field("_meta", &task.meta);
            }
        });
        if let Some(message) = message {
            push.push(message);
        }
    }

    fn is_gone(&self) -> bool {
        self.push.as_ref().is_none_or(|push| push.reach() == Reach::Gone)
    }
}

impl Afterwards {
    /// Tells of each change since the task was `created`, from when the run is over until the task has ended, or its
    /// session has.
    pub(super) async fn tell(self, engine: Engine, created: Arc<Record>) {
        let Self { telling, over } = self;
        let (scope, id) = (Scope::Owner(&created.owner), &created.id);
        telling.told.fetch_max(created.seq, Ordering::Relaxed);
        // It is never sent, only dropped.
        let _ = over.await;
        loop {
            let told = telling.told.load(Ordering::Relaxed);
            // Of what has ended nothing changes any more.
            let found = engine.find(scope, id).await;
            if matches!(found, Ok(Some(record)) if record.is_terminal() && record.seq <= told) {
                return;
            }
            let changed = engine.changed(scope, id, told);
            let changed = match tokio::time::timeout(SELDOM, changed).await {
                _ if telling.is_gone() => return,
                Err(_) => continue,
                Ok(changed) => changed,
            };
            match changed {
                Ok(Some(record)) => {
                    if let Some(progress) = record.progress.as_ref().filter(|_| !record.is_terminal()) {
                        telling.push_progress(&of(progress), id.as_str());
                    }
                    telling.push_status(&record);
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
            let telling = &*self.telling;
            match observed {
                Observed::Kept(_) => telling.cx.notify_created(),
                Observed::Progress { progress, task: None } => {
                    // The call must not wait for a caller that does not read.
                    telling.cx.try_notify_progress(&of(progress));
                }
                Observed::Progress { progress, task: Some(task) } => {
                    telling.push_progress(&of(progress), task.as_str());
                }
                Observed::Changed(record) => telling.push_status(record),
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
