//! Tasks that tasks make: what is written of one follows from what is written of another, at the same moment.

use super::{
    fault::pass_over,
    transaction::{Change, Transaction},
};
use crate::{
    Epoch, NewChild, Record, Step, TaskId,
    transition::{self, Noted, Spawned},
};

/// Makes the task that a worker's report makes; gives what becomes of its parent's steps, or `None` if it has been made.
pub(super) async fn spawn<T: Transaction>(
    tx: &mut T,
    parent: &mut Record,
    epoch: Epoch,
    child: &NewChild,
    known: Option<&Step>,
) -> Result<Option<Noted>, T::Fault> {
    tx.reach_above(parent)?;
    let mut top = top(tx, parent).await?;
    let (now, node, settings) = (tx.now(), &tx.node().id, tx.settings());
    let spawned = transition::spawn(parent, epoch, child, known, top.as_mut(), node, now, settings)?;
    let Some(Spawned { record, noted, step, .. }) = spawned else { return Ok(None) };
    tx.insert(&record).await?;
    tx.note(&record, noted).await?;
    if let Some(top) = top {
        tx.put(&top, Change::Below).await?;
    }
    Ok(Some(Noted::one(step)))
}

/// The topmost of the open tasks above this one.
async fn top<T: Transaction>(tx: &mut T, record: &Record) -> Result<Option<Record>, T::Fault> {
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
pub(super) async fn follow<T: Transaction>(tx: &mut T, ended: &Record) -> Result<(), T::Fault> {
    // Most have no family.
    let mut ends: Vec<Record> = Some(ended).filter(|ended| has_family(ended)).cloned().into_iter().collect();
    while let Some(ended) = ends.pop() {
        if let Some(link) = &ended.parent
            && let Some(mut parent) = load(tx, &link.task).await?
            && !parent.is_terminal()
        {
            let known = tx.step(&parent, &link.step).await?;
            let noted = transition::hear(&mut parent, &ended, known.as_ref(), tx.now(), tx.settings());
            tx.note(&parent, noted).await?;
            tx.put(&parent, Change::Any).await?;
            ends.extend(Some(parent).filter(Record::is_terminal));
        }
        if ended.children.open == 0 {
            continue;
        }
        let children = tx.children(&ended).await?;
        for mut child in tx.load_many(&children).await? {
            if transition::end_with_parent(&mut child, &ended, tx.now(), tx.settings()) {
                tx.put(&child, Change::Any).await?;
                ends.push(child);
            }
        }
    }
    Ok(())
}

fn has_family(record: &Record) -> bool {
    record.parent.is_some() || record.children.open > 0
}

/// The task that made one; if it is damaged, the other must end all the same.
async fn load<T: Transaction>(tx: &mut T, id: &TaskId) -> Result<Option<Record>, T::Fault> {
    match tx.load(id).await {
        Ok(found) => Ok(found),
        Err(fault) => pass_over(id, fault).map(|()| None),
    }
}
