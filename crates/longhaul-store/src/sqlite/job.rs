//! One write on its way through the writer thread.

use std::fmt;

use tokio::sync::oneshot;

use super::tx::Tx;
use crate::{StoreError, StoreFuture, crash_point::crash_point};

/// A write that can be run, and run again if its group has to be taken apart.
pub(super) trait Job: Send {
    /// Runs within the group's transaction and keeps what came of it; an error means it must be taken back.
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), StoreError>;

    /// Tells the caller what came of it, now that the group is committed or has failed.
    fn settle(self: Box<Self>, group: Result<(), StoreError>);

    /// The points around its commit.
    fn points(&self) -> &Points;
}

/// The crash points of one kind of write.
#[derive(Debug)]
pub(super) struct Points {
    pub(super) before: &'static str,
    pub(super) after: &'static str,
}

/// Passes a point of each job of a group.
pub(super) fn pass(jobs: &[Box<dyn Job>], which: impl Fn(&Points) -> &'static str) {
    for job in jobs {
        crash_point(which(job.points()));
    }
}

/// A write and whoever waits for it.
struct Call<T, F> {
    points: &'static Points,
    operation: F,
    result: Option<Result<T, StoreError>>,
    caller: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Job for Call<T, F>
where
    T: Send,
    F: FnMut(&mut Tx<'_>) -> Result<T, StoreError> + Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        self.result.insert((self.operation)(tx)).as_ref().map(drop).map_err(Clone::clone)
    }

    fn settle(self: Box<Self>, group: Result<(), StoreError>) {
        let result = group.and(self.result.unwrap_or(Err(StoreError::Closed)));
        // A caller that has gone away does not want to know.
        drop(self.caller.send(result));
    }

    fn points(&self) -> &Points {
        self.points
    }
}

/// A write of nothing, by which it is found out whether anything can be written again.
struct Probe(&'static Points);

impl Job for Probe {
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        tx.touch();
        Ok(())
    }

    /// What came of it the writer remembers.
    fn settle(self: Box<Self>, _: Result<(), StoreError>) {}

    fn points(&self) -> &Points {
        self.0
    }
}

/// Where jobs go.
#[derive(Clone)]
pub(super) struct Jobs(pub(super) tokio::sync::mpsc::Sender<Box<dyn Job>>);

impl Jobs {
    /// Has an operation done by the writer and waits until it is committed.
    pub(super) fn call<'a, T, F>(&'a self, points: &'static Points, operation: F) -> StoreFuture<'a, T>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        Box::pin(async move {
            let (caller, answer) = oneshot::channel();
            let job = Box::new(Call { points, operation, result: None, caller });
            self.0.send(job).await.map_err(|_| StoreError::Closed)?;
            answer.await.unwrap_or(Err(StoreError::Closed))
        })
    }

    /// Has the writer find out whether it can write. Where the queue is full it is about to in any case.
    pub(super) fn probe(&self, points: &'static Points) {
        drop(self.0.try_send(Box::new(Probe(points))));
    }
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").finish_non_exhaustive()
    }
}
