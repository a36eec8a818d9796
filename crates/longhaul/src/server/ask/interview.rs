//! What one call has asked and been answered.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use longhaul_proto::jsonrpc::ErrorObject;
use longhaul_proto::model::{InputKind, InputRequest};
use longhaul_tasks::journal::{Fingerprint, Journal, Known};
use longhaul_tasks::store::Json;

use super::super::{context::Cx, step};
use super::Line;
use super::spent::Spending;

/// The questions of one call.
#[derive(Default)]
pub(in super::super) struct Interview(Mutex<State>);

#[derive(Default)]
struct State {
    /// Questions end the round.
    in_rounds: bool,
    /// Questions are the task's: nobody waits any more who could be asked.
    in_task: bool,
    /// A model may answer forms, where its user cannot be asked.
    by_model: bool,
    /// Somebody will follow the task that the call is or becomes, and can be asked there.
    followed: bool,
    /// Which kinds of question the work was told that it can ask.
    told: HashMap<InputKind, bool>,
    /// How long ago the questions were put that the request brings the answers to.
    put_before: Option<Duration>,
    /// How long a question waits that only the answer to the request can put, unless it says.
    patience: Option<Duration>,
    /// The keys that are taken.
    keys: HashSet<String>,
    /// How many were counted under each name.
    counts: HashMap<String, u64>,
    journal: Journal,
    /// Answers that came with the request, not yet held against their questions.
    offered: HashMap<String, String>,
    open: Vec<Open>,
    /// The questions that wait on the session's line, to be told that nobody waits there any more.
    line_wakers: Vec<Waker>,
    refusal: Option<ErrorObject>,
    /// The state that the request has brought.
    spending: Option<Arc<Spending>>,
    /// Another use of it has spent it.
    elsewhere: bool,
    /// How many steps with an effect are under way.
    effects: usize,
    /// What drives the call.
    driver: Option<Waker>,
}

/// A question of the round.
struct Open {
    key: String,
    question: Arc<InputRequest>,
    waker: Waker,
}

/// Why a question is refused.
const ASKED_IN_EFFECT: &str = "a step that has an effect asks nothing: its effect would begin again with the answer; \
                               ask before the step";

const NOBODY_TO_ASK: &str = "a call that may become a task asks who follows it, and nobody who can be asked follows this \
                             one. A caller that is to wait to the end can be asked in a session while it waits; or \
                             before the call waits for anything else, if its tool can be entered again and it bears \
                             no key";

/// How a question is asked.
pub(super) enum Way {
    /// By a request of ours, in a session.
    Line(Line),
    /// By the answer to the request, in the modern era.
    Round,
    /// Of whoever follows the task.
    Task,
}

/// How a call stands that has been driven as far as it goes.
pub(in super::super) enum Turn<T> {
    /// It has ended.
    Done(T),
    /// It waits for the answers to its questions.
    Asked(Vec<(String, InputRequest)>),
    /// It asked what cannot be asked, which ends it.
    Refused(ErrorObject),
    /// The state that it goes on from was spent by another use, which it is answered with.
    Elsewhere,
}

/// A step with an effect, until it is done: no question cuts it off.
pub(in super::super) struct Effect<'i>(&'i Interview);

impl Drop for Effect<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.effects -= 1;
        state.wake_driver();
    }
}

impl Interview {
    /// The call may be made in rounds: its questions are answered with, and it is made again with their answers.
    /// `spending`: the state that brought the journal.
    pub(in super::super) fn open_rounds(&self, journal: Journal, spending: Option<Arc<Spending>>) {
        let mut state = self.lock();
        (state.in_rounds, state.journal, state.spending) = (true, journal, spending);
    }

    /// The state that the request has brought, if it goes on from one.
    pub(in super::super) fn spending(&self) -> Option<Arc<Spending>> {
        self.lock().spending.clone()
    }

    /// The same, which it goes on from no longer.
    pub(super) fn take_spending(&self) -> Option<Arc<Spending>> {
        self.lock().spending.take()
    }

    /// Another use has spent that state: the call goes no further.
    pub(super) fn leave_elsewhere(&self) {
        let mut state = self.lock();
        state.elsewhere = true;
        state.wake_driver();
    }

    /// A step begins that has an effect.
    pub(in super::super) fn begin_effect(&self) -> Effect<'_> {
        self.lock().effects += 1;
        Effect(self)
    }

    /// The questions that the request brings answers to were put so long ago.
    pub(super) fn was_put_before(&self, ago: Duration) {
        self.lock().put_before = Some(ago);
    }

    /// How long ago the question was put that is open under this key, if it was before this request.
    pub(super) fn put_before(&self, key: &str, of: Fingerprint) -> Option<Duration> {
        let state = self.lock();
        state.put_before.filter(|_| matches!(state.journal.find(key, of), Known::Asked))
    }

    /// A question of a round is answered by default: what comes for it later is passed over.
    pub(super) fn default_to(&self, key: &str, of: Fingerprint, answer: Json) {
        let mut state = self.lock();
        if !matches!(state.journal.find(key, of), Known::Learnt(_)) {
            state.offered.remove(key);
            state.open.retain(|open| open.key != key);
            state.journal.learn(key, of, answer);
        }
    }

    /// Answers that came with the request, in the place of those that came before.
    pub(in super::super) fn offer(&self, answers: HashMap<String, String>) {
        let mut state = self.lock();
        let waiting: Vec<Waker> = state.open.iter().map(|open| open.waker.clone()).collect();
        // Who waits may be another task than the call's: nobody is asked again before it has seen the answer.
        state.open.retain(|open| !answers.contains_key(&open.key));
        state.offered = answers;
        drop(state);
        // Who waits looks again.
        waiting.into_iter().for_each(Waker::wake);
    }

    /// From here on whoever follows the task is asked; what is open on a line is asked again so.
    pub(in super::super) fn leave_to_task(&self) {
        let mut state = self.lock();
        (state.in_task, state.in_rounds) = (true, false);
        // Nearly always nobody waits.
        let (lines, open) = (mem::take(&mut state.line_wakers), mem::take(&mut state.open));
        drop(state);
        lines.into_iter().for_each(Waker::wake);
        open.into_iter().for_each(|open| open.waker.wake());
    }

    /// A model may answer forms: where its user cannot be asked, they are the task's.
    pub(in super::super) fn let_model_answer(&self) {
        self.lock().by_model = true;
    }

    /// Says that somebody will follow the task, and can be asked there.
    pub(in super::super) fn be_followed(&self) {
        self.lock().followed = true;
    }

    /// Whether somebody will.
    pub(in super::super) fn is_followed(&self) -> bool {
        self.lock().followed
    }

    /// The work is told whether it can ask so: what it was told before stands.
    pub(in super::super) fn tell_once(&self, kind: InputKind, can: bool) -> bool {
        *self.lock().told.entry(kind).or_insert(can)
    }

    /// Its caller is asked by the answers to its requests, and need never hear of the task: who does not come back with
    /// what is asked in that time never does.
    pub(in super::super) fn be_asked_within(&self, patience: Duration) {
        self.lock().patience = Some(patience);
    }

    /// Its caller is told of the task: from here on questions wait as any task's do.
    pub(in super::super) fn know_of_task(&self) {
        self.lock().patience = None;
    }

    /// How long a question waits that says nothing of it.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.lock().patience
    }

    /// Whether whoever follows the task is asked.
    pub(super) fn is_left_to_task(&self) -> bool {
        self.lock().in_task
    }

    /// Wakes `task` once nobody waits on a line any more.
    pub(super) fn wait_on_line(&self, task: &Context<'_>) {
        let mut state = self.lock();
        if !state.line_wakers.iter().any(|waker| waker.will_wake(task.waker())) {
            state.line_wakers.push(task.waker().clone());
        }
        state.look_again_if_left(task);
    }

    /// Ends the call with an error.
    pub(in super::super) fn end(&self, error: ErrorObject) {
        self.lock().refuse(error);
    }

    /// What is known under this key.
    pub(in super::super) fn known(&self, key: &str, of: Fingerprint) -> Known {
        self.lock().journal.find(key, of)
    }

    /// Notes what was learnt otherwise than by asking.
    pub(in super::super) fn learn(&self, key: &str, of: Fingerprint, json: Json) {
        let mut state = self.lock();
        if state.in_rounds {
            state.journal.learn(key, of, json);
        }
    }

    /// The key that is reserved next under `name`.
    pub(in super::super) fn next(&self, name: &str) -> String {
        self.lock().next(name)
    }

    /// The next number of its name, from 1 on.
    pub(in super::super) fn count(&self, name: &str) -> u64 {
        let mut state = self.lock();
        let count = state.counts.entry(name.to_owned()).or_default();
        *count += 1;
        *count
    }

    /// Forgets the keys that begin with `prefix`, and what was learnt under them: nobody asks for them again.
    pub(in super::super) fn forget(&self, prefix: &str) {
        let mut state = self.lock();
        state.keys.retain(|key| !key.starts_with(prefix));
        state.counts.retain(|key, _| !key.starts_with(prefix));
        state.journal.forget(prefix);
    }

    /// What was learnt so far.
    pub(in super::super) fn journal(&self) -> Journal {
        self.lock().journal.clone()
    }

    /// A key of that name, or that name with a number.
    pub(in super::super) fn reserve(&self, name: &str) -> String {
        self.lock().reserve(name)
    }

    /// The same, in the place of a key that was reserved before.
    pub(super) fn rename(&self, from: &str, to: &str) -> String {
        let mut state = self.lock();
        state.keys.remove(from);
        state.reserve(to)
    }

    /// Whether this key is reserved.
    pub(super) fn has(&self, key: &str) -> bool {
        self.lock().keys.contains(key)
    }

    /// How questions of this kind can be asked now; `able` is whether the client can answer them.
    ///
    /// # Errors
    ///
    /// Why they cannot.
    pub(super) fn way(
        &self,
        now: &Cx,
        kind: InputKind,
        able: Result<(), ErrorObject>,
    ) -> Result<Way, ErrorObject> {
        let (state, dialect) = (self.lock(), now.dialect());
        let is_models = state.by_model && kind == InputKind::Form && now.keeper().is_some();
        match able {
            Err(_) if is_models => return Ok(Way::Task),
            able => able?,
        }
        match &now.caller().line {
            _ if state.in_rounds => Ok(Way::Round),
            Some(line) if dialect.asks_by_request() && !state.in_task => Ok(Way::Line(line.clone())),
            _ if now.keeper().is_some() && (state.followed || is_models) => Ok(Way::Task),
            // What nobody is shown would wait for ever.
            _ if now.keeper().is_some() => Err(ErrorObject::internal(NOBODY_TO_ASK)),
            _ => Err(ErrorObject::internal("nothing can be asked while this request is answered")),
        }
    }

    /// Begins to ask; a refusal ends the call.
    pub(super) fn begin(&self, now: &Cx, question: &InputRequest) -> Result<Way, ErrorObject> {
        let able = question.check(now.dialect(), &now.caller().capabilities);
        let mut way = self.way(now, question.kind(), able);
        let is_entered_again = now.keeper().is_some_and(|keeper| keeper.is_entered_again());
        if let Ok(Way::Round) = &way
            && step::current().is_some()
            && !is_entered_again
        {
            // The round would end in the middle of the effect, or never.
            way = Err(ErrorObject::internal(ASKED_IN_EFFECT));
        }
        if let Err(error) = &way {
            self.lock().refuse(error.clone());
        }
        way
    }

    /// The answer to a question of a round, if there is one that can be read; else it is open from now on.
    pub(super) fn poll_answer<T>(
        &self,
        key: &str,
        of: Fingerprint,
        question: &Arc<InputRequest>,
        read: impl Fn(&str) -> Option<T>,
        task: &Context<'_>,
    ) -> Poll<T> {
        let mut state = self.lock();
        let known = state.journal.find(key, of);
        if let Known::Learnt(json) = &known
            && let Some(answer) = read(json.as_str())
        {
            return Poll::Ready(answer);
        }
        // What was answered is another question's, if another was asked under this key.
        let offered = state.offered.remove(key).filter(|_| !matches!(known, Known::Otherwise));
        if let Some(text) = offered
            && let Some(answer) = read(&text)
            && let Ok(json) = Json::parse(text)
        {
            state.journal.learn(key, of, json);
            state.open.retain(|open| open.key != key);
            return Poll::Ready(answer);
        }
        state.look_again_if_left(task);
        state.journal.ask(key, of);
        let waker = task.waker().clone();
        match state.open.iter_mut().find(|open| open.key == key) {
            Some(open) => open.waker = waker,
            None => {
                let open = Open { key: key.to_owned(), question: Arc::clone(question), waker };
                state.open.push(open);
                state.wake_driver();
            }
        }
        Poll::Pending
    }

    /// A question is no longer asked.
    pub(super) fn withdraw(&self, key: &str) {
        self.lock().open.retain(|open| open.key != key);
    }

    /// Drives a call as far as it goes.
    pub(in super::super) fn poll_turn<F: Future + Unpin>(
        &self,
        call: &mut F,
        task: &mut Context<'_>,
    ) -> Poll<Turn<F::Output>> {
        if let Poll::Ready(output) = Pin::new(call).poll(task) {
            return Poll::Ready(Turn::Done(output));
        }
        let mut state = self.lock();
        // A question may be asked by what the call has spawned.
        state.driver = Some(task.waker().clone());
        if let Some(refusal) = &state.refusal {
            return Poll::Ready(Turn::Refused(refusal.clone()));
        }
        if state.elsewhere {
            return Poll::Ready(Turn::Elsewhere);
        }
        if state.open.is_empty() || state.effects > 0 {
            return Poll::Pending;
        }
        let question = |open: &Open| (open.key.clone(), InputRequest::clone(&open.question));
        Poll::Ready(Turn::Asked(state.open.iter().map(question).collect()))
    }

    /// Drives a call that is made in one piece to its end, or to what it cannot ask.
    pub(in super::super) async fn to_the_end<F: Future + Unpin>(
        &self,
        mut call: F,
    ) -> Result<F::Output, ErrorObject> {
        match std::future::poll_fn(|task| self.poll_turn(&mut call, task)).await {
            Turn::Done(output) => Ok(output),
            Turn::Refused(error) => Err(error),
            Turn::Asked(_) | Turn::Elsewhere => {
                Err(ErrorObject::internal("a call that is not made in rounds has asked in one"))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn reserve(&mut self, name: &str) -> String {
        let key = self.next(name);
        self.keys.insert(key.clone());
        key
    }

    fn next(&self, name: &str) -> String {
        let mut key = name.to_owned();
        let mut number = 1;
        while self.keys.contains(&key) {
            number += 1;
            key = format!("{name}#{number}");
        }
        key
    }

    /// Whoever waits since nobody else does any more would never be woken.
    fn look_again_if_left(&self, task: &Context<'_>) {
        if self.in_task {
            task.waker().wake_by_ref();
        }
    }

    fn refuse(&mut self, error: ErrorObject) {
        self.refusal.get_or_insert(error);
        self.wake_driver();
    }

    fn wake_driver(&mut self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }
}

/// Answers may be anything a user has typed.
impl fmt::Debug for Interview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interview")
    }
}
