//! What the client does in each scenario.

use std::env;

use anyhow::{Context, Result, bail, ensure};
use longhaul::client::{Client, Error};
use longhaul::proto::jsonrpc::Code;
use longhaul::proto::model::{Form, Tool};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::skill;

/// Does what the scenario of that name asks for.
pub(crate) async fn drive(name: &str, client: &Client) -> Result<()> {
    match name {
        "initialize" | "request-metadata" => client.list_tools().await.map(drop).map_err(Into::into),
        "tools_call" => call_listed(client, "add_numbers", &json!({ "a": 5, "b": 3 })).await,
        "elicitation-sep1034-client-defaults" => {
            call_listed(client, "test_client_elicitation_defaults", &json!({})).await
        }
        "sse-retry" => call_listed(client, "test_reconnection", &json!({})).await,
        "sep-2322-client-request-state" => asked_in_rounds(client).await,
        "http-standard-headers" => one_of_everything(client).await,
        "http-custom-headers" => given_calls(client).await,
        "http-invalid-tool-headers" => only_the_valid_tool(client).await,
        "json-schema-ref-no-deref" => a_reference(client).await,
        "json-schema-2020-12-preservation" => the_schema_again(client).await,
        "sep-2640-client-no-prefetch" => skill::list(client).await.map(drop),
        "sep-2640-client-verify-digest"
        | "sep-2640-client-verify-size"
        | "sep-2640-client-verify-frontmatter" => skill::refuse(client).await,
        _ => bail!("there is nothing here for the scenario {name}"),
    }
}

/// What a user sends who leaves each field as it is and says yes to the rest.
pub(crate) fn filled_in(form: &Form) -> Box<RawValue> {
    let defaults = form.defaults();
    if form.check(defaults.get()).is_ok() && defaults.get() != "{}" {
        return defaults;
    }
    let confirmed = json!({ "confirmed": true }).to_string();
    RawValue::from_string(confirmed).expect("a value that was just written is JSON")
}

/// Calls a tool that must be listed, with what must succeed.
async fn call_listed(client: &Client, name: &str, arguments: &Value) -> Result<()> {
    listed(client, name).await?;
    let result = client.call(name, arguments).await?;
    ensure!(!result.is_error, "{name} failed: {:?}", result.content);
    Ok(())
}

async fn listed(client: &Client, name: &str) -> Result<Tool> {
    let tools = client.list_tools().await?;
    tools.into_iter().find(|tool| tool.name == name).with_context(|| format!("no tool {name} is listed"))
}

/// A call that asks and is made again, and one that must know nothing of it, at the same time.
async fn asked_in_rounds(client: &Client) -> Result<()> {
    let tools = ["test_mrtr_echo_state", "test_mrtr_no_state", "test_mrtr_no_result_type"];
    let nothing = json!({});
    client.list_tools().await?;
    for tool in tools {
        let (asked, unrelated) =
            tokio::join!(client.call(tool, &nothing), client.call("test_mrtr_unrelated", &nothing));
        ensure!(!asked?.is_error && !unrelated?.is_error, "{tool} failed");
    }
    Ok(())
}

/// Each method that has a name of its own to repeat, and the lists they come from.
async fn one_of_everything(client: &Client) -> Result<()> {
    let tools = client.list_tools().await?;
    ensure!(!tools.is_empty(), "no tools are listed");
    for tool in &tools {
        client.call(&tool.name, &json!({})).await?;
    }
    let resources = client.resources().collect().await?;
    ensure!(!resources.is_empty(), "no resources are listed");
    for resource in &resources {
        client.read_resource(&resource.uri).await?;
    }
    let prompts = client.prompts().collect().await?;
    ensure!(!prompts.is_empty(), "no prompts are listed");
    for prompt in &prompts {
        client.get_prompt(&prompt.name, &json!({})).await?;
    }
    Ok(())
}

/// The calls that the suite gives, of tools whose arguments headers repeat.
async fn given_calls(client: &Client) -> Result<()> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Given {
        tool_calls: Vec<Call>,
    }
    #[derive(Deserialize)]
    struct Call {
        name: String,
        arguments: Value,
    }
    let given: Given = context()?;
    ensure!(!given.tool_calls.is_empty(), "the suite gives no calls");
    for call in given.tool_calls {
        call_listed(client, &call.name, &call.arguments).await?;
    }
    Ok(())
}

/// What the suite lets its client know beforehand.
pub(crate) fn context<T: for<'de> Deserialize<'de>>() -> Result<T> {
    let text = env::var("MCP_CONFORMANCE_CONTEXT").context("the suite gives no context")?;
    serde_json::from_str(&text).context("the suite's context is another than expected")
}

/// Calls every tool that may be called: one.
async fn only_the_valid_tool(client: &Client) -> Result<()> {
    let tools = client.list_tools().await?;
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    ensure!(names == ["valid_tool"], "these tools are offered: {names:?}");
    for name in names {
        client.call(name, &json!({})).await?;
    }
    Ok(())
}

/// A tool whose schema refers to an address: listed as it is, and nobody goes there.
async fn a_reference(client: &Client) -> Result<()> {
    let tools = client.list_tools().await?;
    ensure!(
        tools.iter().any(|tool| tool.input_schema.get().contains("$ref")),
        "no schema refers to anything"
    );
    match client.call(&tools[0].name, &json!({})).await {
        Err(Error::Answer(error)) if error.code == Code::METHOD_NOT_FOUND => Ok(()),
        other => bail!("the call came to {other:?}"),
    }
}

/// Gives back the schema of a tool as it was listed.
async fn the_schema_again(client: &Client) -> Result<()> {
    let tool = listed(client, "json_schema_2020_12_tool").await?;
    call_listed(
        client,
        "json_schema_echo",
        &json!({ "schema": serde_json::from_str::<Value>(tool.input_schema.get())? }),
    )
    .await
}
