//! The tools whose calls become tasks: named and behaving as the suite asks.

use std::time::Duration;

use longhaul::proto::jsonrpc::ErrorObject;
use longhaul::proto::model::{self, CallToolResult};
use longhaul::server::{TaskMode, TaskPolicy, ToolError, ToolFuture, ToolHandler};
use longhaul::{Cx, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

/// Every one of them.
pub(crate) fn all() -> Vec<Tool> {
    vec![greet(), slow_compute(), failing_job(), protocol_error_job()]
}

#[derive(Deserialize, JsonSchema)]
struct Greet {
    /// Whom to greet.
    name: String,
}

fn greet() -> Tool {
    Tool::typed(
        "greet",
        "Greet somebody, at once",
        |_, Greet { name }| async move { format!("Hello, {name}!") },
    )
}

#[derive(Deserialize, JsonSchema)]
struct Compute {
    /// How long to take.
    seconds: f64,
    /// What to call it.
    #[serde(default)]
    label: String,
}

fn slow_compute() -> Tool {
    let compute = |_, Compute { seconds, label }| async move {
        let time =
            Duration::try_from_secs_f64(seconds).map_err(|_| ToolError::new("`seconds` is no time"))?;
        tokio::time::sleep(time).await;
        Ok::<_, ToolError>(format!("{label}: computed for {seconds} s"))
    };
    Tool::typed("slow_compute", "Compute for a while", compute)
        .task(TaskPolicy::new(TaskMode::After(Duration::ZERO)))
}

#[derive(Deserialize, JsonSchema)]
struct NoArguments {}

/// How long the jobs that fail take to do so.
const A_WHILE: Duration = Duration::from_secs(1);

fn failing_job() -> Tool {
    let fail = |_, NoArguments {}| async {
        tokio::time::sleep(A_WHILE).await;
        Err::<(), _>(ToolError::new("this job fails on purpose"))
    };
    Tool::typed("failing_job", "Fail after a while", fail).task(TaskPolicy::new(TaskMode::Required))
}

fn protocol_error_job() -> Tool {
    let schema = serde_json::value::to_raw_value(&serde_json::json!({"type": "object"})).unwrap_or_default();
    let mut definition = model::Tool::new("protocol_error_job", schema);
    definition.description = Some("End with an error of the protocol's after a while".to_owned());
    Tool::raw(definition, Refusing).task(TaskPolicy::new(TaskMode::After(Duration::ZERO)))
}

struct Refusing;

impl ToolHandler for Refusing {
    fn call(&self, _cx: Cx, _arguments: &str) -> Result<ToolFuture, CallToolResult> {
        Ok(Box::pin(async {
            tokio::time::sleep(A_WHILE).await;
            Err(ErrorObject::internal("this job ends with an error on purpose"))
        }))
    }
}
