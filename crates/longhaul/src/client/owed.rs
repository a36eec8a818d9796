//! The answers that a server is owed: each until it is given, or nobody wants it any more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul_proto::jsonrpc::RequestId;
use tokio::sync::oneshot;

/// The requests of a server that were not answered yet. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Owed(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Each with its number among all there have been, and what says that nobody wants its answer.
    requests: HashMap<RequestId, (u64, oneshot::Sender<Unwanted>)>,
    begun: u64,
    is_over: bool,
}

/// Why an answer is not wanted any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unwanted {
    /// Its server has said so.
    Withdrawn,
    /// The connection has ended or the session is lost in which it was asked. Its id may mean another request in the next.
    Gone,
}

impl Owed {
    /// One more is to be answered.
    pub(super) fn begin(&self, id: &RequestId) -> Owing {
        let (tell, unwanted) = oneshot::channel();
        let mut state = self.lock();
        state.begun += 1;
        let number = state.begun;
        if state.is_over {
            // Its receiver is held here.
            let _ = tell.send(Unwanted::Gone);
        } else {
            state.requests.insert(id.clone(), (number, tell));
        }
        drop(state);
        Owing { owed: self.clone(), id: id.clone(), number, unwanted }
    }

    /// Its server no longer wants the answer.
    pub(super) fn withdraw(&self, id: &RequestId) {
        if let Some((_, tell)) = self.lock().requests.remove(id) {
            tracing::debug!(%id, "the server withdraws what it has asked");
            // Who is gone has answered.
            let _ = tell.send(Unwanted::Withdrawn);
        }
    }

    /// Nobody is there any more who has asked so far.
    pub(super) fn forsake(&self) {
        for (_, tell) in std::mem::take(&mut self.lock().requests).into_values() {
            let _ = tell.send(Unwanted::Gone);
        }
    }

    /// Nobody will ask again either.
    pub(super) fn end(&self) {
        self.lock().is_over = true;
        self.forsake();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of them, until dropped.
#[derive(Debug)]
pub(super) struct Owing {
    owed: Owed,
    id: RequestId,
    number: u64,
    unwanted: oneshot::Receiver<Unwanted>,
}

impl Owing {
    /// What comes of `answering`, while its answer is wanted.
    ///
    /// # Errors
    ///
    /// Why it is not any more.
    pub(super) async fn while_wanted<T>(mut self, answering: impl Future<Output = T>) -> Result<T, Unwanted> {
        tokio::select! {
            biased;
            // A server that uses an id again cannot withdraw what it has asked under it before.
            Ok(why) = &mut self.unwanted => Err(why),
            answer = answering => Ok(answer),
        }
    }
}

impl Drop for Owing {
    fn drop(&mut self) {
        let mut state = self.owed.lock();
        if state.requests.get(&self.id).is_some_and(|(number, _)| *number == self.number) {
            state.requests.remove(&self.id);
        }
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
        assert_eq!(one.while_wanted(pending::<()>()).await, Err(Unwanted::Withdrawn));
        assert_eq!(other.while_wanted(ready(7)).await, Ok(7));
        assert!(owed.lock().requests.is_empty());
        // Nobody waits for that any more.
        owed.withdraw(&2.into());
    }

    #[tokio::test]
    async fn of_two_requests_of_one_id_both_are_answered_and_the_later_can_be_withdrawn() {
        let owed = Owed::default();
        let (one, other) = (owed.begin(&1.into()), owed.begin(&1.into()));
        assert_eq!(one.while_wanted(tokio::task::yield_now()).await, Ok(()));
        owed.withdraw(&1.into());
        assert_eq!(other.while_wanted(pending::<()>()).await, Err(Unwanted::Withdrawn));
    }

    #[tokio::test]
    async fn nothing_is_answered_to_who_is_gone() {
        let owed = Owed::default();
        let before = owed.begin(&1.into());
        owed.forsake();
        let after = owed.begin(&1.into());
        assert_eq!(before.while_wanted(ready(7)).await, Err(Unwanted::Gone));
        assert_eq!(after.while_wanted(ready(7)).await, Ok(7));
        let last = owed.begin(&2.into());
        owed.end();
        assert_eq!(last.while_wanted(ready(7)).await, Err(Unwanted::Gone));
        assert_eq!(owed.begin(&3.into()).while_wanted(ready(7)).await, Err(Unwanted::Gone));
        assert!(owed.lock().requests.is_empty());
    }
}
