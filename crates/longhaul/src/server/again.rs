//! How the answer to a request is come by once more, by whoever goes on for a process that is gone.

use std::sync::Arc;
use std::time::Duration;

use longhaul_tasks::machine::{Caller as Stance, Plan};
use longhaul_tasks::runner::Engine;
use longhaul_tasks::store::{Outcome, Owner, Record, Scope, TaskId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep};

use super::answer::{Dispatched, now_or_later};
use super::ask::courier::deliver_result;
use super::call::{in_company, told};
use super::context::Cx;
use super::dispatch::{Dispatcher, Exchange};
use super::observer::CallObserver;
use super::policy::TaskMode;

/// What is done in the place of a request whose process is gone, so that it is answered as it would have been.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Again {
    /// Nothing is known that could be: the answer is lost with its process.
    #[default]
    Lost,
    /// Nothing: its caller has cancelled it.
    Unwanted,
    /// This is asked, which changes nothing however often it is.
    Asked {
        /// By which method.
        method: String,
        /// With which parameters.
        params: Box<RawValue>,
    },
    /// The task is waited for that the call has become.
    Followed {
        /// Its id.
        task: String,
        /// The tool that was called.
        tool: String,
        /// Somebody had made the call before: who has noted this is not alone with it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_anothers: bool,
    },
}

impl Again {
    /// This is asked, if it can be written down.
    pub(super) fn asked(method: &str, params: &impl Serialize) -> Self {
        match serde_json::value::to_raw_value(params) {
            Ok(params) => Self::Asked { method: method.to_owned(), params },
            Err(_) => Self::Lost,
        }
    }

    /// The task of this record is waited for. `is_own`: nobody has made the call before.
    pub(super) fn followed(record: &Record, is_own: bool) -> Self {
        let (task, tool) = (record.id.as_str().to_owned(), record.tool.to_string());
        Self::Followed { task, tool, is_anothers: !is_own }
    }

    /// Whether nothing is known that could be done.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Self::Lost)
    }

    /// Whether nobody wants the answer any more.
    pub(crate) fn is_unwanted(&self) -> bool {
        matches!(self, Self::Unwanted)
    }
}

/// Which task is followed, as [`Again::Followed`] has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Follow<'a> {
    pub(crate) task: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) is_anothers: bool,
}

impl Dispatcher {
    /// Answers a call that has become this task, as the process would have that it came to. What of it is asked for already has
    /// gone through all layers.
    ///
    /// Must be called within a tokio runtime.
    pub(crate) fn follow(
        &self,
        mut exchange: Exchange<'_, '_>,
        Follow { task, tool, is_anothers }: Follow<'_>,
        out: &mut Vec<u8>,
    ) -> Dispatched {
        let (envelope, shared) =
            (self.envelope(exchange.id, exchange.dialect, exchange.method), Arc::clone(&self.0));
        let line = exchange.caller.line.take().map(|line| line.with_push(exchange.push.clone()));
        exchange.caller.line = line;
        let tool = shared.offer.tools.find(tool);
        let hold = tool.filter(|tool| tool.policy.mode != TaskMode::Never).and_then(|tool| tool.policy.hold);
        let cx = Cx::new(shared.states(), exchange.dialect, exchange.caller, None, exchange.outlet, None);
        let (engine, owner) = (shared.engine.clone(), cx.owner());
        // What was noted was an id.
        let id = TaskId::new(task).map_err(|_| forgotten());
        let found = find(engine.clone(), owner.clone(), id.clone());
        let (observer, _) = CallObserver::new(cx.clone(), None);
        let (plan, observer) = (Plan::new(Stance::Waits, true), Arc::new(observer));
        let ticket = if is_anothers {
            engine.come_back(found, plan, hold, observer)
        } else {
            engine.wait_on(found, plan, hold, observer)
        };
        let (canceller, waiting, began) = (ticket.canceller(), cx.clone(), Instant::now());
        let answered = async move {
            let asked = async {
                match id {
                    Ok(id) => deliver_result(&waiting, &engine, &owner, &id).await,
                    Err(_) => std::future::pending().await,
                }
            };
            let answer = tokio::select! {
                biased;
                answer = in_company(ticket, &waiting) => answer,
                never = asked => match never {},
            };
            told(&shared, &waiting, answer, began.elapsed(), None)
        };
        match now_or_later(envelope, cx, Some(canceller), answered, out) {
            Dispatched::Pending(answer) => Dispatched::Pending(answer.unless(self.0.engine.left_behind())),
            answered @ Dispatched::Answered(_) => answered,
        }
    }
}

/// The task, as soon as it can be read.
async fn find(engine: Engine, owner: Owner, id: Result<TaskId, Outcome>) -> Result<Record, Outcome> {
    let id = id?;
    loop {
        match engine.find(Scope::Owner(&owner), &id).await {
            Ok(found) => return found.ok_or_else(forgotten),
            Err(error) => tracing::warn!(task = %id, %error, "a task that is waited for cannot be read now"),
        }
        sleep(LOOK_AGAIN).await;
    }
}

fn forgotten() -> Outcome {
    Outcome::lost("the task is forgotten")
}

/// How soon a task is read again that could not be read.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
