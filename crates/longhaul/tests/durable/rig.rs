//! A server in processes that crash, and what its tools have done.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use longhaul::proto::dialect::{Dialect, Revision};
use longhaul::proto::jsonrpc::{Limits, Message};
use longhaul::proto::method::Method;
use longhaul::proto::model::{Implementation, RequestMeta};
use longhaul::server::{
    AskError, Caller, Dispatched, Dispatcher, Elicited, Exchange, Principal, TaskMode, TaskPolicy, ToolError,
};
use longhaul::store::{Memory, Record, Rerun, Scope, TaskId, TaskStore};
use longhaul::tasks::runner::Pace;
use longhaul::{Cx, Server, Tool};
use longhaul_test::Log;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// How long anything may take before it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Nothing {}

#[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
pub(crate) struct Approve {
    go: bool,
}

/// What the tools have done, for all processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) charged: Arc<AtomicUsize>,
    pub(crate) begun: Arc<AtomicUsize>,
    pub(crate) keys: Arc<Mutex<Vec<String>>>,
    /// The first time a step gets that far it never ends.
    pub(crate) hang: Arc<AtomicUsize>,
}

impl World {
    pub(crate) fn charged(&self) -> usize {
        self.charged.load(Ordering::SeqCst)
    }

    pub(crate) fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }
}

/// Charges, asks, and ships.
pub(crate) async fn order(world: World, cx: Cx) -> Result<String, ToolError> {
    world.begun.fetch_add(1, Ordering::SeqCst);
    let key = cx.effect_key("charge");
    let receipt = cx
        .step("charge", || async {
            world.keys.lock().unwrap().push(key.clone());
            Ok::<_, ToolError>(world.charged.fetch_add(1, Ordering::SeqCst) + 1)
        })
        .await?;
    let shipped = match cx.elicit::<Approve>("Ship it?").await? {
        Elicited::Accepted(Approve { go: true }) => "shipped",
        _ => "kept",
    };
    Ok(format!("receipt {receipt}, {shipped}"))
}

/// A step that the first process never ends.
pub(crate) async fn stuck(world: World, cx: Cx, at_most_once: bool) -> Result<String, ToolError> {
    let step = cx.step("effect", || async {
        let time = world.hang.fetch_add(1, Ordering::SeqCst) + 1;
        if time == 1 {
            std::future::pending::<()>().await;
        }
        Ok::<_, ToolError>(time)
    });
    let times = if at_most_once { step.at_most_once().await } else { step.await };
    Ok(match times {
        Ok(times) => format!("done the time number {times}"),
        Err(error) => format!("not done: {error:?}"),
    })
}

/// Asks, and does not wait for ever.
async fn patient(world: World, cx: Cx) -> Result<&'static str, ToolError> {
    world.begun.fetch_add(1, Ordering::SeqCst);
    let well = cx.elicit::<Approve>("Well?").within(Duration::from_millis(1500)).await;
    // Long enough to be put aside: it is entered again, and told the same.
    cx.sleep(Duration::from_millis(400)).await;
    match well {
        Err(AskError::TimedOut { after, .. }) if after == Duration::from_millis(1500) => Ok("gave up"),
        other => Err(ToolError::new(format!("{other:?}", other = other.map(|_| ())))),
    }
}

/// How long `granted` asks before it takes a yes for granted.
pub(crate) const GRANTED: Duration = Duration::from_millis(500);

/// Takes a yes for granted, and then asks for as long as it takes.
async fn granted(world: World, cx: Cx) -> Result<String, ToolError> {
    world.begun.fetch_add(1, Ordering::SeqCst);
    let yes = Elicited::Accepted(Approve { go: true });
    let first = cx.elicit::<Approve>("First?").within(GRANTED).or(yes).await?.accepted().map(|it| it.go);
    let second = cx.elicit::<Approve>("Second?").await?.accepted().map(|it| it.go);
    Ok(format!("{first:?}, then {second:?}"))
}

/// For how long `either` asks first.
pub(crate) const WHILE: Duration = Duration::from_secs(3);

/// Asks for a while, and then something else.
async fn either(world: World, cx: Cx) -> Result<String, ToolError> {
    world.begun.fetch_add(1, Ordering::SeqCst);
    let first = tokio::select! {
        answer = cx.elicit::<Approve>("First?") => format!("{:?}", answer?.accepted().map(|it| it.go)),
        () = cx.sleep(WHILE) => "nothing".to_owned(),
    };
    let second = cx.elicit::<Approve>("Second?").await?.accepted().map(|it| it.go);
    Ok(format!("first {first}, then {second:?}"))
}

pub(crate) fn policy() -> TaskPolicy {
    let mut policy = TaskPolicy::always();
    policy.rerun = Rerun::Resumable;
    policy
}

pub(crate) fn server(world: &World) -> Server {
    let (five, mut later) = (world.clone(), policy());
    later.mode = TaskMode::After(Duration::from_secs(60));
    let (one, two, three, four) = (world.clone(), world.clone(), world.clone(), world.clone());
    let (six, seven, eight, nine) = (world.clone(), world.clone(), world.clone(), world.clone());
    Server::new("durable", "1")
        .tool(Tool::typed("order", "Order", move |cx, _: Nothing| order(one.clone(), cx)).task(policy()))
        .tool(Tool::typed("patient", "Asks", move |cx, _: Nothing| patient(seven.clone(), cx)).task(policy()))
        .tool(Tool::typed("either", "Asks", move |cx, _: Nothing| either(eight.clone(), cx)).task(policy()))
        .tool(Tool::typed("granted", "Asks", move |cx, _: Nothing| granted(nine.clone(), cx)).task(policy()))
        .tool(Tool::typed("here", "Order", move |cx, _: Nothing| order(six.clone(), cx)))
        .tool(Tool::typed("later", "Order", move |cx, _: Nothing| order(five.clone(), cx)).task(later))
        .tool(
            Tool::typed("again", "Again", move |cx, _: Nothing| stuck(two.clone(), cx, false)).task(policy()),
        )
        .tool(
            Tool::typed("once", "Once", move |cx, _: Nothing| stuck(three.clone(), cx, true)).task(policy()),
        )
        .tool(
            Tool::typed("nap", "Nap", move |cx: Cx, _: Nothing| {
                let world = four.clone();
                async move {
                    world.begun.fetch_add(1, Ordering::SeqCst);
                    cx.sleep(Duration::from_millis(600)).await;
                    "rested"
                }
            })
            .task(policy()),
        )
}

/// A server in a process of its own: a runtime, and a node of the store.
pub(crate) struct Process {
    runtime: Runtime,
    dispatcher: Dispatcher,
    log: Log,
}

impl Process {
    pub(crate) fn start(world: &World, store: &Memory) -> Self {
        Self::of(server(world), store)
    }

    pub(crate) fn of(server: Server, store: &Memory) -> Self {
        Self::paced(server, store, |_| {})
    }

    /// At a pace that is changed so.
    pub(crate) fn paced(server: Server, store: &Memory, change: impl FnOnce(&mut Pace)) -> Self {
        Self::on(server, store.another_node(), change)
    }

    /// On a store that is its node alone.
    pub(crate) fn on(
        server: Server,
        store: impl TaskStore + 'static,
        change: impl FnOnce(&mut Pace),
    ) -> Self {
        let log = Log::default();
        let heard = log.clone();
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime.worker_threads(1).enable_all().on_thread_start(move || heard.hear_this_thread());
        let runtime = runtime.build().unwrap();
        let mut pace = Pace::default();
        (pace.hot_wait, pace.recover_every) = (Duration::from_millis(100), Duration::from_millis(20));
        (pace.strand_after, pace.retry_work) = (Duration::from_millis(20), Duration::from_millis(10));
        pace.renew_every = Duration::from_millis(100);
        change(&mut pace);
        let dispatcher = server.store(Arc::new(store)).pace(pace).dispatcher().unwrap();
        runtime.block_on(dispatcher.start()).unwrap();
        Self { runtime, dispatcher, log }
    }

    /// Begins to stop in order.
    pub(crate) fn drain(&self) {
        self.runtime.block_on(self.dispatcher.engine().drain(Duration::from_secs(5)));
    }

    /// Does something in it.
    pub(crate) fn within<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// What it has logged.
    pub(crate) fn said(&self) -> String {
        self.log.text()
    }

    /// Everything of it is gone at once.
    pub(crate) fn crash(self) {
        // Nothing of it may still write when the next server looks.
        self.runtime.shutdown_timeout(PATIENCE);
        drop(self.dispatcher);
    }

    pub(crate) fn ask(&self, method: &str, params: Value) -> Value {
        self.ask_as("ann", method, params)
    }

    /// The same of somebody else.
    pub(crate) fn ask_as(&self, who: &str, method: &str, mut params: Value) -> Value {
        let mut meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities":
                {"elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        if let Some(parent) = params["_meta"].get("traceparent") {
            meta["traceparent"] = parent.clone();
        }
        params["_meta"] = meta;
        self.exchange(who, None, method, &params)
    }

    /// The same in an older revision, of a caller whom no session connects.
    pub(crate) fn ask_in(&self, revision: Option<Revision>, method: &str, params: &Value) -> Value {
        self.exchange("ann", revision, method, params)
    }

    pub(crate) fn exchange(
        &self,
        who: &str,
        revision: Option<Revision>,
        method: &str,
        params: &Value,
    ) -> Value {
        let mut out = Vec::new();
        self.runtime.block_on(async {
            match self.begin((who, revision), method, params, &mut out) {
                Dispatched::Answered(_) => {}
                Dispatched::Pending(answer) => {
                    let answer = tokio::time::timeout(Duration::from_secs(60), answer);
                    (_, out) = answer.await.expect("it is answered");
                }
            }
        });
        serde_json::from_slice(&out).unwrap()
    }

    /// Begins what goes on, such as a subscription, and lets it go after a moment.
    pub(crate) fn begin_as(
        &self,
        who: &str,
        revision: Option<Revision>,
        method: &str,
        params: &Value,
    ) -> Value {
        let mut out = Vec::new();
        self.runtime.block_on(async {
            if let Dispatched::Pending(answer) = self.begin((who, revision), method, params, &mut out)
                && let Ok((_, whole)) = tokio::time::timeout(Duration::from_millis(100), answer).await
            {
                out = whole;
            }
        });
        if out.is_empty() { Value::Null } else { serde_json::from_slice(&out).unwrap() }
    }

    /// Calls a tool in an older revision, and gives the call up as soon as `then` is so.
    pub(crate) fn give_up(&self, tool: &str, then: impl AsyncFn() -> bool) {
        let params = json!({"name": tool, "arguments": {},
            "_meta": {"io.modelcontextprotocol/clientCapabilities": {}}});
        let revision = Revision::from_date("2025-06-18");
        self.runtime.block_on(async {
            let begun = self.begin(("ann", revision), "tools/call", &params, &mut Vec::new());
            let Dispatched::Pending(answer) = begun else { panic!("it is answered") };
            let canceller = answer.canceller();
            let answering = tokio::spawn(answer);
            while !then().await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            canceller.cancel();
            let _answered = tokio::time::timeout(PATIENCE, answering).await.expect("it is answered");
        });
    }

    fn begin(
        &self,
        (who, revision): (&str, Option<Revision>),
        method: &str,
        params: &Value,
        out: &mut Vec<u8>,
    ) -> Dispatched {
        let text = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let Message::Request(request) = Message::decode(text.as_bytes(), &Limits::default()).unwrap() else {
            panic!("{text}");
        };
        let meta: RequestMeta<'_> = request.params.read("_meta").unwrap().unwrap();
        let asked = || Dialect::of_request(&meta, None, method).unwrap();
        let dialect = revision.map_or_else(asked, Dialect::of);
        let mut caller = Caller::new(Some(Principal::new(who).unwrap()));
        caller.capabilities = meta.client_capabilities.unwrap();
        caller.trace_parent = meta.trace_parent;
        if let Some(client) = meta.client_info.and_then(|said| Implementation::said(said.get())) {
            caller = caller.with_client(&client);
        }
        let known = dialect.request(method).or_else(|| dialect.drafted_request(method));
        let (name, method) = (method, known.unwrap_or(Method::Own));
        let mut exchange = Exchange::new(&request.id, dialect, method, &request.params, caller);
        exchange.name = name;
        exchange.idempotency_key = params["key"].as_str().map(Into::into);
        self.dispatcher.dispatch(exchange, out)
    }

    pub(crate) fn call(&self, tool: &str) -> String {
        let created = self.ask("tools/call", json!({"name": tool, "arguments": {}}));
        assert_eq!(created["result"]["resultType"], "task", "{created}");
        created["result"]["taskId"].as_str().unwrap().to_owned()
    }

    pub(crate) fn get(&self, id: &str) -> Value {
        self.ask("tasks/get", json!({"taskId": id}))["result"].clone()
    }

    /// The task, once it is no longer only working.
    #[track_caller]
    pub(crate) fn settled(&self, id: &str) -> Value {
        self.until(id, |task| task["status"] != "working")
    }

    /// The task, once it is so.
    #[track_caller]
    pub(crate) fn until(&self, id: &str, is: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..1000 {
            let task = self.get(id);
            if is(&task) {
                return task;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{}", self.get(id));
    }

    /// The facts, as the store keeps them.
    pub(crate) fn record(&self, id: &str) -> Record {
        let id = TaskId::new(id).unwrap();
        let found = self.dispatcher.engine().find(Scope::Operator, &id);
        self.runtime.block_on(found).unwrap().unwrap()
    }

    pub(crate) fn answer(&self, id: &str, key: &str, answer: &Value) -> Value {
        self.ask("tasks/update", json!({"taskId": id, "inputResponses": {key: answer}}))
    }
}

#[track_caller]
pub(crate) fn question(task: &Value) -> String {
    assert_eq!(task["status"], "input_required", "{task}");
    let requests = task["inputRequests"].as_object().unwrap();
    assert_eq!(requests.len(), 1, "{task}");
    requests.keys().next().unwrap().clone()
}

pub(crate) fn yes() -> Value {
    json!({"action": "accept", "content": {"go": true}})
}

#[track_caller]
pub(crate) fn text(task: &Value) -> &str {
    assert_eq!(task["status"], "completed", "{task}");
    task["result"]["content"][0]["text"].as_str().unwrap()
}

/// A server of one resumable tool.
pub(crate) fn only<F: Future<Output = Result<String, ToolError>> + Send + 'static>(
    work: impl Fn(Cx) -> F + Send + Sync + 'static,
) -> Server {
    only_by(policy(), work)
}

/// The same by another policy.
pub(crate) fn only_by<F: Future<Output = Result<String, ToolError>> + Send + 'static>(
    policy: TaskPolicy,
    work: impl Fn(Cx) -> F + Send + Sync + 'static,
) -> Server {
    Server::new("one", "1").tool(Tool::typed("work", "Work", move |cx, _: Nothing| work(cx)).task(policy))
}

/// A server of one resumable tool, whose work is done in this world.
pub(crate) fn only_in<F: Future<Output = Result<String, ToolError>> + Send + 'static>(
    world: &World,
    work: impl Fn(World, Cx) -> F + Send + Sync + 'static,
) -> Server {
    only_in_by(world, policy(), work)
}

/// The same by another policy.
pub(crate) fn only_in_by<F: Future<Output = Result<String, ToolError>> + Send + 'static>(
    world: &World,
    policy: TaskPolicy,
    work: impl Fn(World, Cx) -> F + Send + Sync + 'static,
) -> Server {
    let world = world.clone();
    only_by(policy, move |cx| work(world.clone(), cx))
}

/// Waits in the first process, for ever.
pub(crate) async fn hang_once(world: &World) {
    if world.hang.fetch_add(1, Ordering::SeqCst) == 0 {
        std::future::pending::<()>().await;
    }
}

pub(crate) fn until_hung(world: &World) {
    let begun = Instant::now();
    while world.hang.load(Ordering::SeqCst) == 0 {
        assert!(begun.elapsed() < PATIENCE, "no handler got to where it hangs");
        std::thread::sleep(Duration::from_millis(5));
    }
}
