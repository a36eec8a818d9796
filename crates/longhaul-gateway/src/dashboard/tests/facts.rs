//! What the pages and scripts are told of who called a task, and how its command ended.

use longhaul::store::{Json, Owner, Record, TaskId, Time};
use longhaul::tasks::project;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, split};

use super::*;
use crate::admin::Viewer;
use crate::command::Processes;
use crate::dashboard::facts::{Known, section};

/// A task whose row says this of its call.
fn task(note: &Value) -> Record {
    let (id, at) = (TaskId::new("t-1").unwrap(), Time::from_unix_ms(0));
    let note = Json::parse(note.to_string()).unwrap();
    Record::new(id, Owner::Anonymous, "deploy", Json::null(), note, at)
}

/// The facts of a task as a page has them.
fn shown(record: &Record) -> String {
    shown_to(&Viewer::operator(), &Facts::default(), None, record)
}

/// As one of such a server has them, for whoever looks, with these processes.
fn shown_to(viewer: &Viewer, server: &Facts, processes: Option<Processes>, record: &Record) -> String {
    section(&Known { server, viewer, processes }, record, Time::from_unix_ms(1000)).into_string()
}

#[test]
fn who_called_and_in_which_trace_is_told_where_it_is_known() {
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let parent = format!("00-{trace}-b7ad6b7169203331-01");
    let page =
        shown(&task(&json!({ "begun": true, "client": "claude-code <2>", "caller": { "trace": parent } })));
    assert!(page.contains("<dt>Client</dt><dd>claude-code &lt;2&gt;</dd>"), "{page}");
    assert!(page.contains(&format!("<dt>Trace</dt><dd><code>{trace}</code></dd>")), "{page}");
    let page = shown(&task(&json!({ "begun": true })));
    assert!(!page.contains("<dt>Client</dt>") && !page.contains("<dt>Trace</dt>"), "{page}");
}

#[test]
fn a_command_that_has_ended_says_how() {
    let ended = |run: Value| {
        let mut record = task(&Value::Null);
        let result = CallToolResult::new(Vec::new()).with_meta(Meta::new().with("dev.longhaul/run", &run));
        record.phase = longhaul::store::Phase::Done(project::stored(&result));
        shown(&record)
    };
    for (run, said) in [
        (json!({ "exitCode": 0, "signal": null, "durationMs": 5 }), "exit code 0"),
        (json!({ "exitCode": 3, "signal": null, "durationMs": 5 }), "exit code 3"),
        (json!({ "exitCode": null, "signal": 9, "durationMs": 5 }), "SIGKILL (signal 9)"),
    ] {
        let page = ended(run);
        assert!(page.contains(&format!("<dt>Ended with</dt><dd>{said}</dd>")), "{said}: {page}");
    }
    let page = ended(json!({ "exitCode": null, "signal": null, "durationMs": 5 }));
    assert!(!page.contains("Ended with"), "nobody knows: {page}");
}

#[tokio::test]
async fn a_task_names_the_client_that_called() {
    let scene = Scene::new().await;
    let browser = scene.enter().await;
    let place = browser.deploy().await;
    let page = browser.until(&place, "It asks").await;
    // The pages call as clients do.
    let (_, told) = browser.api(Method::GET, &place[1..], &Value::Null).await;
    let client = told["client"].as_str().unwrap_or_else(|| panic!("{told}"));
    assert!(page.contains(&format!("<dt>Client</dt><dd>{client}</dd>")), "{client}: {page}");
    assert!(client.starts_with("longhaul ") && told.get("exitCode").is_none(), "{told}");
}

#[test]
fn a_conversation_leads_to_all_of_its_tasks() {
    let page = shown(&task(&json!({ "begun": true, "conversation": "c-1&<b>" })));
    let link = "<a href=\"/?q=conversation%3Ac-1%26%3Cb%3E\">all of its tasks</a>";
    assert!(
        page.contains(&format!("<dt>Conversation</dt><dd><code>c-1&amp;&lt;b&gt;</code>: {link}")),
        "{page}"
    );
    let page = shown(&task(&json!({ "begun": true, "conversation": "of two words" })));
    assert!(
        page.contains("<code>of two words</code>") && !page.contains("href"),
        "no filter says it: {page}"
    );
    assert!(!shown(&task(&json!({ "begun": true }))).contains("Conversation"));
}

/// Calls `deploy` on a line of its own, as a host that says this of its call.
async fn call_saying(scene: &Scene, to: &str, said: Value) {
    let (ours, theirs) = longhaul::transport::memory::pair();
    let (reader, writer) = split(theirs);
    let user = longhaul::server::local_user();
    let options = longhaul::driver::Options::default();
    let end = std::future::pending();
    tokio::spawn(longhaul::driver::serve(scene.dispatcher.clone(), user, reader, writer, options, end));
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "host", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    meta.as_object_mut().unwrap().extend(said.as_object().unwrap().clone());
    let params = json!({ "name": "deploy", "arguments": { "to": to }, "_meta": meta });
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let mut lines = BufReader::new(ours);
    lines.write_all(format!("{request}\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    lines.read_line(&mut answer).await.unwrap();
    assert!(answer.contains("deployed"), "{answer}");
}

#[tokio::test]
async fn tasks_are_found_by_the_conversation_that_they_were_called_in() {
    async fn ran(_: Cx, Deploy { to }: Deploy) -> Result<String, longhaul::server::ToolError> {
        Ok(format!("deployed to {to}"))
    }
    let scene = Scene::of(Tool::typed("deploy", "Deploys", ran).task(TaskPolicy::always())).await;
    let browser = scene.enter().await;
    for (to, said) in [
        ("first", json!({ "vscode.conversationId": "c-1" })),
        ("second", json!({ "vscode.conversationId": "c-1" })),
        ("other", json!({ "vscode.conversationId": "c-2" })),
        // None of these is a name, and none is a reason to refuse the call.
        ("nameless", json!({ "vscode.conversationId": 7 })),
        ("long", json!({ "vscode.conversationId": "c".repeat(129) })),
        ("empty", json!({ "vscode.conversationId": "" })),
        ("raw", json!({ "vscode.conversationId": "c\u{1b}" })),
    ] {
        call_saying(&scene, to, said).await;
    }
    let named = async |query: &str| {
        let (_, list) = browser.api(Method::GET, &format!("tasks?q={query}"), &Value::Null).await;
        let of = |task: &Value| task["arguments"]["to"].as_str().unwrap().to_owned();
        let mut named: Vec<String> = list["tasks"].as_array().unwrap().iter().map(of).collect();
        named.sort();
        named.join(" ")
    };
    assert_eq!(named("conversation:c-1").await, "first second");
    assert_eq!(named("conversation:c-2").await, "other");
    assert_eq!(named("conversation:c").await, "");
    let (_, list) = browser.api(Method::GET, "tasks", &Value::Null).await;
    let conversations: Vec<Value> = {
        let mut told = Vec::new();
        for task in list["tasks"].as_array().unwrap() {
            let id = task["taskId"].as_str().unwrap();
            told.push(
                browser.api(Method::GET, &format!("tasks/{id}"), &Value::Null).await.1["conversation"]
                    .clone(),
            );
        }
        told
    };
    assert_eq!(conversations.iter().filter(|told| told.is_null()).count(), 4, "{conversations:?}");
}

#[test]
fn where_a_command_runs_is_told_to_operators_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("longhaul.toml");
    let config = "[tools.deploy]\ndescription = \"Deploys\"\ncommand = [\"true\"]\n";
    std::fs::write(&file, config).unwrap();
    let commands = crate::config::load(&file).unwrap().config.tools;
    let server = Facts { commands, ..Facts::default() };
    let mut processes = Processes { supervisor: 41, command: None };
    let (record, cwd) = (task(&Value::Null), folder.path().display().to_string());
    let page = shown_to(&Viewer::operator(), &server, Some(processes), &record);
    assert!(page.contains(&format!("<dt>Folder</dt><dd><code>{cwd}</code></dd>")), "{page}");
    assert!(page.contains("<dt>Processes</dt><dd>supervisor 41, whose session it is</dd>"), "{page}");
    processes.command = Some(43);
    let page = shown_to(&Viewer::operator(), &server, Some(processes), &record);
    assert!(page.contains("; command 43, which leads its group"), "{page}");
    let page = shown_to(&Viewer::of(caller("ann", "call"), false), &server, None, &record);
    assert!(
        page.contains("<dt>Command</dt>") && !page.contains(&cwd) && !page.contains("Processes"),
        "{page}"
    );
}

#[tokio::test]
async fn the_call_of_a_task_can_be_copied_as_a_command() {
    let scene = Scene::new().await;
    let mut facts = (*scene.dashboard.facts()).clone();
    facts.endpoint = "http://127.0.0.1:8420/mcp".to_owned();
    scene.dashboard.tell(facts);
    let browser = scene.enter().await;
    let page = browser.until(&browser.deploy().await, "It asks").await;
    let line = "longhaul call http://127.0.0.1:8420/mcp deploy to=stage";
    assert!(page.contains(&format!("<code id=\"call-line\">{line}</code>")), "{page}");
    for copied in ["call-line", "task-id"] {
        assert!(page.contains(&format!("data-copies=\"{copied}\"")), "{page}");
    }
}

#[tokio::test]
async fn a_question_says_who_may_answer_it() {
    let scene = Scene::new().await;
    let browser = scene.enter().await;
    let page = browser.until(&browser.deploy().await, "It asks").await;
    let owner = longhaul::server::local_user();
    let said =
        format!("{}, whose task it is, may answer, and so may the operator of the server.", owner.as_str());
    assert!(page.contains(&said), "{said}: {page}");
}
