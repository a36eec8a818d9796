//! The operations that write: each reads what it is about, applies the rules that every backend has, and writes what comes of
//! that.

use std::slice;

use super::{
    beside::Beside,
    family,
    look::FEW,
    transaction::{Change, First, Operation, Transaction, Written},
};
use crate::{
    Answered, Batch, CancelAsked, Cancellation, Created, Epoch, Erasure, Finished, NewTask, NodeId, Outcome,
    Owner, Record, Reply, Scope, StoreError, TaskId,
    transition::{self, Asked, Kept as _},
};

/// As whom an operation is done, and on which task.
pub(super) struct Target {
    pub(super) owner: Option<Owner>,
    pub(super) id: TaskId,
}

impl Target {
    async fn load<T: Transaction>(&self, tx: &mut T) -> Result<Option<Record>, T::Fault> {
        let found = tx.load(&self.id).await?;
        Ok(found.filter(|record| !record.is_forgotten(tx.now()) && self.scope().sees(&record.owner)))
    }

    fn scope(&self) -> Scope<'_> {
        self.owner.as_ref().map_or(Scope::Operator, Scope::Owner)
    }
}

/// A task as its worker has it, for whom one that is gone is as good as taken away.
pub(super) struct Held {
    pub(super) id: TaskId,
    pub(super) epoch: Epoch,
}

impl Held {
    async fn load<T: Transaction>(&self, tx: &mut T) -> Result<Record, T::Fault> {
        Ok(tx.load(&self.id).await?.ok_or_else(|| self.is_lost())?)
    }

    /// The same, with what is kept beside it that a report is held against.
    async fn load_with<T: Transaction>(
        &self,
        tx: &mut T,
        batch: &Batch,
    ) -> Result<(Record, Beside), T::Fault> {
        Ok(tx.load_with(&self.id, batch).await?.ok_or_else(|| self.is_lost())?)
    }

    fn is_lost(&self) -> StoreError {
        StoreError::Fenced { id: self.id.clone(), held: self.epoch }
    }
}

pub(super) struct Create(pub(super) NewTask);

impl<T: Transaction> Operation<T> for Create {
    type Done = Created;

    const TAKES_ROOM: bool = true;

    fn first(&self) -> First<'_> {
        First::Account(&self.0.owner, self.0.counted_share())
    }

    async fn run(&self, tx: &mut T) -> Result<Created, T::Fault> {
        let (record, noted) = transition::create(&self.0, &tx.node().id, tx.now(), tx.settings())?;
        if let Some(known) = tx.known(&record).await? {
            return Ok(known);
        }
        tx.insert(&record).await?;
        tx.note(&record, noted).await?;
        Ok(Created::New(record))
    }

    fn settle(done: &mut Created, written: &Written) {
        if let Created::New(record) = done {
            written.number(record);
        }
    }
}

/// Takes up to `limit` of these tasks that nobody works on; the holders in `dead` have been proved dead. What others take
/// meanwhile is left out.
pub(super) struct Claim<R> {
    pub(super) rows: Vec<R>,
    pub(super) dead: Vec<NodeId>,
    pub(super) limit: usize,
}

impl<T: Transaction> Operation<T> for Claim<T::Row> {
    type Done = Vec<Record>;

    const EACH_BY_ITSELF: bool = true;

    async fn run(&self, tx: &mut T) -> Result<Vec<Record>, T::Fault> {
        let mut claimed = Vec::new();
        // What a task carries may be large, so they come a few at a time.
        for some in self.rows.chunks(FEW) {
            for record in tx.load_free(some, self.limit - claimed.len()).await? {
                claimed.extend(claim(tx, record, &self.dead).await?);
                if claimed.len() == self.limit {
                    return Ok(claimed);
                }
            }
        }
        Ok(claimed)
    }

    fn settle(done: &mut Vec<Record>, written: &Written) {
        done.retain(|record| !written.lost.contains(&record.id));
        done.iter_mut().for_each(|record| written.number(record));
    }
}

pub(super) struct ClaimOne {
    pub(super) id: TaskId,
    pub(super) dead: Vec<NodeId>,
}

impl<T: Transaction> Operation<T> for ClaimOne {
    type Done = Option<Record>;

    fn first(&self) -> First<'_> {
        First::Task(&self.id)
    }

    async fn run(&self, tx: &mut T) -> Result<Option<Record>, T::Fault> {
        match tx.load(&self.id).await? {
            Some(record) => claim(tx, record, &self.dead).await,
            None => Ok(None),
        }
    }

    fn settle(done: &mut Option<Record>, written: &Written) {
        done.iter_mut().for_each(|record| written.number(record));
    }
}

async fn claim<T: Transaction>(
    tx: &mut T,
    mut record: Record,
    dead: &[NodeId],
) -> Result<Option<Record>, T::Fault> {
    let was_open = !record.is_terminal();
    let is_dead = |holder: &NodeId| dead.contains(holder);
    if !transition::claim(&mut record, &tx.node().id, tx.now(), tx.settings(), &is_dead) {
        return Ok(None);
    }
    put(tx, &record, was_open).await?;
    Ok(Some(record))
}

pub(super) struct Release(pub(super) Held);

impl<T: Transaction> Operation<T> for Release {
    type Done = Record;

    fn first(&self) -> First<'_> {
        First::Task(&self.0.id)
    }

    async fn run(&self, tx: &mut T) -> Result<Record, T::Fault> {
        let mut record = self.0.load(tx).await?;
        let was_open = !record.is_terminal();
        transition::release(&mut record, self.0.epoch, tx.now())?;
        put(tx, &record, was_open).await?;
        Ok(record)
    }

    fn settle(done: &mut Record, written: &Written) {
        written.number(done);
    }
}

pub(super) struct Write {
    pub(super) held: Held,
    pub(super) batch: Batch,
}

impl<T: Transaction> Operation<T> for Write {
    /// The task; its number is what is asked for.
    type Done = Record;

    const TAKES_ROOM: bool = true;

    fn first(&self) -> First<'_> {
        First::Task(&self.held.id)
    }

    async fn run(&self, tx: &mut T) -> Result<Record, T::Fault> {
        let (Held { epoch, .. }, batch) = (&self.held, &self.batch);
        let (mut record, mut kept) = self.held.load_with(tx, batch).await?;
        let spawned = match &batch.child {
            Some(child) => {
                let known = kept.step(&child.step)?;
                family::spawn(tx, &mut record, *epoch, child, known.as_ref()).await?
            }
            None => None,
        };
        let limits = &tx.settings().limits;
        let written = transition::write(&mut record, *epoch, batch, &mut kept, tx.now(), limits)?;
        tx.note(&record, written.noted).await?;
        let is_parent = spawned.is_some();
        if let Some(step) = spawned {
            tx.note(&record, step).await?;
        }
        if written.changed || is_parent {
            let change = match record.is_terminal() {
                true => Change::Ended,
                false if batch.park.is_some() || batch.host.is_some() || is_parent => Change::Any,
                false => Change::Report,
            };
            tx.put(&record, change).await?;
        }
        Ok(record)
    }

    fn settle(done: &mut Record, written: &Written) {
        written.number(done);
    }
}

pub(super) struct Finish {
    pub(super) held: Held,
    pub(super) outcome: Outcome,
    pub(super) last: Batch,
}

impl<T: Transaction> Operation<T> for Finish {
    type Done = Finished;

    const TAKES_ROOM: bool = true;

    fn first(&self) -> First<'_> {
        First::Task(&self.held.id)
    }

    async fn run(&self, tx: &mut T) -> Result<Finished, T::Fault> {
        let (mut record, mut kept) = self.held.load_with(tx, &self.last).await?;
        if record.is_forgotten(tx.now()) {
            return Err(self.held.is_lost().into());
        }
        let (epoch, settings) = (self.held.epoch, tx.settings());
        let ended =
            transition::finish(&mut record, epoch, &self.outcome, &self.last, &mut kept, tx.now(), settings)?;
        let Some(noted) = ended else { return Ok(Finished::AlreadyTerminal(record)) };
        tx.reach_above(&record)?;
        tx.note(&record, noted).await?;
        end(tx, &record).await?;
        Ok(Finished::Recorded(record))
    }

    fn settle(done: &mut Finished, written: &Written) {
        if let Finished::Recorded(record) = done {
            written.number(record);
        }
    }
}

pub(super) struct Answer {
    pub(super) target: Target,
    pub(super) replies: Vec<Reply>,
}

impl<T: Transaction> Operation<T> for Answer {
    type Done = Answered;

    const TAKES_ROOM: bool = true;

    fn first(&self) -> First<'_> {
        First::Task(&self.target.id)
    }

    async fn run(&self, tx: &mut T) -> Result<Answered, T::Fault> {
        let Some(mut record) = self.target.load(tx).await? else { return Ok(Answered::NotFound) };
        let learnt = transition::answer(
            &mut record,
            &self.replies,
            self.target.scope(),
            tx.now(),
            &tx.settings().limits,
        )?;
        let taken = learnt.steps.len();
        if !learnt.is_empty() {
            tx.note(&record, learnt).await?;
            tx.put(&record, Change::Any).await?;
        }
        Ok(Answered::Recorded { record, taken })
    }

    fn settle(done: &mut Answered, written: &Written) {
        if let Answered::Recorded { record, .. } = done {
            written.number(record);
        }
    }
}

pub(super) struct Cancel {
    pub(super) target: Target,
    pub(super) reason: Option<String>,
}

impl<T: Transaction> Operation<T> for Cancel {
    type Done = Cancellation;

    fn first(&self) -> First<'_> {
        First::Task(&self.target.id)
    }

    async fn run(&self, tx: &mut T) -> Result<Cancellation, T::Fault> {
        let Some(mut record) = self.target.load(tx).await? else { return Ok(Cancellation::NotFound) };
        if !transition::cancel(&mut record, self.reason.as_deref(), tx.now(), tx.settings()) {
            return Ok(Cancellation::AlreadyTerminal(record));
        }
        end(tx, &record).await?;
        Ok(Cancellation::Cancelled(record))
    }

    fn settle(done: &mut Cancellation, written: &Written) {
        if let Cancellation::Cancelled(record) = done {
            written.number(record);
        }
    }
}

pub(super) struct AskToCancel(pub(super) Cancel);

impl<T: Transaction> Operation<T> for AskToCancel {
    type Done = CancelAsked;

    fn first(&self) -> First<'_> {
        First::Task(&self.0.target.id)
    }

    async fn run(&self, tx: &mut T) -> Result<CancelAsked, T::Fault> {
        let Some(mut record) = self.0.target.load(tx).await? else {
            return Ok(CancelAsked::AtOnce(Cancellation::NotFound));
        };
        let reason = self.0.reason.as_deref();
        Ok(match transition::ask_to_cancel(&mut record, reason, tx.now(), tx.settings()) {
            Asked::Cancelled => {
                end(tx, &record).await?;
                CancelAsked::AtOnce(Cancellation::Cancelled(record))
            }
            Asked::Requested => {
                tx.put(&record, Change::Any).await?;
                CancelAsked::Requested(record)
            }
            Asked::Again => CancelAsked::Requested(record),
            Asked::Over => CancelAsked::AtOnce(Cancellation::AlreadyTerminal(record)),
        })
    }

    fn settle(done: &mut CancelAsked, written: &Written) {
        match done {
            CancelAsked::Requested(record) => written.number(record),
            CancelAsked::AtOnce(cancelled) => <Cancel as Operation<T>>::settle(cancelled, written),
        }
    }
}

pub(super) struct CameBack(pub(super) Target);

impl<T: Transaction> Operation<T> for CameBack {
    type Done = bool;

    fn first(&self) -> First<'_> {
        First::Task(&self.0.id)
    }

    async fn run(&self, tx: &mut T) -> Result<bool, T::Fault> {
        let Some(mut record) = self.0.load(tx).await? else { return Ok(false) };
        let is_new = transition::came_back(&mut record, tx.now());
        if is_new {
            tx.put(&record, Change::Orphan).await?;
        }
        Ok(is_new)
    }
}

pub(super) struct MakeDue(pub(super) TaskId);

impl<T: Transaction> Operation<T> for MakeDue {
    type Done = bool;

    fn first(&self) -> First<'_> {
        First::Task(&self.0)
    }

    async fn run(&self, tx: &mut T) -> Result<bool, T::Fault> {
        let Some(mut record) = tx.load(&self.0).await? else { return Ok(false) };
        let is_due = transition::make_due(&mut record, tx.now());
        if is_due {
            tx.put(&record, Change::Any).await?;
        }
        Ok(is_due)
    }
}

pub(super) struct Erase(pub(super) Target);

impl<T: Transaction> Operation<T> for Erase {
    type Done = Erasure;

    fn first(&self) -> First<'_> {
        First::Task(&self.0.id)
    }

    async fn run(&self, tx: &mut T) -> Result<Erasure, T::Fault> {
        let Some(mut record) = self.0.load(tx).await? else { return Ok(Erasure::NotFound) };
        let now = tx.now();
        match transition::erase(&mut record, now) {
            None => return Ok(Erasure::Open),
            Some(true) => {
                let until = transition::taken_until(&record, now, tx.settings());
                tx.erase(slice::from_ref(&record), until).await?;
            }
            Some(false) => tx.put(&record, Change::Ended).await?,
        }
        Ok(Erasure::Erased)
    }
}

/// Writes back a task that has just ended, and does what follows from that.
pub(super) async fn end<T: Transaction>(tx: &mut T, record: &Record) -> Result<(), T::Fault> {
    tx.reach_above(record)?;
    tx.put(record, Change::Any).await?;
    family::follow(tx, record).await
}

/// Writes back a record that has changed. Of what had ended before nobody sees it.
async fn put<T: Transaction>(tx: &mut T, record: &Record, was_open: bool) -> Result<(), T::Fault> {
    tx.put(record, if was_open { Change::Any } else { Change::Ended }).await
}
