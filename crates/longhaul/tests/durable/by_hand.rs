//! Tasks that a handler opens by hand, and finishes from elsewhere.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use longhaul::proto::dialect::Revision;
use longhaul::proto::jsonrpc::{Code, ErrorObject};
use longhaul::proto::model::CallToolResult;
use longhaul::server::{BuildError, Elicited, FinishError, OpenError, OpenedTask, TaskPolicy, ToolError};
use longhaul::store::{Memory, Rerun};
use longhaul::tasks::{calling_client, calling_conversation};
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};

use crate::rig::{Nothing, Process, question, text, yes};

#[derive(Clone, serde::Deserialize, schemars::JsonSchema)]
struct How {
    /// What the function does: `now`, `later`, `ask`, `drop` or `hide`.
    how: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Approve {
    go: bool,
}

/// What the tool has left open, and how often it ran.
#[derive(Clone, Default)]
struct Desk {
    open: Arc<Mutex<Vec<OpenedTask>>>,
    runs: Arc<AtomicUsize>,
}

impl Desk {
    fn take(&self) -> OpenedTask {
        self.open.lock().unwrap().pop().unwrap()
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

async fn work(desk: Desk, cx: Cx, How { how }: How) -> Result<CallToolResult, OpenError> {
    desk.runs.fetch_add(1, Ordering::SeqCst);
    if how == "now" {
        return Ok(CallToolResult::text("done at once"));
    }
    let task = cx.open_task().await?;
    let answer = task.hand_back();
    match how.as_str() {
        "later" => desk.open.lock().unwrap().push(task),
        "ask" => task.run(|cx| async move {
            match cx.elicit::<Approve>("Go on?").await? {
                Elicited::Accepted(Approve { go: true }) => Ok::<_, ToolError>("went on"),
                _ => Ok("stayed"),
            }
        }),
        _ => drop(task),
    }
    Ok(answer)
}

fn server(desk: &Desk) -> Server {
    let (tools, methods) = (desk.clone(), desk.clone());
    let tool = Tool::typed("work", "Work", move |cx, how| work(tools.clone(), cx, how));
    Server::new("by-hand", "1").tool(tool.task(TaskPolicy::by_hand())).method(
        "builds/start",
        move |cx: Cx, _: Value| {
            let desk = methods.clone();
            async move {
                let task = cx.open_task().await?;
                let id = task.id().to_owned();
                desk.open.lock().unwrap().push(task);
                Ok::<_, OpenError>(json!({ "build": id }))
            }
        },
    )
}

fn how(how: &str) -> Value {
    json!({"name": "work", "arguments": {"how": how}})
}

fn created(answer: &Value) -> String {
    assert_eq!(answer["result"]["resultType"], "task", "{answer}");
    answer["result"]["taskId"].as_str().unwrap().to_owned()
}

#[test]
fn a_call_is_answered_with_its_result_or_with_the_task_that_it_hands_back() {
    let (desk, store) = (Desk::default(), Memory::new());
    let one = Process::of(server(&desk), &store);
    let now = one.ask("tools/call", how("now"));
    assert_eq!(now["result"]["content"][0]["text"], "done at once", "{now}");
    assert_eq!(now["result"]["resultType"], "complete", "{now}");

    let id = created(&one.ask("tools/call", how("later")));
    let task = desk.take();
    assert_eq!((task.id(), &one.get(&id)["status"]), (id.as_str(), &json!("working")));
    task.cx().status("half of it is done");
    one.until(&id, |task| task["statusMessage"] == "half of it is done");
    one.within(task.finish("done elsewhere")).unwrap();
    assert_eq!(text(&one.get(&id)), "done elsewhere");

    let id = created(&one.ask("tools/call", how("later")));
    let error = ErrorObject::new(Code(-31_400), "it broke");
    one.within(desk.take().finish(Err::<(), _>(ToolError::protocol(error)))).unwrap();
    let failed = one.get(&id);
    assert_eq!((&failed["status"], &failed["error"]["code"]), (&json!("failed"), &json!(-31_400)));

    let id = created(&one.ask("tools/call", how("drop")));
    let dropped = one.settled(&id);
    assert_eq!((&dropped["status"], &dropped["error"]["code"]), (&json!("failed"), &json!(-32603)));
    one.crash();
}

#[test]
fn a_task_that_is_opened_by_hand_says_who_called_and_in_which_conversation() {
    let (desk, store) = (Desk::default(), Memory::new());
    let one = Process::of(server(&desk), &store);
    let about = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        "io.modelcontextprotocol/clientInfo": {"name": "caller", "version": "2.1"},
        "vscode.conversationId": "c-1",
    });
    let mut call = how("later");
    call["_meta"] = about.clone();
    let by_tool = created(&one.ask_in(None, "tools/call", &call));
    let started = one.ask_in(None, "builds/start", &json!({ "_meta": about }));
    let by_method = started["result"]["build"].as_str().unwrap_or_else(|| panic!("{started}"));
    for id in [&by_tool, by_method] {
        let record = one.record(id);
        let (client, conversation) = (calling_client(&record), calling_conversation(&record));
        assert_eq!((client.as_deref(), conversation.as_deref()), (Some("caller 2.1"), Some("c-1")), "{id}");
    }
    one.crash();
}

#[test]
fn what_is_asked_in_the_scope_of_a_task_is_asked_of_whoever_follows_it() {
    let (desk, store) = (Desk::default(), Memory::new());
    let one = Process::of(server(&desk), &store);
    let id = created(&one.ask("tools/call", how("ask")));
    let asked = question(&one.settled(&id));
    one.answer(&id, &asked, &yes());
    assert_eq!(text(&one.settled(&id)), "went on");
    one.crash();
}

#[test]
fn whoever_takes_no_task_is_told_in_words_which_it_is() {
    let (desk, store) = (Desk::default(), Memory::new());
    let one = Process::of(server(&desk), &store);
    let answer = one.ask_in(Some(Revision::V2025_06_18), "tools/call", &json!({
        "name": "work", "arguments": {"how": "later"}, "_meta": {"io.modelcontextprotocol/clientCapabilities": {}},
    }));
    let task = desk.take();
    let said = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert!(said.contains(task.id()) && said.contains("task_wait"), "{said}");
    let id = task.id().to_owned();
    one.within(task.finish("done")).unwrap();
    let waited = one.ask_in(Some(Revision::V2025_06_18), "tools/call", &json!({
        "name": "task_wait", "arguments": {"id": id}, "_meta": {"io.modelcontextprotocol/clientCapabilities": {}},
    }));
    assert_eq!(waited["result"]["content"][0]["text"], "done", "{waited}");
    one.crash();
}

#[test]
fn a_session_that_asks_for_a_task_gets_one_whatever_the_function_returns() {
    let (desk, store) = (Desk::default(), Memory::new());
    let one = Process::of(server(&desk), &store);
    for (asked, after) in [("now", "done at once"), ("later", "done elsewhere")] {
        let mut params = how(asked);
        params["task"] = json!({});
        params["_meta"] = json!({"io.modelcontextprotocol/clientCapabilities": {}});
        let answer = one.ask_in(Some(Revision::V2025_11_25), "tools/call", &params);
        let id = answer["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{answer}"));
        if asked == "later" {
            one.within(desk.take().finish("done elsewhere")).unwrap();
        }
        let about = json!({"taskId": id, "_meta": {"io.modelcontextprotocol/clientCapabilities": {}}});
        let result = one.ask_in(Some(Revision::V2025_11_25), "tasks/result", &about);
        assert_eq!(result["result"]["content"][0]["text"], after, "{result}");
    }
    one.crash();
}

#[test]
fn a_call_under_a_key_is_made_once() {
    let (desk, store) = (Desk::default(), Memory::new());
    let one = Process::of(server(&desk), &store);
    let keyed = |asked: &str, key: &str| {
        let mut params = how(asked);
        params["key"] = json!(key);
        one.ask("tools/call", params)
    };
    let id = created(&keyed("later", "a"));
    assert_eq!((created(&keyed("later", "a")), desk.runs()), (id.clone(), 1));
    one.within(desk.take().finish("done")).unwrap();
    assert_eq!(text(&one.get(&id)), "done");
    let other = keyed("now", "a");
    assert_eq!(other["error"]["data"]["reason"], "idempotency_conflict", "{other}");
    // A result that comes at once is kept under its key too.
    assert_eq!(keyed("now", "b")["result"]["content"][0]["text"], "done at once");
    let again = created(&keyed("now", "b"));
    assert_eq!((text(&one.get(&again)), desk.runs()), ("done at once", 2));
    one.crash();
}

#[test]
fn a_task_that_is_cancelled_tells_its_scope_and_is_finished_no_more() {
    let (desk, store) = (Desk::default(), Memory::new());
    let one = Process::of(server(&desk), &store);
    let id = created(&one.ask("tools/call", how("later")));
    let task = desk.take();
    one.ask("tasks/cancel", json!({"taskId": id}));
    one.within(task.cx().cancelled());
    let finished = one.within(task.finish("too late"));
    assert!(matches!(finished, Err(FinishError::Ended(status)) if status.as_str() == "cancelled"));
    assert_eq!(one.get(&id)["status"], "cancelled");
    one.crash();
}

#[test]
fn a_task_whose_process_ends_is_lost_and_says_so() {
    let (desk, store) = (Desk::default(), Memory::new());
    let one = Process::of(server(&desk), &store);
    let id = created(&one.ask("tools/call", how("later")));
    let of_method = one.ask("builds/start", json!({}));
    let build = of_method["result"]["build"].as_str().unwrap_or_else(|| panic!("{of_method}")).to_owned();
    one.crash();
    // What they were to be finished by is gone with it.
    desk.open.lock().unwrap().clear();
    let two = Process::of(server(&desk), &store);
    for id in [id, build] {
        let lost = two.settled(&id);
        assert_eq!(lost["error"]["data"]["reason"], "worker_lost", "{lost}");
    }
    two.crash();
}

#[test]
fn a_method_of_ones_own_opens_a_task_that_its_caller_can_follow() {
    let (desk, store) = (Desk::default(), Memory::new());
    let one = Process::of(server(&desk), &store);
    let started = one.ask("builds/start", json!({}));
    let id = started["result"]["build"].as_str().unwrap_or_else(|| panic!("{started}"));
    assert_eq!(one.get(id)["status"], "working");
    one.within(desk.take().finish("built")).unwrap();
    assert_eq!(text(&one.get(id)), "built");
    one.crash();
}

#[test]
fn nothing_is_opened_by_hand_where_a_policy_says_otherwise() {
    let mut reruns = TaskPolicy::by_hand();
    reruns.rerun = Rerun::Resumable;
    let mut limited = TaskPolicy::by_hand();
    limited.limit = Some(1);
    for policy in [reruns, limited] {
        let tool = Tool::typed("work", "Work", |_, _: Nothing| async { "done" }).task(policy);
        let refused = Server::new("by-hand", "1").tool(tool).dispatcher().unwrap_err();
        assert!(matches!(refused, BuildError::ByHand { .. }), "{refused}");
    }
    let opens = |cx: Cx, _: Nothing| async move { cx.open_task().await.map(|task| task.hand_back()) };
    let store = Memory::new();
    let server =
        Server::new("by-hand", "1").tool(Tool::typed("work", "Work", opens).task(TaskPolicy::always()));
    let one = Process::of(server, &store);
    let id = one.call("work");
    let refused = one.settled(&id);
    assert!(refused["result"]["content"][0]["text"].as_str().unwrap().contains("by_hand"), "{refused}");
    one.crash();
}
