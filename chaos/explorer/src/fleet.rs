//! Processes, one after another: each is a runtime, a server and a node, and all of it goes at once when it crashes.

use std::sync::{Arc, Weak};
use std::time::Duration;

use longhaul::Server;
use longhaul::proto::dialect::{DRAFTED_TASK, Dialect, Revision};
use longhaul::proto::jsonrpc::{Limits, Message};
use longhaul::proto::model::RequestMeta;
use longhaul::server::{Caller, Dispatched, Dispatcher, Exchange, Principal};
use longhaul_store::wrap::{Fault, Faults, Moment, Operation, Wrapped};
use longhaul_store::{Registry, TaskStore};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::audit::Audit;
use crate::clock::Simulated;
use crate::explore::Scenario;
use crate::place::{Kind, Place};
use crate::session::Session;
use crate::world::{Hands, World};

/// When a process crashes: the how many-eth it is, and at which of its operations.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Crash {
    pub(crate) process: usize,
    pub(crate) operation: usize,
    pub(crate) moment: Moment,
}

/// The process that was asked is gone, and has not answered.
#[derive(Debug)]
pub(crate) struct Gone;

/// The processes of one run.
pub(crate) struct Fleet {
    scenario: &'static Scenario,
    plan: Vec<Crash>,
    clock: Simulated,
    place: Place,
    pub(crate) world: World,
    pub(crate) audit: Audit,
    process: Option<Process>,
    /// As what its clients ask that have no session.
    pub(crate) speaks: Speaks,
    /// What each process has asked of the store, the running one left out.
    pub(crate) operations: Vec<Vec<Operation>>,
}

struct Process {
    runtime: Runtime,
    dispatcher: Dispatcher,
    faults: Faults,
    store: Weak<dyn TaskStore>,
    registry: Weak<dyn Registry>,
    /// The one that its client has opened, if it has.
    session: Option<Session>,
}

/// As what a client asks which has no session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Speaks {
    /// 2026-07-28, taking tasks.
    Extension,
    /// The same, taking none.
    Nothing,
    /// 2025-11-25, asking for tasks.
    Core,
    /// 2025-06-18, naming tasks as they were drafted.
    Draft,
}

impl Fleet {
    pub(crate) fn new(scenario: &'static Scenario, kind: Kind, plan: &[Crash]) -> Self {
        let clock = Simulated::default();
        let place = Place::empty(kind, &clock);
        let audit = Audit::new(place.observe(), clock.clone());
        Self {
            scenario,
            plan: plan.to_vec(),
            clock,
            place,
            world: World::default(),
            audit,
            process: None,
            speaks: Speaks::Extension,
            operations: Vec::new(),
        }
    }

    /// How many of the planned crashes were met.
    pub(crate) fn crashed(&self) -> usize {
        let asked = |process: usize| self.operations.get(process).map_or(0, Vec::len);
        self.plan.iter().filter(|crash| asked(crash.process) >= crash.operation).count()
    }

    /// Makes a request of the process that runs, or of the next; its answer.
    ///
    /// # Errors
    ///
    /// When it crashes meanwhile, or at its start.
    pub(crate) fn ask(&mut self, who: &str, method: &str, params: &Value) -> Result<Value, Gone> {
        let (audit, speaks) = (self.audit.clone(), self.speaks);
        self.during(async |dispatcher| {
            answered(ask(dispatcher, who, speaks, method, params), method, &audit).await
        })
    }

    /// The same in a session of that revision, whose client accepts with `content` what it is asked meanwhile, or leaves it.
    ///
    /// # Errors
    ///
    /// When it crashes meanwhile, or at its start.
    pub(crate) fn converse(
        &mut self,
        revision: Revision,
        method: &str,
        params: &Value,
        content: Option<&Value>,
    ) -> Result<Value, Gone> {
        if self.process.is_none() {
            self.start()?;
        }
        let audit = self.audit.clone();
        let mut open = self.process.as_mut().and_then(|process| process.session.take());
        let told = self.during(async |dispatcher| {
            let session = match open.take() {
                Some(session) => session,
                None => Session::open(dispatcher, revision).await,
            };
            let session = open.insert(session);
            answered(session.ask(method, params, content), method, &audit).await
        })?;
        if let Some(process) = &mut self.process {
            process.session = open;
        }
        Ok(told)
    }

    /// Lets time pass for the process that runs, or for the next.
    ///
    /// # Errors
    ///
    /// When it crashes meanwhile, or at its start.
    pub(crate) fn pass(&mut self, time: Duration) -> Result<(), Gone> {
        self.during(async |_| tokio::time::sleep(time).await)
    }

    /// Stops the process in order.
    ///
    /// # Errors
    ///
    /// When it crashes meanwhile.
    pub(crate) fn drain(&mut self) -> Result<(), Gone> {
        self.during(async |dispatcher| {
            dispatcher.engine().drain(Duration::from_secs(10)).await;
            // What is given back is given back after the callers are let go.
            tokio::time::sleep(Duration::from_secs(1)).await;
        })?;
        self.end(Duration::ZERO);
        Ok(())
    }

    /// Ends the process at once, if one runs; the next begins so much later at the earliest.
    pub(crate) fn end(&mut self, off: Duration) {
        let Some(Process { runtime, dispatcher, faults, store, registry, session }) = self.process.take()
        else {
            return self.clock.detach(off);
        };
        let entered = runtime.enter();
        self.clock.passed();
        drop(entered);
        self.clock.detach(off);
        faults.crash();
        drop(runtime);
        drop((dispatcher, session));
        self.operations.push(faults.operations());
        if store.strong_count() + registry.strong_count() > 0 {
            self.audit.complain("I14: something of a process is still there when it is gone");
        }
    }

    async fn start_process(
        &self,
        faults: &Faults,
    ) -> (Dispatcher, (Weak<dyn TaskStore>, Weak<dyn Registry>)) {
        self.clock.attach();
        self.audit.begin();
        let (tasks, shared) = self.place.join();
        let store: Arc<dyn TaskStore> =
            Arc::new(Wrapped::new(Wrapped::new(tasks, self.audit.clone()), faults.clone()));
        // What nodes share is reached by the same process, and lost with it at the same moments.
        let registry: Arc<dyn Registry> =
            Arc::new(Wrapped::new(Wrapped::new(shared, self.audit.clone()), faults.clone()));
        let held = (Arc::downgrade(&store), Arc::downgrade(&registry));
        let hands = Hands::new(self.world.clone(), faults.clone());
        let server =
            (self.scenario.tools)(&hands).into_iter().fold(Server::new("explored", "1"), Server::tool);
        let server = server.registry(registry).store(store).drafted_tasks(true);
        (server.dispatcher().unwrap(), held)
    }

    /// Does something in the process that runs, or in the next.
    fn during<T>(&mut self, act: impl AsyncFnOnce(&Dispatcher) -> T) -> Result<T, Gone> {
        if self.process.is_none() {
            self.start()?;
        }
        let Some(Process { runtime, dispatcher, faults, .. }) = &self.process else { return Err(Gone) };
        let acted = runtime.block_on(async {
            tokio::select! {
                biased;
                () = faults.crashed() => Err(Gone),
                acted = act(dispatcher) => Ok(acted),
            }
        });
        if acted.is_err() {
            self.end(Duration::ZERO);
        }
        acted
    }

    fn start(&mut self) -> Result<(), Gone> {
        let faults = Faults::new();
        for crash in self.plan.iter().filter(|crash| crash.process == self.operations.len()) {
            faults.plan(crash.operation, crash.moment, Fault::Crash);
        }
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let (dispatcher, (store, registry)) = runtime.block_on(self.start_process(&faults));
        self.process = Some(Process { runtime, dispatcher, faults, store, registry, session: None });
        self.during(async |dispatcher| dispatcher.start().await.map(drop).unwrap())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

/// What a request is answered with. That it is not in time is told.
async fn answered(asked: impl Future<Output = Value>, method: &str, audit: &Audit) -> Value {
    let told = tokio::time::timeout(LONGEST_ANSWER, asked).await;
    told.unwrap_or_else(|_| {
        audit.complain(format!("{method} is not answered"));
        Value::Null
    })
}

/// Makes a request of a client that can be asked.
pub(crate) async fn ask(
    dispatcher: &Dispatcher,
    who: &str,
    speaks: Speaks,
    method: &str,
    params: &Value,
) -> Value {
    let params = speaks.declare(method, params.clone());
    let text = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let Message::Request(request) = Message::decode(text.as_bytes(), &Limits::default()).unwrap() else {
        panic!("{text}");
    };
    let meta: RequestMeta<'_> = request.params.read("_meta").unwrap().unwrap();
    let dialect = match speaks {
        Speaks::Extension | Speaks::Nothing => Dialect::of_request(&meta, None, method).unwrap(),
        Speaks::Core => Dialect::of(Revision::V2025_11_25),
        Speaks::Draft => Dialect::of(Revision::V2025_06_18),
    };
    let mut caller = Caller::new(Some(Principal::new(who).unwrap()));
    caller.capabilities = meta.client_capabilities.unwrap();
    let method = dialect.request(method).or_else(|| dialect.drafted_request(method)).unwrap();
    let mut exchange = Exchange::new(&request.id, dialect, method, &request.params, caller);
    exchange.idempotency_key = meta.idempotency_key.map(Into::into);
    let mut out = Vec::new();
    if let Dispatched::Pending(answer) = dispatcher.dispatch(exchange, &mut out) {
        (_, out) = answer.await;
    }
    serde_json::from_slice(&out).unwrap()
}

impl Speaks {
    /// The parameters of a request, with what such a client says in each.
    fn declare(self, method: &str, mut params: Value) -> Value {
        let extensions = match self {
            Self::Extension => json!({"io.modelcontextprotocol/tasks": {}}),
            Self::Nothing | Self::Core | Self::Draft => json!({}),
        };
        let own = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities":
                {"elicitation": {"form": {}}, "extensions": extensions},
        });
        for (name, value) in own.as_object().unwrap() {
            params["_meta"][name] = value.clone();
        }
        if self == Self::Core && method == "tools/call" {
            params["task"] = json!({});
        }
        params
    }

    /// The parameters of a call that is to be the drafted task of this name.
    pub(crate) fn drafted(mut params: Value, name: &str) -> Value {
        params["_meta"][DRAFTED_TASK] = json!({"taskId": name});
        params
    }

    /// The id of the task that a call has become, as its answer says.
    pub(crate) fn task_of(answer: &Value) -> Option<&str> {
        let result = &answer["result"];
        result["taskId"].as_str().or_else(|| result["task"]["taskId"].as_str())
    }
}

/// No answer takes as long in simulated time.
const LONGEST_ANSWER: Duration = Duration::from_secs(600);
