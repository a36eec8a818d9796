//! Leases that are prolonged.

use super::{fault::Fault, tx::Tx};
use crate::{
    Epoch, StoreError, TaskId,
    networked::transaction::{Operation, Transaction as _},
    transition,
};

/// Returns the tasks that are not held as the caller believes.
pub(super) struct Renew(pub(super) Vec<(TaskId, Epoch)>);

impl Operation<Tx> for Renew {
    type Done = Vec<TaskId>;

    async fn run(&self, tx: &mut Tx) -> Result<Vec<TaskId>, Fault> {
        let mut lost = Vec::new();
        // In one order, so that no two that renew the same wait for each other.
        let mut held: Vec<&(TaskId, Epoch)> = self.0.iter().collect();
        held.sort_by(|one, other| one.0.cmp(&other.0));
        for (id, epoch) in held {
            let is_gone = || StoreError::Fenced { id: id.clone(), held: *epoch };
            let renewed = tx.load(id).await?.ok_or_else(is_gone).and_then(|mut record| {
                transition::renew(&mut record, *epoch, tx.now(), tx.settings())?;
                Ok(record)
            });
            match renewed {
                Ok(record) => tx.renew(&record).await?,
                Err(error) if error.is_fenced() => lost.push(id.clone()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(lost)
    }
}
