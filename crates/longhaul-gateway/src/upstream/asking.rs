//! What a server asks while it works on a call, put to whoever made that call, and to nobody else.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul::Cx;
use longhaul::proto::jsonrpc::ErrorObject;
use longhaul::proto::model::InputRequest;
use longhaul::server::AskError;
use serde_json::value::RawValue;

tokio::task_local! {
    /// The call that is being made: what a server asks by answering it belongs to it.
    static CALL: Cx;
}

/// The calls that a server works on, over its one connection.
#[derive(Clone, Default)]
pub(super) struct Callers(Arc<Mutex<Open>>);

#[derive(Default)]
struct Open {
    calls: HashMap<u64, Cx>,
    last: u64,
    /// A call was given up, with which the server may go on.
    is_left: bool,
}

/// A call that is under way.
struct UnderWay<'c> {
    callers: &'c Callers,
    number: u64,
    is_answered: bool,
}

impl Callers {
    /// Makes a call, to whose caller is put what is asked meanwhile.
    pub(super) async fn calling<F: Future>(&self, cx: &Cx, calling: F) -> F::Output {
        let mut under_way = self.enter(cx);
        let answered = CALL.scope(cx.clone(), calling).await;
        under_way.is_answered = true;
        answered
    }

    /// There is another connection, on which nobody has called.
    pub(super) fn begin_anew(&self) {
        self.lock().is_left = false;
    }

    /// Puts a question to whom it is for.
    ///
    /// # Errors
    ///
    /// Why it cannot be put to anybody, or has no answer.
    pub(super) async fn ask(&self, question: InputRequest) -> Result<Box<RawValue>, ErrorObject> {
        let cx = match CALL.try_with(Clone::clone) {
            Ok(cx) => cx,
            Err(_) => self.only()?,
        };
        if !cx.can_ask(question.kind()) {
            let why = format!("whoever made this call cannot be asked so ({})", question.method());
            return Err(ErrorObject::method_not_found(&why));
        }
        cx.ask(question).await.map_err(|error| match error {
            AskError::Refused(error) => error,
            error => ErrorObject::internal(error.to_string()),
        })
    }

    /// The one call that a question without any hint can belong to.
    fn only(&self) -> Result<Cx, ErrorObject> {
        let open = self.lock();
        let unclear = |why: &str| {
            let why = format!("nobody can tell whom this is for: {why}");
            tracing::warn!(why, "a question of a server is refused");
            Err(ErrorObject::internal(why))
        };
        let mut calls = open.calls.values();
        match (calls.next(), calls.next(), open.is_left) {
            (Some(_), _, true) => unclear("a call was given up, and it may be what asks"),
            (Some(cx), None, false) => Ok(cx.clone()),
            (Some(_), Some(_), _) => unclear("several calls are under way, and the question names none"),
            (None, ..) => unclear("no call is under way"),
        }
    }

    fn enter(&self, cx: &Cx) -> UnderWay<'_> {
        let mut open = self.lock();
        open.last += 1;
        let number = open.last;
        open.calls.insert(number, cx.clone());
        UnderWay { callers: self, number, is_answered: false }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut open = self.callers.lock();
        open.calls.remove(&self.number);
        open.is_left |= !self.is_answered;
    }
}

impl fmt::Debug for Callers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callers").field("open", &self.lock().calls.len()).finish_non_exhaustive()
    }
}
