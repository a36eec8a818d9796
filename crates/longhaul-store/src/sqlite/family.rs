//! Tasks that tasks make: what is written of one follows from what is written of another, in the same transaction.

use rusqlite::params;

use super::{fault::corrupt, operation::pass_over, sql, steps, tx::Tx};
use crate::{
    Epoch, NewChild, NodeId, Record, StoreError, TaskId,
    row::Place,
    transition::{self, Noted, Spawned},
};

/// Makes the task that a worker's report makes; gives what becomes of its parent's steps, or `None` if it has been made.
pub(super) fn spawn(
    tx: &mut Tx<'_>,
    node: &NodeId,
    place: Place,
    parent: &mut Record,
    epoch: Epoch,
    child: &NewChild,
) -> Result<Option<Noted>, StoreError> {
    let known = steps::find(tx, place.ord, &child.step)?;
    let mut top = top(tx, parent)?;
    let above = top.as_mut().map(|(_, top)| top);
    let (now, settings) = (tx.now(), tx.settings());
    let spawned = transition::spawn(parent, epoch, child, known.as_ref(), above, node, now, settings)?;
    let Some(Spawned { mut record, noted, step, .. }) = spawned else { return Ok(None) };
    if tx.is_taken(&record.id)? {
        return Err(StoreError::AlreadyExists { id: record.id });
    }
    tx.admit(&record)?;
    let made = tx.insert(&mut record)?;
    steps::note(tx, made.ord, &record, &noted)?;
    if let Some((place, top)) = top {
        tx.update_below(place.ord, &top)?;
    }
    Ok(Some(Noted::one(step)))
}

/// The topmost of the open tasks above this one.
fn top(tx: &Tx<'_>, record: &Record) -> Result<Option<(Place, Record)>, StoreError> {
    let (mut top, mut above) = (None, record.parent.clone());
    while let Some(link) = above {
        let Some(found) = tx.load(&link.task)?.filter(|(_, found)| !found.is_terminal()) else { break };
        above = found.1.parent.clone();
        top = Some(found);
    }
    Ok(top)
}

/// Does what follows from the end of a task: the one that made it is told, and those that it has made end with it.
pub(super) fn follow(tx: &mut Tx<'_>, ended: &Record) -> Result<(), StoreError> {
    // Most have no family.
    let mut ends: Vec<Record> = Some(ended).filter(|ended| has_family(ended)).cloned().into_iter().collect();
    while let Some(ended) = ends.pop() {
        if let Some(link) = &ended.parent
            && let Some((place, mut parent)) = load(tx, &link.task)?
            && !parent.is_terminal()
        {
            let known = steps::find(tx, place.ord, &link.step)?;
            let noted = transition::hear(&mut parent, &ended, known.as_ref(), tx.now(), tx.settings());
            steps::note(tx, place.ord, &parent, &noted)?;
            tx.update(place, &mut parent, true)?;
            ends.extend(Some(parent).filter(Record::is_terminal));
        }
        for id in children(tx, &ended)? {
            let Some((place, mut child)) = load(tx, &id)? else { continue };
            if transition::end_with_parent(&mut child, &ended, tx.now(), tx.settings()) {
                tx.update(place, &mut child, true)?;
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
fn load(tx: &Tx<'_>, id: &TaskId) -> Result<Option<(Place, Record)>, StoreError> {
    match tx.load(id) {
        Ok(found) => Ok(found),
        Err(error) => pass_over(id, error).map(|()| None),
    }
}

/// The open tasks that this one has made.
fn children(tx: &Tx<'_>, parent: &Record) -> Result<Vec<TaskId>, StoreError> {
    let mut children = Vec::new();
    if parent.children.open == 0 {
        return Ok(children);
    }
    let failed = |error| tx.site.error("looking for the children of a task", error);
    let mut statement = tx.prepare(sql::CHILDREN)?;
    let mut rows = statement.query(params![parent.id.as_str()]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        children.push(TaskId::new(row.get::<_, String>(0).map_err(failed)?).map_err(corrupt)?);
    }
    Ok(children)
}
