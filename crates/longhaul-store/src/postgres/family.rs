//! Tasks that tasks make: what is written of one follows from what is written of another, in the same transaction.

use super::{
    fault::{Fault, pass_over},
    operation::ids,
    sql, steps,
    tx::Tx,
    value::Value,
};
use crate::{
    Epoch, NewChild, Record, StoreError, TaskId,
    row::Place,
    transition::{self, Noted, Spawned},
};

/// Makes the task that a worker's report makes; gives what becomes of its parent's steps, or `None` if it has been made.
pub(super) async fn spawn(
    tx: &mut Tx<'_>,
    place: Place,
    parent: &mut Record,
    epoch: Epoch,
    child: &NewChild,
) -> Result<Option<Noted>, Fault> {
    tx.with_family(parent)?;
    let known = steps::find_one(tx, place.ord, &child.step).await?;
    let mut top = top(tx, parent).await?;
    let above = top.as_mut().map(|(_, top)| top);
    let (now, settings) = (tx.now(), tx.settings());
    let spawned =
        transition::spawn(parent, epoch, child, known.as_ref(), above, &tx.site.node, now, settings)?;
    let Some(Spawned { mut record, noted, step, .. }) = spawned else { return Ok(None) };
    if tx.is_taken(&record.id).await? {
        return Err(StoreError::AlreadyExists { id: record.id }.into());
    }
    let nth = tx.admit(&record.owner, &settings.limits).await?;
    if !tx.insert(&mut record, nth).await? {
        return Err(StoreError::AlreadyExists { id: record.id }.into());
    }
    steps::note(tx, record.seq, &record, &noted).await?;
    if let Some((place, top)) = top {
        tx.update_below(place.ord, &top).await?;
    }
    Ok(Some(Noted::one(step)))
}

/// The topmost of the open tasks above this one.
async fn top(tx: &mut Tx<'_>, record: &Record) -> Result<Option<(Place, Record)>, Fault> {
    let (mut top, mut above) = (None, record.parent.clone());
    while let Some(link) = above {
        let found = tx.load(&link.task).await?.filter(|(_, found)| !found.is_terminal());
        let Some(found) = found else { break };
        above = found.1.parent.clone();
        top = Some(found);
    }
    Ok(top)
}

/// Does what follows from the end of a task: the one that made it is told, and those that it has made end with it.
pub(super) async fn follow(tx: &mut Tx<'_>, ended: &Record) -> Result<(), Fault> {
    // Most have no family.
    let mut ends: Vec<Record> = Some(ended).filter(|ended| has_family(ended)).cloned().into_iter().collect();
    while let Some(ended) = ends.pop() {
        if let Some(link) = &ended.parent
            && let Some((place, mut parent)) = load(tx, &link.task).await?
            && !parent.is_terminal()
        {
            let known = steps::find_one(tx, place.ord, &link.step).await?;
            let noted = transition::hear(&mut parent, &ended, known.as_ref(), tx.now(), tx.settings());
            steps::note(tx, place.ord, &parent, &noted).await?;
            tx.update(place.ord, &mut parent, true).await?;
            ends.extend(Some(parent).filter(Record::is_terminal));
        }
        for id in children(tx, &ended).await? {
            let Some((place, mut child)) = load(tx, &id).await? else { continue };
            if transition::end_with_parent(&mut child, &ended, tx.now(), tx.settings()) {
                tx.update(place.ord, &mut child, true).await?;
                ends.push(child);
            }
        }
    }
    Ok(())
}

fn has_family(record: &Record) -> bool {
    record.parent.is_some() || record.children.open > 0
}

/// A task of the family; one that is damaged must not keep the others from their end.
async fn load(tx: &mut Tx<'_>, id: &TaskId) -> Result<Option<(Place, Record)>, Fault> {
    match tx.load(id).await {
        Ok(found) => Ok(found),
        Err(fault) => pass_over(id, fault).map(|()| None),
    }
}

/// The open tasks that this one has made.
async fn children(tx: &Tx<'_>, parent: &Record) -> Result<Vec<TaskId>, Fault> {
    if parent.children.open == 0 {
        return Ok(Vec::new());
    }
    let of = [Value::text(parent.id.as_str())];
    ids(&tx.query("looking for the children of a task", sql::CHILDREN, &of).await?)
}
