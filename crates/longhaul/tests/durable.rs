//! Tools that are entered again: what is done once, what is asked once, and who goes on after a crash.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::proto::dialect::Dialect;
use longhaul::proto::jsonrpc::{Limits, Message};
use longhaul::proto::model::RequestMeta;
use longhaul::server::{
    Caller, Dispatched, Dispatcher, Elicited, Exchange, Principal, TaskMode, TaskPolicy, ToolError,
};
use longhaul::store::{Memory, Record, Rerun, Scope, Settings, SystemClock, TaskId, TaskStore as _};
use longhaul::tasks::runner::Pace;
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Approve {
    go: bool,
}

/// What the tools have done, for all processes.
#[derive(Clone, Debug, Default)]
struct World {
    charged: Arc<AtomicUsize>,
    begun: Arc<AtomicUsize>,
    keys: Arc<Mutex<Vec<String>>>,
    /// The first time a step gets that far it never ends.
    hang: Arc<AtomicUsize>,
}

impl World {
    fn charged(&self) -> usize {
        self.charged.load(Ordering::SeqCst)
    }

    fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }
}

/// Charges, asks, and ships.
async fn order(world: World, cx: Cx) -> Result<String, ToolError> {
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
async fn stuck(world: World, cx: Cx, at_most_once: bool) -> Result<String, ToolError> {
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

fn policy() -> TaskPolicy {
    let mut policy = TaskPolicy::always();
    policy.rerun = Rerun::Resumable;
    policy
}

fn server(world: &World) -> Server {
    let (five, mut later) = (world.clone(), policy());
    later.mode = TaskMode::After(Duration::from_secs(60));
    let (one, two, three, four) = (world.clone(), world.clone(), world.clone(), world.clone());
    Server::new("durable", "1")
        .tool(Tool::typed("order", "Order", move |cx, _: Nothing| order(one.clone(), cx)).task(policy()))
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
struct Process {
    runtime: Runtime,
    dispatcher: Dispatcher,
}

impl Process {
    fn start(world: &World, store: &Memory) -> Self {
        Self::of(server(world), store)
    }

    fn of(server: Server, store: &Memory) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let mut pace = Pace::default();
        (pace.hot_wait, pace.recover_every) = (Duration::from_millis(100), Duration::from_millis(20));
        (pace.strand_after, pace.retry_work) = (Duration::from_millis(20), Duration::from_millis(10));
        pace.renew_every = Duration::from_millis(100);
        let dispatcher = server.store(Arc::new(store.another_node())).pace(pace).dispatcher().unwrap();
        runtime.block_on(dispatcher.start()).unwrap();
        Self { runtime, dispatcher }
    }

    /// Everything of it is gone at once.
    fn crash(self) {
        self.runtime.shutdown_background();
        drop(self.dispatcher);
    }

    fn ask(&self, method: &str, mut params: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities":
                {"elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        let text = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let Message::Request(request) = Message::decode(text.as_bytes(), &Limits::default()).unwrap() else {
            panic!("{text}");
        };
        let meta: RequestMeta<'_> = request.params.read("_meta").unwrap().unwrap();
        let dialect = Dialect::of_request(&meta, None, method).unwrap();
        let mut caller = Caller::new(Some(Principal::new("ann").unwrap()));
        caller.capabilities = meta.client_capabilities.unwrap();
        let method = dialect.request(method).unwrap();
        let exchange = Exchange::new(&request.id, dialect, method, &request.params, caller);
        let mut out = Vec::new();
        self.runtime.block_on(async {
            match self.dispatcher.dispatch(exchange, &mut out) {
                Dispatched::Answered(_) => {}
                Dispatched::Pending(answer) => (_, out) = answer.await,
            }
        });
        serde_json::from_slice(&out).unwrap()
    }

    fn call(&self, tool: &str) -> String {
        let created = self.ask("tools/call", json!({"name": tool, "arguments": {}}));
        assert_eq!(created["result"]["resultType"], "task", "{created}");
        created["result"]["taskId"].as_str().unwrap().to_owned()
    }

    fn get(&self, id: &str) -> Value {
        self.ask("tasks/get", json!({"taskId": id}))["result"].clone()
    }

    /// The task, once it is no longer only working.
    #[track_caller]
    fn settled(&self, id: &str) -> Value {
        self.until(id, |task| task["status"] != "working")
    }

    /// The task, once it is so.
    #[track_caller]
    fn until(&self, id: &str, is: impl Fn(&Value) -> bool) -> Value {
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
    fn record(&self, id: &str) -> Record {
        let id = TaskId::new(id).unwrap();
        let found = self.dispatcher.engine().find(Scope::Operator, &id);
        self.runtime.block_on(found).unwrap().unwrap()
    }

    fn answer(&self, id: &str, key: &str, answer: &Value) -> Value {
        self.ask("tasks/update", json!({"taskId": id, "inputResponses": {key: answer}}))
    }
}

#[track_caller]
fn question(task: &Value) -> String {
    assert_eq!(task["status"], "input_required", "{task}");
    let requests = task["inputRequests"].as_object().unwrap();
    assert_eq!(requests.len(), 1, "{task}");
    requests.keys().next().unwrap().clone()
}

fn yes() -> Value {
    json!({"action": "accept", "content": {"go": true}})
}

#[track_caller]
fn text(task: &Value) -> &str {
    assert_eq!(task["status"], "completed", "{task}");
    task["result"]["content"][0]["text"].as_str().unwrap()
}

/// K11 of `conformance/REQUIREMENTS.md`.
#[test]
fn a_question_outlives_its_process_and_what_was_done_is_not_done_again() {
    let (world, store) = (World::default(), Memory::new());
    let one = Process::start(&world, &store);
    let id = one.call("order");
    let asked = question(&one.settled(&id));
    one.crash();

    let two = Process::start(&world, &store);
    assert_eq!(question(&two.settled(&id)), asked, "the same question");
    assert_eq!(two.answer(&id, &asked, &yes())["result"]["resultType"], "complete");
    assert_eq!(text(&two.settled(&id)), "receipt 1, shipped");
    assert_eq!(world.charged(), 1);
    let keys = world.keys.lock().unwrap().clone();
    assert!(keys.len() == 1 && keys[0].starts_with(&id), "{keys:?}");
    two.crash();
}

/// N9 of `conformance/REQUIREMENTS.md`.
#[test]
fn a_task_that_waits_long_takes_no_memory_and_any_node_answers_it() {
    let (world, store) = (World::default(), Memory::new());
    let (one, two) = (Process::start(&world, &store), Process::start(&world, &store));
    let id = one.call("order");
    let asked = question(&one.settled(&id));
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(world.begun(), 1, "it was put aside, not begun again");
    one.crash();

    two.answer(&id, &asked, &yes());
    assert_eq!(text(&two.settled(&id)), "receipt 1, shipped");
    assert_eq!((world.charged(), world.begun()), (1, 2));
    two.crash();
}

#[test]
fn the_first_answer_stays_and_one_that_does_not_fit_changes_nothing() {
    let (world, store) = (World::default(), Memory::new());
    let one = Process::start(&world, &store);
    let id = one.call("order");
    let asked = question(&one.settled(&id));
    let wrong = one.answer(&id, &asked, &json!({"action": "accept", "content": {"go": "maybe"}}));
    assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
    assert_eq!(question(&one.get(&id)), asked);
    for (key, answer) in [("unknown", yes()), (&asked, json!({"action": "decline"})), (&asked, yes())] {
        assert!(one.answer(&id, key, &answer)["result"].is_object());
    }
    assert_eq!(text(&one.settled(&id)), "receipt 1, kept");
    one.crash();
}

#[test]
fn k5_inside_a_step_it_is_done_again_unless_it_must_not_be() {
    for (tool, outcome) in [("again", "done the time number 2"), ("once", "not done")] {
        let (world, store) = (World::default(), Memory::new());
        let one = Process::start(&world, &store);
        let id = one.call(tool);
        while world.hang.load(Ordering::SeqCst) == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        one.crash();
        let two = Process::start(&world, &store);
        let task = two.settled(&id);
        assert!(text(&task).starts_with(outcome), "{task}");
        assert_eq!(world.hang.load(Ordering::SeqCst), if tool == "again" { 2 } else { 1 });
        two.crash();
    }
}

#[test]
fn a_sleep_ends_when_it_was_to_end_whoever_waits() {
    let (world, store) = (World::default(), Memory::new());
    let one = Process::start(&world, &store);
    let id = one.call("nap");
    std::thread::sleep(Duration::from_millis(300));
    one.crash();
    let two = Process::start(&world, &store);
    assert_eq!(two.get(&id)["status"], "working");
    assert_eq!(text(&two.settled(&id)), "rested");
    assert_eq!(world.begun(), 2, "put aside by the first, entered again when its time had come");
    two.crash();
}

#[test]
fn an_effect_is_named_after_its_task_before_there_is_one() {
    let (world, store) = (World::default(), Memory::new());
    let one = Process::start(&world, &store);
    // Its step makes it durable, and its question a task.
    let id = one.call("later");
    let asked = question(&one.settled(&id));
    let keys = world.keys.lock().unwrap().clone();
    assert!(keys.len() == 1 && keys[0].starts_with(&id), "{keys:?}");
    one.crash();
    let two = Process::start(&world, &store);
    two.answer(&id, &asked, &yes());
    assert_eq!(text(&two.settled(&id)), "receipt 1, shipped");
    two.crash();
}

/// A server whose tool `order` is of this version.
fn version(world: &World, version: &str, accepts: Option<&str>) -> Server {
    let world = world.clone();
    let mut tool =
        Tool::typed("order", "Order", move |cx, _: Nothing| order(world.clone(), cx)).task(policy());
    tool = tool.version(version);
    if let Some(accepts) = accepts {
        tool = tool.accepts(accepts);
    }
    Server::new("versions", "1").tool(tool)
}

#[test]
fn v1_a_task_is_entered_again_only_in_a_version_that_accepts_its_own() {
    let (world, store) = (World::default(), Memory::new());
    let one = Process::of(version(&world, "1.4", None), &store);
    let id = one.call("order");
    let asked = question(&one.settled(&id));
    one.crash();

    let two = Process::of(version(&world, "2", None), &store);
    assert_eq!(two.answer(&id, &asked, &yes())["result"]["resultType"], "complete", "answers are never lost");
    let said = "queued: no node runs version 1.4.0 of order";
    let task = two.until(&id, |task| task["statusMessage"] == said);
    assert_eq!((&task["status"], world.begun()), (&json!("working"), 1));
    two.crash();

    let three = Process::of(version(&world, "2.1", Some(">=1.4, <3")), &store);
    assert_eq!(text(&three.settled(&id)), "receipt 1, shipped");
    assert_eq!((world.charged(), world.begun()), (1, 2));
    three.crash();
}

#[test]
fn a_tool_that_would_not_go_on_with_its_own_tasks_is_not_offered() {
    let world = World::default();
    for (of, accepts, why) in
        [("2", Some("<2"), "accepts <2"), ("two", None, "version"), ("2", Some("?"), "version")]
    {
        let refused = version(&world, of, accepts).dispatcher().unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
}

/// A server of one resumable tool.
fn only<F: Future<Output = Result<String, ToolError>> + Send + 'static>(
    work: impl Fn(Cx) -> F + Send + Sync + 'static,
) -> Server {
    Server::new("one", "1").tool(Tool::typed("work", "Work", move |cx, _: Nothing| work(cx)).task(policy()))
}

/// Waits in the first process, for ever.
async fn hang_once(world: &World) {
    if world.hang.fetch_add(1, Ordering::SeqCst) == 0 {
        std::future::pending::<()>().await;
    }
}

fn until_hung(world: &World) {
    while world.hang.load(Ordering::SeqCst) == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_loop_with_a_checkpoint_goes_on_where_it_was_and_keeps_one_round() {
    const ROUNDS: usize = 10_000;
    let (world, store) = (World::default(), Memory::new());
    let server = || {
        let world = world.clone();
        only(move |cx| {
            let world = world.clone();
            async move {
                world.begun.fetch_add(1, Ordering::SeqCst);
                let first = cx.step("first", || async { Ok::<_, ToolError>(7_usize) }).await?;
                let mut state = cx.checkpointed((0, 0)).await;
                while state.0 < ROUNDS {
                    let key = cx.effect_key("add");
                    let inner = cx.scope("branch");
                    state.1 += cx
                        .step("add", || async {
                            world.keys.lock().unwrap().push(key.clone());
                            Ok::<_, ToolError>(world.charged.fetch_add(1, Ordering::SeqCst) % 2)
                        })
                        .await?;
                    inner.step("nothing", || async { Ok::<_, ToolError>(()) }).pure().await?;
                    if state.0 == ROUNDS / 2 {
                        hang_once(&world).await;
                    }
                    state.0 += 1;
                    state.save().await?;
                }
                Ok(format!("{first} {} {}", state.0, state.1))
            }
        })
    };
    let one = Process::of(server(), &store);
    let id = one.call("work");
    until_hung(&world);
    let record = one.record(&id);
    assert!(record.steps <= 4, "what comes before the loop, the state, and a round: {}", record.steps);
    one.crash();

    let two = Process::of(server(), &store);
    assert_eq!(text(&two.settled(&id)), format!("7 {ROUNDS} {}", ROUNDS / 2));
    assert_eq!((world.charged(), world.begun()), (ROUNDS, 2), "each round's effect once");
    let mut keys = std::mem::take(&mut *world.keys.lock().unwrap());
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), ROUNDS, "each under a key of its own");
    assert!(two.record(&id).steps <= 4);
    two.crash();
}

#[test]
fn branches_are_numbered_each_for_itself_however_they_get_on() {
    let (world, store) = (World::default(), Memory::new());
    let server = || {
        let world = world.clone();
        only(move |cx| {
            let world = world.clone();
            async move {
                let again = world.begun.fetch_add(1, Ordering::SeqCst) > 0;
                let branch = |cx: Cx, name: &'static str, late: bool| {
                    let world = world.clone();
                    async move {
                        if late {
                            tokio::time::sleep(Duration::from_millis(50)).await;
                        }
                        let charged = || async {
                            world.charged.fetch_add(1, Ordering::SeqCst);
                            Ok::<_, ToolError>(name.to_owned())
                        };
                        let first = cx.step("say", charged).await?;
                        Ok::<_, ToolError>(first + &cx.step("say", charged).await?)
                    }
                };
                // In the second process they get on in the other order.
                let (a, b) = (cx.scope("branch"), cx.scope("branch"));
                let (a, b) = tokio::join!(branch(a, "a", again), branch(b, "b", !again));
                let said = a? + &b?;
                hang_once(&world).await;
                Ok(said)
            }
        })
    };
    let one = Process::of(server(), &store);
    let id = one.call("work");
    until_hung(&world);
    one.crash();
    let two = Process::of(server(), &store);
    assert_eq!(text(&two.settled(&id)), "aabb");
    assert_eq!((world.charged(), world.begun()), (4, 2));
    two.crash();
}

#[test]
fn v3_a_step_that_is_read_as_something_else_ends_the_task_and_says_which() {
    let (world, store) = (World::default(), Memory::new());
    let hung = world.clone();
    let old = only(move |cx| {
        let world = hung.clone();
        async move {
            let price = cx.step("price", || async { Ok::<_, ToolError>(250) }).await?;
            hang_once(&world).await;
            Ok(format!("{price}"))
        }
    });
    let one = Process::of(old, &store);
    let id = one.call("work");
    until_hung(&world);
    one.crash();
    #[derive(serde::Deserialize, serde::Serialize)]
    struct Price {
        amount: u64,
    }
    let new = only(|cx| async move {
        let price = cx.step("price", || async { Ok::<_, ToolError>(Price { amount: 1 }) }).await?;
        Ok(format!("{}", price.amount))
    });
    let two = Process::of(new, &store);
    let ended = two.settled(&id);
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("failed"), &json!(-32603)), "{ended}");
    let data = json!({"reason": "step_changed", "step": "step:price", "version": "0.0.0"});
    assert_eq!(ended["error"]["data"], data);
    two.crash();
}

#[test]
fn v4_steps_are_found_by_name_and_another_question_under_a_key_ends_the_task() {
    for other in [false, true] {
        let (world, store) = (World::default(), Memory::new());
        let server = |again: bool| {
            let world = world.clone();
            only(move |cx| {
                let world = world.clone();
                async move {
                    let count = async |name: &'static str| {
                        cx.step(name, || async {
                            Ok::<_, ToolError>(world.charged.fetch_add(1, Ordering::SeqCst))
                        })
                        .await
                    };
                    let said = if again {
                        // Reordered, and one is new.
                        let (b, new, a) = (count("b").await?, count("new").await?, count("a").await?);
                        format!("a{a} b{b} new{new}")
                    } else {
                        let (a, b) = (count("a").await?, count("b").await?);
                        format!("a{a} b{b}")
                    };
                    let question = if again && other { "Sell it?" } else { "Ship it?" };
                    let _answer = cx.elicit::<Approve>(question).await?;
                    Ok(said)
                }
            })
        };
        let one = Process::of(server(false), &store);
        let id = one.call("work");
        let asked = question(&one.settled(&id));
        one.crash();
        let two = Process::of(server(true), &store);
        two.answer(&id, &asked, &yes());
        let ended = two.settled(&id);
        if other {
            let data = json!({"reason": "nondeterminism", "step": "elicit"});
            assert_eq!((&ended["status"], &ended["error"]["data"]), (&json!("failed"), &data), "{ended}");
        } else {
            assert_eq!(text(&ended), "a0 b1 new2");
        }
        assert_eq!(world.charged(), 3);
        two.crash();
    }
}

#[test]
fn what_is_drawn_once_stays_and_a_fence_rises() {
    let (world, store) = (World::default(), Memory::new());
    let server = || {
        let world = world.clone();
        only(move |cx| {
            let world = world.clone();
            async move {
                let uuid = cx.uuid_once().await?;
                cx.sleep_until(std::time::UNIX_EPOCH).await;
                cx.sleep_until(std::time::SystemTime::now() + Duration::from_millis(20)).await;
                let (task, epoch) = cx.fence().expect("it is a task");
                world.keys.lock().unwrap().push(format!("{uuid} {task} {epoch}"));
                hang_once(&world).await;
                Ok(uuid)
            }
        })
    };
    let one = Process::of(server(), &store);
    let id = one.call("work");
    until_hung(&world);
    one.crash();
    let two = Process::of(server(), &store);
    let task = two.settled(&id);
    let uuid = text(&task);
    assert!(uuid.len() == 36 && &uuid[14..15] == "4", "{uuid}");
    let keys = world.keys.lock().unwrap().clone();
    let [first, second] = &keys[..] else { panic!("{keys:?}") };
    let epoch = |said: &str| -> u64 {
        let said = said.strip_prefix(&format!("{uuid} {id} ")).expect("the same draw, the same task");
        said.parse().unwrap()
    };
    assert!(epoch(first) < epoch(second), "{keys:?}");
    two.crash();
}

/// Charges and ships, each to be undone, then ends as it is told.
fn undone_server(world: &World, end: &'static str) -> Server {
    let world = world.clone();
    only(move |cx| {
        let world = world.clone();
        async move {
            world.begun.fetch_add(1, Ordering::SeqCst);
            let (one, two) = (world.clone(), world.clone());
            let undo = |world: World, name: &'static str| {
                move |value: usize, key: String| {
                    let world = world.clone();
                    async move {
                        world.keys.lock().unwrap().push(format!("{name} {value} {key}"));
                        match (end, name) {
                            ("hang in undo", "ship") => hang_once(&world).await,
                            ("undo panics", "ship") => panic!("a bug"),
                            ("undo fails", "ship") => return Err(ToolError::new("nobody is there")),
                            _ => {}
                        }
                        Ok::<_, ToolError>(())
                    }
                }
            };
            let done = || async { Ok::<_, ToolError>(world.charged.fetch_add(1, Ordering::SeqCst) + 1) };
            cx.step("charge", done).compensate(undo(one, "charge")).await?;
            cx.step("ship", done).compensate(undo(two, "ship")).await?;
            match end {
                "well" => Ok("well".to_owned()),
                "ask" => {
                    let _answer = cx.elicit::<Approve>("Go on?").await?;
                    cx.step("after", done).await?;
                    Ok("gone on".to_owned())
                }
                _ => Err(ToolError::new("broke")),
            }
        }
    })
}

/// What was undone, once nothing is owed any more: the same as ever for its caller.
fn undone(process: &Process, world: &World, id: &str) -> (Vec<String>, Record) {
    let seen = process.get(id);
    for _ in 0..1000 {
        let record = process.record(id);
        if !record.is_undoing() {
            assert_eq!(process.get(id), seen, "nobody sees it");
            let keys = world.keys.lock().unwrap().iter().map(|said| said.replace(id, "ID")).collect();
            return (keys, record);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{:?}", process.record(id));
}

const SHIP: &str = "ship 2 ID/step:ship/undo";
const CHARGE: &str = "charge 1 ID/step:charge/undo";

#[test]
fn what_failed_is_undone_the_latest_first_and_what_ended_well_is_not() {
    for (end, undoes) in [("fail", true), ("well", false)] {
        let (world, store) = (World::default(), Memory::new());
        let one = Process::of(undone_server(&world, end), &store);
        let id = one.call("work");
        assert_eq!(one.settled(&id)["status"], "completed", "{end}");
        let (keys, record) = undone(&one, &world, &id);
        if undoes {
            assert_eq!((keys, record.owed), (vec![SHIP.to_owned(), CHARGE.to_owned()], 0));
            assert_eq!(record.undo.map(|undo| (undo.attempt, undo.failed)), Some((1, 0)));
        } else {
            assert_eq!((keys, record.undo), (vec![], None));
        }
        assert_eq!(world.charged(), 2, "nothing is done anew");
        one.crash();
    }
}

#[test]
fn what_is_cancelled_is_undone_by_any_node_and_goes_no_further() {
    let (world, store) = (World::default(), Memory::new());
    let one = Process::of(undone_server(&world, "ask"), &store);
    let id = one.call("work");
    question(&one.settled(&id));
    one.crash();
    let two = Process::of(undone_server(&world, "ask"), &store);
    assert!(two.ask("tasks/cancel", json!({"taskId": id}))["result"].is_object());
    assert_eq!(two.get(&id)["status"], "cancelled");
    let (keys, record) = undone(&two, &world, &id);
    assert_eq!((keys, record.owed), (vec![SHIP.to_owned(), CHARGE.to_owned()], 0));
    assert_eq!(world.charged(), 2);
    two.crash();
}

#[test]
fn k19_a_crash_while_a_task_is_undone_does_not_end_that() {
    let mut settings = Settings::default();
    settings.lease = Duration::from_millis(500);
    let (world, store) = (World::default(), Memory::with(settings, Arc::new(SystemClock::new())));
    let one = Process::of(undone_server(&world, "hang in undo"), &store);
    let id = one.call("work");
    let ended = one.settled(&id);
    until_hung(&world);
    one.crash();
    let two = Process::of(undone_server(&world, "hang in undo"), &store);
    let (keys, record) = undone(&two, &world, &id);
    assert_eq!(keys, [SHIP, SHIP, CHARGE], "at least once, each under its own key");
    assert_eq!((record.owed, record.undo.map(|undo| undo.attempt)), (0, Some(1)), "what gets on begins anew");
    assert_eq!((two.get(&id), world.charged()), (ended, 2));
    two.crash();
}

#[test]
fn what_cannot_be_undone_is_tried_again_and_then_said() {
    for end in ["undo fails", "undo panics"] {
        let (world, store) = (World::default(), Memory::new());
        let one = Process::of(undone_server(&world, end), &store);
        let id = one.call("work");
        one.settled(&id);
        let (keys, record) = undone(&one, &world, &id);
        let tries = Pace::default().max_attempts as usize;
        assert_eq!(
            (keys.len(), keys.last().map(String::as_str)),
            (tries + 1, Some(CHARGE)),
            "{end}: {keys:?}"
        );
        assert_eq!(record.undo.map(|undo| undo.failed), Some(1), "{end}");
        one.crash();
    }
}

#[test]
fn what_ends_one_process_after_another_is_not_undone_and_the_rest_is() {
    let mut settings = Settings::default();
    settings.lease = Duration::from_millis(500);
    let (world, store) = (World::default(), Memory::with(settings, Arc::new(SystemClock::new())));
    let one = Process::of(undone_server(&world, "hang in undo"), &store);
    let id = one.call("work");
    one.settled(&id);
    until_hung(&world);
    one.crash();
    let (runtime, task) = (Runtime::new().unwrap(), TaskId::new(id.clone()).unwrap());
    for _ in 1..Pace::default().max_attempts {
        // Nodes that take it up and are never heard of again.
        while runtime.block_on(store.claim_one(&task)).unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let two = Process::of(undone_server(&world, "hang in undo"), &store);
    let (keys, record) = undone(&two, &world, &id);
    assert_eq!(keys, [SHIP, CHARGE], "one step is given up, and not what was never tried");
    assert_eq!(record.undo.map(|undo| undo.failed), Some(1));
    two.crash();
}

#[test]
fn the_names_of_steps_do_not_meet_the_keys_of_what_undoes_them() {
    let store = Memory::new();
    let server = only(|cx| async move {
        let done = || async { Ok::<_, ToolError>(1) };
        cx.step("charge", done).compensate(|_: i32, _| async { Ok::<_, ToolError>(()) }).await?;
        cx.step("charge/undo", done).await?;
        cx.step("charge%2Fundo", done).await?;
        Ok("told apart".to_owned())
    });
    let one = Process::of(server, &store);
    let id = one.call("work");
    assert_eq!(text(&one.settled(&id)), "told apart");
    one.crash();
}

#[test]
fn a_step_that_could_not_be_undone_later_is_not_made() {
    let (world, store) = (World::default(), Memory::new());
    let (counts, mut once) = (world.clone(), policy());
    once.rerun = Rerun::Never;
    let work = move |cx: Cx, _: Nothing| {
        let world = counts.clone();
        async move {
            let done = || async { Ok::<_, ToolError>(world.charged.fetch_add(1, Ordering::SeqCst)) };
            let undo = |_: usize, _: String| async { Ok::<_, ToolError>(()) };
            Ok::<_, ToolError>(cx.step("charge", done).compensate(undo).await?.to_string())
        }
    };
    let one =
        Process::of(Server::new("once", "1").tool(Tool::typed("work", "Work", work).task(once)), &store);
    let id = one.call("work");
    let ended = one.settled(&id);
    assert_eq!(ended["error"]["data"]["reason"], "not_durable", "{ended}");
    assert_eq!(world.charged(), 0);
    one.crash();
}
