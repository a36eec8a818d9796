//! The tools.

use std::time::Duration;

use longhaul::proto::model::{LoggingLevel, Progress};
use longhaul::server::{TaskMode, TaskPolicy, ToolError};
use longhaul::{Cx, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// What to say back.
    message: String,
}

/// Says its argument back.
pub(crate) fn echo() -> Tool {
    Tool::typed("echo", "Say the message back", |_, Echo { message }| async move { message })
}

#[derive(Deserialize, JsonSchema)]
struct Slow {
    /// How long to take in all, at most an hour.
    seconds: f64,
    /// In how many steps.
    steps: u32,
}

/// Takes its time, reporting each step.
pub(crate) fn slow() -> Tool {
    let mut policy = TaskPolicy::new(TaskMode::After(Duration::from_secs(2)));
    policy.hold = Some(Duration::from_secs(3));
    Tool::typed("slow", "Take a while, step by step", slowly).task(policy)
}

async fn slowly(cx: Cx, Slow { seconds, steps }: Slow) -> Result<String, ToolError> {
    if !(0.0..=3600.0).contains(&seconds) || steps == 0 {
        return Err(ToolError::new("`seconds` must be 0 to 3600 and `steps` at least 1"));
    }
    let pause = Duration::from_secs_f64(seconds / f64::from(steps));
    for step in 1..=steps {
        tokio::time::sleep(pause).await;
        let progress =
            Progress::new(f64::from(step)).of(f64::from(steps)).saying(format!("step {step} of {steps}"));
        cx.status(format!("step {step} of {steps}"));
        cx.progress(progress).await;
        cx.log(LoggingLevel::Info, &format!("step {step} done")).await;
    }
    Ok(format!("step {steps} of {steps}: done"))
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// Always fails.
pub(crate) fn fail() -> Tool {
    let failing = |_, Nothing {}| async { Err::<(), _>(ToolError::new("failed on purpose")) };
    Tool::typed("fail", "Fail", failing).task(TaskPolicy::new(TaskMode::After(Duration::from_secs(2))))
}

/// Always panics.
pub(crate) fn panic() -> Tool {
    Tool::typed("panic", "Panic", |_, Nothing {}| panicking())
}

#[expect(clippy::panic, reason = "a bug to be contained, on purpose")]
async fn panicking() {
    panic!("this tool always panics");
}
