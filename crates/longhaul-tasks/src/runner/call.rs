//! A call as the engine is given it, and what it gives back.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use longhaul_store::{
    Dialect, Digest, Json, Once, OrphanRule, Outcome, Owner, Progress, Record, Rerun, Retention, Share,
    TaskId, ToolVersion,
};
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::Inner;
use super::control::{Control, Controls};
use super::keeper::Keeper;
use super::runs::{Runs, Waits};
use crate::environment::BoxFuture;
use crate::job::ExternalJob;
use crate::machine::{Plan, Refusal};
use crate::report::{Reporter, Reports};

/// What runs.
#[expect(clippy::exhaustive_enums, reason = "work is here or elsewhere")]
pub enum Work {
    /// A future of this process, which ends with it.
    Future(BoxFuture<'static, Outcome>),
    /// A job outside this process.
    Job(Arc<dyn ExternalJob>),
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Future(_) => f.write_str("Future"),
            Self::Job(job) => f.debug_tuple("Job").field(job).finish(),
        }
    }
}

/// A call that may become a task.
#[derive(Debug)]
#[non_exhaustive]
pub struct Call {
    /// How the caller can be answered, and whether the row comes before the work.
    pub plan: Plan,
    /// To whom the task will belong.
    pub owner: Owner,
    /// Among whose open tasks it will be counted, if its caller is a stranger that is told from others.
    pub share: Option<Share>,
    /// The tool.
    pub tool: Arc<str>,
    /// Its version, which whoever goes on with the task must accept.
    pub version: ToolVersion,
    /// What it is called with.
    pub arguments: Json,
    /// The names of those arguments that nobody is to be shown: see [`shown_arguments`](crate::shown_arguments).
    pub secret: Vec<String>,
    /// Which dialect the task will be in.
    pub dialect: Dialect,
    /// What may be done when this process is gone: [`Rerun::Reattach`] goes on with a job that still runs, anything
    /// else ends it and loses the task. A job that has ended, or never began, is found again either way.
    pub rerun: Rerun,
    /// For how long the work of the task may go on once it is asked to end; `None`, the default, where a cancel ends it at
    /// once.
    pub cancel_grace: Option<Duration>,
    /// When its task is an orphan, counted from when its caller is told of it at the latest, and never before its caller was to
    /// ask ten times; `None`, the default, never. Nor is one whose caller waits to the end.
    pub orphan: Option<OrphanRule>,
    /// How long the task is kept.
    pub retention: Retention,
    /// How long the call runs before it becomes durable; `None` never.
    pub after: Option<Duration>,
    /// How long a caller that waits is kept waiting; `None` to the end.
    pub hold: Option<Duration>,
    /// How often a task should be asked after, in milliseconds.
    pub poll_interval_ms: Option<u64>,
    /// What a second call must match to join this one.
    pub join: Option<Digest>,
    /// Under which key it is made once. Unless its plan is one whose row comes first, it may have run for a while before it is
    /// found to be made already: what it has done until then must be such that it can be let go of.
    pub once: Option<Once>,
    /// What runs.
    pub work: Work,
    /// What the work has learnt, and what its task will be called.
    pub keeper: Keeper,
    /// What is to be written of the caller, for work that is entered again: a JSON value.
    pub context: Option<Box<RawValue>>,
    /// Which client calls, in a line for people: see [`calling_client`](crate::calling_client).
    pub client: Option<Arc<str>>,
    /// In which conversation of its user's: see [`calling_conversation`](crate::calling_conversation).
    pub conversation: Option<Arc<str>>,
    /// Where it says how far it is.
    pub reports: (Reporter, Reports),
    /// Who is told of what happens meanwhile.
    pub observer: Arc<dyn Observer>,
}

impl Call {
    /// A call of `tool` by a caller that waits to the end, and that never becomes durable.
    pub fn new(owner: Owner, tool: impl Into<Arc<str>>, arguments: Json, work: Work) -> Self {
        Self {
            plan: Plan::in_place(),
            owner,
            share: None,
            tool: tool.into(),
            version: ToolVersion::default(),
            arguments,
            secret: Vec::new(),
            dialect: Dialect::Held,
            rerun: Rerun::Never,
            cancel_grace: None,
            orphan: None,
            retention: Retention::Unlimited,
            after: None,
            hold: None,
            poll_interval_ms: None,
            join: None,
            once: None,
            work,
            keeper: Keeper::new(),
            context: None,
            client: None,
            conversation: None,
            reports: Reporter::new(),
            observer: Arc::new(Nobody),
        }
    }
}

/// What the task of a call will be called.
pub(super) fn named(inner: &Inner, call: &Call) -> TaskId {
    call.keeper.id().unwrap_or_else(|| inner.mint(&call.tool))
}

/// What happens to a call while its caller waits, or after it has become a task.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "a server decides on each")]
pub enum Observed<'a> {
    /// The call is on disk as a task, while its caller waits.
    Kept {
        /// The task.
        record: &'a Record,
        /// It is this call's, which nobody has made before.
        is_own: bool,
    },
    /// The work is further.
    Progress {
        /// How far.
        progress: &'a Progress,
        /// The task that the caller has been answered with; `None` while it waits.
        task: Option<&'a TaskId>,
    },
    /// The task that the caller has been answered with has changed since.
    Changed(&'a Record),
}

/// Told of what happens to a call.
pub trait Observer: fmt::Debug + Send + Sync + 'static {
    /// Something has happened. The call goes on when this returns.
    fn observe<'a>(&'a self, observed: Observed<'a>) -> BoxFuture<'a, ()>;
}

#[derive(Debug)]
struct Nobody;

impl Observer for Nobody {
    fn observe<'a>(&'a self, _: Observed<'a>) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// What the caller of a call is told.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a server writes each")]
pub enum Answer {
    /// It ended so.
    Outcome(Outcome),
    /// It is this task now.
    Task(Arc<Record>),
    /// It goes on as this task, though the caller cannot take one.
    HandOver(Arc<Record>),
    /// It was not begun.
    Refused(Refusal),
}

/// The answer to a call, when it comes. Dropping it changes nothing about the call.
#[derive(Debug)]
pub struct Ticket {
    answer: oneshot::Receiver<Answer>,
    control: Controls,
    /// Tells of a call that may be made again that its caller waits.
    _waits: Option<Arc<()>>,
}

/// The other end of a ticket: a caller that waits until it is told the answer.
#[derive(Debug)]
pub(super) struct Waiter {
    answer: oneshot::Sender<Answer>,
    _waits: Waits,
}

impl Waiter {
    /// A caller that waits, and its ticket, which reaches the run behind `controls`.
    pub(super) fn new(runs: &Runs, control: Controls) -> (Self, Ticket) {
        let (sender, answer) = oneshot::channel();
        (Self { answer: sender, _waits: runs.waits() }, Ticket { answer, control, _waits: None })
    }

    /// Answers. A caller that is gone can ask for the task by its id.
    pub(super) fn tell(self, answer: Answer) {
        self.try_tell(answer);
    }

    /// The same; says whether the caller was there to be told.
    pub(super) fn try_tell(self, answer: Answer) -> bool {
        self.answer.send(answer).is_ok()
    }

    /// Completes once nobody holds the ticket any more.
    pub(super) async fn gone(&mut self) {
        self.answer.closed().await;
    }
}

/// Ends a call for its caller.
#[derive(Clone, Debug)]
pub struct Canceller(Controls);

impl Canceller {
    /// The caller no longer wants the answer: the call ends, unless it was answered.
    pub fn cancel(&self) {
        self.0.tell(Control::Cancel);
    }

    /// The caller is gone for good: the call ends, unless it is durable.
    pub fn leave(&self) {
        self.0.tell(Control::Leave);
    }
}

impl Ticket {
    /// The same, and while it is kept `waits` is.
    pub(super) fn keeping(self, waits: Option<Arc<()>>) -> Self {
        Self { _waits: waits, ..self }
    }

    /// A handle that ends the call.
    pub fn canceller(&self) -> Canceller {
        Canceller(self.control.clone())
    }

    /// The caller no longer wants the answer: the call ends, unless it was answered.
    pub fn cancel(&self) {
        self.canceller().cancel();
    }
}

impl Future for Ticket {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        Pin::new(&mut self.answer).poll(cx).map(|answer| {
            // The run was dropped with the runtime, or was cancelled by this caller.
            answer.unwrap_or_else(|_| Answer::Outcome(Outcome::lost("the call ended without an answer")))
        })
    }
}
