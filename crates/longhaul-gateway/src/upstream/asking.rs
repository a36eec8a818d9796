//! What a server asks while it works on a call, put to whoever made that call, and to nobody else.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul::Cx;
use longhaul::client::Question;
use longhaul::proto::jsonrpc::ErrorObject;
use longhaul::server::AskError;
use longhaul::store::Owner;
use serde_json::value::RawValue;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

tokio::task_local! {
    /// The call that is being made: what a server asks by answering it belongs to it.
    static CALL: Cx;
}

/// The calls that a server works on, over its one connection.
#[derive(Clone, Default)]
pub(super) struct Callers {
    open: Arc<Mutex<Open>>,
    /// Whenever another task is followed.
    followed: Arc<Notify>,
    /// How many use the server.
    users: Arc<watch::Sender<usize>>,
}

/// The server is used, until dropped.
pub(super) struct Using(Arc<watch::Sender<usize>>);

#[derive(Default)]
struct Open {
    calls: HashMap<u64, Cx>,
    /// The calls that have become tasks of the server's, by its ids.
    tasks: HashMap<String, Cx>,
    last: u64,
    left: Left,
}

/// Whose calls were given up, with which the server may go on, and until when that is believed: it was told, and may be gone on
/// with for ever without a word.
#[derive(Default)]
struct Left(Vec<(Owner, Instant)>);

/// A call that is under way.
struct UnderWay<'c> {
    callers: &'c Callers,
    number: u64,
    is_answered: bool,
    _using: Using,
}

/// A task of the server's belongs to a call, until dropped.
pub(super) struct Following<'c> {
    callers: &'c Callers,
    task: String,
}

impl Callers {
    /// Makes a call, to whose caller is put what is asked meanwhile.
    pub(super) async fn calling<F: Future>(&self, cx: &Cx, calling: F) -> F::Output {
        let mut under_way = self.enter(cx);
        let answered = CALL.scope(cx.clone(), calling).await;
        under_way.is_answered = true;
        answered
    }

    /// What the task of this id asks is put to whoever made the call, until what this gives is dropped.
    pub(super) fn following(&self, cx: &Cx, task: &str) -> Following<'_> {
        self.lock().tasks.insert(task.to_owned(), cx.clone());
        self.followed.notify_waiters();
        Following { callers: self, task: task.to_owned() }
    }

    /// The server is used without a caller who could be asked, until what this gives is dropped.
    pub(super) fn using(&self) -> Using {
        self.users.send_modify(|users| *users += 1);
        Using(Arc::clone(&self.users))
    }

    /// How many use it, as that changes.
    pub(super) fn users(&self) -> watch::Receiver<usize> {
        self.users.subscribe()
    }

    /// A call has failed without an answer of the server's, which may go on with it.
    pub(super) fn give_up(&self, cx: &Cx) {
        self.lock().left.add(cx.owner(), Instant::now());
    }

    /// There is another connection, on which nobody has called.
    pub(super) fn begin_anew(&self) {
        self.lock().left = Left::default();
    }

    /// Puts a question to whom it is for.
    ///
    /// # Errors
    ///
    /// Why it cannot be put to anybody, or has no answer.
    pub(super) async fn ask(&self, question: Question) -> Result<Box<RawValue>, ErrorObject> {
        let Question { request: question, task, .. } = question;
        let cx = match (CALL.try_with(Clone::clone), task) {
            (Ok(cx), _) => cx,
            (Err(_), Some(task)) => self.of_task(&task).await.ok_or_else(|| nobody(NOT_FOLLOWED))?,
            (Err(_), None) => self.only()?,
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

    /// The call that has become this task, as soon as that is known: a server may ask before it is read that there is a task.
    async fn of_task(&self, task: &str) -> Option<Cx> {
        let until = Instant::now() + UNKNOWN;
        loop {
            let mut followed = pin!(self.followed.notified());
            followed.as_mut().enable();
            if let Some(cx) = self.lock().tasks.get(task) {
                return Some(cx.clone());
            }
            timeout_at(until, followed).await.ok()?;
        }
    }

    /// The one call that a question without any hint can belong to.
    fn only(&self) -> Result<Cx, ErrorObject> {
        self.lock().only().map_err(nobody)
    }

    /// The call that something belongs to which the server says now, if that can be told.
    pub(super) fn whose(&self) -> Option<Cx> {
        CALL.try_with(Clone::clone).ok().or_else(|| self.lock().only().ok())
    }

    fn enter(&self, cx: &Cx) -> UnderWay<'_> {
        let mut open = self.lock();
        open.last += 1;
        let number = open.last;
        open.calls.insert(number, cx.clone());
        UnderWay { callers: self, number, is_answered: false, _using: self.using() }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// The one call under way, unless it may as well be one that was given up by somebody else.
    fn only(&self) -> Result<Cx, &'static str> {
        let mut calls = self.calls.values();
        match (calls.next(), calls.next()) {
            (Some(cx), None) if self.left.all_are(&cx.owner(), Instant::now()) => Ok(cx.clone()),
            (Some(_), None) => Err("somebody else's call was given up, and it may be what asks"),
            (Some(_), Some(_)) => Err("several calls are under way, and it names none"),
            (None, _) => Err("no call is under way"),
        }
    }
}

impl Left {
    fn add(&mut self, owner: Owner, now: Instant) {
        self.0.retain(|(known, until)| *known != owner && *until > now);
        self.0.push((owner, now + GOES_ON));
    }

    /// Whether a call that goes on can only be that owner's.
    fn all_are(&self, owner: &Owner, now: Instant) -> bool {
        self.0.iter().filter(|(_, until)| *until > now).all(|(left, _)| is_same(left, owner))
    }
}

/// What a server is told whose question is put to nobody.
fn nobody(why: &str) -> ErrorObject {
    let why = format!("nobody can tell whom this is for: {why}");
    tracing::warn!(why, "a question of a server is refused");
    ErrorObject::internal(why)
}

const NOT_FOLLOWED: &str = "no call that is under way has become this task";

/// How long a task may ask before anybody follows it: one that goes on after a crash is followed again before long.
const UNKNOWN: Duration = Duration::from_secs(10);

/// For how long a server that was told that a call is given up is believed to go on with it.
const GOES_ON: Duration = Duration::from_secs(10 * 60);

/// Whether both are known to be the same. Of those that nobody knows it cannot be told.
fn is_same(one: &Owner, other: &Owner) -> bool {
    matches!(one, Owner::Principal(_)) && one == other
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut open = self.callers.lock();
        if let Some(cx) = open.calls.remove(&self.number).filter(|_| !self.is_answered) {
            open.left.add(cx.owner(), Instant::now());
        }
    }
}

impl Drop for Following<'_> {
    fn drop(&mut self) {
        self.callers.lock().tasks.remove(&self.task);
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        self.0.send_modify(|users| *users -= 1);
    }
}

impl fmt::Debug for Callers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callers").field("open", &self.lock().calls.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_was_given_up_keeps_others_from_being_asked_for_a_while() {
        let owner = |name: &str| Owner::principal(name).unwrap();
        let (mut left, now) = (Left::default(), Instant::now());
        assert!(left.all_are(&owner("bob"), now));
        left.add(owner("ann"), now);
        let later = now + GOES_ON / 2;
        assert!(!left.all_are(&owner("bob"), later) && left.all_are(&owner("ann"), later));
        left.add(owner("ann"), later);
        left.add(Owner::Anonymous, later);
        assert!(!left.all_are(&owner("bob"), now + GOES_ON), "another was given up since");
        assert!(!left.all_are(&Owner::Anonymous, now + GOES_ON), "strangers are not known to be one");
        assert!(left.all_are(&owner("bob"), later + GOES_ON));
        left.add(owner("bob"), later + GOES_ON);
        assert_eq!(left.0.len(), 1, "nothing is kept that does not count");
    }
}
