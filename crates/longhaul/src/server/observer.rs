//! Telling a caller what happens to its call: on its request's stream while it waits, and where the
//! revision allows it, on its session's stream once it has a task.

use std::sync::Arc;

use longhaul_proto::method::Notice;
use longhaul_proto::model::Progress;
use longhaul_tasks::environment::BoxFuture;
use longhaul_tasks::project::{self, View};
use longhaul_tasks::runner::{Observed, Observer};
use longhaul_tasks::store::{self, Record};

use super::context::Cx;
use super::outlet::{HeldPush, Push as _};
use crate::wire::{self, By};

#[derive(Debug)]
pub(super) struct CallObserver {
    cx: Cx,
    /// Where a caller that asked for a task is told of it.
    push: Option<Arc<HeldPush>>,
}

impl CallObserver {
    pub(super) fn new(cx: Cx, push: Option<Arc<HeldPush>>) -> Self {
        Self { cx, push }
    }

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
        let task = project::task(record, View::D2);
        let dialect = self.cx.dialect();
        let message = wire::notification(By::Server, dialect, Notice::TaskStatus, |params| {
            dialect.write_task_status(&task, params);
        });
        if let Some(message) = message {
            push.push(message);
        }
    }
}

impl Observer for CallObserver {
    fn observe<'a>(&'a self, observed: Observed<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            match observed {
                Observed::Kept(_) => self.cx.notify_created(),
                Observed::Progress { progress, task: None } => {
                    // The call must not wait for a caller that does not read.
                    self.cx.try_notify_progress(&of(progress));
                }
                Observed::Progress { progress, task: Some(task) } => {
                    self.push_progress(&of(progress), task.as_str());
                }
                Observed::Changed(record) => self.push_status(record),
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
