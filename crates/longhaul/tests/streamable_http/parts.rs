//! Parts of a result, read over HTTP while their task runs, in both eras.

use std::sync::Arc;

use longhaul::server::{Json, TaskMode, TaskPolicy, ToolError};
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::rig::{Host, body, events, modern_params, read};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// A host whose tool gives a part, waits to be let go, and gives another.
async fn host(policy: TaskPolicy) -> (Host, Arc<Notify>) {
    let go = Arc::new(Notify::new());
    let gate = Arc::clone(&go);
    let search = Tool::typed("search", "Search", move |cx: Cx, _: Nothing| {
        let gate = Arc::clone(&gate);
        async move {
            cx.emit("the first").await?;
            gate.notified().await;
            cx.emit(Json(json!(["the", "last"]))).await?;
            Ok::<_, ToolError>("found")
        }
    });
    (Host::start_with(Server::new("test", "1").tool(search.task(policy)), |_| ()).await, go)
}

fn texts(answer: &Value) -> Vec<&str> {
    let contents = answer["result"]["contents"].as_array().unwrap_or_else(|| panic!("{answer}"));
    contents.iter().map(|part| part["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_session_reads_the_parts_of_its_task() {
    let (host, go) = host(TaskPolicy::always()).await;
    let session = host.initialize().await;
    let ask =
        async |method: &str, params: Value| read(host.in_session(&session, body(method, params)).await).await;
    let created = ask("tools/call", json!({"name": "search", "arguments": {}, "task": {}})).await;
    let id = created["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
    let pointer = loop {
        let task = ask("tasks/get", json!({ "taskId": id })).await;
        if let Some(pointer) = task["result"]["_meta"].get("dev.longhaul/parts") {
            break pointer.clone();
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(pointer["total"], 1);
    let first = ask("resources/read", json!({ "uri": pointer["uri"] })).await;
    assert_eq!(texts(&first), ["the first"]);
    let next = first["result"]["contents"][0]["_meta"]["dev.longhaul/output"]["next"].clone();
    go.notify_one();
    let result = ask("tasks/result", json!({ "taskId": id })).await;
    assert_eq!(result["result"]["content"][0]["text"], "found", "{result}");
    assert_eq!(result["result"]["content"][1]["uri"], pointer["uri"]);
    let rest =
        ask("resources/read", json!({"uri": format!("{}?after={next}", pointer["uri"].as_str().unwrap())}));
    let rest = rest.await;
    assert_eq!(texts(&rest), [r#"["the","last"]"#]);
    assert_eq!(rest["result"]["contents"][0]["mimeType"], "application/json");
    assert_eq!(rest["result"]["contents"][0]["_meta"]["dev.longhaul/output"]["done"], true);
}

#[tokio::test]
async fn a_held_call_is_told_of_parts_as_it_wishes_and_its_result_leads_to_them() {
    for (policy, becomes_task) in [(TaskPolicy::always(), true), (TaskPolicy::new(TaskMode::Never), false)] {
        let (host, go) = host(policy).await;
        go.notify_one();
        let mut params = modern_params(json!({"name": "search", "arguments": {}}));
        params["_meta"]["io.modelcontextprotocol/logLevel"] = json!("info");
        let request = host.post().header("mcp-protocol-version", "2026-07-28");
        let request = request.header("mcp-method", "tools/call").header("mcp-name", "search");
        let messages = events(host.send(request.body(body("tools/call", params)).unwrap()).await).await;
        let (answer, told) = messages.split_last().unwrap();
        let said: Vec<_> = told.iter().map(|message| &message["params"]["data"]).collect();
        assert_eq!(said, [&json!("the first"), &json!(["the", "last"])], "{told:?}");
        assert!(told.iter().all(|message| message["params"]["logger"] == "dev.longhaul/parts"), "{told:?}");
        assert_eq!(answer["result"]["content"][0]["text"], "found");
        let link = &answer["result"]["content"][1];
        assert_eq!(link.is_object(), becomes_task, "{answer}");
        if let Some(uri) = link["uri"].as_str() {
            let parts = read(host.modern("resources/read", Some(uri), json!({ "uri": uri })).await).await;
            assert_eq!(texts(&parts), ["the first", r#"["the","last"]"#]);
        }
    }
}
