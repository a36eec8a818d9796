//! Tasks that are unknown, expired or somebody else's: whoever asks cannot tell which.

use std::fs;

use serde_json::{Value, json};

use crate::rig::eventually;
use crate::rig::http::{Answer, request, send};
use crate::rig::modern::{self, begin};
use crate::rig::pipe::Pipe;
use crate::rig::scene::Scene;
use crate::rig::session::{PLAIN, Session};

const BRIEF: &str =
    "[tools.brief]\ndescription = \"Soon forgotten\"\ncommand = [\"true\"]\ntask = \"always\"\nttl = \"1s\"";

/// Every way to ask about a task, the id standing where it may.
fn questions(id: &str) -> Vec<(&'static str, String, Value)> {
    let task = |method| (method, id.to_owned(), json!({"taskId": id}));
    let tool = |name: &'static str, arguments: Value| {
        ("tools/call", name.to_owned(), json!({"name": name, "arguments": arguments}))
    };
    let read = |stream: &str| {
        let uri = format!("longhaul://tasks/{id}/{stream}");
        ("resources/read", uri.clone(), json!({"uri": uri}))
    };
    let mut update = task("tasks/update");
    update.2["inputResponses"] = json!({});
    vec![
        task("tasks/get"),
        task("tasks/cancel"),
        update,
        tool("task_wait", json!({"id": id, "up_to": 1})),
        tool("task_output", json!({"id": id})),
        tool("task_output", json!({"id": id, "stderr": true})),
        tool("task_cancel", json!({"id": id})),
        read("stdout"),
        read("stderr?after=7"),
    ]
}

/// What is answered over HTTP, with the id itself taken out and no time in it.
fn over_http(scene: &Scene, id: &str) -> Vec<impl PartialEq + std::fmt::Debug + use<>> {
    let taken = |mut answer: Answer| {
        answer.headers.retain(|(name, _)| !matches!(name.as_str(), "date" | "content-length"));
        (answer.status, answer.headers.clone(), answer.text().replace(id, "ID"))
    };
    let ask = |(method, name, params): (&str, String, Value)| {
        taken(modern::ask(scene.server.address(), method, &name, params))
    };
    questions(id).into_iter().map(ask).collect()
}

/// The same in a session of the legacy era, with its own ways to ask.
fn in_session(session: &Session, id: &str) -> Vec<String> {
    let legacy = ["tasks/get", "tasks/result", "tasks/cancel"];
    let tasks = legacy.map(|method| session.ask(method, json!({"taskId": id})));
    let rest = questions(id).into_iter().filter(|(method, ..)| !method.starts_with("tasks/"));
    let rest = rest.map(|(method, _, params)| session.ask(method, params));
    tasks.into_iter().chain(rest).map(|answer| answer.to_string().replace(id, "ID")).collect()
}

/// The same over a pipe.
fn over_pipe(pipe: &Pipe, id: &str) -> Vec<String> {
    let ask =
        |(method, _, params): (&str, String, Value)| pipe.ask(method, params).to_string().replace(id, "ID");
    questions(id).into_iter().map(ask).collect()
}

#[test]
fn s21_unknown_expired_and_foreign_tasks_cannot_be_told_apart() {
    let scene = Scene::new(BRIEF);
    let address = scene.server.address();
    // The pipe's caller is the operating system's user, HTTP's is nobody: each has a task the other may not see.
    let pipe = Pipe::start(&scene.place);
    let begun = pipe.call("gate", json!({"key": "ours"}));
    let local = begun["result"]["taskId"].as_str().unwrap().to_owned();
    let anonymous = begin(address, "gate", json!({"key": "theirs"}));
    let expired = begin(address, "brief", json!({}));
    let expired_local = pipe.call("brief", json!({}))["result"]["taskId"].as_str().unwrap().to_owned();
    for id in [&expired, &expired_local] {
        let gone = |answer: Value| answer["error"]["code"] == -32602;
        eventually("the task's expiry", || {
            let http = modern::ask(address, "tasks/get", id, json!({"taskId": id})).message();
            (gone(http) && gone(pipe.ask("tasks/get", json!({"taskId": id})))).then_some(())
        });
    }
    // As long as theirs: the length of an answer must say nothing either.
    let unknown = format!("{}{}", &local[..local.len() - 4], "aaaa");
    let session = Session::open(address);
    assert_eq!(over_http(&scene, &local), over_http(&scene, &unknown));
    assert_eq!(in_session(&session, &local), in_session(&session, &unknown));
    assert_eq!(over_pipe(&pipe, &anonymous), over_pipe(&pipe, &unknown));
    let unknown_brief = expired.replace("brief-", "brief-a");
    assert_eq!(over_http(&scene, &expired), over_http(&scene, &unknown_brief));
    assert_eq!(over_http(&scene, &expired_local), over_http(&scene, &unknown_brief));
    assert_eq!(over_pipe(&pipe, &expired), over_pipe(&pipe, &unknown_brief));
    for bad in ["", "x", "../../etc", "a\u{0}b", "\u{fc}", &"a".repeat(100_000)] {
        let answer = pipe.ask("tasks/get", json!({"taskId": bad}));
        assert_eq!(answer["error"]["message"], "task not found: the id is unknown, or the task has expired");
    }
    // Nothing of all that has touched a task.
    for (key, ask) in [
        ("ours", pipe.ask("tasks/get", json!({"taskId": local}))),
        ("theirs", modern::ask(address, "tasks/get", &anonymous, json!({"taskId": anonymous})).message()),
    ] {
        assert_eq!(ask["result"]["status"], "working", "{ask}");
        fs::write(scene.place.path(key), "").unwrap();
    }
    assert_eq!(modern::text(&modern::ended(address, &anonymous)["result"]), "open");
    let waited = pipe.call("task_wait", json!({"id": local, "up_to": 60}));
    assert_eq!(modern::text(&waited["result"]), "open");
    drop(pipe);
    scene.ends_well();
}

#[test]
fn an_anonymous_caller_cannot_list() {
    let scene = Scene::new("");
    let session = Session::open(scene.server.address());
    let answer = session.ask("tasks/list", json!({}));
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    let asked = modern::ask(scene.server.address(), "resources/list", "", json!({})).message();
    assert_eq!(asked["result"]["resources"], json!([]), "no task is named to whoever does not know it");
    scene.ends_well();
}

#[test]
fn a_caller_without_the_extension_learns_nothing_of_tasks() {
    let scene = Scene::new("");
    let address = scene.server.address();
    let theirs = begin(address, "gate", json!({"key": "known"}));
    let mut meta = modern::meta();
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let told = |id: &str| {
        let answer = modern::ask(address, "tasks/get", id, json!({"taskId": id, "_meta": meta}));
        (answer.status, answer.text().replace(id, "ID"))
    };
    let (status, text) = told(&theirs);
    assert_eq!(status, 400, "{text}");
    assert!(text.contains("-32021") && text.contains("io.modelcontextprotocol/tasks"), "{text}");
    assert_eq!(told(&theirs), told(&theirs.replace("gate-", "gate-a")));
    fs::write(scene.place.path("known"), "").unwrap();
    modern::ended(address, &theirs);
    scene.ends_well();
}

#[test]
fn an_error_that_names_the_id_names_no_more() {
    let scene = Scene::new("");
    let long = "x".repeat(1 << 20);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "task_wait", "arguments": {"id": long}}});
    let session = Session::open(scene.server.address());
    let mut headers = PLAIN.to_vec();
    headers.push(("Mcp-Session-Id", session.id.as_str()));
    let answer =
        send(scene.server.address(), &request("POST", "/mcp", &headers, body.to_string().as_bytes()));
    assert!(answer.body.len() < 4096, "{} bytes for an id of a megabyte", answer.body.len());
    scene.ends_well();
}
