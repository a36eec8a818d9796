//! Copying: what is copied is taken by the same transactions as everything else.

use std::{slice, time::Duration};

use super::transaction::{Change, Operation, Transaction};
use crate::{transfer::WholeTask, transition::Noted};

/// Adds tasks as they are.
pub(crate) struct Take(pub(crate) Vec<WholeTask>);

impl<T: Transaction> Operation<T> for Take {
    type Done = ();

    const TAKES_ROOM: bool = true;

    async fn run(&self, tx: &mut T) -> Result<(), T::Fault> {
        for WholeTask { record, steps, parts, removable_at } in &self.0 {
            tx.insert(record).await?;
            let noted = Noted { forgotten: Vec::new(), steps: steps.clone(), parts: parts.clone() };
            tx.note(record, noted).await?;
            // What a new task never has is put as what becomes of it.
            tx.put(record, Change::Any).await?;
            if record.is_terminal() {
                tx.put(record, Change::Ended).await?;
            }
            tx.put(record, Change::Orphan).await?;
            if let Some(until) = removable_at {
                tx.erase(slice::from_ref(record), *until).await?;
            }
        }
        Ok(())
    }
}

/// Some tasks behind a place, in the order of their creation.
pub(crate) struct WholeTasks(pub(crate) u64);

/// The owners that are charged for other bytes of tasks than they have.
pub(crate) struct Miscounts;

/// How many tasks there are, each of which is counted.
pub(crate) struct Rows;

/// Some entries behind a place.
pub(crate) struct WholeEntries(pub(crate) u64);

/// Some streams behind a place.
pub(crate) struct WholeStreams(pub(crate) u64);

/// Which other nodes are there, or were lately and have not said that they go: whoever has lost its session may come back.
pub(crate) struct Others;

/// What lately is. By then whatever a node has begun that has lost its session has ended, and it begins nothing more
/// ([`Server::admit`](super::server::Server::admit)).
pub(crate) const LATELY: Duration = Duration::from_secs(45);
