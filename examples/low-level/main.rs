//! Below the types: tools made of a file when the program starts, a handler that gets text, and a method of one's own.
//! See README.md.

use std::fs;

use anyhow::Context as _;
use longhaul::proto::jsonrpc::ErrorObject;
use longhaul::proto::model::{self, CallToolResult};
use longhaul::server::{Failure, ToolFuture, ToolHandler};
use longhaul::{Cx, Server, Tool};
use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

/// One line of the file.
#[derive(Clone, Deserialize, Serialize)]
struct Unit {
    name: String,
    description: String,
    factor: f64,
    least: f64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let file = std::env::args_os().nth(1).context("which file? usage: low-level units.json")?;
    let units: Vec<Unit> = serde_json::from_str(&fs::read_to_string(file)?)?;
    let tools = units.iter().cloned().map(tool).collect::<Result<Vec<_>, _>>()?;
    let server = tools.into_iter().fold(Server::new("units", "1.0.0"), Server::tool);
    let length = model::Tool::new("length", to_raw_value(&json!({"type": "object"}))?);
    let server = server.tool(Tool::raw(length, Length));
    let server = server.method("units/factor", move |_, params: Value| {
        let found = units.iter().find(|unit| Some(unit.name.as_str()) == params["name"].as_str()).cloned();
        async move { found.ok_or_else(|| Failure::invalid("there is no such unit")) }
    });
    Ok(server.serve_stdio().await?)
}

/// A tool whose schema is known only now. Arguments that do not fit it never reach the function.
fn tool(unit: Unit) -> anyhow::Result<Tool> {
    let schema = json!({
        "type": "object",
        "properties": { "value": { "type": "number", "minimum": unit.least } },
        "required": ["value"],
        "additionalProperties": false
    });
    let mut definition = model::Tool::new(&unit.name, to_raw_value(&schema)?);
    definition.description = Some(unit.description);
    let factor = unit.factor;
    Ok(Tool::validated(definition, move |_, arguments: Value| async move {
        arguments["value"].as_f64().map(|value| value * factor).unwrap_or_default()
    })?)
}

/// Says how long its arguments are, as they came.
struct Length;

impl ToolHandler for Length {
    fn call(&self, _cx: Cx, arguments: &str) -> Result<ToolFuture, CallToolResult> {
        let length = arguments.len();
        Ok(Box::pin(async move {
            match length {
                0..=1_000 => Ok(CallToolResult::text(format!("{length} bytes"))),
                _ => Err(ErrorObject::invalid_params("that is too much to measure")),
            }
        }))
    }
}
