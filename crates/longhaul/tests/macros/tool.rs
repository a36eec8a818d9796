//! A function with `#[tool]` is the tool that one would build by hand.

use std::time::Duration;

use longhaul::client::{Client, Target};
use longhaul::proto::model::TaskSupport;
use longhaul::server::ToolError;
use longhaul::{Cx, Server, Tool, tool};
use serde_json::{Value, json};

/// Add two numbers.
///
/// They may be
/// negative.
#[tool]
async fn add(
    /// The first.
    a: i64,
    /// The second; nothing when left out.
    #[serde(default)]
    b: i64,
) -> i64 {
    a + b
}

/// Divide.
#[tool(
    name = "math.divide",
    title = "Divide",
    read_only,
    open_world = false,
    task = "after 2s",
    hold = "3s",
    limit = 2
)]
async fn divide(cx: Cx, dividend: f64, divisor: f64) -> Result<f64, ToolError> {
    if divisor == 0.0 {
        return Err(ToolError::new("nothing can be divided by zero"));
    }
    cx.status("dividing");
    Ok(dividend / divisor)
}

/// Say who calls.
#[tool]
async fn who(cx: Cx) -> String {
    format!("{}", cx.principal().is_some())
}

fn schema(tool: &Tool) -> Value {
    serde_json::from_str(tool.definition().input_schema.get()).unwrap()
}

#[test]
fn a_function_says_what_its_tool_is() {
    let tool = Tool::from(add);
    let definition = tool.definition();
    assert_eq!(definition.name, "add");
    assert_eq!(definition.description.as_deref(), Some("Add two numbers.\n\nThey may be negative."));
    let schema = schema(&tool);
    assert_eq!(schema["properties"]["a"]["description"], "The first.");
    assert_eq!(schema["required"], json!(["a"]));
    assert_eq!(definition.task_support, TaskSupport::Forbidden);
}

#[test]
fn options_say_the_rest() {
    let tool = Tool::from(divide);
    let definition = tool.definition();
    assert_eq!((definition.name.as_str(), definition.title.as_deref()), ("math.divide", Some("Divide")));
    let annotations = definition.annotations.as_ref().unwrap();
    assert_eq!((annotations.read_only_hint, annotations.open_world_hint), (Some(true), Some(false)));
    assert_eq!(annotations.destructive_hint, None);
    assert_eq!(definition.task_support, TaskSupport::Optional);
    assert!(schema(&tool)["properties"].get("cx").is_none());
}

#[tokio::test]
async fn the_function_can_still_be_called() {
    assert_eq!(add::call(1, 2).await, 3);
}

#[tokio::test]
async fn a_server_runs_it() {
    let server = Server::new("s", "1").tool(add).tool(divide).tool(who).dispatcher().unwrap();
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(theirs);
    let never = std::future::pending();
    let options = longhaul::driver::Options::default();
    tokio::spawn(longhaul::driver::serve(
        server,
        longhaul::server::local_user(),
        reader,
        writer,
        options,
        never,
    ));
    let (reader, writer) = tokio::io::split(ours);
    let client = Client::connect(Target::stream(reader, writer)).await.unwrap();
    let sum = client.call("add", &json!({"a": 40, "b": 2})).await.unwrap();
    assert_eq!(sum.content[0].as_text(), Some("42"));
    let sum = client.call("add", &json!({"a": 40})).await.unwrap();
    assert_eq!(sum.content[0].as_text(), Some("40"));
    let failed = client.call("math.divide", &json!({"dividend": 1, "divisor": 0})).await.unwrap();
    assert!(failed.is_error);
    let wrong = client.call("add", &json!({"a": "x"})).await.unwrap();
    assert!(wrong.content[0].as_text().unwrap().contains("`a`"), "{wrong:?}");
    let done =
        tokio::time::timeout(Duration::from_secs(10), client.call("who", &json!({}))).await.unwrap().unwrap();
    assert_eq!(done.content[0].as_text(), Some("true"));
}
