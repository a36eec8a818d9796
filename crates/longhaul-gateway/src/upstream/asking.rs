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

use super::caller::{Caller, unanswered};

tokio::task_local! {
    /// Who makes the call that is being made: what a server asks by answering it belongs to it.
    static CALL: Arc<Caller>;
}

/// The calls that a server works on, over its one connection.
#[derive(Clone, Default)]
pub(super) struct Callers {
    open: Arc<Mutex<Open>>,
    /// Whenever another task is followed, or a call has ended.
    news: Arc<Notify>,
    /// How many use the server.
    users: Arc<watch::Sender<usize>>,
}

/// The server is used, until dropped.
pub(super) struct Using(Arc<watch::Sender<usize>>);

#[derive(Default)]
struct Open {
    calls: HashMap<u64, Arc<Caller>>,
    followed: Followed<Arc<Caller>>,
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

/// Why it is not known whom a question is for.
enum Unclear {
    Refused(&'static str),
    /// Another call is just ending whose caller has gone.
    ForNow,
    /// It is for somebody who has gone.
    Gone,
}

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
    pub(super) async fn calling<F: Future>(&self, caller: &Arc<Caller>, calling: F) -> F::Output {
        let mut under_way = self.enter(caller);
        let answered = CALL.scope(Arc::clone(caller), calling).await;
        under_way.is_answered = true;
        answered
    }

    /// What the task of this id asks is put to whoever made the call, until what this gives is dropped.
    pub(super) fn following(&self, caller: &Arc<Caller>, task: &str) -> Following<'_> {
        let mut open = self.lock();
        let number = open.number();
        open.followed.add(task, number, Arc::clone(caller));
        drop(open);
        self.news.notify_waiters();
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
        // What is asked by answering a call ends with the call.
        let (caller, is_by_request) = match (CALL.try_with(Arc::clone), task) {
            (Ok(caller), _) => (Some(caller), false),
            (Err(_), Some(task)) => (Some(self.of_task(&task).await.map_err(nobody)?), true),
            (Err(_), None) => (self.only().await.map_err(nobody)?, true),
        };
        let Some(caller) = caller else { return unanswered(&question) };
        let _asking = is_by_request.then(|| caller.begin_to_ask());
        if !caller.cx.can_ask(question.kind()) {
            let why = format!("whoever made this call cannot be asked so ({})", question.method());
            return Err(ErrorObject::method_not_found(&why));
        }
        tokio::select! {
            biased;
            () = caller.goes() => unanswered(&question),
            answer = caller.cx.ask(question.clone()) => match answer {
                Ok(answer) => Ok(answer),
                Err(AskError::Refused(error)) => Err(error),
                Err(AskError::Gone) => {
                    caller.be_lost();
                    unanswered(&question)
                }
                Err(error) => Err(ErrorObject::internal(error.to_string())),
            },
        }
    }

    /// The call that has become this task, as soon as that is known: a server may ask before it is read that there is a task. It may
    /// also have a task for a call whose caller is told of none, which is then the only one under way.
    async fn of_task(&self, task: &str) -> Result<Arc<Caller>, &'static str> {
        let began = Instant::now();
        loop {
            let mut news = pin!(self.news.notified());
            news.as_mut().enable();
            let patience = {
                let open = self.lock();
                if let Some(found) = open.followed.of(task, |caller| caller.cx.owner()) {
                    return found;
                }
                if open.untold(task).is_some() { UNTOLD } else { UNKNOWN }
            };
            if timeout_at(began + patience, news).await.is_err() {
                return self.lock().untold(task).ok_or(NOT_FOLLOWED);
            }
        }
    }

    /// Who has made the one call that a question without any hint can belong to; `None` if they have gone.
    async fn only(&self) -> Result<Option<Arc<Caller>>, &'static str> {
        let until = Instant::now() + ENDING;
        loop {
            let mut news = pin!(self.news.notified());
            news.as_mut().enable();
            let only = self.lock().only();
            match only {
                Ok(caller) => return Ok(Some(caller)),
                Err(Unclear::Gone) => return Ok(None),
                Err(Unclear::Refused(why)) => return Err(why),
                Err(Unclear::ForNow) => {}
            }
            if timeout_at(until, news).await.is_err() {
                return Err(SOMEBODY_ELSES);
            }
        }
    }

    /// The call that something belongs to which the server says now, if that can be told.
    pub(super) fn whose(&self) -> Option<Cx> {
        let caller = CALL.try_with(Arc::clone).ok().or_else(|| self.lock().only().ok());
        caller.map(|caller| caller.cx.clone())
    }

    /// Whether somebody is being asked.
    pub(super) fn are_asked(&self) -> bool {
        let open = self.lock();
        open.calls.values().chain(open.followed.callers()).any(|caller| caller.is_asked())
    }

    fn enter(&self, caller: &Arc<Caller>) -> UnderWay<'_> {
        let mut open = self.lock();
        let number = open.number();
        open.calls.insert(number, Arc::clone(caller));
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
    fn untold(&self, task: &str) -> Option<Arc<Caller>> {
        self.only().ok().filter(|_| !self.followed.was(task))
    }

    /// Who has made the one call under way, unless it may as well be somebody else's that was given up.
    fn only(&self) -> Result<Arc<Caller>, Unclear> {
        let (gone, there): (Vec<_>, Vec<_>) = self.calls.values().partition(|caller| caller.is_gone());
        let only = match &there[..] {
            [only] => *only,
            [] if gone.is_empty() => return Err(Unclear::Refused("no call is under way")),
            [] => return Err(Unclear::Gone),
            _ => return Err(Unclear::Refused("several calls are under way, and it names none")),
        };
        let owner = only.cx.owner();
        if !self.left.all_are(&owner, Instant::now()) {
            return Err(Unclear::Refused(SOMEBODY_ELSES));
        }
        let is_its = gone.iter().all(|gone| is_same(&gone.cx.owner(), &owner));
        if is_its { Ok(Arc::clone(only)) } else { Err(Unclear::ForNow) }
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

    /// The calls that have become tasks.
    fn callers(&self) -> impl Iterator<Item = &C> {
        self.tasks.values().flatten().map(|(_, call)| call)
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

const SOMEBODY_ELSES: &str = "somebody else's call was given up, and it may be what asks";

const NOT_FOLLOWED: &str = "no call that is under way has become this task";

/// How long a task may ask before anybody follows it: one that goes on after a crash is followed again before long.
const UNKNOWN: Duration = Duration::from_secs(10);

/// How long it may do so while the one call under way, which may have become it, is not answered.
const UNTOLD: Duration = Duration::from_secs(2);

/// How long a question waits for the end of a call whose caller has gone, and whose it may be as well.
const ENDING: Duration = Duration::from_secs(2);

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
        if let Some(caller) = open.calls.remove(&self.number).filter(|_| !self.is_answered) {
            open.left.add(caller.cx.owner(), Instant::now());
            caller.go();
        }
        drop(open);
        self.callers.news.notify_waiters();
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

    #[tokio::test]
    async fn who_is_asked_by_a_task_is_asked() {
        let (_client, cx) = super::super::tests::called().await;
        let (callers, caller) = (Callers::default(), Caller::of(&cx));
        let following = callers.following(&caller, "t");
        assert!(!callers.are_asked());
        let asking = caller.begin_to_ask();
        assert!(callers.are_asked(), "a server that works in one thread answers no ping meanwhile");
        drop(asking);
        assert!(!callers.are_asked());
        drop(following);
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
