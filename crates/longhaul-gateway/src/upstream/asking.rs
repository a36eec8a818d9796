//! What a server asks while it works on a call, put to whoever made that call, and to nobody else.

use std::collections::{HashMap, VecDeque};
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
    followed: Followed<Cx>,
    last: u64,
    left: Left,
}

/// The calls that have become tasks of the server's, by its ids: several have become one, where the server joins calls.
struct Followed<C> {
    tasks: HashMap<String, Vec<(u64, C)>>,
    /// Those of which nobody follows any more, the newest last: what they ask is nobody else's.
    left: VecDeque<String>,
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
    number: u64,
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
        let mut open = self.lock();
        let number = open.number();
        open.followed.add(task, number, cx.clone());
        drop(open);
        self.followed.notify_waiters();
        Following { callers: self, task: task.to_owned(), number }
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
            (Err(_), Some(task)) => self.of_task(&task).await.map_err(nobody)?,
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

    /// The call that has become this task, as soon as that is known: a server may ask before it is read that there is a task. It may
    /// also have a task for a call whose caller is told of none, which is then the only one under way.
    async fn of_task(&self, task: &str) -> Result<Cx, &'static str> {
        let began = Instant::now();
        loop {
            let mut followed = pin!(self.followed.notified());
            followed.as_mut().enable();
            let patience = {
                let open = self.lock();
                if let Some(found) = open.followed.of(task, Cx::owner) {
                    return found;
                }
                if open.untold(task).is_some() { UNTOLD } else { UNKNOWN }
            };
            if timeout_at(began + patience, followed).await.is_err() {
                return self.lock().untold(task).ok_or(NOT_FOLLOWED);
            }
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
        let number = open.number();
        open.calls.insert(number, cx.clone());
        UnderWay { callers: self, number, is_answered: false, _using: self.using() }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The one call that may have become this task without a word, unless others' has.
    fn untold(&self, task: &str) -> Option<Cx> {
        self.only().ok().filter(|_| !self.followed.was(task))
    }

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

impl<C: Clone> Followed<C> {
    fn add(&mut self, task: &str, number: u64, call: C) {
        self.tasks.entry(task.to_owned()).or_default().push((number, call));
    }

    fn remove(&mut self, task: &str, number: u64) {
        let Some(calls) = self.tasks.get_mut(task) else { return };
        calls.retain(|(of, _)| *of != number);
        if calls.is_empty() {
            self.tasks.remove(task);
            if self.left.len() == MAX_LEFT {
                self.left.pop_front();
            }
            self.left.push_back(task.to_owned());
        }
    }

    /// Whether somebody has followed this task, and nobody does.
    fn was(&self, task: &str) -> bool {
        self.left.iter().any(|left| left == task)
    }

    /// The newest call that has become this task, if all that have are known to be of one `owner`. `None` if none has.
    fn of(&self, task: &str, owner: impl Fn(&C) -> Owner) -> Option<Result<C, &'static str>> {
        let ((_, newest), others) = self.tasks.get(task)?.split_last()?;
        let whose = owner(newest);
        Some(match others.iter().all(|(_, other)| is_same(&owner(other), &whose)) {
            true => Ok(newest.clone()),
            false => Err("the calls of several callers have become this task"),
        })
    }
}

impl<C> Default for Followed<C> {
    fn default() -> Self {
        Self { tasks: HashMap::new(), left: VecDeque::new() }
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

/// How long it may do so while the one call under way, which may have become it, is not answered.
const UNTOLD: Duration = Duration::from_secs(2);

/// How many tasks are known that nobody follows any more.
const MAX_LEFT: usize = 1024;

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
        self.callers.lock().followed.remove(&self.task, self.number);
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
    fn a_task_that_several_calls_have_become_is_followed_by_each_and_asks_one_caller_alone() {
        let owner = |name: &str| Owner::principal(name).unwrap();
        let mut followed = Followed::default();
        let asked = |followed: &Followed<Owner>| followed.of("t", Owner::clone);
        assert_eq!(asked(&followed), None);
        followed.add("t", 1, owner("ann"));
        followed.add("t", 2, owner("ann"));
        assert_eq!(asked(&followed), Some(Ok(owner("ann"))));
        followed.add("t", 3, owner("bob"));
        assert!(matches!(asked(&followed), Some(Err(_))), "it may be either's");
        followed.remove("t", 2);
        followed.remove("t", 1);
        assert_eq!(asked(&followed), Some(Ok(owner("bob"))), "who follows still is asked");
        assert!(!followed.was("t"));
        followed.remove("t", 3);
        assert_eq!((asked(&followed), followed.was("t")), (None, true));
        followed.add("u", 4, Owner::Anonymous);
        followed.add("u", 5, Owner::Anonymous);
        assert!(matches!(followed.of("u", Owner::clone), Some(Err(_))), "strangers are not known to be one");
    }

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
