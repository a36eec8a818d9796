//! Processes, one after another: each is a runtime, a server and a node, and all of it goes at once when it crashes.

use std::sync::{Arc, Weak};
use std::time::Duration;

use longhaul::Server;
use longhaul::proto::dialect::Dialect;
use longhaul::proto::jsonrpc::{Limits, Message};
use longhaul::proto::model::RequestMeta;
use longhaul::server::{Caller, Dispatched, Dispatcher, Exchange, Principal};
use longhaul_store::wrap::{Fault, Faults, Moment, Operation, Wrapped};
use longhaul_store::{Memory, TaskStore};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::audit::Audit;
use crate::clock::Simulated;
use crate::explore::Scenario;
use crate::place::{Kind, Place};
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
    /// What the processes share beside tasks: the key of states that travel through clients.
    registry: Memory,
    pub(crate) world: World,
    pub(crate) audit: Audit,
    process: Option<Process>,
    /// Whether its clients say that they take tasks.
    pub(crate) takes_tasks: bool,
    /// What each process has asked of the store, the running one left out.
    pub(crate) operations: Vec<Vec<Operation>>,
}

struct Process {
    runtime: Runtime,
    dispatcher: Dispatcher,
    faults: Faults,
    store: Weak<dyn TaskStore>,
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
            registry: Memory::new(),
            world: World::default(),
            audit,
            process: None,
            takes_tasks: true,
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
        let (audit, takes_tasks) = (self.audit.clone(), self.takes_tasks);
        let told = self.during(async |dispatcher| {
            let asked = ask(dispatcher, who, takes_tasks, method, params);
            let told = tokio::time::timeout(LONGEST_ANSWER, asked).await;
            told.unwrap_or_else(|_| {
                audit.complain(format!("{method} is not answered"));
                Value::Null
            })
        })?;
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

    /// Ends the process at once, if one runs; the next begins so much later.
    pub(crate) fn end(&mut self, off: Duration) {
        let Some(Process { runtime, dispatcher, faults, store }) = self.process.take() else { return };
        let entered = runtime.enter();
        self.clock.passed();
        drop(entered);
        self.clock.detach(off);
        faults.crash();
        drop(runtime);
        drop(dispatcher);
        self.operations.push(faults.operations());
        if store.strong_count() > 0 {
            self.audit.complain("I14: something of a process is still there when it is gone");
        }
    }

    async fn start_process(&self, faults: &Faults) -> (Dispatcher, Weak<dyn TaskStore>) {
        self.clock.attach();
        self.audit.begin();
        let store: Arc<dyn TaskStore> =
            Arc::new(Wrapped::new(Wrapped::new(self.place.join(), self.audit.clone()), faults.clone()));
        let weak = Arc::downgrade(&store);
        let hands = Hands::new(self.world.clone(), faults.clone());
        let server =
            (self.scenario.tools)(&hands).into_iter().fold(Server::new("explored", "1"), Server::tool);
        let server = server.registry(Arc::new(self.registry.another_node()));
        (server.store(store).dispatcher().unwrap(), weak)
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
        let (dispatcher, store) = runtime.block_on(self.start_process(&faults));
        self.process = Some(Process { runtime, dispatcher, faults, store });
        self.during(async |dispatcher| dispatcher.start().await.map(drop).unwrap())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

/// Makes a request of a client that can be asked, and takes tasks or not.
pub(crate) async fn ask(
    dispatcher: &Dispatcher,
    who: &str,
    takes_tasks: bool,
    method: &str,
    params: &Value,
) -> Value {
    let mut params = params.clone();
    let extensions = if takes_tasks { json!({"io.modelcontextprotocol/tasks": {}}) } else { json!({}) };
    let own = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities":
            {"elicitation": {"form": {}}, "extensions": extensions},
    });
    for (name, value) in own.as_object().unwrap() {
        params["_meta"][name] = value.clone();
    }
    let text = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let Message::Request(request) = Message::decode(text.as_bytes(), &Limits::default()).unwrap() else {
        panic!("{text}");
    };
    let meta: RequestMeta<'_> = request.params.read("_meta").unwrap().unwrap();
    let dialect = Dialect::of_request(&meta, None, method).unwrap();
    let mut caller = Caller::new(Some(Principal::new(who).unwrap()));
    caller.capabilities = meta.client_capabilities.unwrap();
    let method = dialect.request(method).unwrap();
    let mut exchange = Exchange::new(&request.id, dialect, method, &request.params, caller);
    exchange.idempotency_key = meta.idempotency_key.map(Into::into);
    let mut out = Vec::new();
    if let Dispatched::Pending(answer) = dispatcher.dispatch(exchange, &mut out) {
        (_, out) = answer.await;
    }
    serde_json::from_slice(&out).unwrap()
}

/// No answer takes as long in simulated time.
const LONGEST_ANSWER: Duration = Duration::from_secs(600);
