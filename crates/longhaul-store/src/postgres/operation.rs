//! The writes of the contract, each a transaction: hold the row, apply the pure transition, write back.

use super::{
    family,
    fault::{Fault, damaged, pass_over},
    sql,
    steps::{self, Beside},
    tx::{First, Operation, Tx},
    value::Value,
};
use crate::{
    Answered, Batch, CancelAsked, Cancellation, Created, Epoch, Erasure, Finished, NewTask, NodeId, OnOrphan,
    Outcome, Owner, Record, Reply, Scope, StoreError, TaskId,
    row::Place,
    transition::{self, Asked},
};

/// As whom an operation is done, and on which task.
pub(super) struct Target {
    pub(super) owner: Option<Owner>,
    pub(super) id: TaskId,
}

impl Target {
    async fn load(&self, tx: &mut Tx<'_>) -> Result<Option<(Place, Record)>, Fault> {
        let scope = self.owner.as_ref().map_or(Scope::Operator, Scope::Owner);
        let found = tx.load(&self.id).await?;
        Ok(found.filter(|(place, record)| place.is_visible() && scope.sees(&record.owner)))
    }
}

/// A task as its worker has it, for whom one that is gone is as good as taken away.
pub(super) struct Held {
    pub(super) id: TaskId,
    pub(super) epoch: Epoch,
}

impl Held {
    async fn load(&self, tx: &mut Tx<'_>) -> Result<(Place, Record), Fault> {
        tx.load(&self.id).await?.ok_or_else(|| self.is_lost().into())
    }

    fn is_lost(&self) -> StoreError {
        StoreError::Fenced { id: self.id.clone(), held: self.epoch }
    }
}

pub(super) struct Create(pub(super) NewTask);

impl Operation for Create {
    type Done = Created;

    fn first(&self) -> First<'_> {
        First::Account(&self.0.owner)
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Created, Fault> {
        let (mut record, noted) = transition::create(&self.0, &tx.site.node, tx.now(), tx.settings())?;
        // Whoever is refused may still find what there is. What is admitted holds the account of its owner, so that
        // nobody else makes the same call meanwhile.
        let admitted = tx.admit(&record.owner, &tx.settings().limits).await;
        if let Some(found) = tx.again(&record).await? {
            return Ok(Created::Again(found));
        }
        if let Some(found) = tx.joinable(&record).await? {
            return Ok(Created::Joined(found));
        }
        match admitted {
            Ok(nth) if tx.insert(&mut record, nth).await? => {
                // A task's place is the number of its creation.
                steps::note(tx, record.seq, &record, &noted).await?;
                Ok(Created::New(record))
            }
            Err(Fault::Refused(refusal)) if !tx.is_taken(&record.id).await? => Err(refusal.into()),
            Ok(_) | Err(Fault::Refused(_)) => Err(StoreError::AlreadyExists { id: record.id }.into()),
            Err(fault) => Err(fault),
        }
    }
}

/// Takes up to `limit` of these rows that nobody works on; the holders in `dead` have been proved dead.
pub(super) struct Claim {
    pub(super) rows: Vec<i64>,
    pub(super) dead: Vec<NodeId>,
    pub(super) limit: usize,
}

impl Operation for Claim {
    type Done = Vec<Record>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<Record>, Fault> {
        let mut claimed = Vec::new();
        let values = [Value::Ints(&self.rows), Value::count(self.limit as u64)];
        for row in tx.query("claiming tasks", sql::LOCK_FREE, &values).await? {
            let taken = match tx.read(&row).await {
                Ok(Some((place, record))) => claim(tx, place, record, &self.dead).await,
                Ok(None) => Ok(None),
                Err(fault) => Err(fault),
            };
            match taken {
                Ok(record) => claimed.extend(record),
                Err(fault) => pass_over(&crate::row::due(&row)?.1, fault)?,
            }
        }
        Ok(claimed)
    }
}

pub(super) struct ClaimOne {
    pub(super) id: TaskId,
    pub(super) dead: Vec<NodeId>,
}

impl Operation for ClaimOne {
    type Done = Option<Record>;

    fn first(&self) -> First<'_> {
        First::Task(&self.id)
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Option<Record>, Fault> {
        match tx.load(&self.id).await? {
            Some((place, record)) => claim(tx, place, record, &self.dead).await,
            None => Ok(None),
        }
    }
}

async fn claim(
    tx: &mut Tx<'_>,
    place: Place,
    mut record: Record,
    dead: &[NodeId],
) -> Result<Option<Record>, Fault> {
    let was_open = !record.is_terminal();
    let is_dead = |holder: &NodeId| dead.contains(holder);
    if !transition::claim(&mut record, &tx.site.node, tx.now(), tx.settings(), &is_dead) {
        return Ok(None);
    }
    put(tx, place, &mut record, was_open).await?;
    Ok(Some(record))
}

/// Returns the tasks that are not held as the caller believes.
pub(super) struct Renew(pub(super) Vec<Held>);

impl Operation for Renew {
    type Done = Vec<TaskId>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<TaskId>, Fault> {
        let mut fenced = Vec::new();
        // In one order, so that no two that renew the same wait for each other.
        let mut held: Vec<&Held> = self.0.iter().collect();
        held.sort_by(|one, other| one.id.cmp(&other.id));
        for held in held {
            let loaded = tx.load(&held.id).await?;
            let renewed = loaded.ok_or_else(|| held.is_lost()).and_then(|(place, mut record)| {
                transition::renew(&mut record, held.epoch, tx.now(), tx.settings())?;
                Ok((place, record))
            });
            match renewed {
                Ok((place, record)) => {
                    if let Some(lease) = record.lease() {
                        tx.update_lease(place.ord, lease.until).await?;
                    }
                }
                Err(error) if error.is_fenced() => fenced.push(held.id.clone()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(fenced)
    }
}

pub(super) struct Release(pub(super) Held);

impl Operation for Release {
    type Done = Record;

    fn first(&self) -> First<'_> {
        First::Task(&self.0.id)
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Record, Fault> {
        let (place, mut record) = self.0.load(tx).await?;
        let was_open = !record.is_terminal();
        transition::release(&mut record, self.0.epoch, tx.now())?;
        put(tx, place, &mut record, was_open).await?;
        Ok(record)
    }
}

pub(super) struct Write {
    pub(super) held: Held,
    pub(super) batch: Batch,
}

impl Operation for Write {
    type Done = u64;

    fn first(&self) -> First<'_> {
        First::Task(&self.held.id)
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<u64, Fault> {
        let (Held { epoch, .. }, batch) = (&self.held, &self.batch);
        let (place, mut record) = self.held.load(tx).await?;
        let spawned = match &batch.child {
            Some(child) => family::spawn(tx, place, &mut record, *epoch, child).await?,
            None => None,
        };
        let mut kept = Beside::of(tx, place.ord, batch).await?;
        let limits = &tx.settings().limits;
        let written = transition::write(&mut record, *epoch, batch, &mut kept, tx.now(), limits)?;
        steps::note(tx, place.ord, &record, &written.noted).await?;
        if let Some(step) = &spawned {
            steps::note(tx, place.ord, &record, step).await?;
        }
        match written.changed || spawned.is_some() {
            true if record.is_terminal() => tx.update_ended(place.ord, &record).await?,
            true if batch.park.is_some() || spawned.is_some() => {
                tx.update(place.ord, &mut record, true).await?;
            }
            true => tx.update_report(place.ord, &mut record).await?,
            false => {}
        }
        Ok(record.seq)
    }
}

pub(super) struct Finish {
    pub(super) held: Held,
    pub(super) outcome: Outcome,
    pub(super) last: Batch,
}

impl Operation for Finish {
    type Done = Finished;

    fn first(&self) -> First<'_> {
        First::Task(&self.held.id)
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Finished, Fault> {
        let (place, mut record) = self.held.load(tx).await?;
        if !place.is_visible() {
            return Err(self.held.is_lost().into());
        }
        let mut kept = Beside::of(tx, place.ord, &self.last).await?;
        let (epoch, settings) = (self.held.epoch, tx.settings());
        let ended =
            transition::finish(&mut record, epoch, &self.outcome, &self.last, &mut kept, tx.now(), settings)?;
        let Some(noted) = ended else { return Ok(Finished::AlreadyTerminal(record)) };
        tx.with_family(&record)?;
        steps::note(tx, place.ord, &record, &noted).await?;
        tx.update(place.ord, &mut record, true).await?;
        family::follow(tx, &record).await?;
        Ok(Finished::Recorded(record))
    }
}

pub(super) struct Answer {
    pub(super) target: Target,
    pub(super) replies: Vec<Reply>,
}

impl Operation for Answer {
    type Done = Answered;

    fn first(&self) -> First<'_> {
        First::Task(&self.target.id)
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Answered, Fault> {
        let Some((place, mut record)) = self.target.load(tx).await? else { return Ok(Answered::NotFound) };
        let learnt = transition::answer(&mut record, &self.replies, tx.now(), &tx.settings().limits)?;
        if !learnt.is_empty() {
            steps::note(tx, place.ord, &record, &learnt).await?;
            tx.update(place.ord, &mut record, true).await?;
        }
        Ok(Answered::Recorded { record, taken: learnt.steps.len() })
    }
}

pub(super) struct Cancel {
    pub(super) target: Target,
    pub(super) reason: Option<String>,
}

impl Operation for Cancel {
    type Done = Cancellation;

    fn first(&self) -> First<'_> {
        First::Task(&self.target.id)
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Cancellation, Fault> {
        let Some((place, mut record)) = self.target.load(tx).await? else {
            return Ok(Cancellation::NotFound);
        };
        if !transition::cancel(&mut record, self.reason.as_deref(), tx.now(), tx.settings()) {
            return Ok(Cancellation::AlreadyTerminal(record));
        }
        end(tx, place, &mut record).await?;
        Ok(Cancellation::Cancelled(record))
    }
}

pub(super) struct AskToCancel(pub(super) Cancel);

impl Operation for AskToCancel {
    type Done = CancelAsked;

    fn first(&self) -> First<'_> {
        First::Task(&self.0.target.id)
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<CancelAsked, Fault> {
        let Some((place, mut record)) = self.0.target.load(tx).await? else {
            return Ok(CancelAsked::AtOnce(Cancellation::NotFound));
        };
        let reason = self.0.reason.as_deref();
        Ok(match transition::ask_to_cancel(&mut record, reason, tx.now(), tx.settings()) {
            Asked::Cancelled => {
                end(tx, place, &mut record).await?;
                CancelAsked::AtOnce(Cancellation::Cancelled(record))
            }
            Asked::Requested => {
                tx.update(place.ord, &mut record, true).await?;
                CancelAsked::Requested(record)
            }
            Asked::Again => CancelAsked::Requested(record),
            Asked::Over => CancelAsked::AtOnce(Cancellation::AlreadyTerminal(record)),
        })
    }
}

pub(super) struct CameBack(pub(super) Target);

impl Operation for CameBack {
    type Done = bool;

    fn first(&self) -> First<'_> {
        First::Task(&self.0.id)
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool, Fault> {
        let Some((place, mut record)) = self.0.load(tx).await? else { return Ok(false) };
        let is_new = transition::came_back(&mut record, tx.now());
        if is_new {
            tx.update_orphan(place.ord, &record).await?;
        }
        Ok(is_new)
    }
}

pub(super) struct Erase(pub(super) Target);

impl Operation for Erase {
    type Done = Erasure;

    fn first(&self) -> First<'_> {
        First::Task(&self.0.id)
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Erasure, Fault> {
        let Some((place, mut record)) = self.0.load(tx).await? else { return Ok(Erasure::NotFound) };
        let now = tx.now();
        match transition::erase(&mut record, now) {
            None => return Ok(Erasure::Open),
            Some(true) => tx.erase(place.ord, &record, now.after(tx.settings().tombstone)).await?,
            Some(false) => tx.update_ended(place.ord, &record).await?,
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

    fn first(&self) -> First<'_> {
        First::Task(&self.0)
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Done, Fault> {
        let now = tx.now();
        let (place, mut record) = match tx.load(&self.0).await {
            Ok(Some(found)) => found,
            Ok(None) => {
                let Some((ord, owner)) = tx.tombstone(&self.0, now).await? else { return Ok(Done::Nothing) };
                tx.remove(ord, &owner).await?;
                return Ok(Done::Removed);
            }
            Err(fault) => return pass_over(&self.0, fault).map(|()| Done::Nothing),
        };
        if transition::expire(&mut record, now, tx.settings()) {
            end(tx, place, &mut record).await?;
            return Ok(Done::Expired);
        }
        if let Some(then) = transition::orphan(&mut record, now, tx.settings()) {
            if record.is_terminal() {
                end(tx, place, &mut record).await?;
            } else {
                tx.update_orphan(place.ord, &record).await?;
            }
            return Ok(Done::Orphaned(then));
        }
        if record.swept_at().is_some_and(|at| at <= now) {
            tx.erase(place.ord, &record, now.after(tx.settings().tombstone)).await?;
            return Ok(Done::Forgot(Box::new(record)));
        }
        Ok(Done::Nothing)
    }
}

/// Writes back a task that has just ended, and does what follows from that.
async fn end(tx: &mut Tx<'_>, place: Place, record: &mut Record) -> Result<(), Fault> {
    tx.with_family(record)?;
    tx.update(place.ord, record, true).await?;
    family::follow(tx, record).await
}

/// Writes back a record that has changed. Of what had ended before nobody sees it.
async fn put(tx: &mut Tx<'_>, place: Place, record: &mut Record, was_open: bool) -> Result<(), Fault> {
    match was_open {
        true => tx.update(place.ord, record, was_open).await,
        false => tx.update_ended(place.ord, record).await,
    }
}

/// The ids of what was found.
pub(super) fn ids(rows: &[tokio_postgres::Row]) -> Result<Vec<TaskId>, Fault> {
    rows.iter().map(|row| TaskId::new(super::tx::text(row, 0)?).map_err(damaged)).collect()
}
