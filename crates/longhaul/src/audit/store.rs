//! A store whose tasks are told of in the trail, whoever works on them.

use std::sync::Arc;

use longhaul_tasks::store::{
    Answered, Batch, CancelAsked, Cancellation, Created, Epoch, Erasure, Finished, NewTask, OnOrphan,
    Outcome, Overlay, Reply, Scope, StoreFuture, Swept, TaskId, TaskStore,
};

use super::{End, Party, Trail, What};

/// The store of a trail, which notes what is done to its tasks. What it refuses or fails at is not noted.
#[derive(Debug)]
pub(crate) struct Audited(pub(crate) Trail);

/// Who asks; the operator and the node itself are nobody else.
fn party(scope: Scope<'_>) -> Option<Party> {
    match scope {
        Scope::Owner(owner) => Some(Party::of(owner)),
        Scope::Operator => None,
    }
}

impl Overlay for Audited {
    type Below = dyn TaskStore;

    fn below(&self) -> &Self::Below {
        &**self.0.store()
    }

    fn create(&self, task: NewTask) -> StoreFuture<'_, Created> {
        Box::pin(async move {
            let created = self.below().create(task).await?;
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
            let answered = self.below().answer(scope, id, replies).await?;
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
            let finished = self.below().finish(id, epoch, outcome, last).await?;
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
            let cancellation = self.below().request_cancel(scope, id, reason).await?;
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
            let asked = self.below().ask_to_cancel(scope, id, reason).await?;
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

    fn erase<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Erasure> {
        Box::pin(async move {
            let erasure = self.below().erase(scope, id).await?;
            if erasure == Erasure::Erased {
                self.0.note_of(What::Deleted, id, party(scope));
            }
            Ok(erasure)
        })
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        Box::pin(async move {
            let swept = self.below().sweep(limit).await?;
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

    fn write<'a>(&'a self, id: &'a TaskId, epoch: Epoch, batch: Batch) -> StoreFuture<'a, u64> {
        let Some(child) = &batch.child else { return self.below().write(id, epoch, batch) };
        let child = (child.task.id.clone(), Arc::clone(&child.task.tool));
        Box::pin(async move {
            let seq = self.below().write(id, epoch, batch).await?;
            self.0.note_child(child);
            Ok(seq)
        })
    }
}
