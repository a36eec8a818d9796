//! The set `tasks`: a rig's calls that become tasks.

use anyhow::{Result, bail, ensure};
use longhaul::client::{CallOptions, Client, Error, Started, TaskHandle};
use longhaul::proto::model::TaskStatus;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tap::Check;
use crate::visit::{Visit, noted, text};

pub(crate) fn checks(visit: &Visit) -> Vec<Check<'_>> {
    let client = &visit.client;
    vec![
        Check::new("runs a task to its end", runs_to_its_end(client)),
        Check::new("gives what its schema says once a task has ended", gives_structure(client)),
        Check::new("asks while it runs a task", asks(visit)),
        Check::new("is watched by another", is_watched(client)),
        Check::new("cancels a task", is_cancelled(client)),
        Check::new("knows no such task", knows_no_such_task(client)),
    ]
}

async fn start(client: &Client, tool: &str, arguments: &Value) -> Result<TaskHandle> {
    match client.start(tool, arguments, CallOptions::default()).await? {
        Started::Task(task) => Ok(task),
        Started::Result(result) => bail!("no task was made: {result:?}"),
    }
}

async fn runs_to_its_end(client: &Client) -> Result<()> {
    let task = start(client, "work", &json!({ "seconds": 0.5 })).await?;
    let mut seen = Vec::new();
    let result = task.watch(|task| seen.push(task.status)).await?;
    ensure!(text("work", &result)?.contains("worked"), "{result:?}");
    ensure!(seen.first() == Some(&TaskStatus::Working), "{seen:?}");
    ensure!(seen.last() == Some(&TaskStatus::Completed), "{seen:?}");
    Ok(())
}

async fn gives_structure(client: &Client) -> Result<()> {
    #[derive(Debug, Deserialize)]
    struct Worked {
        worked: f64,
    }
    let Worked { worked } = client.call_for("work", &json!({ "seconds": 0.1 })).await?;
    ensure!(worked > 0.0, "{worked}");
    Ok(())
}

async fn asks(visit: &Visit) -> Result<()> {
    let said = visit.text_of("work_and_ask", &json!({})).await?;
    ensure!(said == "Ada worked", "{said}");
    let asked = noted(&visit.user.forms);
    let times = asked.iter().filter(|form| *form == "Who is working?").count();
    ensure!(times == 1, "the user was asked {times} times");
    Ok(())
}

/// Whoever knows a task's id comes back to it.
async fn is_watched(client: &Client) -> Result<()> {
    let task = start(client, "work", &json!({ "seconds": 0.3 })).await?;
    let again = client.task(task.id());
    ensure!(again.get().await?.id == task.id(), "it is another task");
    ensure!(text("work", &again.wait().await?)?.contains("worked"), "it came to something else");
    Ok(())
}

async fn is_cancelled(client: &Client) -> Result<()> {
    let task = start(client, "work", &json!({ "seconds": 30.0 })).await?;
    task.cancel().await?;
    match task.wait().await {
        Err(Error::Cancelled { .. }) => Ok(()),
        other => bail!("it came to {other:?}"),
    }
}

async fn knows_no_such_task(client: &Client) -> Result<()> {
    match client.task("no-such-task").get().await {
        Err(Error::NoSuchTask { .. }) => Ok(()),
        other => bail!("it came to {other:?}"),
    }
}
