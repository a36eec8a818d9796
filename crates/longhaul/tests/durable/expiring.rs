//! Tasks whose time counts from their creation.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use longhaul::proto::dialect::Revision;
use longhaul::server::{TaskMode, TaskPolicy, ToolError, TtlFrom};
use longhaul::store::{Memory, Settings, SystemClock};
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};

use crate::rig::{Approve, Process, only_by, policy, question, yes};

/// The time of each task here.
const TTL: Duration = Duration::from_secs(1);

fn timed() -> TaskPolicy {
    policy().with_ttl_from_creation(TTL)
}

/// In which an outcome can be read for so long at least.
fn store(readable: Duration) -> Memory {
    let mut settings = Settings::default();
    settings.min_result_retention = readable;
    Memory::with(settings, Arc::new(SystemClock::new()))
}

/// A server that looks all the time for what has expired.
fn process(server: Server, store: &Memory) -> Process {
    Process::paced(server, store, |pace| pace.sweep_every = Duration::from_millis(10))
}

fn legacy(process: &Process, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({"io.modelcontextprotocol/clientCapabilities": {}});
    process.ask_in(Some(Revision::V2025_11_25), method, &params)
}

/// Says that it was dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// R3-22, R2-37 and T6 of `conformance/REQUIREMENTS.md`.
#[test]
fn r3_22_t6_an_open_task_whose_time_is_up_fails_answers_who_waits_and_is_forgotten_later() {
    let (store, dropped) = (store(Duration::from_secs(3)), Arc::new(AtomicBool::new(false)));
    let endless = || {
        let dropped = Arc::clone(&dropped);
        only_by(timed(), move |_| {
            let dropped = Dropped(Arc::clone(&dropped));
            async move {
                let _dropped = dropped;
                pending::<Result<String, ToolError>>().await
            }
        })
    };
    let (one, two) = (process(endless(), &store), process(endless(), &store));
    let begun = Instant::now();
    let created =
        legacy(&one, "tools/call", json!({"name": "work", "arguments": {}, "task": {"ttl": 600_000}}));
    let task = &created["result"]["task"];
    assert_eq!((&task["status"], &task["ttl"]), (&json!("working"), &json!(1000)), "{created}");
    let id = task["taskId"].as_str().unwrap();

    let answers = thread::scope(|scope| {
        [&one, &two]
            .map(|node| scope.spawn(move || legacy(node, "tasks/result", json!({"taskId": id}))))
            .map(|waiting| waiting.join().unwrap())
    });
    assert!(begun.elapsed() >= TTL, "{:?}", begun.elapsed());
    for answer in answers {
        let error = (&answer["error"]["code"], &answer["error"]["message"]);
        assert_eq!(error, (&json!(-32603), &json!("task expired")), "{answer}");
    }
    // Who asks in the modern era finds the same task.
    let task = two.get(id);
    assert!(is_expired(&task), "{task}");
    assert_eq!(task["statusMessage"], "task expired");
    assert!(task["ttlMs"].as_u64().unwrap() >= 4000, "it says how long it can be read: {task}");
    until(|| dropped.load(Ordering::SeqCst), "its work is dropped");

    until(|| two.ask("tasks/get", json!({"taskId": id}))["error"].is_object(), "it is forgotten");
    for (method, node) in [("tasks/get", &one), ("tasks/result", &two), ("tasks/cancel", &one)] {
        let gone = legacy(node, method, json!({"taskId": id}));
        let unknown = legacy(node, method, json!({"taskId": "work-unknown"}));
        assert_eq!(gone["error"]["code"], -32602, "{gone}");
        assert_eq!(gone.to_string().replace(id, "work-unknown"), unknown.to_string());
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct After {
    ms: u64,
}

async fn ends(_: Cx, After { ms }: After) -> &'static str {
    tokio::time::sleep(Duration::from_millis(ms)).await;
    "ended"
}

#[test]
fn a_call_that_is_never_a_task_has_no_time_by_its_key() {
    let mut never = TaskPolicy::new(TaskMode::Never);
    (never.ttl, never.ttl_from) = (TTL, TtlFrom::Creation);
    let server = Server::new("brief", "1").tool(Tool::typed("ends", "End later", ends).task(never));
    let one = process(server, &store(Duration::ZERO));
    for key in [json!({}), json!({"key": "k1"})] {
        let mut params = json!({"name": "ends", "arguments": {"ms": 1500}});
        params.as_object_mut().unwrap().extend(key.as_object().unwrap().clone());
        let said = legacy(&one, "tools/call", params);
        assert_eq!(said["result"]["content"][0]["text"], "ended", "{said}");
    }
}

async fn asks(cx: Cx, _: After) -> Result<&'static str, ToolError> {
    cx.elicit::<Approve>("Well?").await?;
    Ok("ended")
}

/// When something comes: well in time, about when the time is up, and far too late.
fn moments() -> impl Iterator<Item = u64> {
    [100].into_iter().chain((850..=1150).step_by(15)).chain([3000])
}

/// What is to come of a task, and when.
struct Due {
    id: String,
    at: Instant,
}

fn begin(process: &Process, tool: &str) -> Vec<Due> {
    let begin = |ms| {
        let at = Instant::now() + Duration::from_millis(ms);
        let created = process.ask("tools/call", json!({"name": tool, "arguments": {"ms": ms}}));
        let id = created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}"));
        Due { id: id.to_owned(), at }
    };
    moments().map(begin).collect()
}

fn wait(at: Instant) {
    thread::sleep(at.saturating_duration_since(Instant::now()));
}

/// Whether the task has failed for want of time; else it has ended in the other way that it could.
#[track_caller]
fn is_expired(task: &Value) -> bool {
    if task["status"] != "failed" {
        return false;
    }
    let error = (&task["error"]["code"], &task["error"]["message"]);
    assert_eq!(error, (&json!(-32603), &json!("task expired")), "{task}");
    true
}

/// How each of the tasks ended, which it stays: the first in time, the last too late.
#[track_caller]
fn ended_once(process: &Process, due: &[Due], otherwise: &str) -> Vec<Value> {
    let ended: Vec<Value> = due.iter().map(|due| process.settled(&due.id)).collect();
    for task in &ended {
        assert!(is_expired(task) || task["status"] == otherwise, "{task}");
    }
    let (first, last) = (ended.first().unwrap(), ended.last().unwrap());
    assert!(!is_expired(first) && is_expired(last), "{first} {last}");
    // Long enough for anything that is late.
    thread::sleep(Duration::from_millis(200));
    for (due, task) in due.iter().zip(&ended) {
        assert_eq!(process.get(&due.id), *task);
    }
    ended
}

/// T4 of `conformance/REQUIREMENTS.md`.
#[test]
fn t4_work_that_ends_as_the_tasks_time_is_up_ends_it_once_or_not_at_all() {
    let server = Server::new("timed", "1").tool(Tool::typed("ends", "End", ends).task(timed()));
    let one = process(server, &store(Duration::from_secs(60)));
    let due = begin(&one, "ends");
    for task in ended_once(&one, &due, "completed") {
        let text = &task["result"]["content"][0]["text"];
        assert_eq!(text, &if is_expired(&task) { Value::Null } else { json!("ended") });
    }
}

/// T4 of `conformance/REQUIREMENTS.md`.
#[test]
fn t4_an_answer_that_comes_as_the_tasks_time_is_up_is_taken_in_time_or_not_at_all() {
    let server = Server::new("timed", "1").tool(Tool::typed("asks", "Ask", asks).task(timed()));
    let one = process(server, &store(Duration::from_secs(60)));
    let due = begin(&one, "asks");
    let asked = question(&one.settled(&due[0].id));
    for Due { id, at } in &due {
        wait(*at);
        // Each task asks the same under a key of its own, which the others are not asked.
        let task = one.get(id);
        let key = task["inputRequests"].as_object().and_then(|open| open.keys().next().cloned());
        let answered = one.answer(id, key.as_deref().unwrap_or(&asked), &yes());
        assert_eq!(answered["result"]["resultType"], "complete", "{answered}");
    }
    let ended: Vec<_> =
        due.iter().map(|due| one.until(&due.id, |task| task["status"] != "input_required")).collect();
    assert!(ended.iter().all(|task| task.get("inputRequests").is_none()), "nothing is asked any more");
    ended_once(&one, &due, "completed");
}

/// T4 of `conformance/REQUIREMENTS.md`.
#[test]
fn t4_a_cancel_that_comes_as_the_tasks_time_is_up_cancels_it_or_is_told_that_it_has_ended() {
    let server = Server::new("timed", "1").tool(Tool::typed("ends", "End", ends).task(timed()));
    let one = process(server, &store(Duration::from_secs(60)));
    let begin = |ms| {
        let at = Instant::now() + Duration::from_millis(ms);
        let call = json!({"name": "ends", "arguments": {"ms": 60_000}, "task": {}});
        let created = legacy(&one, "tools/call", call);
        Due { id: created["result"]["task"]["taskId"].as_str().unwrap().to_owned(), at }
    };
    let due: Vec<_> = moments().map(begin).collect();
    let mut cancelled = Vec::new();
    for Due { id, at } in &due {
        wait(*at);
        let said = legacy(&one, "tasks/cancel", json!({"taskId": id}));
        match said["result"]["status"].as_str() {
            Some(status) => assert_eq!(status, "cancelled", "{said}"),
            None => assert_eq!(said["error"]["code"], -32602, "{said}"),
        }
        cancelled.push(said["result"].is_object());
    }
    let ended = ended_once(&one, &due, "cancelled");
    let found: Vec<_> = ended.iter().map(|task| task["status"] == "cancelled").collect();
    assert_eq!(found, cancelled, "what was told is what it stays");
}

fn until(is: impl Fn() -> bool, what: &str) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}
