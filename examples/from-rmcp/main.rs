//! rmcp's counter server, as one writes it here. See README.md.

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use longhaul::proto::model::{Content, GetPromptResult, PromptMessage};
use longhaul::server::{Prompt, Resource, State};
use longhaul::{Server, Tool, prompt, tool};
use serde_json::{Map, Value};

/// What tools and prompts share.
type Counter = AtomicI32;

/// Increment the counter by 1.
#[tool(inline)]
fn increment(counter: State<Counter>) -> i32 {
    counter.fetch_add(1, Ordering::Relaxed) + 1
}

/// Decrement the counter by 1.
#[tool(inline)]
fn decrement(counter: State<Counter>) -> i32 {
    counter.fetch_sub(1, Ordering::Relaxed) - 1
}

/// Get the current counter value.
#[tool(inline, read_only)]
fn get_value(counter: State<Counter>) -> i32 {
    counter.load(Ordering::Relaxed)
}

/// Take ten seconds.
#[tool(task = "after 2s")]
async fn long_task() -> &'static str {
    tokio::time::sleep(Duration::from_secs(10)).await;
    "Long task completed"
}

/// Say hello to the client.
#[tool(inline)]
fn say_hello() -> &'static str {
    "hello"
}

/// Calculate the sum of two numbers.
#[tool(inline)]
fn sum(a: i32, b: i32) -> i32 {
    a + b
}

/// A prompt that takes one argument.
#[prompt]
async fn example_prompt(
    /// A message to put in the prompt.
    message: String,
) -> String {
    format!("The message is: '{message}'")
}

/// Analyze the counter and suggest next steps.
#[prompt]
async fn counter_analysis(
    counter: State<Counter>,
    /// The value to reach.
    goal: i32,
    /// How to go about it: `fast` or `careful`.
    strategy: Option<String>,
) -> GetPromptResult {
    let value = counter.load(Ordering::Relaxed);
    let strategy = strategy.unwrap_or_else(|| "careful".to_owned());
    let away = goal - value;
    let messages = vec![
        PromptMessage::assistant(Content::text("Let me look at the counter.")),
        PromptMessage::user(Content::text(format!(
            "The counter is at {value} and should be at {goal}, {away} away. How do I get there, being {strategy}?"
        ))),
    ];
    GetPromptResult::new(messages).with_description(format!("How to get from {value} to {goal}"))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // Whatever arguments there are: no parameters of a function say so.
    let echo = Tool::inline("echo", "Repeat what you say", |_, said: Map<String, Value>| {
        Value::Object(said).to_string()
    });
    Server::new("counter", "1.0.0")
        .instructions("A counter to increment and decrement, and prompts about it.")
        .state(Counter::new(0))
        .tool(increment)
        .tool(decrement)
        .tool(get_value)
        .tool(long_task)
        .tool(say_hello)
        .tool(echo)
        .tool(sum)
        .prompt(Prompt::from(example_prompt).meta("meta_key", &"meta_value"))
        .prompt(counter_analysis)
        .resource(Resource::text("str:////Users/to/some/path/", "cwd", "/Users/to/some/path/"))
        .resource(Resource::text("memo://insights", "memo-name", "Five insights were found."))
        .serve_stdio()
        .await?;
    Ok(())
}
