//! Tasks as SEP-1686 drafted them (D1), of a server that is told to have them: which request is to be one, and what is
//! asked of those there are.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::dialect::{DRAFTED_TASK, Dialect, Keep};
use longhaul_proto::jsonrpc::{ErrorObject, Text};
use longhaul_proto::method::Method;
use longhaul_tasks::key;
use longhaul_tasks::project;
use longhaul_tasks::runner::{Answer, Engine, Ticket};
use longhaul_tasks::store::{Digest, Once, Owner, Record, TaskId};
use tokio::sync::oneshot;

use super::answer::{Dispatched, Envelope, Write, now_or_later, refused};
use super::ask::{Binding, courier};
use super::call::in_company;
use super::context::Cx;
use super::dispatch::{Dispatcher, Exchange, Shared};
use super::once::key_of;
use super::policy::TaskMode;
use super::tool::Tool;
use crate::hosted::{Hosted, WriteResult, not_found};

/// A call that is to be a drafted task.
#[derive(Clone, Debug)]
pub(super) struct Drafted {
    /// What its caller calls it.
    pub(super) id: Arc<str>,
    /// The same, and which call it stands for.
    pub(super) once: Once,
    /// For how long after its end it is to be kept, if its caller says so.
    pub(super) keep: Option<Duration>,
}

impl Drafted {
    /// The task that a call is to be; a tool that has none is called as ever (SEP-1686, Task Support and Handling).
    pub(super) fn of(
        tool: &Tool,
        owner: &Owner,
        exchange: &Exchange<'_, '_>,
        arguments: &str,
    ) -> Result<Option<Self>, ErrorObject> {
        if matches!(tool.policy.mode, TaskMode::Never | TaskMode::ByHand) {
            return Ok(None);
        }
        let Some(task) = exchange.dialect.drafted_task(exchange.params)? else { return Ok(None) };
        let key = key_of(DRAFTED_TASK, owner, &task.id, key::drafted)?;
        let name = &tool.definition.name;
        let of = Digest::new(Binding::new(owner, "tools/call", name, arguments).digest());
        let keep = match task.keep {
            Keep::Unsaid => None,
            Keep::Millis(millis) => Some(Duration::from_millis(millis)),
            Keep::Unlimited => Some(Duration::MAX),
        };
        Ok(Some(Self { id: task.id.into(), once: Once::new(key, of), keep }))
    }
}

/// Waits for the answer of a drafted call, and puts to its caller meanwhile what its task asks. Nothing is asked before
/// the caller is told that there is a task, which `kept` names then: the one that the call is, or that it has found.
pub(super) async fn answered(
    ticket: Ticket,
    cx: &Cx,
    engine: &Engine,
    kept: oneshot::Receiver<TaskId>,
) -> Answer {
    let asked = async {
        match kept.await {
            Ok(id) => courier::deliver_result(cx, engine, &cx.owner(), &id).await,
            // There is none, and the call is refused.
            Err(_) => pending().await,
        }
    };
    tokio::select! {
        biased;
        answer = in_company(ticket, cx) => answer,
        never = asked => match never {},
    }
}

/// Whether its server has drafted tasks, and its revision lets a caller ask for them.
pub(super) fn concerns(dispatcher: &Dispatcher, dialect: &Dialect) -> bool {
    dispatcher.0.capabilities.drafted_tasks && dialect.has_drafted_tasks()
}

/// What only the draft has.
pub(super) fn answer(
    dispatcher: &Dispatcher,
    envelope: Envelope,
    exchange: Exchange<'_, '_>,
    out: &mut Vec<u8>,
) -> Dispatched {
    let poll = match dispatcher.0.polls.admit(&exchange.caller, 1) {
        Ok(poll) => poll,
        Err(refusal) => return Dispatched::Answered(envelope.error(out, &refusal)),
    };
    let asking = Asking::new(dispatcher, &exchange);
    let method = exchange.method;
    let id = exchange.params.require::<Text<'_>>("taskId").map(|Text(id)| id.into_owned());
    let cx = Cx::new(dispatcher.0.states(), exchange.dialect, exchange.caller, None, exchange.outlet, None);
    let answered = async move {
        let answered = match id {
            Err(error) => Err(error),
            Ok(id) => asking.about(method, &id).await.and_then(|found| {
                poll.missed(usize::from(found.is_none()));
                found.ok_or_else(not_found)
            }),
        };
        answered.unwrap_or_else(refused)
    };
    now_or_later(envelope, cx, None, answered, out)
}

/// Who asks after drafted tasks.
pub(super) struct Asking {
    shared: Arc<Shared>,
    hosted: Hosted,
}

impl Asking {
    pub(super) fn new(dispatcher: &Dispatcher, exchange: &Exchange<'_, '_>) -> Self {
        let (shared, engine) = (Arc::clone(&dispatcher.0), dispatcher.0.engine.clone());
        let hosted = Hosted { engine, owner: exchange.caller.owner(), dialect: exchange.dialect };
        Self { shared, hosted }
    }

    /// What is answered of the task that this caller calls so; `None` when it calls none so.
    pub(super) async fn about(&self, method: Method, id: &str) -> Result<Option<Write>, ErrorObject> {
        let Some(record) = self.hosted.drafted(id).await? else { return Ok(None) };
        if method == Method::TaskResult {
            self.shared.tells(&record, &self.hosted.owner);
        }
        let result = |record: &Record| -> Result<WriteResult, ErrorObject> {
            let result = project::outcome(record).ok_or_else(not_found)??;
            Ok(Box::new(move |writer| result.write(writer)))
        };
        self.hosted.about_drafted(method, id, record, result).await
    }
}
