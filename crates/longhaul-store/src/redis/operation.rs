//! The operations that write. Their rules are those of every backend; here is what they read and what they write.

use super::{
    family,
    fault::Fault,
    tx::{Operation, Tx, Written},
};
use crate::{
    Answered, Batch, CancelAsked, Cancellation, Created, Epoch, Erasure, Finished, NewTask, NodeId, OnOrphan,
    Outcome, Owner, Record, Reply, Scope, StoreError, TaskId,
    transition::{self, Asked, Kept as _},
};

/// As whom an operation is done, and on which task.
pub(super) struct Target {
    pub(super) owner: Option<Owner>,
    pub(super) id: TaskId,
}

impl Target {
    async fn load(&self, tx: &mut Tx<'_>) -> Result<Option<Record>, Fault> {
        let scope = self.owner.as_ref().map_or(Scope::Operator, Scope::Owner);
        let found = tx.load(&self.id).await?;
        Ok(found.filter(|record| !record.is_forgotten(tx.now()) && scope.sees(&record.owner)))
    }
}

/// A task as its worker has it, for whom one that is gone is as good as taken away.
pub(super) struct Held {
    pub(super) id: TaskId,
    pub(super) epoch: Epoch,
}

impl Held {
    async fn load(&self, tx: &mut Tx<'_>) -> Result<Record, Fault> {
        self.load_with(tx, &Batch::new()).await
    }

    /// The same, with what is kept beside it that a report is held against.
    async fn load_with(&self, tx: &mut Tx<'_>, batch: &Batch) -> Result<Record, Fault> {
        let waits = batch.park.iter().flat_map(|park| &park.children);
        let steps = batch.steps.iter().map(|step| &step.key);
        let child = batch.child.iter().map(|child| &child.step);
        let steps: Vec<&str> =
            batch.forget.iter().chain(steps).chain(waits).chain(child).map(|key| &**key).collect();
        let parts: Vec<&str> = batch.parts.iter().map(|part| &*part.key).collect();
        tx.load_with(&self.id, &steps, &parts).await?.ok_or_else(|| self.is_lost().into())
    }

    fn is_lost(&self) -> StoreError {
        StoreError::Fenced { id: self.id.clone(), held: self.epoch }
    }
}

pub(super) struct Create(pub(super) NewTask);

impl Operation for Create {
    type Done = Created;

    const TAKES_ROOM: bool = true;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Created, Fault> {
        let (record, noted) = transition::create(&self.0, &tx.site.node, tx.now(), tx.settings())?;
        if let Some(found) = again(tx, &record).await? {
            return Ok(Created::Again(found));
        }
        if let Some(found) = joinable(tx, &record).await? {
            return Ok(Created::Joined(found));
        }
        // Whether its id is free and whether there is room for it is found out when it is written.
        tx.insert(record.clone())?;
        tx.note(&record.id, noted).await?;
        Ok(Created::New(record))
    }

    fn settle(done: &mut Created, written: &Written) {
        if let Created::New(record) = done {
            written.number(record);
        }
    }
}

/// The task that was created under the key of this new one before.
async fn again(tx: &mut Tx<'_>, new: &Record) -> Result<Option<Record>, Fault> {
    let Some(once) = &new.once else { return Ok(None) };
    let calls = tx.site.keys.calls_of(&new.owner);
    let Some(id) = named(tx.field(calls, once.key.as_str().to_owned()).await?)? else { return Ok(None) };
    tx.load(&id).await?;
    let now = tx.now();
    let Some(row) = tx.found(&id) else { return Err(Fault::Changed) };
    if row.record.once.as_ref().is_none_or(|known| known.of != once.of) {
        return Err(StoreError::KeyTaken.into());
    }
    if !row.is_visible(now) {
        return Err(StoreError::KeySpent { id }.into());
    }
    Ok(Some(row.record.clone()))
}

/// The open task of this owner and digest.
async fn joinable(tx: &mut Tx<'_>, new: &Record) -> Result<Option<Record>, Fault> {
    let Some(digest) = new.join_key() else { return Ok(None) };
    let joins = tx.site.keys.joins_of(&new.owner);
    let Some(id) = named(tx.field(joins, digest).await?)? else { return Ok(None) };
    // One that has ended meanwhile is joined no more.
    let found = tx.load(&id).await?.filter(|record| !record.is_terminal());
    found.map(Some).ok_or(Fault::Changed)
}

fn named(id: Option<String>) -> Result<Option<TaskId>, Fault> {
    id.map(TaskId::new).transpose().map_err(super::fault::damaged)
}

/// Takes up to `limit` of these tasks that nobody works on; the holders in `dead` have been proved dead. What others take
/// meanwhile is left out.
pub(super) struct Claim {
    pub(super) ids: Vec<TaskId>,
    pub(super) dead: Vec<NodeId>,
    pub(super) limit: usize,
}

impl Operation for Claim {
    type Done = Vec<Record>;

    const EACH_BY_ITSELF: bool = true;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<Record>, Fault> {
        let mut claimed = Vec::new();
        // What a task carries may be large, so they come a few at a time.
        for some in self.ids.chunks(FEW) {
            tx.look_at_all(some).await?;
            for id in some {
                let Some(row) = tx.found(id).filter(|row| !row.is_tombstone()) else { continue };
                let record = row.record.clone();
                claimed.extend(claim(tx, record, &self.dead));
                if claimed.len() == self.limit {
                    return Ok(claimed);
                }
            }
        }
        Ok(claimed)
    }

    fn settle(done: &mut Vec<Record>, written: &Written) {
        done.retain(|record| !written.has_lost(&record.id));
        done.iter_mut().for_each(|record| written.number(record));
    }
}

pub(super) struct ClaimOne {
    pub(super) id: TaskId,
    pub(super) dead: Vec<NodeId>,
}

impl Operation for ClaimOne {
    type Done = Option<Record>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Option<Record>, Fault> {
        Ok(tx.load(&self.id).await?.and_then(|record| claim(tx, record, &self.dead)))
    }

    fn settle(done: &mut Option<Record>, written: &Written) {
        done.iter_mut().for_each(|record| written.number(record));
    }
}

fn claim(tx: &mut Tx<'_>, mut record: Record, dead: &[NodeId]) -> Option<Record> {
    let was_open = !record.is_terminal();
    let is_dead = |holder: &NodeId| dead.contains(holder);
    if !transition::claim(&mut record, &tx.site.node, tx.now(), tx.settings(), &is_dead) {
        return None;
    }
    put(tx, &record, was_open);
    Some(record)
}

pub(super) struct Release(pub(super) Held);

impl Operation for Release {
    type Done = Record;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Record, Fault> {
        let mut record = self.0.load(tx).await?;
        let was_open = !record.is_terminal();
        transition::release(&mut record, self.0.epoch, tx.now())?;
        put(tx, &record, was_open);
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

impl Operation for Write {
    /// The task; its number is what is asked for.
    type Done = Record;

    const TAKES_ROOM: bool = true;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Record, Fault> {
        let (Held { epoch, id }, batch) = (&self.held, &self.batch);
        let mut record = self.held.load_with(tx, batch).await?;
        let mut kept = tx.beside(id);
        let spawned = match &batch.child {
            Some(child) => {
                let known = kept.step(&child.step)?;
                family::spawn(tx, &mut record, *epoch, child, known.as_ref()).await?
            }
            None => None,
        };
        let limits = &tx.settings().limits;
        let written = transition::write(&mut record, *epoch, batch, &mut kept, tx.now(), limits)?;
        tx.note(id, written.noted).await?;
        let changed = written.changed || spawned.is_some();
        if let Some(step) = spawned {
            tx.note(id, step).await?;
        }
        if changed {
            let was_open = !record.is_terminal();
            put(tx, &record, was_open);
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

impl Operation for Finish {
    type Done = Finished;

    const TAKES_ROOM: bool = true;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Finished, Fault> {
        let mut record = self.held.load_with(tx, &self.last).await?;
        if record.is_forgotten(tx.now()) {
            return Err(self.held.is_lost().into());
        }
        let mut kept = tx.beside(&self.held.id);
        let (epoch, settings) = (self.held.epoch, tx.settings());
        let ended =
            transition::finish(&mut record, epoch, &self.outcome, &self.last, &mut kept, tx.now(), settings)?;
        let Some(noted) = ended else { return Ok(Finished::AlreadyTerminal(record)) };
        tx.note(&self.held.id, noted).await?;
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

impl Operation for Answer {
    type Done = Answered;

    const TAKES_ROOM: bool = true;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Answered, Fault> {
        let Some(mut record) = self.target.load(tx).await? else { return Ok(Answered::NotFound) };
        let learnt = transition::answer(&mut record, &self.replies, tx.now(), &tx.settings().limits)?;
        let taken = learnt.steps.len();
        if taken > 0 {
            tx.note(&record.id, learnt).await?;
            tx.put(&record);
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

impl Operation for Cancel {
    type Done = Cancellation;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Cancellation, Fault> {
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

impl Operation for AskToCancel {
    type Done = CancelAsked;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<CancelAsked, Fault> {
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
                tx.put(&record);
                CancelAsked::Requested(record)
            }
            Asked::Again => CancelAsked::Requested(record),
            Asked::Over => CancelAsked::AtOnce(Cancellation::AlreadyTerminal(record)),
        })
    }

    fn settle(done: &mut CancelAsked, written: &Written) {
        match done {
            CancelAsked::Requested(record) => written.number(record),
            CancelAsked::AtOnce(cancelled) => Cancel::settle(cancelled, written),
        }
    }
}

pub(super) struct CameBack(pub(super) Target);

impl Operation for CameBack {
    type Done = bool;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool, Fault> {
        let Some(mut record) = self.0.load(tx).await? else { return Ok(false) };
        let is_new = transition::came_back(&mut record, tx.now());
        if is_new {
            tx.keep(&record);
        }
        Ok(is_new)
    }
}

pub(super) struct Erase(pub(super) Target);

impl Operation for Erase {
    type Done = Erasure;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Erasure, Fault> {
        let Some(mut record) = self.0.load(tx).await? else { return Ok(Erasure::NotFound) };
        let now = tx.now();
        match transition::erase(&mut record, now) {
            None => return Ok(Erasure::Open),
            Some(true) => tx.erase(&record, now.after(tx.settings().tombstone)),
            Some(false) => tx.keep(&record),
        }
        Ok(Erasure::Erased)
    }
}

/// What a sweep has done to one task.
pub(super) enum Done {
    Expired,
    Orphaned(OnOrphan),
    Forgot(Box<Record>),
    Removed,
    Nothing,
}

/// Does to this task what time demands, if it still does: another node may have been there.
pub(super) struct Sweep(pub(super) TaskId);

impl Operation for Sweep {
    type Done = Done;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Done, Fault> {
        let now = tx.now();
        let mut record = match tx.load(&self.0).await {
            Ok(Some(found)) => found,
            Ok(None) => {
                let gone_at = tx.found(&self.0).and_then(|row| row.removable_at);
                if gone_at.is_none_or(|at| at > now) {
                    return Ok(Done::Nothing);
                }
                tx.remove(&self.0);
                return Ok(Done::Removed);
            }
            Err(fault) => return super::fault::pass_over(&self.0, fault).map(|()| Done::Nothing),
        };
        if transition::expire(&mut record, now, tx.settings()) {
            end(tx, &record).await?;
            return Ok(Done::Expired);
        }
        if let Some(then) = transition::orphan(&mut record, now, tx.settings()) {
            if record.is_terminal() {
                end(tx, &record).await?;
            } else {
                tx.keep(&record);
            }
            return Ok(Done::Orphaned(then));
        }
        if record.swept_at().is_some_and(|at| at <= now) {
            tx.erase(&record, now.after(tx.settings().tombstone));
            return Ok(Done::Forgot(Box::new(record)));
        }
        Ok(Done::Nothing)
    }
}

/// Puts a task that has just ended, and does what follows from that.
async fn end(tx: &mut Tx<'_>, record: &Record) -> Result<(), Fault> {
    tx.put(record);
    family::follow(tx, record).await
}

/// Puts a record that has changed. Of what had ended before nobody sees it.
fn put(tx: &mut Tx<'_>, record: &Record, was_open: bool) {
    if was_open { tx.put(record) } else { tx.keep(record) }
}

/// How many rows come at once that may be large.
pub(super) const FEW: usize = 64;
