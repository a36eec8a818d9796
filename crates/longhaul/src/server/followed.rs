//! The tasks that one subscription follows: how each stands, at once and after each change, until it ends.
//!
//! Nothing is kept of a task but that it has changed. It is read when its turn comes, so that a slow client is told how
//! it stands then, and what it did not see is skipped. The store says what has changed, whichever node did it.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use longhaul_proto::dialect::Dialect;
use longhaul_tasks::runner::Engine;
use longhaul_tasks::store::{Owner, Record, Scope, TaskId, TaskWatch};

use crate::hosted::is_seen;

/// The tasks of one subscription that may still change.
pub(super) struct Followed {
    engine: Engine,
    owner: Owner,
    /// In the order in which they are looked at.
    tasks: VecDeque<Task>,
    /// How many were named that are not there for this caller.
    pub(super) missed: usize,
}

struct Task {
    id: TaskId,
    /// The number of the last change that was told.
    seen: Option<u64>,
    /// How often it was told of.
    told: u64,
    /// It may have changed since.
    is_due: bool,
    changed: Pin<Box<dyn Future<Output = TaskWatch> + Send>>,
}

/// How a task stands.
pub(super) struct Standing {
    pub(super) record: Record,
    /// The how-many-th time it is told.
    pub(super) seq: u64,
}

impl Followed {
    /// Those of `ids` that are there for this caller, in that order, each once.
    pub(super) async fn accept(
        engine: Engine,
        owner: Owner,
        dialect: &'static Dialect,
        ids: &[String],
    ) -> Self {
        let mut this = Self { engine, owner, tasks: VecDeque::new(), missed: 0 };
        for id in ids {
            let Ok(id) = TaskId::new(id.as_str()) else {
                this.missed += 1;
                continue;
            };
            if this.tasks.iter().any(|task| task.id == id) {
                continue;
            }
            // Watched before it is looked at, so that nothing is missed in between.
            let watch = this.engine.store().watch(&id);
            match this.engine.find(Scope::Owner(&this.owner), &id).await {
                Ok(Some(record)) if is_seen(dialect, &record) => {
                    this.engine.came_back(&record);
                    this.tasks.push_back(Task {
                        id,
                        seen: None,
                        told: 0,
                        is_due: true,
                        changed: Box::pin(changed(watch)),
                    });
                }
                Ok(_) => this.missed += 1,
                Err(error) => tracing::warn!(%id, %error, "a task cannot be read, and so not be followed"),
            }
        }
        this
    }

    /// Their ids.
    pub(super) fn ids(&self) -> Vec<String> {
        self.tasks.iter().map(|task| task.id.as_str().to_owned()).collect()
    }

    /// How one of them stands that has changed, once one has; the first time, how it stands. Of one that has ended or is
    /// forgotten nothing more is told. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Box<Standing> {
        loop {
            let at = std::future::poll_fn(|cx| self.poll_due(cx)).await;
            // Boxed, for what follows nothing would keep a place for it.
            if let Some(standing) = Box::pin(self.look(at)).await {
                return standing;
            }
        }
    }

    /// How that one stands, if it is told.
    async fn look(&mut self, at: usize) -> Option<Box<Standing>> {
        let task = &mut self.tasks[at];
        let found = self.engine.find(Scope::Owner(&self.owner), &task.id).await;
        let record = match found {
            Ok(Some(record)) => record,
            Ok(None) => {
                self.tasks.remove(at);
                return None;
            }
            Err(error) => {
                tracing::warn!(id = %task.id, %error, "a task that is followed cannot be read now");
                tokio::time::sleep(LOOK_AGAIN).await;
                return None;
            }
        };
        task.is_due = false;
        if task.seen.replace(record.seq) == Some(record.seq) {
            return None;
        }
        task.told += 1;
        let seq = task.told;
        // Whoever was told has its turn after the others.
        if let Some(task) = self.tasks.remove(at).filter(|_| !record.is_terminal()) {
            self.tasks.push_back(task);
        }
        Some(Box::new(Standing { record, seq }))
    }

    /// Which of them may have changed.
    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        let mut due = None;
        for (at, task) in self.tasks.iter_mut().enumerate() {
            if let Poll::Ready(watch) = task.changed.as_mut().poll(cx) {
                task.is_due = true;
                task.changed = Box::pin(changed(watch));
            }
            if task.is_due && due.is_none() {
                due = Some(at);
            }
        }
        due.map_or(Poll::Pending, Poll::Ready)
    }
}

/// The watch, once its task may have changed.
async fn changed(mut watch: TaskWatch) -> TaskWatch {
    watch.changed().await;
    watch
}

/// How soon a task is read again that could not be read.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl fmt::Debug for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Followed").field("tasks", &self.tasks.len()).finish_non_exhaustive()
    }
}
