//! The writes of the contract, each within a group's transaction: load, apply the pure transition, write back.

use std::collections::HashMap;

use rusqlite::params;

use super::{
    family,
    parts::{self, Beside},
    read::{self, Candidate, Wanted},
    sql, steps,
    tx::Tx,
};
use crate::{
    Answered, Batch, CancelAsked, Cancellation, Created, Epoch, Erasure, Finished, NewTask, NodeId, Outcome,
    Owner, Record, Reply, Runnable, Scope, StoreError, Swept, TaskId, Time,
    row::{self, Place, phase, signed},
    transition::{self, Asked},
};

pub(super) fn create(tx: &mut Tx<'_>, node: &NodeId, task: &NewTask) -> Result<Created, StoreError> {
    let (mut record, noted) = transition::create(task, node, tx.now(), tx.settings())?;
    if let Some(found) = tx.again(&record)? {
        return Ok(Created::Again(found));
    }
    if let Some(found) = tx.joinable(&record)? {
        return Ok(Created::Joined(found));
    }
    match tx.admit(&record) {
        Ok(()) => {
            let place = tx.insert(&mut record)?;
            steps::note(tx, place.ord, &record, &noted)?;
            Ok(Created::New(record))
        }
        Err(_) if tx.is_taken(&record.id)? => Err(StoreError::AlreadyExists { id: record.id }),
        Err(refusal) => Err(refusal),
    }
}

/// Takes up to `limit` tasks nobody works on; the holders in `dead` have been proved dead.
pub(super) fn claim(
    tx: &mut Tx<'_>,
    node: &NodeId,
    dead: &[NodeId],
    limit: usize,
    runs: Option<&[Runnable]>,
) -> Result<Vec<Record>, StoreError> {
    let mut claimed = Vec::new();
    let wanted = Wanted { below: phase::TOMBSTONE, limit, runs };
    let holders = read::lease_holders(tx.conn, tx.site)?;
    for Candidate { id, .. } in read::claimable(tx.conn, tx.site, &holders, dead, wanted, tx.now())? {
        match claim_one(tx, node, dead, &id) {
            Ok(record) => claimed.extend(record),
            Err(error) => pass_over(&id, error)?,
        }
    }
    Ok(claimed)
}

pub(super) fn claim_one(
    tx: &mut Tx<'_>,
    node: &NodeId,
    dead: &[NodeId],
    id: &TaskId,
) -> Result<Option<Record>, StoreError> {
    let Some((place, mut record)) = tx.load(id)? else { return Ok(None) };
    let was_open = !record.is_terminal();
    if !transition::claim(&mut record, node, tx.now(), tx.settings(), &|holder| dead.contains(holder)) {
        return Ok(None);
    }
    put(tx, place, &mut record, was_open)?;
    Ok(Some(record))
}

/// Returns the tasks that are not held as the caller believes.
pub(super) fn renew(tx: &mut Tx<'_>, held: &[(TaskId, Epoch)]) -> Result<Vec<TaskId>, StoreError> {
    let mut fenced = Vec::new();
    for (id, epoch) in held {
        let renewed = as_worker(tx, id, *epoch).and_then(|(place, mut record)| {
            transition::renew(&mut record, *epoch, tx.now(), tx.settings())?;
            Ok((place, record))
        });
        match renewed {
            Ok((place, record)) => {
                if let Some(lease) = record.lease() {
                    tx.update_lease(place.ord, id, lease.until)?;
                }
            }
            Err(error) if error.is_fenced() => fenced.push(id.clone()),
            Err(error) => return Err(error),
        }
    }
    Ok(fenced)
}

pub(super) fn release(tx: &mut Tx<'_>, id: &TaskId, epoch: Epoch) -> Result<Record, StoreError> {
    let (place, mut record) = as_worker(tx, id, epoch)?;
    let was_open = !record.is_terminal();
    transition::release(&mut record, epoch, tx.now())?;
    put(tx, place, &mut record, was_open)?;
    Ok(record)
}

pub(super) fn write(
    tx: &mut Tx<'_>,
    node: &NodeId,
    id: &TaskId,
    epoch: Epoch,
    batch: &Batch,
) -> Result<u64, StoreError> {
    let (place, mut record) = as_worker(tx, id, epoch)?;
    let spawned = match &batch.child {
        Some(child) => family::spawn(tx, node, place, &mut record, epoch, child)?,
        None => None,
    };
    let limits = &tx.settings().limits;
    let kept = &mut Beside { tx, task: place.ord };
    let written = transition::write(&mut record, epoch, batch, kept, tx.now(), limits)?;
    steps::note(tx, place.ord, &record, &written.noted)?;
    parts::append(tx, place.ord, &record, &written.noted)?;
    if let Some(step) = &spawned {
        steps::note(tx, place.ord, &record, step)?;
    }
    match written.changed || spawned.is_some() {
        true if record.is_terminal() => tx.update_ended(place, &record)?,
        true if batch.park.is_some() || batch.host.is_some() || spawned.is_some() => {
            tx.update(place, &mut record, true)?
        }
        true => tx.update_report(place, &mut record)?,
        false => {}
    }
    Ok(record.seq)
}

pub(super) fn finish(
    tx: &mut Tx<'_>,
    id: &TaskId,
    epoch: Epoch,
    outcome: &Outcome,
    last: &Batch,
) -> Result<Finished, StoreError> {
    let (place, mut record) = as_worker(tx, id, epoch)?;
    if !place.is_visible() {
        return Err(StoreError::Fenced { id: id.clone(), held: epoch });
    }
    let kept = &mut Beside { tx, task: place.ord };
    let ended = transition::finish(&mut record, epoch, outcome, last, kept, tx.now(), tx.settings())?;
    let Some(noted) = ended else { return Ok(Finished::AlreadyTerminal(record)) };
    steps::note(tx, place.ord, &record, &noted)?;
    parts::append(tx, place.ord, &record, &noted)?;
    tx.update(place, &mut record, true)?;
    family::follow(tx, &record)?;
    Ok(Finished::Recorded(record))
}

pub(super) fn answer(
    tx: &mut Tx<'_>,
    scope: Scope<'_>,
    id: &TaskId,
    replies: &[Reply],
) -> Result<Answered, StoreError> {
    let seen = tx.load(id)?.filter(|(place, record)| place.is_visible() && scope.sees(&record.owner));
    let Some((place, mut record)) = seen else { return Ok(Answered::NotFound) };
    let learnt = transition::answer(&mut record, replies, scope, tx.now(), &tx.settings().limits)?;
    if !learnt.is_empty() {
        steps::note(tx, place.ord, &record, &learnt)?;
        tx.update(place, &mut record, true)?;
    }
    Ok(Answered::Recorded { record, taken: learnt.steps.len() })
}

pub(super) fn cancel(
    tx: &mut Tx<'_>,
    scope: Scope<'_>,
    id: &TaskId,
    reason: Option<&str>,
) -> Result<Cancellation, StoreError> {
    let seen = tx.load(id)?.filter(|(place, record)| place.is_visible() && scope.sees(&record.owner));
    let Some((place, mut record)) = seen else { return Ok(Cancellation::NotFound) };
    if !transition::cancel(&mut record, reason, tx.now(), tx.settings()) {
        return Ok(Cancellation::AlreadyTerminal(record));
    }
    tx.update(place, &mut record, true)?;
    family::follow(tx, &record)?;
    Ok(Cancellation::Cancelled(record))
}

pub(super) fn ask_to_cancel(
    tx: &mut Tx<'_>,
    scope: Scope<'_>,
    id: &TaskId,
    reason: Option<&str>,
) -> Result<CancelAsked, StoreError> {
    let seen = tx.load(id)?.filter(|(place, record)| place.is_visible() && scope.sees(&record.owner));
    let Some((place, mut record)) = seen else {
        return Ok(CancelAsked::AtOnce(Cancellation::NotFound));
    };
    Ok(match transition::ask_to_cancel(&mut record, reason, tx.now(), tx.settings()) {
        Asked::Cancelled => {
            tx.update(place, &mut record, true)?;
            family::follow(tx, &record)?;
            CancelAsked::AtOnce(Cancellation::Cancelled(record))
        }
        Asked::Requested => {
            tx.update(place, &mut record, true)?;
            CancelAsked::Requested(record)
        }
        Asked::Again => CancelAsked::Requested(record),
        Asked::Over => CancelAsked::AtOnce(Cancellation::AlreadyTerminal(record)),
    })
}

pub(super) fn came_back(tx: &mut Tx<'_>, scope: Scope<'_>, id: &TaskId) -> Result<bool, StoreError> {
    let seen = tx.load(id)?.filter(|(place, record)| place.is_visible() && scope.sees(&record.owner));
    let Some((place, mut record)) = seen else { return Ok(false) };
    let is_new = transition::came_back(&mut record, tx.now());
    if is_new {
        tx.update_orphan(place.ord, &record)?;
    }
    Ok(is_new)
}

pub(super) fn make_due(tx: &mut Tx<'_>, id: &TaskId) -> Result<bool, StoreError> {
    let Some((place, mut record)) = tx.load(id)? else { return Ok(false) };
    let is_due = transition::make_due(&mut record, tx.now());
    if is_due {
        tx.update(place, &mut record, true)?;
    }
    Ok(is_due)
}

pub(super) fn erase(tx: &mut Tx<'_>, scope: Scope<'_>, id: &TaskId) -> Result<Erasure, StoreError> {
    let seen = tx.load(id)?.filter(|(place, record)| place.is_visible() && scope.sees(&record.owner));
    let Some((place, mut record)) = seen else { return Ok(Erasure::NotFound) };
    let now = tx.now();
    match transition::erase(&mut record, now) {
        None => return Ok(Erasure::Open),
        Some(true) => {
            let until = transition::taken_until(&record, now, tx.settings());
            tx.erase(place, &record, until)?;
        }
        Some(false) => tx.update_ended(place, &record)?,
    }
    Ok(Erasure::Erased)
}

/// Does what time demands to up to `limit` tasks. One to which that cannot be done is left alone for a while, and where it was found
/// too late this is an error: made again, it is done to the others.
pub(super) fn sweep(tx: &mut Tx<'_>, limit: usize) -> Result<Swept, StoreError> {
    let mut swept = Swept::default();
    let alone = tx.site.aside.left_alone(tx.now());
    let due = due(tx, limit, &alone)?;
    swept.is_full = !due.is_empty() && due.len() == limit;
    for (ord, found) in due {
        let Some((place, id, owner)) = found else { continue };
        if let Err(error) = sweep_one(tx, place, id, &owner, &mut swept) {
            if matches!(error, StoreError::Corrupt { .. }) {
                // Its group is done again, without it: nobody hears of it then.
                tracing::error!(ord, %error, "a task is damaged, and is left alone for a while");
                tx.site.aside.put(ord, tx.now());
            }
            return Err(error);
        }
    }
    Ok(swept)
}

fn sweep_one(
    tx: &mut Tx<'_>,
    place: Place,
    id: TaskId,
    owner: &Owner,
    swept: &mut Swept,
) -> Result<(), StoreError> {
    if place.is_tombstone() {
        tx.remove(place.ord, owner)?;
        swept.removed += 1;
        return Ok(());
    }
    let now = tx.now();
    let (place, mut record) = match tx.load(&id) {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(()),
        Err(error) => {
            pass_over(&id, error)?;
            tx.site.aside.put(place.ord, now);
            return Ok(());
        }
    };
    if transition::expire(&mut record, now, tx.settings()) {
        tx.update(place, &mut record, true)?;
        family::follow(tx, &record)?;
        swept.expired.push(id);
    } else if let Some(then) = transition::orphan(&mut record, now, tx.settings()) {
        if record.is_terminal() {
            tx.update(place, &mut record, true)?;
            family::follow(tx, &record)?;
        } else {
            tx.update_orphan(place.ord, &record)?;
        }
        swept.orphans.push((id, then));
    } else if record.swept_at().is_some_and(|at| at <= now) {
        tx.erase(place, &record, now.after(tx.settings().tombstone))?;
        swept.forgot(&record);
    }
    Ok(())
}

/// Writes back a record that has changed. Of what had ended before nobody sees it.
fn put(tx: &mut Tx<'_>, place: Place, record: &mut Record, was_open: bool) -> Result<(), StoreError> {
    if was_open { tx.update(place, record, was_open) } else { tx.update_ended(place, record) }
}

/// One damaged row must not stop the work on all others; whoever reads it is told.
pub(super) fn pass_over(id: &TaskId, error: StoreError) -> Result<(), StoreError> {
    if !matches!(error, StoreError::Corrupt { .. }) {
        return Err(error);
    }
    tracing::error!(task = %id, %error, "a task is damaged and is passed over");
    Ok(())
}

/// Loads a task for its worker, for whom one that is gone is as good as taken away.
fn as_worker(tx: &Tx<'_>, id: &TaskId, epoch: Epoch) -> Result<(Place, Record), StoreError> {
    tx.load(id)?.ok_or_else(|| StoreError::Fenced { id: id.clone(), held: epoch })
}

/// The tasks of which time demands something, but for those that are left `alone`, by their places; nothing but the place of one
/// whose row cannot be told whose it is, which is left alone from now on.
fn due(tx: &Tx<'_>, limit: usize, alone: &HashMap<u64, Time>) -> Result<Vec<(u64, Option<Due>)>, StoreError> {
    let failed = |error| tx.site.error("looking for expired tasks", error);
    let (now, many) = (tx.now(), limit.saturating_add(alone.len()));
    let mut statement = tx.prepare(sql::DUE)?;
    let mut rows = statement.query(params![now.unix_ms(), signed(many as u64)]).map_err(failed)?;
    let mut due = Vec::new();
    while due.len() < limit
        && let Some(row) = rows.next().map_err(failed)?
    {
        let ord = row::ord(row)?;
        if alone.contains_key(&ord) {
            continue;
        }
        match row::due(row) {
            Ok(found) => due.push((ord, Some(found))),
            Err(error) => {
                tracing::error!(ord, %error, "a task is damaged and is passed over");
                tx.site.aside.put(ord, now);
                due.push((ord, None));
            }
        }
    }
    Ok(due)
}

/// A task of which time demands something: where it is, and whose.
type Due = (Place, TaskId, Owner);
