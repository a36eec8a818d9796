//! What tools say of themselves and return, in both eras.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod host;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use host::{Host, all, both_eras};
use longhaul::proto::dialect::{Dialect, Era};
use longhaul::proto::jsonrpc::{Code, ErrorObject};
use longhaul::proto::model::{Content, Icon};
use longhaul::server::{Json, TaskMode, TaskPolicy, ToolError};
use longhaul::{Server, Tool};
use serde_json::{Value, json};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Sum {
    /// What they come to.
    sum: i64,
    parts: Vec<Part>,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Part {
    value: i64,
}

fn sum(Add { a, b }: &Add) -> Sum {
    Sum { sum: a + b, parts: vec![Part { value: *a }, Part { value: *b }] }
}

fn server() -> Server {
    let protocol = ErrorObject::new(Code(-7), "not now");
    let later = TaskPolicy::new(TaskMode::After(Duration::from_secs(9)));
    Server::new("test", "1.0.0")
        .tool(
            Tool::typed("add", "Add", |_, add: Add| async move { Json(sum(&add)) })
                .title("Add")
                .icon(Icon::new("https://example.com/+.png").with_size("48x48"))
                .meta("dev.longhaul/x", &[1]),
        )
        .tool(Tool::inline("list", "List", |_, Add { a, b }| {
            Json(vec![Part { value: a }, Part { value: b }])
        }))
        .tool(Tool::typed("later", "Add", |_, add: Add| async move { Json(sum(&add)) }).task(later))
        .tool(Tool::inline("any", "Anything", |_, Add { a, .. }| Json(json!({"a": a}))))
        .tool(Tool::inline("said", "Say", |_, Add { a, .. }| a).output::<Sum>())
        .tool(Tool::inline("parse", "Fail", |_, Add { .. }| "x".parse::<i32>().map_err(ToolError::from)))
        .tool(Tool::inline("show", "Fail", |_, Add { .. }| {
            Err::<(), _>(ToolError::with_content(vec![
                Content::text("a"),
                Content::image("aGk=", "image/png"),
            ]))
        }))
        .tool(Tool::inline("refuse", "Fail", move |_, Add { .. }| Err::<(), _>(protocol.clone())))
}

async fn call(host: &mut Host, tool: &str) -> Value {
    host.ask("tools/call", json!({"name": tool, "arguments": {"a": 1, "b": 2}})).await
}

#[tokio::test]
async fn a_typed_result_is_structured_as_the_list_says() {
    for dialect in all() {
        let mut host = Host::new(server().dispatcher().unwrap(), dialect).await;
        let list = host.result("tools/list", json!({}), "ListToolsResult").await;
        let schema = |tool: &str| {
            let tools = list["tools"].as_array().unwrap();
            tools.iter().find(|known| known["name"] == tool).unwrap()["outputSchema"].clone()
        };
        assert_eq!((&list["tools"][0]["_meta"]["dev.longhaul/x"], schema("any")), (&json!([1]), Value::Null));
        for tool in ["add", "list", "later"] {
            let mut answer = call(&mut host, tool).await;
            let result = answer["result"].take();
            host.check("CallToolResult", &result);
            assert_eq!(dialect.structures_results(), !schema(tool).is_null());
            if dialect.structures_results() {
                let validator = jsonschema::validator_for(&schema(tool)).unwrap();
                let structured = &result["structuredContent"];
                assert!(validator.is_valid(structured), "{tool}: {structured}\n{:#}", schema(tool));
                assert!(!validator.is_valid(&json!({"parts": 7})), "{tool} promises something");
            }
        }
    }
}

#[tokio::test]
async fn a_tools_failure_is_a_result_and_the_protocols_is_an_error() {
    for dialect in both_eras() {
        let mut host = Host::new(server().dispatcher().unwrap(), dialect).await;
        let failed = call(&mut host, "parse").await;
        assert_eq!(failed["result"]["isError"], true);
        assert_eq!(failed["result"]["content"][0]["text"], "invalid digit found in string");
        let failed = call(&mut host, "show").await;
        assert_eq!(
            (&failed["result"]["isError"], &failed["result"]["content"][1]["type"]),
            (&json!(true), &json!("image"))
        );
        assert_eq!(call(&mut host, "refuse").await["error"], json!({"code": -7, "message": "not now"}));
    }
}

#[tokio::test]
async fn a_blocking_tool_holds_up_nothing_and_its_panic_is_contained() {
    let started = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&started);
    let server = server()
        .tool(Tool::blocking("sleep", "Sleep", move |cx: longhaul::Cx, Add { .. }| {
            counted.fetch_add(1, Ordering::SeqCst);
            while !cx.is_cancelled() {
                std::thread::sleep(Duration::from_millis(1));
            }
            counted.fetch_add(1, Ordering::SeqCst);
        }))
        .tool(Tool::blocking("bug", "Panic", |_, Add { a, .. }| {
            assert_eq!(a, 0, "a bug in a tool");
            a
        }));
    let mut host = Host::new(server.dispatcher().unwrap(), Dialect::newest_modern()).await;
    let arguments = json!({"name": "sleep", "arguments": {"a": 1, "b": 2}});
    let id = host.request("tools/call", arguments).await;
    assert_eq!(call(&mut host, "add").await["result"]["structuredContent"]["sum"], 3, "meanwhile");
    let error = call(&mut host, "bug").await;
    assert_eq!(error["error"]["message"], "internal error: the tool panicked");
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    host.send(cancel).await;
    while started.load(Ordering::SeqCst) < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn structure_that_is_no_object_has_a_name_in_the_legacy_era() {
    for dialect in both_eras() {
        let mut host = Host::new(server().dispatcher().unwrap(), dialect).await;
        let answer = call(&mut host, "list").await;
        let list = json!([{"value": 1}, {"value": 2}]);
        let expected = if dialect.era() == Era::Legacy { json!({"value": list}) } else { list };
        assert_eq!(answer["result"]["structuredContent"], expected);
    }
}

#[cfg(feature = "schema-validation")]
#[tokio::test]
async fn a_schema_known_at_run_time_is_held_to() {
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["n"],
        "properties": { "n": { "type": "integer", "minimum": 1 }, "deep": {} },
    });
    let definition =
        longhaul::proto::model::Tool::new("half", serde_json::value::to_raw_value(&schema).unwrap());
    let half =
        Tool::validated(definition, |_, arguments| async move { arguments["n"].as_u64().unwrap() / 2 });
    let server = Server::new("test", "1").tool(half.unwrap());
    let mut host = Host::new(server.dispatcher().unwrap(), Dialect::newest_modern()).await;
    let deep = (0..40).fold(json!(1), |inner, _| json!([inner]));
    let cases = [
        (json!({"n": 8}), false, "4"),
        (json!({"n": 0}), true, "invalid arguments: `/n`: 0 is less than the minimum of 1"),
        (json!({"m": 1}), true, "invalid arguments: "),
        (json!({"n": 1, "deep": deep}), true, "invalid arguments: they are nested more than 32 deep"),
    ];
    for (arguments, fails, words) in cases {
        let answer = host.ask("tools/call", json!({"name": "half", "arguments": arguments})).await;
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(answer["result"]["isError"] == true, fails, "{answer}");
        assert!(text.starts_with(words), "{text}");
    }
}
