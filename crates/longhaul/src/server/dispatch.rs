//! From an admitted request to its answer.
//!
//! The answer of a call that is ready at the first poll is written where the caller wants it, without a
//! spawn or a channel. A call that is not comes back as a future, for the transport to run.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use longhaul_proto::dialect::Dialect;
#[cfg(feature = "http")]
use longhaul_proto::http::{HeaderText, MirroredParameter};
use longhaul_proto::jsonrpc::{Code, ErrorObject, Params, ProgressToken, RequestId};
use longhaul_proto::method::Method;
use longhaul_proto::model::{
    CacheScope, ClientCapabilities, Implementation, LoggingLevel, ServerCapabilities, TraceParent,
};
use longhaul_tasks::runner::Engine;
use longhaul_tasks::store::{Owner, Principal, Record, StoreError};

use super::answer::{Answered, Dispatched, Envelope};
use super::ask::{Desk, Line};
use super::audience::Audience;
use super::calls::Calls;
use super::changes::Changes;
use super::client::Client;
use super::completion::complete;
use super::fleet_rates::{self, Taken, What};
use super::grant::Grant;
use super::listen::{listen, subscribe};
use super::method::{OwnMethods, own_method};
use super::offer::Offer;
use super::outlet::{Outlet, Push};
use super::parts_news;
use super::policy::TaskPolicy;
use super::polls::{Poll, PollFigures, Polls};
use super::prompt::get_prompt;
use super::resource::read_resource;
use super::shelf::{Cursor, Item, Shelf};
use super::slots::TaskSlots;
use super::state::States;
use super::subscriptions::Subscriptions;
use super::watched::Watched;
use super::{call, drafted, layered, task_list, tasks};
use crate::audit::Trail;
use crate::service::Next;
use crate::wire::By;

/// Finds and runs the handler of a request. Clones share one server.
#[derive(Clone, Debug)]
pub struct Dispatcher(pub(super) Arc<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) info: Implementation,
    /// The same as JSON, for results that repeat it.
    pub(super) info_json: Arc<str>,
    pub(super) instructions: Option<String>,
    pub(super) capabilities: ServerCapabilities,
    pub(super) offer: Offer,
    /// Whom to tell that it has changed; `None` when it never does.
    pub(super) changes: Option<Arc<Changes>>,
    /// Who tells of resources that clients watch.
    pub(super) watched: Arc<Watched>,
    /// What no revision knows.
    pub(super) methods: OwnMethods,
    /// Who answers before the store what is asked about tasks.
    pub(super) slots: TaskSlots,
    /// The layers that requests go through.
    pub(super) way: Option<Next>,
    /// How many items a page of a list has at most.
    pub(super) page_size: usize,
    /// Those that follow tasks.
    pub(super) subscriptions: Arc<Subscriptions>,
    /// Those that ask after them.
    pub(super) polls: Arc<Polls>,
    /// Those that call tools.
    pub(super) calls: Arc<Calls>,
    /// Where it is noted what becomes of tasks, if anywhere.
    pub(super) trail: Option<Trail>,
    pub(super) engine: Engine,
    pub(super) desk: Arc<Desk>,
    /// What is taken of the bounds on polls and on calls is to count at every node, and nobody sees to that yet.
    pub(super) fleet_rates: AtomicBool,
}

impl Shared {
    /// What was taken of the bounds on polls and on calls since this was last asked.
    pub(super) fn taken(&self) -> Vec<Taken> {
        let mut taken = self.polls.taken();
        taken.extend(self.calls.taken());
        taken
    }

    /// That was taken at other nodes.
    pub(super) fn taken_elsewhere(&self, taken: Vec<Taken>) {
        for taken in taken {
            match taken.what {
                What::Polls | What::InVain => self.polls.taken_elsewhere(&taken),
                What::Calls => self.calls.taken_elsewhere(taken.whose, taken.tokens),
            }
        }
    }

    /// What the handlers share, if anything.
    pub(super) fn states(&self) -> Option<&Arc<States>> {
        Some(&self.offer.states).filter(|states| !states.is_empty())
    }

    /// `owner` is about to learn how the task stands, and so its end, if that has come.
    pub(super) fn tells(&self, record: &Record, owner: &Owner) {
        if let Some(trail) = &self.trail {
            trail.fetched(record, owner);
        }
    }

    /// Whom to tell of changes.
    ///
    /// # Errors
    ///
    /// `-32601`: nothing ever changes here.
    pub(super) fn changes(&self) -> Result<&Arc<Changes>, ErrorObject> {
        self.changes.as_ref().ok_or_else(|| {
            ErrorObject::new(
                Code::METHOD_NOT_FOUND,
                "method not found: what this server offers never changes",
            )
        })
    }
}

/// Who asks, and what it can do.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Caller {
    /// Who the caller is proven to be.
    pub principal: Option<Principal>,
    /// What its credential lets it do; `None` when nothing is out of its reach.
    pub grant: Option<Arc<Grant>>,
    /// What it declared: for its session, or for this request.
    pub capabilities: ClientCapabilities,
    /// The least severe log message it wants; `None` for none.
    pub log_level: Option<LoggingLevel>,
    /// Which trace of its own the request belongs to.
    pub trace_parent: Option<TraceParent>,
    /// Who its client says it is.
    pub(crate) client: Client,
    /// How to ask it, in a session.
    pub(crate) line: Option<Line>,
    /// Where it asks from.
    pub(crate) origin: Origin,
}

/// Where a caller asks from, by which strangers are told apart.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) enum Origin {
    /// Nobody has said so.
    #[default]
    Unknown,
    /// A network that is one customer's.
    #[cfg(feature = "http")]
    Network(std::net::IpAddr),
    /// A connection, by its number: those of this machine have one address.
    #[cfg(feature = "http")]
    Connection(u64),
}

impl Caller {
    /// A caller who has declared nothing yet.
    pub fn new(principal: Option<Principal>) -> Self {
        Self { principal, ..Self::default() }
    }

    /// The same, whose client says that it is this one: by name and version, which is all that is kept of it.
    #[must_use]
    pub fn with_client(self, client: &Implementation) -> Self {
        Self { client: Client::of_session(client), ..self }
    }

    /// Who its client says it is, by name and version: in its session, or with a call, which is read for it each time.
    /// `None` where it does not say, or says it wrongly, which is no reason to refuse a call.
    ///
    /// ```
    /// use longhaul::proto::model::Implementation;
    /// use longhaul::server::Caller;
    /// let caller = Caller::new(None).with_client(&Implementation::new("caller", "2.1"));
    /// assert_eq!(caller.client().map(|client| client.name.clone()).as_deref(), Some("caller"));
    /// ```
    pub fn client(&self) -> Option<Cow<'_, Implementation>> {
        self.client.read()
    }

    /// The same in a line.
    pub(crate) fn client_line(&self) -> Option<Arc<str>> {
        let client = self.client()?;
        match (client.name.as_str(), client.version.as_str()) {
            ("", _) => None,
            (name, "") => Some(name.into()),
            (name, version) => Some(format!("{name} {version}").into()),
        }
    }

    /// To whom its tasks belong.
    pub fn owner(&self) -> Owner {
        self.principal.clone().map_or(Owner::Anonymous, Owner::Principal)
    }
}

/// One request, admitted, with all it takes to answer it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Exchange<'r, 'a> {
    /// Echoed by the answer.
    pub id: &'r RequestId,
    /// How the answer is written.
    pub dialect: &'static Dialect,
    /// What is asked.
    pub method: Method,
    /// By which name; it matters only for methods of the server's own.
    pub name: &'r str,
    /// With which parameters.
    pub params: &'r Params<'a>,
    /// The caller wants progress under this token.
    pub progress_token: Option<ProgressToken>,
    /// The caller's own name for this call, under which it is made once.
    pub idempotency_key: Option<Arc<str>>,
    /// Who asks.
    pub caller: Caller,
    /// How to reach the caller before the answer.
    pub outlet: Outlet,
    /// How to reach the caller after it, if it has a session.
    pub push: Option<Arc<dyn Push>>,
}

impl<'r, 'a> Exchange<'r, 'a> {
    /// An exchange that wants no progress and whose caller cannot be reached but by the answer.
    pub fn new(
        id: &'r RequestId,
        dialect: &'static Dialect,
        method: Method,
        params: &'r Params<'a>,
        caller: Caller,
    ) -> Self {
        Self {
            id,
            dialect,
            method,
            name: "",
            params,
            progress_token: None,
            idempotency_key: None,
            caller,
            outlet: Outlet::None,
            push: None,
        }
    }
}

impl Dispatcher {
    /// The engine that runs the server's tasks.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// `owner` has answered in one session what was asked in another.
    pub(crate) fn answered_astray(&self, owner: &Owner) {
        if let Some(trail) = &self.0.trail {
            trail.strayed(owner);
        }
    }

    /// Somebody has called back with a token that was never made.
    #[cfg(feature = "http")]
    pub(crate) fn was_called_back_in_vain(&self) {
        if let Some(trail) = &self.0.trail {
            trail.forged(crate::audit::Forged::Callback, &Owner::Anonymous);
        }
    }

    /// The server has ended, and nothing more is asked: what the trail was not told yet it is told now.
    pub(crate) fn has_ended(&self) {
        if let Some(trail) = &self.0.trail {
            trail.tell_last_guesses();
        }
    }

    /// When calls of a tool become tasks, and what becomes of those; `None` if it is not offered. Its
    /// [`rerun`](TaskPolicy::rerun) is what is done, also where the tool's annotations decide that.
    pub fn task_policy(&self, tool: &str) -> Option<TaskPolicy> {
        let tool = self.0.offer.tools.find(tool)?;
        Some(TaskPolicy { rerun: tool.rerun(), ..tool.policy.clone() })
    }

    /// How much was asked about tasks so far, and refused.
    pub fn poll_figures(&self) -> PollFigures {
        self.0.polls.figures()
    }

    /// Counts a question about so many tasks, by their ids, that `caller` asks beside the protocol, on a page say: against
    /// the same bounds ([`PollOptions`](super::PollOptions)) as those within it. Whoever has looked says what was there.
    ///
    /// # Errors
    ///
    /// An overload, which says when to come back: the store is not to be read.
    pub fn poll(&self, caller: &Caller, tasks: usize) -> Result<Poll, ErrorObject> {
        self.0.polls.admit(caller, tasks)
    }

    /// Takes up the tasks that earlier processes left; says how many. Call it once, before serving, within
    /// the runtime that serves.
    ///
    /// # Errors
    ///
    /// When the store cannot be read or written.
    pub async fn start(&self) -> Result<usize, StoreError> {
        self.0.desk.start().await?;
        let taken_up = self.0.engine.start().await?;
        if self.0.desk.registry().is_some() && self.0.fleet_rates.swap(false, Ordering::Relaxed) {
            fleet_rates::keep(&self.0);
        }
        Ok(taken_up)
    }

    /// Whether the headers of a call say what its arguments say, where its tool has marked them.
    ///
    /// # Errors
    ///
    /// As [`MirroredParameter::check`].
    #[cfg(feature = "http")]
    pub(crate) fn check_mirrored<'h>(
        &self,
        params: &Params<'_>,
        header: impl Fn(&str) -> HeaderText<'h>,
    ) -> Result<(), ErrorObject> {
        let Ok(Some(longhaul_proto::jsonrpc::Text(name))) = params.read("name") else { return Ok(()) };
        match self.0.offer.tools.find(&name).as_ref().map(|tool| &tool.mirrored) {
            Some(Ok(marked)) => MirroredParameter::check(marked, params, header),
            _ => Ok(()),
        }
    }

    /// The names of the methods of the server's own.
    pub(crate) fn own_methods(&self) -> Arc<[String]> {
        self.0.methods.names()
    }

    /// Whether calls can become tasks as they were drafted.
    pub(crate) fn has_drafted_tasks(&self) -> bool {
        self.0.capabilities.drafted_tasks
    }

    /// Whether it is a method of the server's own.
    #[cfg(feature = "http")]
    pub(crate) fn has_own_method(&self, name: &str) -> bool {
        self.0.methods.has(name)
    }

    /// A session has opened whose client is told through `push` that what is offered has changed, for as long as `push`
    /// lives.
    ///
    /// Must be called within a tokio runtime.
    pub fn attend(&self, dialect: &'static Dialect, push: &Arc<dyn Push>) {
        if let Some(changes) = &self.0.changes {
            changes.attend(dialect, push);
        }
    }

    /// Answers `exchange` into `out`, or says that the answer takes longer.
    ///
    /// Must be called within a tokio runtime.
    pub fn dispatch(&self, exchange: Exchange<'_, '_>, out: &mut Vec<u8>) -> Dispatched {
        let dispatched = match &self.0.way {
            None => self.begin(exchange, out),
            Some(way) => layered::dispatch(self, way, exchange, out),
        };
        match dispatched {
            Dispatched::Pending(answer) => Dispatched::Pending(answer.unless(self.0.engine.left_behind())),
            other => other,
        }
    }

    pub(crate) fn envelope(&self, id: &RequestId, dialect: &'static Dialect, method: Method) -> Envelope {
        let (id, method) = (id.clone(), dialect.name_of(method));
        Envelope { by: By::Server, id, dialect, method, server_info: Arc::clone(&self.0.info_json) }
    }

    /// The same, past all layers.
    pub(crate) fn begin(&self, mut exchange: Exchange<'_, '_>, out: &mut Vec<u8>) -> Dispatched {
        if let Some(line) = exchange.caller.line.take() {
            exchange.caller.line = Some(line.with_push(exchange.push.clone()));
        }
        let envelope = self.envelope(exchange.id, exchange.dialect, exchange.method);
        let offers = &self.0.capabilities;
        match exchange.method {
            Method::Subscribe if parts_news::are_asked_for(&exchange) => {
                parts_news::subscribe(self, envelope, exchange, out)
            }
            Method::CallTool => call::call_tool(self, envelope, exchange, out),
            Method::ReadResource if offers.resources => read_resource(self, envelope, exchange, out),
            Method::GetPrompt if offers.prompts => get_prompt(self, envelope, exchange, out),
            Method::Complete if offers.completions => complete(self, envelope, exchange, out),
            Method::Own => own_method(self, envelope, exchange, out),
            Method::Listen => listen(self, envelope, exchange, out),
            Method::GetTask | Method::TaskResult | Method::UpdateTask | Method::CancelTask
                if offers.tasks =>
            {
                tasks::answer(self, envelope, exchange, out)
            }
            Method::ListTasks if offers.tasks => task_list::answer(self, envelope, exchange, out),
            Method::DeleteTask if offers.drafted_tasks => drafted::answer(self, envelope, exchange, out),
            _ => Dispatched::Answered(match self.at_once(&envelope, &exchange, out) {
                Ok(answered) => answered,
                Err(error) => envelope.error(out, &error),
            }),
        }
    }

    /// The methods whose answers are always at hand.
    fn at_once(
        &self,
        envelope: &Envelope,
        exchange: &Exchange<'_, '_>,
        out: &mut Vec<u8>,
    ) -> Result<Answered, ErrorObject> {
        let shared = &*self.0;
        let (dialect, instructions) = (exchange.dialect, shared.instructions.as_deref());
        let offer = &shared.offer;
        let no_more = |_: &Offer, _: &Dialect, _| Vec::new();
        Ok(match exchange.method {
            Method::ListTools => {
                let companions = Offer::companions;
                return self.list(envelope, exchange, ('t', "tools"), &offer.tools, companions, out);
            }
            Method::ListPrompts if shared.capabilities.prompts => {
                return self.list(envelope, exchange, ('p', "prompts"), &offer.prompts, no_more, out);
            }
            Method::ListResources if shared.capabilities.resources => {
                return self.list(envelope, exchange, ('r', "resources"), &offer.resources, no_more, out);
            }
            Method::ListResourceTemplates if shared.capabilities.resources => {
                let families = |offer: &Offer, dialect: &Dialect, _| offer.family_templates(dialect);
                let kind = ('f', "resourceTemplates");
                return self.list(envelope, exchange, kind, &offer.templates, families, out);
            }
            Method::Subscribe | Method::Unsubscribe => subscribe(shared, envelope, exchange, out)?,
            Method::Ping | Method::SetLogLevel => envelope.result(out, |_| ()),
            Method::Initialize => envelope.result(out, |result| {
                // Nothing tells strangers apart, so that none has a list of its own.
                let may_list = exchange.caller.principal.is_some();
                let capabilities = shared.capabilities.clone().with_task_lists(may_list);
                dialect.write_initialize(result, &capabilities, &shared.info, instructions);
            }),
            Method::Discover => envelope.result(out, |result| {
                dialect.write_discover(result, &shared.capabilities, instructions);
            }),
            _ => {
                let message = "method not found: this server offers no such thing";
                return Err(ErrorObject::new(Code::METHOD_NOT_FOUND, message));
            }
        })
    }

    /// A page of one of the lists.
    fn list<T: Item>(
        &self,
        envelope: &Envelope,
        exchange: &Exchange<'_, '_>,
        (kind, member): (char, &str),
        shelf: &Shelf<T>,
        last: impl FnOnce(&Offer, &Dialect, Audience) -> Vec<Vec<u8>>,
        out: &mut Vec<u8>,
    ) -> Result<Answered, ErrorObject> {
        let (dialect, audience) = (exchange.dialect, Audience::of(exchange.dialect, &exchange.caller));
        let cursor = Cursor::read(exchange.params, kind)?;
        let stock = shelf.stock();
        let list = stock.list(dialect, audience, || last(&self.0.offer, dialect, audience));
        let (page, next) = list.page(cursor, self.0.page_size, kind);
        Ok(envelope.result(out, |result| {
            result.raw_items(member, page);
            result.optional("nextCursor", next.as_ref());
            result.cacheable(LIST_TTL_MS, CacheScope::Private);
        }))
    }
}

/// How long a client may keep a list, in milliseconds.
const LIST_TTL_MS: u64 = 5_000;
