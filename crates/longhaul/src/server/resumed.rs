//! Entering a tool's function again, for a task whose process is gone or which was put aside.

use std::fmt;
use std::future::ready;
use std::sync::Arc;

use longhaul_proto::dialect::{Dialect, Revision};
use longhaul_proto::model::{
    ClientCapabilities, Elicitation, Implementation, InputKind, Sampling, TraceParent,
};
use longhaul_tasks::environment::BoxFuture;
use longhaul_tasks::key;
use longhaul_tasks::report::Reporter;
use longhaul_tasks::runner::{Entry, Keeper};
use longhaul_tasks::store::{Outcome, Owner, Record, Retention};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::call::work_of;
use super::caught::Caught;
use super::context::Cx;
use super::dispatch::Caller;
use super::grant::{Grant, Scopes};
use super::outlet::Outlet;
use super::shelf::Shelf;
use super::state::States;
use super::tool::{Tool, ToolHandler};

/// What a row says of a caller: what it can be asked, and what its issuer said of it. No credential is kept.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    revision: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    elicits: Option<(bool, bool)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    samples: Option<(bool, bool)>,
    #[serde(default)]
    roots: bool,
    #[serde(default)]
    tasks: bool,
    /// Somebody follows the task who can be asked, which rows of earlier builds do not say.
    #[serde(default = "yes")]
    followed: bool,
    /// What the work is told that it can ask, of each kind in their order; rows of earlier builds do not say it, nor
    /// those of children, whose parents cannot know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    askable: Vec<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scopes: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claims: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    /// The trace that the call belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: Option<TraceParent>,
}

const fn yes() -> bool {
    true
}

/// What is to be written of the caller of `cx`, for the work that is its own.
pub(super) fn written(cx: &Cx) -> Option<Box<RawValue>> {
    to_raw_value(&Written { askable: cx.askable().to_vec(), ..Written::of(cx) }).ok()
}

/// The same for work that it makes a task of.
pub(super) fn written_for_child(cx: &Cx) -> Option<Box<RawValue>> {
    to_raw_value(&Written::of(cx)).ok()
}

impl Written {
    fn of(cx: &Cx) -> Self {
        let caller = cx.caller();
        let capabilities = &caller.capabilities;
        Self {
            revision: cx.dialect().revision().as_str().to_owned(),
            elicits: capabilities.elicitation.as_ref().map(|how| (how.form, how.url)),
            samples: capabilities.sampling.as_ref().map(|how| (how.tools, how.context)),
            roots: capabilities.roots,
            tasks: capabilities.extensions.tasks,
            followed: cx.interview().is_followed(),
            askable: Vec::new(),
            scopes: cx.grant().and_then(Grant::scopes).map(Scopes::to_string),
            claims: cx.grant().map(|grant| grant.claims().clone()),
            client: caller.client().map(|client| client.into_owned().name),
            trace: caller.trace_parent,
        }
    }

    fn caller(self, owner: &Owner) -> Caller {
        let principal = match owner {
            Owner::Principal(principal) => Some(principal.clone()),
            Owner::Anonymous => None,
        };
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = self.elicits.map(|(form, url)| Elicitation::new(form, url));
        capabilities.sampling = self.samples.map(|(tools, context)| Sampling::new(tools, context));
        capabilities.roots = self.roots;
        capabilities.extensions.tasks = self.tasks;
        let mut caller = Caller::new(principal);
        if let Some(name) = self.client {
            caller = caller.with_client(&Implementation::new(name, ""));
        }
        caller.grant = self.claims.map(|claims| {
            Arc::new(Grant::new(self.scopes.and_then(|scopes| Scopes::parse(&scopes).ok()), claims))
        });
        caller.capabilities = capabilities;
        caller.trace_parent = self.trace;
        caller
    }
}

/// A request of the caller that was written so, as another node has it: what it says on the way is not heard.
pub(super) fn read(written: &RawValue, owner: Owner) -> Option<Cx> {
    let written: Written = serde_json::from_str(written.get()).ok()?;
    let dialect = Dialect::of(Revision::from_date(&written.revision)?);
    Some(Cx::new(None, dialect, written.caller(&owner), None, unheard(), None))
}

/// Nobody listens: what is sent there is dropped.
pub(super) fn unheard() -> Outlet {
    let outlet = Outlet::own();
    drop(outlet.take_stream());
    outlet
}

/// A tool's function, as the engine enters it.
pub(super) struct FunctionEntry {
    pub(super) handler: Arc<dyn ToolHandler>,
    pub(super) states: Option<Arc<States>>,
    /// What its work can call.
    pub(super) tools: Arc<Shelf<Tool>>,
    /// A model may answer what it asks.
    pub(super) answer_by_model: bool,
}

impl Entry for FunctionEntry {
    fn enter(
        &self,
        record: &Record,
        caller: Option<&RawValue>,
        keeper: Keeper,
        reporter: Reporter,
    ) -> BoxFuture<'static, Outcome> {
        let written = caller.map(|caller| serde_json::from_str::<Written>(caller.get()));
        let Some(Ok(written)) = written else {
            return Box::pin(ready(Outcome::lost("what was written of its caller cannot be read")));
        };
        let Some(dialect) = Revision::from_date(&written.revision).map(Dialect::of) else {
            return Box::pin(ready(Outcome::lost("it was called in a revision that is not spoken here")));
        };
        let (followed, askable) = (written.followed, written.askable.clone());
        let takes_tasks = written.tasks || dialect.asks_by_request();
        let caller = written.caller(&record.owner);
        let around = (self.states.as_ref(), &self.tools);
        let cx = Cx::of_task(around, dialect, caller, None, unheard(), reporter, keeper);
        cx.interview().leave_to_task();
        if let Some(id) = key::drafted_id(record) {
            cx.be_drafted(id.into());
        }
        if self.answer_by_model {
            cx.interview().let_model_answer();
        }
        if followed {
            cx.interview().be_followed();
        }
        // Whether its caller was told of the task is not written: what nobody may ever answer is not kept longer than
        // what nobody may ever fetch.
        if let (false, Retention::AfterTerminal(kept)) = (takes_tasks, record.retention) {
            cx.interview().be_asked_within(kept);
        }
        for (kind, can) in InputKind::ALL.into_iter().zip(askable) {
            cx.interview().tell_once(kind, can);
        }
        match Caught::start(|| self.handler.call(cx.clone(), record.arguments.as_str())) {
            Ok(future) => work_of(cx, &record.tool, record.attempt, future),
            Err(refusal) => Box::pin(ready(longhaul_tasks::project::stored(&refusal))),
        }
    }
}

impl fmt::Debug for FunctionEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FunctionEntry")
    }
}
