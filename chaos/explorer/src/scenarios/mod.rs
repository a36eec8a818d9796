//! The scenarios. A new one is a `Scenario` and a test of its name that explores it.

mod children;
mod creation;
mod ends;
mod expiry;
mod parts;
mod peers;
mod questions;
mod sessions;
mod steps;
mod undoing;
mod waits;

use std::future::Future;

use longhaul::server::{TaskPolicy, ToolError};
use longhaul::store::Rerun;
use longhaul::{Cx, Tool};

use crate::world::Hands;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Approve {
    go: bool,
}

/// A tool whose calls are tasks at once, and what is done with one whose process is gone.
fn tool<F>(
    hands: &Hands,
    name: &'static str,
    rerun: Rerun,
    body: impl Fn(Hands, Cx) -> F + Send + Sync + 'static,
) -> Tool
where
    F: Future<Output = Result<String, ToolError>> + Send + 'static,
{
    let (hands, mut policy) = (hands.clone(), TaskPolicy::always());
    policy.rerun = rerun;
    Tool::typed(name, "A tool of the explorer's", move |cx, _: Nothing| body(hands.clone(), cx)).task(policy)
}

/// One that goes on where it was.
fn resumable<F>(hands: &Hands, body: impl Fn(Hands, Cx) -> F + Send + Sync + 'static) -> Vec<Tool>
where
    F: Future<Output = Result<String, ToolError>> + Send + 'static,
{
    vec![tool(hands, "tool", Rerun::Resumable, body)]
}

/// Has an effect in a step, again after a crash; how often it was had when it was recorded.
async fn effect(hands: &Hands, cx: &Cx, name: &'static str) -> Result<usize, ToolError> {
    let key = cx.effect_key(name);
    let times = cx.step(name, || async { Ok::<_, ToolError>(hands.effect(name, &key).await) }).await?;
    hands.told(name, times).await;
    Ok(times)
}
