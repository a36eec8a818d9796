//! A store whose tasks are told of in the trail, whoever works on them.

use std::sync::Arc;
use std::time::Duration;

use longhaul_tasks::store::{
    Answered, Batch, CallKey, CancelAsked, Cancellation, Counts, Created, Cursor, Durability, Epoch, Erasure,
    Filter, Finished, Limits, NewTask, NodeId, OnOrphan, Outcome, Owner, Page, Parts, Record, Reply,
    Runnable, Scope, Step, StoreFuture, Swept, TaskId, TaskStore, TaskWatch, Time,
};

use super::{End, Party, Trail, What};

/// The store of a trail, which notes what is done to its tasks. What it refuses or fails at is not noted.
#[derive(Debug)]
pub(crate) struct Audited(pub(crate) Trail);

impl Audited {
    fn store(&self) -> &dyn TaskStore {
        &**self.0.store()
    }
}

/// Who asks; the operator and the node itself are nobody else.
fn party(scope: Scope<'_>) -> Option<Party> {
    match scope {
        Scope::Owner(owner) => Some(Party::of(owner)),
        Scope::Operator => None,
    }
}

impl TaskStore for Audited {
    fn create(&self, task: NewTask) -> StoreFuture<'_, Created> {
        Box::pin(async move {
            let created = self.store().create(task).await?;
            if let Created::New(record) = &created {
                self.0.note(What::Created, record, Some(Party::of(&record.owner)));
            }
            Ok(created)
        })
    }

    fn answer<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        replies: &'a [Reply],
    ) -> StoreFuture<'a, Answered> {
        Box::pin(async move {
            let answered = self.store().answer(scope, id, replies).await?;
            if let Answered::Recorded { record, taken: taken @ 1.. } = &answered {
                self.0.note(What::Answered(*taken), record, party(scope));
            }
            Ok(answered)
        })
    }

    fn finish<'a>(
        &'a self,
        id: &'a TaskId,
        epoch: Epoch,
        outcome: Outcome,
        last: Batch,
    ) -> StoreFuture<'a, Finished> {
        Box::pin(async move {
            let finished = self.store().finish(id, epoch, outcome, last).await?;
            if let Finished::Recorded(record) = &finished {
                let what = record.outcome().and_then(End::of).map_or(What::Cancelled, What::Ended);
                self.0.note(what, record, None);
            }
            Ok(finished)
        })
    }

    fn request_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, Cancellation> {
        Box::pin(async move {
            let cancellation = self.store().request_cancel(scope, id, reason).await?;
            if let Cancellation::Cancelled(record) = &cancellation {
                self.0.note(What::Cancelled, record, party(scope));
            }
            Ok(cancellation)
        })
    }

    fn ask_to_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, CancelAsked> {
        Box::pin(async move {
            let asked = self.store().ask_to_cancel(scope, id, reason).await?;
            match &asked {
                CancelAsked::AtOnce(Cancellation::Cancelled(record)) => {
                    self.0.note(What::Cancelled, record, party(scope));
                }
                CancelAsked::Requested(record) => self.0.note(What::AskedToEnd, record, party(scope)),
                CancelAsked::AtOnce(_) => {}
            }
            Ok(asked)
        })
    }

    /// That somebody looks is not noted.
    fn came_back<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, bool> {
        self.store().came_back(scope, id)
    }

    fn erase<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Erasure> {
        Box::pin(async move {
            let erasure = self.store().erase(scope, id).await?;
            if erasure == Erasure::Erased {
                self.0.note_of(What::Deleted, id, party(scope));
            }
            Ok(erasure)
        })
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        Box::pin(async move {
            let swept = self.store().sweep(limit).await?;
            for id in &swept.expired {
                self.0.note_of(What::Ended(End::Expired), id, None);
            }
            for (id, _) in swept.orphans.iter().filter(|(_, then)| *then == OnOrphan::Cancel) {
                self.0.note_of(What::Cancelled, id, None);
            }
            for id in &swept.forgotten {
                self.0.note_of(What::Forgotten, id, None);
            }
            Ok(swept)
        })
    }

    fn get<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        self.store().get(scope, id)
    }

    fn called<'a>(&'a self, owner: &'a Owner, key: &'a CallKey) -> StoreFuture<'a, Option<Record>> {
        self.store().called(owner, key)
    }

    fn list<'a>(
        &'a self,
        scope: Scope<'a>,
        filter: &'a Filter,
        after: Option<&'a Cursor>,
        limit: usize,
    ) -> StoreFuture<'a, Page> {
        self.store().list(scope, filter, after, limit)
    }

    fn claim<'a>(&'a self, limit: usize, runs: Option<&'a [Runnable]>) -> StoreFuture<'a, Vec<Record>> {
        self.store().claim(limit, runs)
    }

    fn claim_one<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        self.store().claim_one(id)
    }

    fn renew<'a>(&'a self, held: &'a [(TaskId, Epoch)]) -> StoreFuture<'a, Vec<TaskId>> {
        self.store().renew(held)
    }

    fn release<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Record> {
        self.store().release(id, epoch)
    }

    fn write<'a>(&'a self, id: &'a TaskId, epoch: Epoch, batch: Batch) -> StoreFuture<'a, u64> {
        let Some(child) = &batch.child else { return self.store().write(id, epoch, batch) };
        let child = (child.task.id.clone(), Arc::clone(&child.task.tool));
        Box::pin(async move {
            let seq = self.store().write(id, epoch, batch).await?;
            self.0.note_child(child);
            Ok(seq)
        })
    }

    fn steps<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Vec<Step>> {
        self.store().steps(id, epoch)
    }

    fn parts<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Option<Parts>> {
        self.store().parts(scope, id, after, limit)
    }

    fn limits(&self) -> Limits {
        self.store().limits()
    }

    fn counts(&self) -> StoreFuture<'_, Counts> {
        self.store().counts()
    }

    fn watch(&self, id: &TaskId) -> TaskWatch {
        self.store().watch(id)
    }

    fn now(&self) -> Time {
        self.store().now()
    }

    fn lease(&self) -> Duration {
        self.store().lease()
    }

    fn durability(&self) -> Durability {
        self.store().durability()
    }

    fn node(&self) -> &NodeId {
        self.store().node()
    }
}
