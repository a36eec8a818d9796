//! Leases that are prolonged: the operation that there is most of, which needs no look at a task.

use std::{collections::HashSet, sync::Arc};

use super::{
    Site,
    fault::Fault,
    sql,
    tx::{Tx, int, text},
    value::Value,
};
use crate::{
    Epoch, StoreError, TaskId,
    networked::{
        server::Server as _,
        transaction::{Operation, Transaction as _},
    },
    row::signed,
};

/// Prolongs leases; gives the tasks that are not held as the caller believes.
pub(super) async fn renew(site: &Arc<Site>, held: &[(TaskId, Epoch)]) -> Result<Vec<TaskId>, StoreError> {
    let (mut lost, mut failure) = (Vec::new(), None);
    for some in held.chunks(AT_ONCE) {
        match Arc::clone(site).change(Renew(some.to_vec())).await {
            Ok(some) => lost.extend(some),
            // Somebody holds one of these: the leases of the others must not run out for that.
            Err(error @ StoreError::Busy { .. }) => failure = Some(error),
            Err(error) => return Err(error),
        }
    }
    failure.map_or(Ok(lost), Err)
}

/// Those of so many tasks at most. Whoever works on one of them waits until this is over.
struct Renew(Vec<(TaskId, Epoch)>);

impl Operation<Tx> for Renew {
    type Done = Vec<TaskId>;

    /// What [`transition::renew`](crate::transition::renew) does, in one statement: whoever holds a task has a lease on it, be it to
    /// work on it or to undo it.
    async fn run(&self, tx: &mut Tx) -> Result<Vec<TaskId>, Fault> {
        let ids: Vec<&str> = self.0.iter().map(|(id, _)| id.as_str()).collect();
        let epochs: Vec<i64> = self.0.iter().map(|(_, epoch)| signed(epoch.get())).collect();
        let until = tx.now().after(tx.settings().lease);
        let values = [Value::Texts(&ids), Value::Ints(&epochs), Value::int(until.unix_ms())];
        let rows = tx.execute(sql::RENEW, &values).await?;
        let renewed = rows.iter().map(|row| Ok((text(row, 0)?, int(row, 1)?)));
        let renewed = renewed.collect::<Result<HashSet<_>, Fault>>()?;
        let is_lost = |held: &&(TaskId, Epoch)| !renewed.contains(&(held.0.as_str(), signed(held.1.get())));
        Ok(self.0.iter().filter(is_lost).map(|(id, _)| id.clone()).collect())
    }
}

/// How many at once.
const AT_ONCE: usize = 500;
