//! What time demands of tasks. What has ended is forgotten many at a time, for each stands by itself; what an end leads to may be long.

use super::{
    operation::end,
    transaction::{Aged, Change, First, Operation, Transaction, Written},
};
use crate::{OnOrphan, Record, TaskId, networked::fault::pass_over, transition};

/// Forgets those of these tasks that have ended and are past their time, and removes what was left of forgotten ones. Others may be
/// at some of them, or have been.
pub(super) struct Forget(pub(super) Vec<TaskId>);

/// What came of it.
#[derive(Default)]
pub(super) struct Forgotten {
    pub(super) erased: Vec<Record>,
    pub(super) removed: Vec<TaskId>,
    /// Those that have not ended.
    pub(super) open: Vec<TaskId>,
    /// Those that cannot be read.
    pub(super) damaged: Vec<TaskId>,
}

impl<T: Transaction> Operation<T> for Forget {
    type Done = Forgotten;

    const EACH_BY_ITSELF: bool = true;

    async fn run(&self, tx: &mut T) -> Result<Forgotten, T::Fault> {
        let (now, mut done) = (tx.now(), Forgotten::default());
        let Aged { living, tombstones, damaged } = tx.load_aged(&self.0).await?;
        done.damaged = damaged;
        for record in living {
            if !record.is_terminal() {
                done.open.push(record.id);
            } else if record.swept_at().is_some_and(|at| at <= now) {
                done.erased.push(record);
            }
        }
        if !done.erased.is_empty() {
            tx.erase(&done.erased, now.after(tx.settings().tombstone)).await?;
        }
        if !tombstones.is_empty() {
            tx.remove(&tombstones).await?;
            done.removed = tombstones.into_iter().map(|(id, _)| id).collect();
        }
        Ok(done)
    }

    fn settle(done: &mut Forgotten, written: &Written) {
        done.erased.retain(|record| !written.lost.contains(&record.id));
        done.removed.retain(|id| !written.lost.contains(id));
    }
}

/// What has become of an open task.
pub(super) enum Due {
    Expired,
    Orphaned(OnOrphan),
    Nothing,
}

/// Does to this open task what time demands, if it still does: another node may have been there.
pub(super) struct Expire(pub(super) TaskId);

impl<T: Transaction> Operation<T> for Expire {
    type Done = Due;

    fn first(&self) -> First<'_> {
        First::Task(&self.0)
    }

    async fn run(&self, tx: &mut T) -> Result<Due, T::Fault> {
        let now = tx.now();
        let mut record = match tx.load(&self.0).await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(Due::Nothing),
            Err(fault) => return pass_over(&self.0, fault).map(|()| Due::Nothing),
        };
        if transition::expire(&mut record, now, tx.settings()) {
            end(tx, &record).await?;
            return Ok(Due::Expired);
        }
        let Some(then) = transition::orphan(&mut record, now, tx.settings()) else { return Ok(Due::Nothing) };
        if record.is_terminal() {
            end(tx, &record).await?;
        } else {
            tx.put(&record, Change::Orphan).await?;
        }
        Ok(Due::Orphaned(then))
    }
}
