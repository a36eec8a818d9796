//! The tools whose calls become tasks: named and behaving as the suite asks.

use std::time::Duration;

use longhaul::proto::jsonrpc::ErrorObject;
use longhaul::proto::model::{self, CallToolResult};
use longhaul::server::{Elicited, TaskMode, TaskPolicy, ToolError, ToolFuture, ToolHandler};
use longhaul::{Cx, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

/// Every one of them.
pub(crate) fn all() -> Vec<Tool> {
    vec![
        greet(),
        slow_compute(),
        failing_job(),
        protocol_error_job(),
        confirm_delete(),
        multi_input(),
        test_tool_with_task(),
    ]
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

#[derive(Deserialize, JsonSchema)]
struct Delete {
    /// The file.
    filename: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    /// Whether to delete it.
    confirm: bool,
}

fn confirm_delete() -> Tool {
    let delete = |cx: Cx, Delete { filename }| async move {
        let answer = cx.elicit::<Confirm>(format!("Delete {filename}?")).await?;
        Ok::<_, ToolError>(match answer {
            Elicited::Accepted(Confirm { confirm: true }) => format!("deleted {filename}"),
            _ => format!("kept {filename}"),
        })
    };
    Tool::typed("confirm_delete", "Delete a file once that is confirmed", delete)
        .task(TaskPolicy::new(TaskMode::After(Duration::ZERO)))
}

/// The suite answers both questions with both.
#[derive(Deserialize, JsonSchema)]
struct Either {
    /// A name.
    name: Option<String>,
    /// A yes or no.
    confirm: Option<bool>,
}

fn multi_input() -> Tool {
    let ask = |cx: Cx, NoArguments {}| async move {
        let (first, second) =
            tokio::join!(cx.elicit::<Either>("The first?"), cx.elicit::<Either>("And the second?"));
        let answers = [first?.accepted(), second?.accepted()];
        let said = answers.into_iter().flatten().filter(|said| said.name.is_some() || said.confirm.is_some());
        Ok::<_, ToolError>(format!("{} of 2 answered", said.count()))
    };
    Tool::typed("multi_input", "Ask two things at once", ask)
        .task(TaskPolicy::new(TaskMode::After(Duration::ZERO)))
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    /// A name.
    name: String,
}

/// Asks before it becomes a task.
fn test_tool_with_task() -> Tool {
    let greet = |cx: Cx, NoArguments {}| async move {
        let name = cx.elicit::<Name>("What is your name?").key("user_name").await?.accepted();
        tokio::time::sleep(A_WHILE).await;
        let name = name.map_or_else(|| "stranger".to_owned(), |Name { name }| name);
        Ok::<_, ToolError>(format!("Hello, {name}!"))
    };
    Tool::typed("test_tool_with_task", "Ask, then take a while", greet)
        .reentrant(true)
        .task(TaskPolicy::new(TaskMode::After(Duration::from_millis(100))))
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
