//! How operations get to a server, and what becomes of them on the way: each store supplies it.

use std::{sync::Arc, time::Duration};

use super::{
    look::{Look, Moment},
    node::Node,
    transaction::{Operation, Transaction},
};
use crate::{Epoch, StoreError, TaskId, error::said};

/// A server that keeps a store, as one node of the store has it.
pub(crate) trait Server: Send + Sync + 'static {
    /// By what an operation reads and writes.
    type Tx: Transaction;

    /// By what is only read.
    type Moment: Moment;

    /// This node.
    fn node(&self) -> &Node;

    /// Where the server is, and nothing else that its URL says.
    fn place(&self) -> String;

    /// Refuses what a node may not begin: it has seen that the store is out of service, or has long not seen that it is not.
    ///
    /// A node that stood still, or was cut off, does nothing until it has a session again and has looked: the store may have
    /// been copied into another meanwhile.
    fn admit(&self) -> Result<(), StoreError> {
        match self.node().refusal() {
            Some(refusal) => Err(refusal),
            None if self.node().silence() > LONGEST_SILENCE => {
                let source = said("this node has lost its session with it, and makes another");
                Err(StoreError::Unreachable { place: self.place(), source })
            }
            None => Ok(()),
        }
    }

    /// The runtime that this is called in, if it reaches the server without the store's own threads.
    fn near(&self) -> Option<tokio::runtime::Handle> {
        None
    }

    /// Does something that is done as a whole or not at all, and tells who watches. What others stand in the way of is tried
    /// again, a bounded number of times.
    fn change<O: Operation<Self::Tx>>(
        self: Arc<Self>,
        operation: O,
    ) -> impl Future<Output = Result<O::Done, StoreError>> + Send + 'static;

    /// Reads something; what the way to the server stands in the way of is tried again, a bounded number of times.
    fn look<L: Look<Self::Moment>>(
        self: Arc<Self>,
        look: L,
    ) -> impl Future<Output = Result<L::Found, StoreError>> + Send + 'static;

    /// Prolongs leases, of which there is more than of anything else; gives the tasks that are not held as is believed.
    fn renew(
        self: Arc<Self>,
        held: Vec<(TaskId, Epoch)>,
    ) -> impl Future<Output = Result<Vec<TaskId>, StoreError>> + Send + 'static;
}

/// For how long a node goes on that has lost its session. It looks each second.
const LONGEST_SILENCE: Duration = Duration::from_secs(15);
