//! A call that became a task while its caller, who takes none, waits: it is asked by the answer to its request, and
//! comes back for the same task.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::audit::{Audit, Event, Forged, Party, What};
use longhaul::driver::Options;
use longhaul::server::{Elicited, RoundOptions, TaskMode, TaskPolicy, ToolError};
use longhaul::store::{Memory, Owner, Rerun, Settings, StepClock, Time};
use longhaul::{Cx, Tool};
use serde_json::{Value, json};

use crate::rig::{Bare, Client, Nothing, accept, asked, code, text};

/// Of the tool that asks, then works for five seconds, and never runs twice.
fn call() -> Value {
    json!({"name": "task_once", "arguments": {}})
}

/// The answers to the one question of a round.
fn ada(asked_so: &Value) -> Value {
    let [key] = asked(asked_so)[..] else { panic!("{asked_so}") };
    json!({key: accept(json!({"name": "Ada"}))})
}

#[tokio::test(start_paused = true)]
async fn who_takes_no_tasks_is_asked_by_the_answer_and_comes_back_for_the_same_task() {
    let bare = Bare::new();
    let first = bare.call(call()).await;
    assert_eq!(first["result"]["inputRequests"][asked(&first)[0]]["params"]["message"], "Who?");
    assert!(first["result"].get("taskId").is_none(), "{first}");
    // Nothing that fits: the same question, and the same task.
    let [key] = asked(&first)[..] else { panic!("{first}") };
    for wrong in [json!({}), json!({"other": 7}), json!({key: accept(json!({"name": ""}))})] {
        let again = bare.answer(call(), &first, wrong).await;
        assert_eq!(asked(&again), [key], "{again}");
    }
    let done = bare.answer(call(), &first, ada(&first)).await;
    assert_eq!(text(&done), "rested");
    assert_eq!(bare.counts.now(), (1, 1), "it ran once");
    // Whoever has lost the answer is given it again, and no other answer counts.
    let again = bare.answer(call(), &first, json!({key: {"action": "decline"}})).await;
    assert_eq!((text(&again), bare.counts.now()), ("rested", (1, 1)));
}

/// A6 of `conformance/REQUIREMENTS.md`.
#[tokio::test(start_paused = true)]
async fn a_retry_that_comes_twice_attaches_to_the_same_task() {
    let bare = Bare::new();
    let first = bare.call(call()).await;
    let answers = ada(&first);
    let (one, two) = tokio::join!(
        bare.answer(call(), &first, answers.clone()),
        bare.answer(call(), &first, answers.clone())
    );
    assert_eq!((text(&one), text(&two), bare.counts.now()), ("rested", "rested", (1, 1)));
}

#[tokio::test(start_paused = true)]
async fn a6_a_state_that_names_a_task_is_good_for_its_caller_and_its_call_alone() {
    let bare = Bare::new();
    let first = bare.call(call()).await;
    let mut params = call();
    params["requestState"] = first["result"]["requestState"].clone();
    params["inputResponses"] = ada(&first);
    assert_eq!(code(&bare.ask_as("bob", "tools/call", params.clone()).await), -32602);
    for (name, value) in [("arguments", json!({"a": 1})), ("name", json!("task"))] {
        let mut other = params.clone();
        other[name] = value;
        assert_eq!(code(&bare.call(other).await), -32602, "{name}");
    }
    let mut forged = params.clone();
    let state = forged["requestState"].as_str().unwrap().to_owned();
    forged["requestState"] = json!(state.replacen(|c: char| c.is_ascii_lowercase(), "Z", 1));
    assert_eq!(code(&bare.call(forged).await), -32602);
    assert_eq!(bare.counts.now(), (1, 0), "nothing has run for it");
    assert_eq!(text(&bare.call(params).await), "rested");
}

#[derive(Clone, Debug, Default)]
struct Noted(Arc<Mutex<Vec<Event>>>);

impl Audit for Noted {
    fn note(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

impl Noted {
    /// Who brought states that were not given to it.
    fn forgers(&self) -> Vec<Option<Party>> {
        let events = self.0.lock().unwrap();
        let forged = events.iter().filter(|event| event.what == What::Forged(Forged::State));
        forged.map(|event| event.by.clone()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a6_who_brings_a_state_that_was_not_given_to_it_is_noted_once_in_ten_minutes() {
    let noted = Noted::default();
    let audit = noted.clone();
    let bare = Bare::with(|server| server.audit(audit));
    let greet = json!({"name": "greet", "arguments": {}});
    let brought = async |by: &str, mut params: Value, of: &Value| {
        params["requestState"] = of["result"]["requestState"].clone();
        params["inputResponses"] = json!({});
        bare.ask_as(by, "tools/call", params).await
    };
    let (in_rounds, of_a_task) = (bare.call(greet.clone()).await, bare.call(call()).await);
    asked(&brought("ann", greet.clone(), &in_rounds).await);
    assert_eq!(noted.forgers(), [], "it is hers");
    let party = |name| Some(Party::of(&Owner::principal(name).unwrap()));
    for _ in 0..3 {
        assert_eq!(code(&brought("bob", greet.clone(), &in_rounds).await), -32602);
        assert_eq!(code(&brought("cid", call(), &of_a_task).await), -32602);
    }
    assert_eq!(noted.forgers(), [party("bob"), party("cid")]);
    tokio::time::advance(Duration::from_secs(600)).await;
    assert_eq!(code(&brought("bob", greet.clone(), &in_rounds).await), -32602);
    assert_eq!(noted.forgers(), [party("bob"), party("cid"), party("bob")]);

    let noted = Noted::default();
    let audit = noted.clone();
    let hasty = RoundOptions::default().patience(Duration::ZERO);
    let bare = Bare::with(|server| server.audit(audit).rounds(hasty));
    let first = bare.call(greet.clone()).await;
    let late = bare.answer(greet, &first, json!({})).await;
    assert!(late["error"]["message"].as_str().unwrap().contains("has expired"), "{late}");
    assert_eq!(noted.forgers(), [], "it was given to her, once");
}

#[tokio::test]
async fn s24_a_state_that_names_a_task_expires_with_what_it_asks() {
    let bare = Bare::bounded(RoundOptions::default().patience(Duration::from_millis(50)));
    let first = bare.call(call()).await;
    tokio::time::sleep(Duration::from_millis(80)).await;
    for _ in 0..2 {
        let late = bare.answer(call(), &first, ada(&first)).await;
        assert_eq!(code(&late), -32602);
        assert!(late["error"]["message"].as_str().unwrap().contains("has expired"), "{late}");
    }
    while bare.counts.dropped.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(bare.counts.now(), (1, 0), "what waited was told that nobody answered, and nothing ran again");
    // Made again as it says, it is another call.
    asked(&bare.call(call()).await);
    assert_eq!(bare.counts.now(), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn who_does_not_come_back_in_time_leaves_nothing_that_waits() {
    let clock = StepClock::at(Time::from_unix_ms(1_800_000_000_000));
    let store = Memory::with(Settings::default(), Arc::new(clock.clone()));
    let bare = Bare::with(|server| server.store(store));
    asked(&bare.call(call()).await);
    assert_eq!(bare.dispatcher.engine().counts().await.unwrap().open, 1);
    clock.advance(Duration::from_secs(16 * 60));
    tokio::time::sleep(Duration::from_secs(16 * 60)).await;
    assert_eq!(bare.dispatcher.engine().counts().await.unwrap().open, 0);
    assert_eq!(bare.counts.dropped.load(Ordering::SeqCst), 1);
}

/// Asks twice, and is a task by then.
fn twice(rerun: Rerun) -> Tool {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Go {
        go: bool,
    }
    let mut policy = TaskPolicy::new(TaskMode::After(Duration::from_secs(1)));
    (policy.rerun, policy.ttl) = (rerun, Duration::from_secs(3600));
    let work = |cx: Cx, _: Nothing| async move {
        cx.step("begin", || async { Ok::<_, ToolError>(()) }).await?;
        let mut went = 0;
        for question in ["First?", "Second?"] {
            went +=
                usize::from(matches!(cx.elicit::<Go>(question).await?, Elicited::Accepted(Go { go: true })));
        }
        Ok::<_, ToolError>(format!("went {went} times"))
    };
    Tool::typed("twice", "Ask twice", work).task(policy)
}

/// Its caller was never told of the task, so nobody could end it but time.
#[tokio::test(start_paused = true)]
async fn who_does_not_come_back_with_the_second_answer_leaves_nothing_that_waits() {
    for (rerun, patience) in [(Rerun::Never, 15 * 60), (Rerun::Resumable, 3600)] {
        let clock = StepClock::at(Time::from_unix_ms(1_800_000_000_000));
        let store = Memory::with(Settings::default(), Arc::new(clock.clone()));
        let bare = Bare::with(|server| server.tool(twice(rerun)).store(store));
        bare.dispatcher.start().await.unwrap();
        let twice = || json!({"name": "twice", "arguments": {}});
        let go = |asked_so: &Value| {
            let [key] = asked(asked_so)[..] else { panic!("{asked_so}") };
            json!({key: accept(json!({"go": true}))})
        };
        let first = bare.call(twice()).await;
        // What can be put aside is by then.
        tokio::time::sleep(Duration::from_secs(60)).await;
        let second = bare.answer(twice(), &first, go(&first)).await;
        assert_eq!(bare.dispatcher.engine().counts().await.unwrap().open, 1);
        let pass = async |seconds| {
            clock.advance(Duration::from_secs(seconds));
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            bare.dispatcher.engine().counts().await.unwrap().open
        };
        assert_eq!(pass(patience - 60).await, 1, "{rerun:?}");
        assert!(asked(&second).len() == 1 && pass(120).await == 0, "{rerun:?}: {second}");
    }
}

/// Works for as long as its caller is held, and asks then.
fn late() -> Tool {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Go {
        go: bool,
    }
    let mut policy = TaskPolicy::new(TaskMode::After(Duration::from_secs(1)));
    policy.hold = Some(Duration::from_secs(2));
    Tool::typed("late", "Work, then ask", |cx: Cx, _: Nothing| async move {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let went = matches!(cx.elicit::<Go>("Well?").await?, Elicited::Accepted(Go { go: true }));
        tokio::time::sleep(Duration::from_secs(5)).await;
        Ok::<_, ToolError>(if went { "went" } else { "stayed" })
    })
    .task(policy)
}

#[tokio::test(start_paused = true)]
async fn who_was_handed_over_is_asked_by_task_wait() {
    let bare = Bare::with(|server| server.tool(late()));
    let over = bare.call(json!({"name": "late", "arguments": {}})).await;
    let id = over["result"]["structuredContent"]["taskId"].clone();
    let wait = || json!({"name": "task_wait", "arguments": {"id": id}});
    let first = bare.call(wait()).await;
    let [key] = asked(&first)[..] else { panic!("{first}") };
    // Any time later: it knows of the task, and the question waits as any task's.
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    let again = bare.call(wait()).await;
    assert_eq!(asked(&again), [key], "{again}");
    let done = bare.answer(wait(), &again, json!({key: accept(json!({"go": true}))})).await;
    assert_eq!(text(&done), "went");
}

#[tokio::test(start_paused = true)]
async fn who_comes_back_and_waits_is_handed_over_in_time() {
    let mut hold = None;
    let bare = Bare::with(|server| {
        let slow = |cx: Cx, _: Nothing| async move {
            let _ = cx.roots().await?;
            tokio::time::sleep(Duration::from_secs(60)).await;
            Ok::<_, ToolError>("slow")
        };
        let policy = TaskPolicy::new(TaskMode::After(Duration::from_secs(1)));
        hold = policy.hold;
        server.tool(Tool::typed("slow", "Ask, then take long", slow).task(policy))
    });
    assert!(hold.is_some_and(|hold| hold < Duration::from_secs(60)));
    let slow = || json!({"name": "slow", "arguments": {}});
    let first = bare.call(slow()).await;
    let [key] = asked(&first)[..] else { panic!("{first}") };
    let over = bare.answer(slow(), &first, json!({key: {"roots": []}})).await;
    let id = &over["result"]["structuredContent"]["taskId"];
    let done = bare.call(json!({"name": "task_wait", "arguments": {"id": id}})).await;
    assert_eq!(text(&done), "slow");
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_is_cancelled_ends_the_task() {
    let mut client = Client::connect(Options::default());
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    let mut params = call();
    params["_meta"] = meta.clone();
    client.call(1, params.clone()).await;
    let first = client.receive().await;
    params["requestState"] = first["result"]["requestState"].clone();
    params["inputResponses"] = ada(&first);
    client.call(2, params).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(client.counts.dropped.load(Ordering::SeqCst), 0);
    let cancelled = json!({"requestId": 2, "_meta": meta});
    client.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled})).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(client.counts.dropped.load(Ordering::SeqCst), 1);
    assert_eq!(client.counts.now(), (1, 0));
}
