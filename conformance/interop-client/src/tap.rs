//! Checks, carried out at the same time, and a line for each.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Result, anyhow};
use futures_util::future::join_all;

/// How long one check may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is checked, and the check.
pub(crate) struct Check<'v> {
    name: &'static str,
    carry_out: Pin<Box<dyn Future<Output = Result<()>> + 'v>>,
}

impl<'v> Check<'v> {
    /// A check of that name.
    pub(crate) fn new(name: &'static str, carry_out: impl Future<Output = Result<()>> + 'v) -> Self {
        Self { name, carry_out: Box::pin(carry_out) }
    }
}

/// Carries the checks out and tells of each; whether all passed.
pub(crate) async fn report(set: &str, checks: Vec<Check<'_>>) -> bool {
    say(&format!("1..{}", checks.len()));
    let told = checks.into_iter().map(async |Check { name, carry_out }| {
        let late = || Err(anyhow!("this took longer than {} s", PATIENCE.as_secs()));
        (name, tokio::time::timeout(PATIENCE, carry_out).await.unwrap_or_else(|_| late()))
    });
    let mut passed = true;
    for (n, (name, outcome)) in join_all(told).await.into_iter().enumerate() {
        let word = if outcome.is_ok() { "ok" } else { "not ok" };
        say(&format!("{word} {} - longhaul {set}: {name}", n + 1));
        if let Err(error) = outcome {
            passed = false;
            format!("{error:#}").lines().for_each(|line| say(&format!("# {line}")));
        }
    }
    passed
}

/// A line for whoever started this.
#[expect(clippy::print_stdout, reason = "this is how the outcome is told")]
pub(crate) fn say(text: &str) {
    println!("{text}");
}
