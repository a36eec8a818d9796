//! The contract, for every store on a server.

use std::{sync::Arc, time::Duration};

use super::{
    Handle,
    look::{
        Called, Candidates, Claimable, Count, Due, Get, List, ListAmong, Look, PartsOf, SeenStepsOf, Steps,
        Weigh,
    },
    operation::{
        Answer, AskToCancel, CameBack, Cancel, Claim, ClaimOne, Create, Erase, Finish, Held, MakeDue,
        Release, Target, Write,
    },
    server::Server,
    sweep::{self, Expire, Forget, Forgotten},
    transaction::Transaction,
};
use crate::{
    Answered, Batch, CallKey, CancelAsked, Cancellation, Counts, Created, Cursor, Durability, Epoch, Erasure,
    Filter, Finished, Limits, NewTask, NodeId, Outcome, Owner, Page, Parts, Record, Reply, Runnable, Scope,
    SeenSteps, Step, StoreError, StoreFuture, Swept, TaskId, TaskStore, TaskWatch, Time, page::LONGEST_SCAN,
};

impl<S: Server> TaskStore for Handle<S>
where
    Get: Look<S::Moment, Found = Option<Record>>,
    Called: Look<S::Moment, Found = Option<Record>>,
    Steps: Look<S::Moment, Found = Vec<Step>>,
    SeenStepsOf: Look<S::Moment, Found = Option<SeenSteps>>,
    PartsOf: Look<S::Moment, Found = Option<Parts>>,
    List: Look<S::Moment, Found = Page>,
    ListAmong<<S::Tx as Transaction>::Row>: Look<S::Moment, Found = Page>,
    Count: Look<S::Moment, Found = Counts>,
    Weigh: Look<S::Moment, Found = Option<u64>>,
    Claimable: Look<S::Moment, Found = Candidates<<S::Tx as Transaction>::Row>>,
    Due: Look<S::Moment, Found = Vec<TaskId>>,
{
    fn create(&self, task: NewTask) -> StoreFuture<'_, Created> {
        self.change(move || Create(task))
    }

    fn get<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        self.look(move || Get { owner: owner_of(scope), id: id.clone() })
    }

    fn called<'a>(&'a self, owner: &'a Owner, key: &'a CallKey) -> StoreFuture<'a, Option<Record>> {
        self.look(move || Called { owner: owner.clone(), key: key.clone() })
    }

    fn list<'a>(
        &'a self,
        scope: Scope<'a>,
        filter: &'a Filter,
        after: Option<&'a Cursor>,
        limit: usize,
    ) -> StoreFuture<'a, Page> {
        Box::pin(async move {
            if matches!(scope, Scope::Owner(Owner::Anonymous)) {
                return Err(StoreError::Unlistable);
            }
            let before = after.map_or(Ok(u64::MAX), |cursor| cursor.number(scope))?;
            let (limit, owner, filter) = (limit.clamp(1, Page::MAX), owner_of(scope), filter.clone());
            if !filter.claimable_only {
                return self.look(move || List { owner, filter, claimable: None, before, limit }).await;
            }
            // An owner's open tasks are few, and all that can be claimed may be more than is read at once: then they are looked for
            // among what is open.
            let most = if owner.is_none() { LONGEST_SCAN } else { 1 };
            let open_only = filter.open_only;
            let Candidates { rows: among, dead } =
                self.look(move || Claimable { open_only, limit: most, runs: None }).await?;
            let list = List { owner, filter, claimable: Some(dead), before, limit };
            match among.len() {
                0 => Ok(Page::default()),
                found if found < most => self.look(move || ListAmong { list, among }).await,
                _ => self.look(move || list).await,
            }
        })
    }

    fn claim<'a>(&'a self, limit: usize, runs: Option<&'a [Runnable]>) -> StoreFuture<'a, Vec<Record>> {
        Box::pin(async move {
            if limit == 0 {
                return Ok(Vec::new());
            }
            let mut claimed = Vec::new();
            for _ in 0..MOST_CLAIMS {
                // Others may be at the first of them at the same time.
                let some = limit.saturating_add(SPARE);
                let look =
                    move || Claimable { open_only: false, limit: some, runs: runs.map(<[Runnable]>::to_vec) };
                let Candidates { rows, dead } = self.look(look).await?;
                if rows.is_empty() {
                    break;
                }
                claimed = self.change(move || Claim { rows, dead, limit }).await?;
                if !claimed.is_empty() {
                    break;
                }
            }
            Ok(claimed)
        })
    }

    fn claim_one<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        Box::pin(async move {
            let look = move || Claimable { open_only: false, limit: 1, runs: None };
            let Candidates { rows, dead } = self.look(look).await?;
            if rows.is_empty() {
                return Ok(None);
            }
            self.change(move || ClaimOne { id: id.clone(), dead }).await
        })
    }

    fn renew<'a>(&'a self, held: &'a [(TaskId, Epoch)]) -> StoreFuture<'a, Vec<TaskId>> {
        self.on_own(move |site| site.renew(held.to_vec()))
    }

    fn release<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Record> {
        self.change(move || Release(Held { id: id.clone(), epoch }))
    }

    fn write<'a>(&'a self, id: &'a TaskId, epoch: Epoch, batch: Batch) -> StoreFuture<'a, u64> {
        let written = self.change(move || Write { held: Held { id: id.clone(), epoch }, batch });
        Box::pin(async move { written.await.map(|record| record.seq) })
    }

    fn steps<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Vec<Step>> {
        self.look(move || Steps { id: id.clone(), epoch })
    }

    fn seen_steps<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Option<SeenSteps>> {
        self.look(move || SeenStepsOf { task: Get { owner: owner_of(scope), id: id.clone() }, after, limit })
    }

    fn parts<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Option<Parts>> {
        self.look(move || PartsOf { task: Get { owner: owner_of(scope), id: id.clone() }, after, limit })
    }

    fn answer<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        replies: &'a [Reply],
    ) -> StoreFuture<'a, Answered> {
        self.change(move || Answer { target: target(scope, id), replies: replies.to_vec() })
    }

    fn finish<'a>(
        &'a self,
        id: &'a TaskId,
        epoch: Epoch,
        outcome: Outcome,
        last: Batch,
    ) -> StoreFuture<'a, Finished> {
        self.change(move || Finish { held: Held { id: id.clone(), epoch }, outcome, last })
    }

    fn request_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, Cancellation> {
        self.change(move || Cancel { target: target(scope, id), reason: reason.map(str::to_owned) })
    }

    fn ask_to_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, CancelAsked> {
        self.change(move || {
            AskToCancel(Cancel { target: target(scope, id), reason: reason.map(str::to_owned) })
        })
    }

    fn came_back<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, bool> {
        self.change(move || CameBack(target(scope, id)))
    }

    fn make_due<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, bool> {
        self.change(move || MakeDue(id.clone()))
    }

    fn erase<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Erasure> {
        self.change(move || Erase(target(scope, id)))
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        Box::pin(async move {
            let node = self.site.node();
            let alone = node.aside.left_alone(node.clock.now());
            let some_more = limit.saturating_add(alone.len());
            let mut due = self.look(move || Due(some_more)).await?;
            due.retain(|id| !alone.contains_key(id));
            due.truncate(limit);
            let (mut swept, mut failure) = (Swept::default(), None);
            swept.is_full = !due.is_empty() && due.len() == limit;
            // What a task carries may be large, so they come a few at a time.
            let mut next: Vec<&[TaskId]> = due.rchunks(SWEPT).collect();
            while let Some(some) = next.pop() {
                match self.sweep_some(some, &mut swept).await {
                    Ok(()) => {}
                    Err(error) if !is_of_the_task(&error) => {
                        failure.get_or_insert(error);
                        break;
                    }
                    // Only one of them may be why.
                    Err(_) if some.len() > 1 => next.extend(some.rchunks(1)),
                    Err(error) => {
                        for id in some {
                            tracing::warn!(task = %id, %error, "what is past its time is left alone for a while");
                            node.aside.put(id.clone(), node.clock.now());
                        }
                        failure.get_or_insert(error);
                    }
                }
            }
            match failure {
                Some(error) if swept.total() == 0 => Err(error),
                _ => Ok(swept),
            }
        })
    }

    fn counts(&self) -> StoreFuture<'_, Counts> {
        self.look(|| Count)
    }

    fn size(&self) -> StoreFuture<'_, Option<u64>> {
        Box::pin(async move {
            if let Some(size) = self.site.node().size() {
                return Ok(size);
            }
            let size = self.look(|| Weigh).await?;
            self.site.node().weighed(size);
            Ok(size)
        })
    }

    fn watch(&self, id: &TaskId) -> TaskWatch {
        self.site.node().hub.watch(id)
    }

    fn now(&self) -> Time {
        self.site.node().clock.now()
    }

    fn refused_date(&self) -> Option<Time> {
        self.site.node().clock.refused()
    }

    fn limits(&self) -> Limits {
        self.site.node().settings.limits.clone()
    }

    fn lease(&self) -> Duration {
        self.site.node().settings.lease
    }

    fn alive_until(&self) -> Option<Time> {
        Some(self.site.node().alive_until())
    }

    fn durability(&self) -> Durability {
        self.site.node().durability()
    }

    fn at_risk(&self) -> Option<Arc<str>> {
        self.site.node().at_risk()
    }

    fn node(&self) -> &NodeId {
        &self.site.node().id
    }
}

impl<S: Server> Handle<S> {
    /// Does what time demands of these tasks. What is done is told, also if the rest fails: it can be begun again.
    async fn sweep_some(&self, some: &[TaskId], swept: &mut Swept) -> Result<(), StoreError> {
        let node = self.site.node();
        let Forgotten { erased, removed, open, damaged } = self.change(|| Forget(some.to_vec())).await?;
        erased.iter().for_each(|record| swept.forgot(record));
        swept.removed += removed.len();
        damaged.into_iter().for_each(|id| node.aside.put(id, node.clock.now()));
        for id in open {
            match self.change(|| Expire(id.clone())).await? {
                sweep::Due::Expired => swept.expired.push(id),
                sweep::Due::Orphaned(then) => swept.orphans.push((id, then)),
                sweep::Due::Nothing => {}
            }
        }
        Ok(())
    }
}

/// Whether others may fare better than the task that met this.
fn is_of_the_task(error: &StoreError) -> bool {
    !matches!(
        error,
        StoreError::Unreachable { .. }
            | StoreError::Closed
            | StoreError::OutOfService { .. }
            | StoreError::Full { .. }
            | StoreError::ReadOnly { .. }
    )
}

/// The owner a scope is bound to, for an operation that outlives its caller.
fn owner_of(scope: Scope<'_>) -> Option<Owner> {
    match scope {
        Scope::Owner(owner) => Some(owner.clone()),
        Scope::Operator => None,
    }
}

fn target(scope: Scope<'_>, id: &TaskId) -> Target {
    Target { owner: owner_of(scope), id: id.clone() }
}

/// How many tasks a sweep forgets at once: each may carry what a call and its result may have, which are read with it.
const SWEPT: usize = 8;

/// How often a claim is tried that others were faster than.
const MOST_CLAIMS: u32 = 5;

/// How many more tasks a claim looks at than it wants, for others may take some.
const SPARE: usize = 64;
