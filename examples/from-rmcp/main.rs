//! rmcp's counter server, as one writes it here. See README.md.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use longhaul::proto::model::{Content, GetPromptResult, PromptMessage};
use longhaul::server::{Prompt, Resource};
use longhaul::{ServeError, Server, Tool, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

/// What every tool and prompt shares.
#[derive(Clone, Default)]
struct Counter(Arc<AtomicI32>);

#[derive(Deserialize, JsonSchema)]
struct NoArguments {}

#[derive(Deserialize, JsonSchema)]
struct ExampleArguments {
    /// A message to put in the prompt.
    message: String,
}

#[derive(Deserialize, JsonSchema)]
struct AnalysisArguments {
    /// The value to reach.
    goal: i32,
    /// How to go about it: `fast` or `careful`.
    strategy: Option<String>,
}

/// Calculate the sum of two numbers.
#[tool]
async fn sum(a: i32, b: i32) -> i32 {
    a + b
}

/// Say hello to the client.
#[tool]
async fn say_hello() -> &'static str {
    "hello"
}

/// Take ten seconds.
#[tool(task = "after 2s")]
async fn long_task() -> &'static str {
    tokio::time::sleep(Duration::from_secs(10)).await;
    "Long task completed"
}

impl Counter {
    /// A tool that counts, and answers with what the counter then is.
    fn tool(&self, name: &str, description: &str, by: i32) -> Tool {
        let Self(counter) = self.clone();
        Tool::inline(name, description, move |_, NoArguments {}| {
            counter.fetch_add(by, Ordering::Relaxed) + by
        })
    }

    fn analysis(&self) -> Prompt {
        let Self(counter) = self.clone();
        let analyze = move |_, AnalysisArguments { goal, strategy }| {
            let value = counter.load(Ordering::Relaxed);
            let strategy = strategy.unwrap_or_else(|| "careful".to_owned());
            let question = format!(
                "The counter is at {value} and should be at {goal}, {} away. How do I get there, being {strategy}?",
                goal - value
            );
            let messages = vec![
                PromptMessage::assistant(Content::text("Let me look at the counter.")),
                PromptMessage::user(Content::text(question)),
            ];
            let description = format!("How to get from {value} to {goal}");
            async move { GetPromptResult::new(messages).with_description(description) }
        };
        Prompt::typed("counter_analysis", "Analyze the counter and suggest next steps", analyze)
    }
}

#[tokio::main]
async fn main() -> Result<(), ServeError> {
    let counter = Counter::default();
    let echo = Tool::inline("echo", "Repeat what you say", |_, said: Map<String, Value>| {
        Value::Object(said).to_string()
    });
    let example = Prompt::typed(
        "example_prompt",
        "A prompt that takes one argument",
        |_, ExampleArguments { message }| async move { format!("The message is: '{message}'") },
    );
    Server::new("counter", "1.0.0")
        .instructions("A counter to increment and decrement, and prompts about it.")
        .tool(counter.tool("increment", "Increment the counter by 1", 1))
        .tool(counter.tool("decrement", "Decrement the counter by 1", -1))
        .tool(counter.tool("get_value", "Get the current counter value", 0))
        .tool(long_task)
        .tool(say_hello)
        .tool(echo)
        .tool(sum)
        .prompt(example.meta("meta_key", &"meta_value"))
        .prompt(counter.analysis())
        .resource(Resource::text("str:////Users/to/some/path/", "cwd", "/Users/to/some/path/"))
        .resource(Resource::text("memo://insights", "memo-name", "Five insights were found."))
        .serve_stdio()
        .await
}
