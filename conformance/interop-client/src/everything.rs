//! `@modelcontextprotocol/server-everything`, as it ships: a session of 2025-11-25, with tasks that ask.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use longhaul::client::{CallOptions, Change, Client, Error, Started, TaskHandle};
use longhaul::proto::model::{CompletionReference, Content, SubscriptionFilter, TaskStatus};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tap::Check;
use crate::visit::{Visit, note, noted, text};

/// A resource of it.
const DOCUMENT: &str = "demo://resource/static/document/features.md";

pub(crate) fn checks(visit: &Visit) -> Vec<Check<'_>> {
    let client = &visit.client;
    vec![
        Check::new("says what it is", introduces(client)),
        Check::new("lists what it offers", lists(client)),
        Check::new("is called", is_called(visit)),
        Check::new("gives what its schema says", gives_structure(client)),
        Check::new("tells how far it is", tells_progress(client)),
        Check::new("has a model asked", samples(visit)),
        Check::new("has a form filled in", asks_for_a_form(visit)),
        Check::new("has a page visited", asks_for_a_visit(visit)),
        Check::new("is told where to work", lists_roots(visit)),
        Check::new("has its resources read", is_read(client)),
        Check::new("fills prompts in and completes their arguments", fills_in(client)),
        Check::new("tells what changes", tells_changes(client)),
        Check::new("writes a log", logs(visit)),
        Check::new("runs a task to its end", runs_a_task(client)),
        Check::new("asks while it runs a task", asks_in_a_task(visit)),
        Check::new("cancels a task", cancels_a_task(client)),
        Check::new("knows no such tool", knows_no_such_tool(client)),
    ]
}

async fn introduces(client: &Client) -> Result<()> {
    let info = client.server_info().context("it does not say who it is")?;
    ensure!(info.name == "mcp-servers/everything", "it is {}", info.name);
    let offered = client.capabilities();
    ensure!(
        offered.tools && offered.prompts && offered.resources && offered.logging && offered.tasks,
        "{offered:?}"
    );
    ensure!(
        client.instructions().is_some_and(|text| text.contains("Everything")),
        "{:?}",
        client.instructions()
    );
    client.ping().await?;
    Ok(())
}

async fn lists(client: &Client) -> Result<()> {
    let tools = client.list_tools().await?;
    for name in ["echo", "get-roots-list", "simulate-research-query", "trigger-sampling-request"] {
        ensure!(tools.iter().any(|tool| tool.name == name), "no tool {name} among {}", tools.len());
    }
    let resources = client.resources().collect().await?;
    ensure!(resources.iter().any(|resource| resource.uri == DOCUMENT), "{resources:?}");
    let templates = client.resource_templates().collect().await?;
    ensure!(templates.len() == 2, "{templates:?}");
    let prompts = client.prompts().collect().await?;
    ensure!(prompts.len() == 4, "{prompts:?}");
    Ok(())
}

async fn is_called(visit: &Visit) -> Result<()> {
    let echoed = visit.text_of("echo", &json!({ "message": "hello" })).await?;
    ensure!(echoed == "Echo: hello", "{echoed}");
    let sum = visit.text_of("get-sum", &json!({ "a": 2, "b": 3 })).await?;
    ensure!(sum.contains('5'), "{sum}");
    let image = visit.client.call("get-tiny-image", &()).await?;
    ensure!(image.content.iter().any(|content| matches!(content, Content::Image { .. })), "{image:?}");
    let links = visit.client.call("get-resource-links", &json!({ "count": 2 })).await?;
    let linked = links.content.iter().filter(|content| matches!(content, Content::ResourceLink { .. }));
    ensure!(linked.count() == 2, "{links:?}");
    let part = json!({ "resourceType": "Text", "resourceId": 1 });
    let resource = visit.client.call("get-resource-reference", &part).await?;
    ensure!(
        resource.content.iter().any(|content| matches!(content, Content::Resource { .. })),
        "{resource:?}"
    );
    Ok(())
}

async fn gives_structure(client: &Client) -> Result<()> {
    #[derive(Debug, Deserialize)]
    struct Weather {
        temperature: f64,
        conditions: String,
    }
    let weather: Weather =
        client.call_for("get-structured-content", &json!({ "location": "Chicago" })).await?;
    ensure!(weather.temperature > 0.0 && weather.conditions.contains("rain"), "{weather:?}");
    Ok(())
}

async fn tells_progress(client: &Client) -> Result<()> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let its = Arc::clone(&told);
    let options = CallOptions::default().on_progress(move |progress| {
        its.lock().expect("nothing panics while it is held").push((progress.value, progress.total));
    });
    let arguments = json!({ "duration": 0.4, "steps": 4 });
    let name = "trigger-long-running-operation";
    text(name, &client.call_with(name, &arguments, options).await?)?;
    let told = told.lock().expect("nothing panics while it is held").clone();
    let expected: Vec<_> = [1.0, 2.0, 3.0, 4.0].map(|value| (value, Some(4.0))).into();
    ensure!(told == expected, "{told:?}");
    Ok(())
}

async fn samples(visit: &Visit) -> Result<()> {
    let said = visit.text_of("trigger-sampling-request", &json!({ "prompt": "why", "maxTokens": 5 })).await?;
    ensure!(said.contains("a sample") && said.contains("a-model"), "{said}");
    let asked = noted(&visit.user.samples);
    ensure!(asked.iter().any(|asked| asked.ends_with("context: why")), "{asked:?}");
    Ok(())
}

async fn asks_for_a_form(visit: &Visit) -> Result<()> {
    let said = visit.text_of("trigger-elicitation-request", &json!({})).await?;
    ensure!(said.contains("Name: Ada") && said.contains("Favorite Integer: 42"), "{said}");
    ensure!(said.contains(r#""titledMultipleSelectEnum""#), "{said}");
    Ok(())
}

async fn asks_for_a_visit(visit: &Visit) -> Result<()> {
    let url = "https://pages.example/asked";
    let said = visit.text_of("trigger-url-elicitation", &json!({ "url": url })).await?;
    ensure!(said.contains("User completed") && noted(&visit.user.pages).contains(&url.to_owned()), "{said}");
    let url = "https://pages.example/required";
    let arguments = json!({ "url": url, "elicitationId": "e-1", "errorPath": true });
    let said = visit.text_of("trigger-url-elicitation", &arguments).await?;
    ensure!(said.contains("User completed") && noted(&visit.user.pages).contains(&url.to_owned()), "{said}");
    Ok(())
}

async fn lists_roots(visit: &Visit) -> Result<()> {
    let said = visit.text_of("get-roots-list", &json!({})).await?;
    ensure!(said.contains("file:///work") && !said.contains("file:///more"), "{said}");
    note(&visit.user.roots, "file:///more".to_owned());
    visit.client.roots_changed().await?;
    // It asks for them on its own when it has heard of that.
    while !visit.text_of("get-roots-list", &json!({})).await?.contains("file:///more") {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

async fn is_read(client: &Client) -> Result<()> {
    let document = client.read_resource(DOCUMENT).await?;
    ensure!(!document.contents.is_empty(), "it is empty");
    let made = client.read_resource("demo://resource/dynamic/text/7").await?;
    ensure!(format!("{made:?}").contains("Resource 7"), "{made:?}");
    match client.read_resource("demo://nothing").await {
        Err(Error::Answer(error)) if error.message.contains("not found") => Ok(()),
        other => bail!("what is not there came to {other:?}"),
    }
}

async fn fills_in(client: &Client) -> Result<()> {
    let prompt = client.get_prompt("args-prompt", &json!({ "city": "Oslo" })).await?;
    ensure!(format!("{prompt:?}").contains("weather in Oslo"), "{prompt:?}");
    let of = CompletionReference::prompt("completable-prompt");
    let context = BTreeMap::from([("department".to_owned(), "Sales".to_owned())]);
    let completed = client.complete(&of, ("name", "E"), &context).await?;
    ensure!(completed.values == ["Eve"], "{completed:?}");
    let of = CompletionReference::resource("demo://resource/dynamic/text/{resourceId}");
    let completed = client.complete(&of, ("resourceId", "12"), &BTreeMap::new()).await?;
    ensure!(completed.values == ["12"], "{completed:?}");
    Ok(())
}

async fn tells_changes(client: &Client) -> Result<()> {
    let mut changes = client.subscribe(SubscriptionFilter::default().resource(DOCUMENT)).await?;
    client.call("toggle-subscriber-updates", &json!({})).await?;
    match changes.next().await? {
        Some(Change::Resource(uri)) if uri == DOCUMENT => {}
        other => bail!("it told of {other:?}"),
    }
    client.call("toggle-subscriber-updates", &json!({})).await?;
    Ok(())
}

async fn logs(visit: &Visit) -> Result<()> {
    visit.client.call("toggle-simulated-logging", &json!({})).await?;
    while !noted(&visit.user.logs).iter().any(|line| line.to_lowercase().contains("level")) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    visit.client.call("toggle-simulated-logging", &json!({})).await?;
    Ok(())
}

/// Starts what must become a task.
async fn start(client: &Client, arguments: &Value) -> Result<TaskHandle> {
    match client.start("simulate-research-query", arguments, CallOptions::default()).await? {
        Started::Task(task) => Ok(task),
        Started::Result(result) => bail!("no task was made: {result:?}"),
    }
}

async fn runs_a_task(client: &Client) -> Result<()> {
    let task = start(client, &json!({ "topic": "pipes" })).await?;
    let mut seen = Vec::new();
    let result = task.watch(|task| seen.push((task.status, task.status_message.clone()))).await?;
    let report = text("simulate-research-query", &result)?;
    ensure!(report.contains("Research Report: pipes"), "{report}");
    ensure!(
        seen.len() > 2 && seen.last().is_some_and(|(status, _)| *status == TaskStatus::Completed),
        "{seen:?}"
    );
    Ok(())
}

async fn asks_in_a_task(visit: &Visit) -> Result<()> {
    let said =
        visit.text_of("simulate-research-query", &json!({ "topic": "tides", "ambiguous": true })).await?;
    ensure!(said.contains("tides (technical)"), "{said}");
    let asked = noted(&visit.user.forms);
    let asked = asked.iter().filter(|form| form.contains("\"tides\"")).count();
    ensure!(asked == 1, "the user was asked {asked} times");
    Ok(())
}

async fn cancels_a_task(client: &Client) -> Result<()> {
    let task = start(client, &json!({ "topic": "rust" })).await?;
    task.cancel().await?;
    match task.wait().await {
        Err(Error::Cancelled { .. }) => Ok(()),
        other => bail!("it came to {other:?}"),
    }
}

async fn knows_no_such_tool(client: &Client) -> Result<()> {
    match client.call("no-such-tool", &json!({})).await {
        Ok(result) if result.is_error => Ok(()),
        Err(Error::Answer(_)) => Ok(()),
        other => bail!("it came to {other:?}"),
    }
}
