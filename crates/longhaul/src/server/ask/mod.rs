//! Asking the client from within a handler: its user, its model, and where it lets us work.
//!
//! A question is a future, the same in both eras. In a session it is a request of ours on the stream of the call, and
//! the future waits for the answer. In the modern era there are no such requests: the answer to the call says what is
//! asked, and the call is made again with the answers ([`rounds`]).

mod binding;
pub(super) mod courier;
mod desk;
mod error;
mod form;
mod held;
pub(super) mod in_task;
mod interview;
mod line;
mod rounds;
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
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

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
pub(super) use rounds::{Begun, Reply, Rounds, Topic, when_answered};
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
        });
        if let Some(said) = said {
            now.outlet().notify(said).await;
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
    step: Step,
}

/// How far a question has come.
enum Step {
    New,
    /// It waits for the answer to a request of ours.
    Line(Pin<Box<dyn Future<Output = Result<String, AskError>> + Send>>),
    /// It waits for the answer of whoever follows the task.
    Task(Fingerprint, Pin<Box<dyn Future<Output = Result<String, AskError>> + Send>>),
    /// It waits for a round that brings the answer.
    Round(Fingerprint),
    /// It cannot be asked, which ends the call.
    Refused,
    /// It has its answer, or none.
    Over,
}

impl<T> Ask<T> {
    fn new(cx: &Cx, kind: &str, question: Result<InputRequest, AskError>, read: Read<T>) -> Self {
        let (cx, key) = (cx.clone(), cx.reserve(kind));
        Self { cx, key, question: question.map(Arc::new), read, within: None, step: Step::New }
    }

    /// Names the question among those of the call. Another of the same name gets a number.
    pub fn key(mut self, key: impl AsRef<str>) -> Self {
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
                    // What it came to before stands, whoever can be asked now.
                    let known = this.is_known().then_some(Ok(Way::Task));
                    this.step = match known.unwrap_or_else(|| this.cx.interview().begin(&now, &question)) {
                        Ok(Way::Line(line)) => {
                            let within = this.within.unwrap_or(PATIENCE);
                            let asking = line::ask(line, this.cx.clone(), question.clone(), within);
                            let (cx, key, of) = (this.cx.clone(), this.key.clone(), of());
                            Step::Line(Box::pin(in_task::kept(cx, key, of, asking)))
                        }
                        Ok(Way::Task) => {
                            let (cx, key, of) = (this.cx.clone(), this.key.clone(), of());
                            let asking = in_task::ask(cx, key, of, question.clone(), this.within);
                            Step::Task(of, Box::pin(asking))
                        }
                        Ok(Way::Round) => Step::Round(of()),
                        Err(_) => Step::Refused,
                    };
                }
                Step::Round(_) if this.cx.interview().is_left_to_task() => {
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
                Step::Round(of) => {
                    let read = |answer: &str| (this.read)(&question, answer).ok();
                    let polled = this.cx.interview().poll_answer(&this.key, *of, &question, read, task);
                    return polled.map(Ok);
                }
                // The call ends with the refusal, and this future with it.
                Step::Refused | Step::Over => return Poll::Pending,
            }
        }
    }
}

impl<T> Ask<T> {
    /// Whether the task knows what it came to; or its work is entered to be undone, which asks nothing anew.
    fn is_known(&self) -> bool {
        let keeper = self.cx.keeper().filter(|keeper| keeper.is_entered_again());
        keeper.is_some_and(|keeper| keeper.is_undoing() || keeper.has_learnt(&self.key))
    }

    /// It is no longer asked as it was.
    fn let_go(&self) {
        match (&self.step, self.cx.keeper()) {
            (Step::Round(_), _) => self.cx.interview().withdraw(&self.key),
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
