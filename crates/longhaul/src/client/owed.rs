//! The answers that a server is owed: each until it is given, or the server no longer wants it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul_proto::jsonrpc::RequestId;
use tokio::sync::oneshot;

/// The requests of a server that were not answered yet, each with what says that it is withdrawn. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Owed(Arc<Mutex<HashMap<RequestId, oneshot::Sender<()>>>>);

impl Owed {
    /// One more is to be answered.
    pub(super) fn begin(&self, id: &RequestId) -> Owing {
        let (withdraw, withdrawn) = oneshot::channel();
        self.lock().insert(id.clone(), withdraw);
        Owing { owed: self.clone(), id: id.clone(), withdrawn }
    }

    /// Its server no longer wants the answer.
    pub(super) fn withdraw(&self, id: &RequestId) {
        if let Some(withdraw) = self.lock().remove(id) {
            tracing::debug!(%id, "the server withdraws what it has asked");
            // Who is gone has answered.
            let _ = withdraw.send(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, oneshot::Sender<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of them, until dropped.
#[derive(Debug)]
pub(super) struct Owing {
    owed: Owed,
    id: RequestId,
    withdrawn: oneshot::Receiver<()>,
}

impl Owing {
    /// What comes of `answering`; `None` if its server withdraws the request before.
    pub(super) async fn unless_withdrawn<T>(mut self, answering: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            answer = answering => Some(answer),
            // A server that uses an id again cannot withdraw what it has asked under it before.
            Ok(()) = &mut self.withdrawn => None,
        }
    }
}

impl Drop for Owing {
    fn drop(&mut self) {
        self.owed.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn what_is_withdrawn_ends_and_whatever_else_is_answered() {
        let owed = Owed::default();
        let (one, other) = (owed.begin(&1.into()), owed.begin(&2.into()));
        owed.withdraw(&1.into());
        assert_eq!(one.unless_withdrawn(pending::<()>()).await, None);
        assert_eq!(other.unless_withdrawn(ready(7)).await, Some(7));
        assert!(owed.lock().is_empty());
        // Nobody waits for that any more.
        owed.withdraw(&2.into());
    }

    #[tokio::test]
    async fn two_requests_of_one_id_are_both_answered() {
        let owed = Owed::default();
        let (one, other) = (owed.begin(&1.into()), owed.begin(&1.into()));
        assert_eq!(one.unless_withdrawn(tokio::task::yield_now()).await, Some(()));
        assert_eq!(other.unless_withdrawn(ready(7)).await, Some(7));
    }
}
