//! Asking the client from within a handler: its user, its model, and where it lets us work.
//!
//! A question is a future, the same in both eras. In a session it is a request of ours on the stream of the call, and
//! the future waits for the answer. In the modern era there are no such requests: the answer to the call says what is
//! asked, and the call is made again with the answers ([`rounds`]).

mod binding;
mod chain;
pub(super) mod courier;
mod desk;
mod elsewhere;
mod error;
mod form;
mod held;
pub(super) mod in_task;
mod interview;
mod ledger;
mod line;
mod rounds;
mod spent;
mod task_rounds;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use longhaul_proto::method::Notice;
use longhaul_proto::model::{
    CreateMessageParams, CreateMessageResult, ElicitAction, ElicitForm, ElicitParams, ElicitResult,
    ElicitUrl, Form, InputKind, InputRequest, ListRootsResult, Root,
};
use longhaul_tasks::journal::Fingerprint;
use longhaul_tasks::store::Json;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::Instant;

use super::address;
use super::context::Cx;
use crate::wire::{self, By};
pub(super) use binding::Binding;
pub(super) use desk::Desk;
pub use desk::RoundOptions;
pub use error::AskError;
use interview::Way;
pub(super) use interview::{Interview, Turn};
pub(crate) use line::{Kept, Line};
pub(super) use rounds::{Begun, Reply, Rounds, Topic, reply, when_answered};
pub(super) use task_rounds::{Back, TaskRounds};

/// What a user did who was asked.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the specification's three actions")]
pub enum Elicited<T> {
    /// Said yes, with this.
    Accepted(T),
    /// Said no.
    Declined,
    /// Went away without saying either.
    Cancelled,
}

impl<T> Elicited<T> {
    /// What the user said yes with, if they did.
    pub fn accepted(self) -> Option<T> {
        match self {
            Self::Accepted(value) => Some(value),
            Self::Declined | Self::Cancelled => None,
        }
    }
}

/// How long a question of a session waits for its answer, unless it is told otherwise.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

impl Cx {
    /// Asks the client's user to fill in the fields of `T`: texts, numbers, yes or no, and choices. The answer is
    /// held against the form before the handler sees it.
    ///
    /// Never for secrets: the answer passes through the client. A client that cannot be asked ends the call with
    /// `-32021`; [`can_ask`](Self::can_ask) tells beforehand.
    ///
    /// ```
    /// # use longhaul::{Cx, server::{Elicited, ToolError}};
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Approve {
    ///     /// Whether to go on.
    ///     go: bool,
    /// }
    ///
    /// async fn release(cx: Cx) -> Result<&'static str, ToolError> {
    ///     match cx.elicit::<Approve>("Publish version 2?").await? {
    ///         Elicited::Accepted(Approve { go: true }) => Ok("published"),
    ///         _ => Ok("not published"),
    ///     }
    /// }
    /// ```
    pub fn elicit<T: DeserializeOwned + JsonSchema>(&self, message: impl Into<String>) -> Ask<Elicited<T>> {
        let question = form::of::<T>().map(|form| ElicitParams::Form(ElicitForm::new(message, form)));
        let question = question.map(InputRequest::Elicit).map_err(|what| AskError::NoForm { what });
        Ask::new(self, "elicit", question, read_filled_in::<T>)
    }

    /// Asks the client's user to fill in a form that is made by hand; gives what it was filled in with, an object
    /// that fits the form.
    pub fn elicit_form(&self, message: impl Into<String>, form: Form) -> Ask<Elicited<Box<RawValue>>> {
        let question = InputRequest::Elicit(ElicitParams::Form(ElicitForm::new(message, form)));
        Ask::new(self, "elicit", Ok(question), read_filled_in::<Box<RawValue>>)
    }

    /// Sends the client's user to a page, where what is secret stays. Accepted means that they went, not that they
    /// are done there. Its address begins with `https://`, or with `http://` and a name of this machine for itself: any
    /// other is [`AskError::NoPage`], and the client is not asked.
    pub fn elicit_url(&self, page: ElicitUrl) -> Ask<Elicited<()>> {
        let checked = address::check(&page.url).map_err(|what| AskError::NoPage { what });
        let question = checked.map(|()| InputRequest::Elicit(ElicitParams::Url(page)));
        Ask::new(self, "elicit", question, |_, answer| {
            let result: ElicitResult = read(answer)?;
            Ok(match result.action {
                ElicitAction::Accept => Elicited::Accepted(()),
                ElicitAction::Decline => Elicited::Declined,
                ElicitAction::Cancel => Elicited::Cancelled,
            })
        })
    }

    /// Says that the user is done on the page that [`elicit_url`](Self::elicit_url) sent them to; `id` is its
    /// [`ElicitUrl::id`]. Only 2025-11-25 has a word for it; in the others nothing is said.
    pub async fn elicitation_complete(&self, id: &str) {
        let now = self.now();
        let said = wire::notification(By::Server, now.dialect(), Notice::ElicitationComplete, |params| {
            params.field("elicitationId", id);
            now.relate(params);
        });
        if let Some(said) = said {
            now.tell(said).await;
        }
    }

    /// Asks the client's model.
    pub fn sample(&self, params: CreateMessageParams) -> Ask<CreateMessageResult> {
        let question = InputRequest::Sample(Box::new(params));
        Ask::new(self, "sample", Ok(question), |_, answer| read(answer))
    }

    /// Asks where the client lets the server work.
    pub fn roots(&self) -> Ask<Vec<Root>> {
        Ask::new(self, "roots", Ok(InputRequest::ListRoots), |_, answer| {
            read::<ListRootsResult>(answer).map(|result| result.roots)
        })
    }

    /// Asks the client what somebody else has asked, and gives its answer as it comes: the JSON of the result that such a
    /// question has, held against the question as an answer to one's own is. A page is checked as
    /// [`elicit_url`](Self::elicit_url) does.
    ///
    /// Where a task is entered again, somebody else may ask otherwise than before. What was asked before is answered as it
    /// was then; what was not, or was [dropped](Ask), is asked anew.
    ///
    /// ```
    /// # use longhaul::{Cx, proto::model::InputRequest, server::ToolError};
    /// async fn pass_on(cx: Cx, question: InputRequest) -> Result<String, ToolError> {
    ///     Ok(cx.ask(question).await?.get().to_owned())
    /// }
    /// ```
    pub fn ask(&self, question: InputRequest) -> Ask<Box<RawValue>> {
        let (kind, checked) = match &question {
            InputRequest::Elicit(ElicitParams::Url(page)) => ("elicit", address::check(&page.url)),
            InputRequest::Elicit(ElicitParams::Form(_)) => ("elicit", Ok(())),
            InputRequest::Sample(_) => ("sample", Ok(())),
            InputRequest::ListRoots => ("roots", Ok(())),
        };
        let question = checked.map(|()| question).map_err(|what| AskError::NoPage { what });
        let mut asked = Ask::new(self, kind, question, read_as_it_came);
        asked.is_passed_on = true;
        asked
    }

    /// Whether the client can be asked so, and there is a way to ask it.
    ///
    /// What a tool is told is told once of each kind and stays so, also when its work is entered again, on whichever
    /// node: it is a fact of the call, which its task keeps.
    pub fn can_ask(&self, what: InputKind) -> bool {
        let now = self.now();
        let able = what.check(now.dialect(), &now.caller().capabilities);
        let can = self.interview().way(&now, what, able).is_ok();
        if now.keeper().is_some() { self.interview().tell_once(what, can) } else { can }
    }

    /// What [`can_ask`](Self::can_ask) says of each kind from now on.
    pub(super) fn askable(&self) -> [bool; InputKind::ALL.len()] {
        InputKind::ALL.map(|kind| self.can_ask(kind))
    }
}

fn read<T: DeserializeOwned>(answer: &str) -> Result<T, String> {
    serde_json::from_str(answer).map_err(|error| error.to_string())
}

/// What came of a form, held against it.
fn read_filled_in<T: DeserializeOwned>(question: &InputRequest, answer: &str) -> Result<Elicited<T>, String> {
    let result: ElicitResult = read(answer)?;
    let content = result.content.as_deref().map_or("{}", RawValue::get);
    Ok(match (result.action, question) {
        (ElicitAction::Accept, InputRequest::Elicit(ElicitParams::Form(form))) => {
            form.form.check(content).map_err(|wrong| wrong.to_string())?;
            Elicited::Accepted(read(content)?)
        }
        (ElicitAction::Accept, _) => Elicited::Accepted(read(content)?),
        (ElicitAction::Decline, _) => Elicited::Declined,
        (ElicitAction::Cancel, _) => Elicited::Cancelled,
    })
}

/// Any answer, held against its question.
fn read_as_it_came(question: &InputRequest, answer: &str) -> Result<Box<RawValue>, String> {
    match question {
        InputRequest::Elicit(ElicitParams::Form(_)) => {
            read_filled_in::<IgnoredAny>(question, answer).map(drop)?;
        }
        InputRequest::Elicit(ElicitParams::Url(_)) => drop(read::<ElicitResult>(answer)?),
        InputRequest::Sample(_) => drop(read::<CreateMessageResult>(answer)?),
        InputRequest::ListRoots => drop(read::<ListRootsResult>(answer)?),
    }
    read(answer)
}

/// The answer that `asking` brings, or the one that stands for it when none has come in time.
async fn or_default(
    asking: impl Future<Output = Result<String, AskError>>,
    default: Option<Json>,
) -> Result<String, AskError> {
    match (asking.await, default) {
        (Err(AskError::TimedOut { .. }), Some(default)) => Ok(default.as_str().to_owned()),
        (answer, _) => answer,
    }
}

/// Reads the answer to a question.
type Read<T> = fn(&InputRequest, &str) -> Result<T, String>;

/// A question to the client, asked once it is awaited.
///
/// One that is dropped before its answer has come is withdrawn, for good: in a task that is entered again it waits until
/// it is dropped again, whatever was answered meanwhile. A task that only waits is put aside, and with it any timer but
/// [`Cx::sleep`] and [`within`](Self::within).
///
/// Several that are awaited together are asked together. Each has a key, by which its answer is told from others when
/// the call is made in rounds, or entered again: the kind of the question and its number among those of its kind, in
/// the order in which they are made. Where that order is not always the same, [name](Self::key) them.
#[must_use = "a question is asked once it is awaited"]
pub struct Ask<T> {
    cx: Cx,
    key: String,
    question: Result<Arc<InputRequest>, AskError>,
    read: Read<T>,
    within: Option<Duration>,
    /// What answers it when nobody has in time.
    default: Option<Json>,
    /// For how long the client is to keep the task that it makes of the question.
    as_task: Option<Duration>,
    /// Somebody else asks it, and it has no key yet that says so.
    is_passed_on: bool,
    step: Step,
}

/// How far a question has come.
enum Step {
    New,
    /// It waits for the answer to a request of ours.
    Line(Pin<Box<dyn Future<Output = Result<String, AskError>> + Send>>),
    /// It waits for the answer of whoever follows the task.
    Task(Fingerprint, Pin<Box<dyn Future<Output = Result<String, AskError>> + Send>>),
    /// It waits for a round that brings the answer, since then.
    Round(Fingerprint, Instant),
    /// It cannot be asked, which ends the call.
    Refused,
    /// It has its answer, or none.
    Over,
}

impl<T> Ask<T> {
    fn new(cx: &Cx, kind: &str, question: Result<InputRequest, AskError>, read: Read<T>) -> Self {
        let (cx, key) = (cx.clone(), cx.reserve(kind));
        Self {
            cx,
            key,
            question: question.map(Arc::new),
            read,
            within: None,
            default: None,
            as_task: None,
            is_passed_on: false,
            step: Step::New,
        }
    }

    /// Names the question among those of the call. Another of the same name gets a number.
    pub fn key(mut self, key: impl AsRef<str>) -> Self {
        self.is_passed_on = false;
        self.key = self.cx.interview().rename(&self.key, &self.cx.scoped(key.as_ref()));
        self
    }

    /// Waits this long for the answer to a request of ours, instead of 15 minutes; or of whoever follows the task,
    /// instead of for ever, or where nobody knows of the task yet for as long as a round may take. Between the rounds of a call nothing waits: how long a round may take is the
    /// [server's](RoundOptions::patience) to say.
    pub fn within(mut self, patience: Duration) -> Self {
        self.within = Some(patience);
        self
    }

    /// Has the client make a task of it, where it hosts such tasks (2025-11-25), which it is to keep for `ttl` after its end:
    /// then this asks for the answer rather than holds the question open, and cancels the task when it is dropped. Any other
    /// client is asked as ever, and so is one that follows a task of this server's.
    pub fn as_task(mut self, ttl: Duration) -> Self {
        self.as_task = Some(ttl);
        self
    }
}

impl<T: ByDefault> Ask<T> {
    /// Takes this for the answer when nobody has answered [in time](Self::within). It is recorded as an answer is, once,
    /// whichever process sees that the time is over; an answer that comes later is passed over. One that does not fit its
    /// form is [`AskError::Invalid`] at once, and nobody is asked.
    ///
    /// Where a call is made in rounds its time is over when the client comes back too late, counted from when it was
    /// asked last.
    ///
    /// ```
    /// # use longhaul::{Cx, server::{Elicited, ToolError}};
    /// # #[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
    /// # struct Approve { go: bool }
    /// # use std::time::Duration;
    /// async fn release(cx: Cx) -> Result<&'static str, ToolError> {
    ///     let three_days = Duration::from_secs(3 * 24 * 60 * 60);
    ///     let asked = cx.elicit::<Approve>("Publish version 2?").within(three_days).or(Elicited::Declined);
    ///     match asked.await? {
    ///         Elicited::Accepted(Approve { go: true }) => Ok("published"),
    ///         _ => Ok("not published"),
    ///     }
    /// }
    /// ```
    pub fn or(mut self, default: T) -> Self {
        let answer = default.as_answer().map_err(|error| error.to_string());
        let fits = |answer: Box<RawValue>| match &self.question {
            Ok(question) => (self.read)(question, answer.get()).map(|_| answer),
            Err(_) => Ok(answer),
        };
        match answer.and_then(fits) {
            Ok(answer) => self.default = Some(answer.into()),
            Err(what) => self.question = Err(AskError::Invalid { what }),
        }
        self
    }
}

/// What a question can be answered with [by default](Ask::or).
pub trait ByDefault {
    /// The answer, as a client would give it.
    ///
    /// # Errors
    ///
    /// When it cannot be written as JSON.
    fn as_answer(&self) -> Result<Box<RawValue>, serde_json::Error>;
}

impl<T: Serialize> ByDefault for Elicited<T> {
    fn as_answer(&self) -> Result<Box<RawValue>, serde_json::Error> {
        to_raw_value(&match self {
            Self::Accepted(content) => match to_raw_value(content)? {
                // Nothing is filled in on a page.
                nothing if nothing.get() == "null" => ElicitResult::of(ElicitAction::Accept),
                content => ElicitResult::accepted(content),
            },
            Self::Declined => ElicitResult::of(ElicitAction::Decline),
            Self::Cancelled => ElicitResult::of(ElicitAction::Cancel),
        })
    }
}

impl ByDefault for CreateMessageResult {
    fn as_answer(&self) -> Result<Box<RawValue>, serde_json::Error> {
        to_raw_value(self)
    }
}

impl<T> Future for Ask<T> {
    type Output = Result<T, AskError>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let question = match &this.question {
            Ok(question) => Arc::clone(question),
            Err(error) => return Poll::Ready(Err(error.clone())),
        };
        loop {
            match &mut this.step {
                Step::New => {
                    let now = this.cx.now();
                    let of = || binding::fingerprint(now.dialect(), &question);
                    if std::mem::take(&mut this.is_passed_on) {
                        this.key_by_question(of());
                    }
                    // What it came to before stands, whoever can be asked now.
                    let known = this.is_known().then_some(Ok(Way::Task));
                    this.step = match known.unwrap_or_else(|| this.cx.interview().begin(&now, &question)) {
                        Ok(Way::Line(line)) => {
                            let within = this.within.unwrap_or(PATIENCE);
                            let asking =
                                line::ask(line, this.cx.clone(), question.clone(), within, this.as_task);
                            let asking = or_default(asking, this.default.clone());
                            let (cx, key, of) = (this.cx.clone(), this.key.clone(), of());
                            Step::Line(Box::pin(in_task::kept(cx, key, of, asking)))
                        }
                        Ok(Way::Task) => {
                            let (cx, key, of) = (this.cx.clone(), this.key.clone(), of());
                            let in_time = (this.within, this.default.clone());
                            let asking = in_task::ask(cx, key, of, question.clone(), in_time);
                            Step::Task(of, Box::pin(asking))
                        }
                        Ok(Way::Round) => {
                            let (of, now) = (of(), Instant::now());
                            // What was asked before this request may have waited for too long by now.
                            let ago = this.cx.interview().put_before(&this.key, of).unwrap_or_default();
                            this.default_after(of, ago);
                            Step::Round(of, now)
                        }
                        Err(_) => Step::Refused,
                    };
                }
                Step::Round(..) if this.cx.interview().is_left_to_task() => {
                    this.let_go();
                    this.step = Step::New;
                }
                Step::Task(_, answer) => {
                    let answer = ready!(answer.as_mut().poll(task));
                    this.step = Step::Over;
                    return Poll::Ready(answer.and_then(|answer| {
                        (this.read)(&question, &answer).map_err(|what| AskError::Invalid { what })
                    }));
                }
                Step::Line(answer) => {
                    if let Poll::Ready(answer) = answer.as_mut().poll(task) {
                        return Poll::Ready(answer.and_then(|answer| {
                            (this.read)(&question, &answer).map_err(|what| AskError::Invalid { what })
                        }));
                    }
                    if !this.cx.interview().is_left_to_task() {
                        this.cx.interview().wait_on_line(task);
                        return Poll::Pending;
                    }
                    this.step = Step::New;
                }
                Step::Round(of, since) => {
                    let (of, waited) = (*of, since.elapsed());
                    this.default_after(of, waited);
                    let read = |answer: &str| (this.read)(&question, answer).ok();
                    let polled = this.cx.interview().poll_answer(&this.key, of, &question, read, task);
                    return polled.map(Ok);
                }
                // The call ends with the refusal, and this future with it.
                Step::Refused | Step::Over => return Poll::Pending,
            }
        }
    }
}

impl<T> Ask<T> {
    /// Whoever asks it may ask in another order when the work is entered again, or ask something else: it is told from others by
    /// what it is. What the work has let go of is asked anew. What was asked before and not again by now, nobody waits for.
    fn key_by_question(&mut self, of: Fingerprint) {
        let (interview, passed_on) = (self.cx.interview(), self.cx.scoped("asked:"));
        let name = format!("{passed_on}{of}");
        self.key = interview.rename(&self.key, &name);
        let Some(keeper) = self.cx.keeper() else { return };
        while keeper.has_let_go(&self.key) {
            self.key = interview.reserve(&name);
        }
        if keeper.what_is(&self.key).is_none() {
            let before = keeper.open_questions(&passed_on).into_iter();
            before.filter(|(key, _)| !interview.has(key)).for_each(|(key, of)| keeper.let_go(&key, of));
        }
    }

    /// Whether the task knows what it came to; or its work is entered to be undone, which asks nothing anew.
    fn is_known(&self) -> bool {
        let keeper = self.cx.keeper().filter(|keeper| keeper.is_entered_again());
        keeper.is_some_and(|keeper| keeper.is_undoing() || keeper.has_learnt(&self.key))
    }

    /// It is answered by default if it has waited in a round for too long, and nobody has answered it before.
    fn default_after(&self, of: Fingerprint, waited: Duration) {
        let is_late = self.within.is_some_and(|within| !waited.is_zero() && waited >= within);
        if let Some(default) = self.default.clone().filter(|_| is_late) {
            self.cx.interview().default_to(&self.key, of, default);
        }
    }

    /// It is no longer asked as it was.
    fn let_go(&self) {
        match (&self.step, self.cx.keeper()) {
            (Step::Round(..), _) => self.cx.interview().withdraw(&self.key),
            (Step::Task(of, _), Some(keeper)) => keeper.let_go(&self.key, *of),
            // Where work is entered again, it may be dropped before it is looked at.
            (Step::New, Some(keeper)) => {
                if let Some(of) = keeper.what_is(&self.key) {
                    keeper.let_go(&self.key, of);
                }
            }
            _ => {}
        }
    }
}

impl<T> Drop for Ask<T> {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl<T> fmt::Debug for Ask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask").field("key", &self.key).finish_non_exhaustive()
    }
}
