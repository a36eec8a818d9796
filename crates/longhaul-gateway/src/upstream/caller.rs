//! Who has made a call, and what becomes of it once they want no answer. Where they have just gone, what its server asked them is
//! answered and the call comes to its end by itself, so that nobody takes what it might ask yet for somebody else's. Where they have
//! cancelled it, or it took too long, its server is told first: what they were told does not happen must not.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use longhaul::Cx;
use longhaul::proto::jsonrpc::ErrorObject;
use longhaul::proto::model::{ElicitAction, ElicitResult, InputRequest};
use serde_json::value::{RawValue, to_raw_value};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;

/// Who has made a call.
pub(super) struct Caller {
    pub(super) cx: Cx,
    is_gone: watch::Sender<bool>,
    /// How many questions wait for their answers.
    questions: AtomicUsize,
    /// A question found that they had gone.
    was_lost: AtomicBool,
}

/// A question waits for its answer, until dropped.
pub(super) struct Asking<'c>(&'c Caller);

impl Caller {
    pub(super) fn of(cx: &Cx) -> Arc<Self> {
        Arc::new(Self {
            cx: cx.clone(),
            is_gone: watch::Sender::new(false),
            questions: AtomicUsize::new(0),
            was_lost: AtomicBool::new(false),
        })
    }

    /// Nobody waits for the call any more.
    pub(super) fn go(&self) {
        self.is_gone.send_replace(true);
    }

    pub(super) fn is_gone(&self) -> bool {
        *self.is_gone.borrow()
    }

    pub(super) fn is_asked(&self) -> bool {
        self.questions.load(Ordering::Acquire) > 0
    }

    pub(super) fn begin_to_ask(&self) -> Asking<'_> {
        self.questions.fetch_add(1, Ordering::AcqRel);
        Asking(self)
    }

    /// A question that waits has found that they have gone.
    pub(super) fn be_lost(&self) {
        self.was_lost.store(true, Ordering::Release);
    }

    /// Whether they have gone while they were asked, and not cancelled the call.
    fn left_while_asked(&self) -> bool {
        self.cx.is_left() && (self.is_asked() || self.was_lost.load(Ordering::Acquire))
    }

    /// Completes once nobody waits for the call any more.
    pub(super) async fn goes(&self) {
        // The sender is part of what is waited on.
        let _ = self.is_gone.subscribe().wait_for(|is_gone| *is_gone).await;
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.questions.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What is answered for somebody who has gone: that they have given no answer.
pub(super) fn unanswered(question: &InputRequest) -> Result<Box<RawValue>, ErrorObject> {
    match question {
        InputRequest::Elicit(_) => to_raw_value(&ElicitResult::of(ElicitAction::Cancel))
            .map_err(|error| ErrorObject::internal(error.to_string())),
        InputRequest::Sample(_) | InputRequest::ListRoots => {
            Err(ErrorObject::internal("whoever made this call has gone"))
        }
    }
}

/// A call that is being made. Dropped before its end it is given up. But if its caller has gone while they were asked, it is seen off:
/// its server gets an answer, and the call has a moment to end.
pub(super) struct Turn<T: Send + 'static> {
    caller: Arc<Caller>,
    calling: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
}

impl<T: Send + 'static> Turn<T> {
    pub(super) fn new(caller: Arc<Caller>, calling: impl Future<Output = T> + Send + 'static) -> Self {
        Self { caller, calling: Some(Box::pin(calling)) }
    }
}

impl<T: Send + 'static> Future for Turn<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<T> {
        let Some(calling) = &mut self.calling else { return Poll::Pending };
        let came = ready!(calling.as_mut().poll(task));
        self.calling = None;
        Poll::Ready(came)
    }
}

impl<T: Send + 'static> Drop for Turn<T> {
    fn drop(&mut self) {
        let Some(calling) = self.calling.take() else { return };
        // What is asked ends at the word that nobody waits: so it is looked at first.
        if self.caller.left_while_asked()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(timeout(SEEN_OFF, calling));
        } else {
            drop(calling);
        }
        self.caller.go();
    }
}

/// How long a call may take to end once what it asked is answered; then it is given up as any other.
const SEEN_OFF: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::super::tests::called;
    use super::*;

    /// A call that waits to be told so, and then says that it has ended.
    fn turn(caller: &Arc<Caller>) -> (Turn<()>, oneshot::Sender<()>, oneshot::Receiver<()>) {
        let (end, ends) = oneshot::channel();
        let (over, is_over) = oneshot::channel();
        let calling = async move {
            let _told = ends.await;
            let _heard = over.send(());
        };
        (Turn::new(Arc::clone(caller), calling), end, is_over)
    }

    #[tokio::test]
    async fn a_call_that_asks_is_seen_off_where_its_caller_has_gone_and_given_up_where_they_have_not() {
        let (client, cx) = called().await;
        let caller = Caller::of(&cx);
        let asking = caller.begin_to_ask();
        let (dropped, end, is_over) = turn(&caller);
        drop(dropped);
        assert!(caller.is_gone() && end.is_closed() && is_over.await.is_err(), "it was cancelled");
        drop(asking);
        client.close().await;
        while !cx.is_left() {
            tokio::task::yield_now().await;
        }
        let caller = Caller::of(&cx);
        let (dropped, end, _) = turn(&caller);
        drop(dropped);
        assert!(end.is_closed(), "it asks nothing");
        let asking = caller.begin_to_ask();
        let (dropped, end, is_over) = turn(&caller);
        drop(dropped);
        assert!(caller.is_gone(), "what it asks is answered");
        end.send(()).unwrap();
        is_over.await.unwrap();
        drop(asking);
        // What it asked may have been answered by then, for the question has found out first.
        let caller = Caller::of(&cx);
        caller.be_lost();
        let (dropped, end, is_over) = turn(&caller);
        drop(dropped);
        end.send(()).unwrap();
        is_over.await.unwrap();
    }
}
