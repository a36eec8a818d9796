//! Tasks that tasks make: what is written of one follows from what is written of another, at the same moment.

use super::{
    fault::{Fault, pass_over},
    tx::Tx,
};
use crate::{
    Epoch, NewChild, Record, Step, TaskId,
    transition::{self, Noted, Spawned},
};

/// Makes the task that a worker's report makes; gives what becomes of its parent's steps, or `None` if it has been made.
pub(super) async fn spawn(
    tx: &mut Tx<'_>,
    parent: &mut Record,
    epoch: Epoch,
    child: &NewChild,
    known: Option<&Step>,
) -> Result<Option<Noted>, Fault> {
    let mut top = top(tx, parent).await?;
    let (now, settings) = (tx.now(), tx.settings());
    let spawned = transition::spawn(parent, epoch, child, known, top.as_mut(), &tx.site.node, now, settings)?;
    let Some(Spawned { record, noted, step, .. }) = spawned else { return Ok(None) };
    let id = record.id.clone();
    tx.insert(record)?;
    tx.note(&id, noted).await?;
    if let Some(top) = top {
        tx.keep(&top);
    }
    Ok(Some(Noted::one(step)))
}

/// The topmost of the open tasks above this one.
async fn top(tx: &mut Tx<'_>, record: &Record) -> Result<Option<Record>, Fault> {
    let (mut top, mut above) = (None, record.parent.clone());
    while let Some(link) = above {
        let found = tx.load(&link.task).await?.filter(|found| !found.is_terminal());
        let Some(found) = found else { break };
        above = found.parent.clone();
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
            && let Some(mut parent) = load(tx, &link.task).await?
            && !parent.is_terminal()
        {
            let known = tx.step(&parent.id, &link.step).await?;
            let noted = transition::hear(&mut parent, &ended, known.as_ref(), tx.now(), tx.settings());
            tx.note(&parent.id, noted).await?;
            tx.put(&parent);
            ends.extend(Some(parent).filter(Record::is_terminal));
        }
        if ended.children.open == 0 {
            continue;
        }
        for id in tx.children(&ended.id).await? {
            let Some(mut child) = load(tx, &id).await? else { continue };
            if transition::end_with_parent(&mut child, &ended, tx.now(), tx.settings()) {
                tx.put(&child);
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
async fn load(tx: &mut Tx<'_>, id: &TaskId) -> Result<Option<Record>, Fault> {
    match tx.load(id).await {
        Ok(found) => Ok(found),
        Err(fault) => pass_over(id, fault).map(|()| None),
    }
}
