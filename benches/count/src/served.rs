//! The server whose operations are counted.

use std::future::pending;
use std::time::Duration;

use longhaul::server::{Catalogue, Cx, PollOptions, Prompt, Resource, TaskMode, TaskPolicy, ToolError};
use longhaul::store::{Limits, Memory, Settings, SystemClock};
use longhaul::{Server, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

/// How many tools it lists.
const TOOLS: usize = 100;

/// How many steps the tool `steps` takes.
const STEPS: u32 = 10;

#[derive(Deserialize, JsonSchema)]
struct Message {
    /// What to say back.
    message: String,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Nothing {}

/// A server and what changes it.
pub(crate) fn server() -> (Server, Catalogue) {
    let (server, catalogue) = Server::new("bench", "1.0.0").dynamic();
    // Nobody waits that long.
    let later = TaskPolicy::new(TaskMode::After(Duration::from_secs(3600)));
    let say = |_, Message { message }| async move { message };
    let own = [
        Tool::typed("echo", "Say the message back", say),
        Tool::typed("late", "Say the message back", say).task(later.clone()),
        Tool::typed("wait", "Wait for ever", |_, Nothing {}| async { pending::<&'static str>().await })
            .task(TaskPolicy::always()),
        Tool::typed("step", "Take ten steps", |cx, Nothing {}| steps(cx)).task(later),
    ];
    let server = own.into_iter().fold(server, Server::tool);
    let others = (4..TOOLS).map(|nth| Tool::typed(format!("echo_{nth:02}"), "Say the message back", say));
    let server = others.fold(server, Server::tool);
    let greet = Prompt::typed("greet", "Greet somebody", |_, Message { message }| async move { message });
    let server = server.prompt(greet).resource(Resource::text("bench://text", "text", "a text"));
    // Everybody who asks is one caller, and asks for more than such a caller may.
    let mut limits = Limits::default();
    (limits.max_open, limits.max_open_anonymous, limits.max_open_per_owner) = (MANY, MANY, MANY);
    (limits.max_open_per_stranger, limits.max_retained, limits.max_retained_per_owner) = (MANY, MANY, MANY);
    let mut settings = Settings::default();
    settings.limits = limits;
    let store = Memory::with(settings, std::sync::Arc::new(SystemClock::new()));
    (server.store(store).polls(PollOptions::default().each(1_000_000).in_all(1_000_000)), catalogue)
}

/// More tasks than there are.
const MANY: u64 = 1_000_000;

async fn steps(cx: Cx) -> Result<&'static str, ToolError> {
    for nth in 0..STEPS {
        cx.step(("step", nth), || async move { Ok::<_, ToolError>(nth) }).await?;
    }
    Ok("done")
}
