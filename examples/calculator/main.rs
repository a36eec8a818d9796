//! A calculator, and a greeting to read for everybody. See README.md.

use longhaul::server::{Prompt, ResourceTemplate, ToolError};
use longhaul::{Server, tool};
use schemars::JsonSchema;
use serde::Deserialize;

/// Add two numbers.
#[tool(read_only)]
async fn add(a: f64, b: f64) -> f64 {
    a + b
}

/// Divide one number by another.
#[tool(read_only)]
async fn divide(dividend: f64, divisor: f64) -> Result<f64, ToolError> {
    if divisor == 0.0 {
        return Err(ToolError::new("nothing can be divided by zero: ask for another divisor"));
    }
    Ok(dividend / divisor)
}

#[derive(Deserialize, JsonSchema)]
struct Who {
    /// Whom to greet.
    name: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let greeting = ResourceTemplate::typed("greeting://{name}", "greeting", |_, Who { name }| async move {
        format!("Hello, {name}!")
    })
    .description("A greeting for whoever is named")
    .mime_type("text/plain");
    let greet = Prompt::typed("greet", "Ask the model to greet somebody", |_, Who { name }| async move {
        format!("Greet {name} warmly, in one sentence.")
    });
    Server::new("calculator", "1.0.0")
        .tool(add)
        .tool(divide)
        .resource_template(greeting)
        .prompt(greet)
        .serve_stdio()
        .await?;
    Ok(())
}
