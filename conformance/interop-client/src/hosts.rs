//! The set `hosts`: what a rig asks of its client as tasks, which the client hosts (2025-11-25).

use anyhow::{Result, ensure};
use serde_json::json;

use crate::tap::Check;
use crate::visit::{NEVER_MIND, Visit};

pub(crate) fn checks(visit: &Visit) -> Vec<Check<'_>> {
    vec![
        Check::new("hosts a form as a task", comes_to(visit, "ask_as_task", "Ada, working to completed")),
        Check::new(
            "hosts a sample as a task",
            comes_to(visit, "sample_as_task", "a sample, working to completed"),
        ),
        Check::new("lists and cancels what it hosts", is_cancelled(visit)),
    ]
}

async fn comes_to(visit: &Visit, tool: &str, expected: &str) -> Result<()> {
    let said = visit.text_of(tool, &json!({})).await?;
    ensure!(said == expected, "{said}");
    Ok(())
}

/// Nobody answers the form while its server cancels it.
async fn is_cancelled(visit: &Visit) -> Result<()> {
    let said = visit.text_of("cancel_asked", &json!({})).await?;
    ensure!(said == "true cancelled cancelled", "{NEVER_MIND}: {said}");
    Ok(())
}
