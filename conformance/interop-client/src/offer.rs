//! The sets `offer` and `changes`: a rig's tools, resource and prompt, and what it tells of changes.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail, ensure};
use longhaul::client::{CallOptions, Change, Client, Error};
use longhaul::proto::model::SubscriptionFilter;
use serde::Deserialize;
use serde_json::json;

use crate::tap::Check;
use crate::visit::{Visit, text};

/// The resource that `touch` changes.
const TOUCHED: &str = "rig://touched";

/// The checks of the set `offer`.
pub(crate) fn checks(visit: &Visit) -> Vec<Check<'_>> {
    let client = &visit.client;
    vec![
        Check::new("lists what it offers", lists(client)),
        Check::new("is called", is_called(visit)),
        Check::new("gives what its schema says", gives_structure(client)),
        Check::new("tells how far it is", tells_progress(client)),
        Check::new("fails", fails(client)),
        Check::new("knows no such tool", knows_no_such_tool(client)),
        Check::new("has its resource read", is_read(client)),
        Check::new("fills its prompt in", fills_in(client)),
    ]
}

/// The checks of the set `changes`.
pub(crate) fn changes(visit: &Visit) -> Vec<Check<'_>> {
    vec![Check::new("tells what changes", tells_changes(&visit.client))]
}

async fn lists(client: &Client) -> Result<()> {
    client.ping().await?;
    let tools = client.list_tools().await?;
    for name in ["echo", "add", "count"] {
        ensure!(tools.iter().any(|tool| tool.name == name), "no tool {name} among {}", tools.len());
    }
    let resources = client.resources().collect().await?;
    ensure!(resources.iter().any(|resource| resource.uri == TOUCHED), "{resources:?}");
    let prompts = client.prompts().collect().await?;
    ensure!(prompts.iter().any(|prompt| prompt.name == "greet"), "{prompts:?}");
    Ok(())
}

async fn is_called(visit: &Visit) -> Result<()> {
    let message = "hëllo\n\u{1f980}";
    let echoed = visit.text_of("echo", &json!({ "message": message })).await?;
    ensure!(echoed == message, "{echoed}");
    let many = (0..20).map(async |n: u32| visit.text_of("echo", &json!({ "message": n.to_string() })).await);
    let said = futures_util::future::try_join_all(many).await?;
    ensure!(said == (0..20_u32).map(|n| n.to_string()).collect::<Vec<_>>(), "{said:?}");
    Ok(())
}

async fn gives_structure(client: &Client) -> Result<()> {
    #[derive(Debug, Deserialize)]
    struct Sum {
        sum: i64,
    }
    let tools = client.list_tools().await?;
    let declared = tools.iter().find(|tool| tool.name == "add").and_then(|tool| tool.output_schema.as_ref());
    ensure!(declared.is_some(), "`add` declares no schema of what it gives");
    let Sum { sum } = client.call_for("add", &json!({ "a": 2, "b": 3 })).await?;
    ensure!(sum == 5, "{sum}");
    Ok(())
}

async fn tells_progress(client: &Client) -> Result<()> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let its = Arc::clone(&told);
    let options = CallOptions::default().on_progress(move |progress| {
        its.lock().unwrap_or_else(PoisonError::into_inner).push((progress.value, progress.total));
    });
    let said = text("count", &client.call_with("count", &json!({ "steps": 3 }), options).await?)?;
    ensure!(said == "counted to 3", "{said}");
    let told = told.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let expected: Vec<_> = [1.0, 2.0, 3.0].map(|value| (value, Some(3.0))).into();
    ensure!(told == expected, "{told:?}");
    Ok(())
}

async fn fails(client: &Client) -> Result<()> {
    let result = client.call("fail", &json!({})).await?;
    ensure!(result.is_error, "{result:?}");
    match client.call_for::<serde_json::Value>("fail", &json!({})).await {
        Err(Error::Failed { text, .. }) if text.contains("failed on purpose") => Ok(()),
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

async fn is_read(client: &Client) -> Result<()> {
    let read = client.read_resource(TOUCHED).await?;
    ensure!(format!("{read:?}").contains("untouched"), "{read:?}");
    match client.read_resource("rig://nothing").await {
        Err(Error::Answer(_)) => Ok(()),
        other => bail!("what is not there came to {other:?}"),
    }
}

async fn fills_in(client: &Client) -> Result<()> {
    let prompt = client.get_prompt("greet", &json!({ "name": "Ada" })).await?;
    ensure!(format!("{prompt:?}").contains("Greet Ada."), "{prompt:?}");
    Ok(())
}

/// Everything that the server agrees to tell is told once it has changed.
async fn tells_changes(client: &Client) -> Result<()> {
    let filter = SubscriptionFilter::default().lists().resource(TOUCHED);
    let mut changes = client.subscribe(filter).await?;
    let agreed = changes.agreed().clone();
    let (mut tools, mut resource) = (!agreed.tools_list_changed, agreed.resource_subscriptions.is_empty());
    ensure!(!tools || !resource, "it agrees to nothing: {agreed:?}");
    client.call("touch", &json!({})).await?;
    while !tools || !resource {
        match changes.next().await? {
            Some(Change::Tools) => tools = true,
            Some(Change::Resource(uri)) if uri == TOUCHED => resource = true,
            Some(Change::Prompts | Change::Resources) => {}
            other => bail!("it told of {other:?}"),
        }
    }
    Ok(())
}
