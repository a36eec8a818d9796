//! `longhaul tasks cancel`: the end of a task, and of the command that it runs.

use longhaul::client::Error;
use longhaul::proto::model::TaskStatus;
use longhaul::store::{Cancellation, Outcome as Ended, Scope};
use longhaul_gateway::causes::in_words;
use longhaul_gateway::tool::end_run;

use super::node::settled;
use super::origin::{Local, Origin, Remote};
use super::view::{stands, stands_in};
use super::watch::status_event;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::term::{Manner, clean, note, print};

/// Cancel a task and end what it runs.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  longhaul tasks cancel test-3q9v")]
pub(crate) struct Args {
    /// The task's id, or its beginning.
    pub(super) id: String,
}

pub(super) async fn run(origin: &Origin, args: &Args, manner: Manner) -> Outcome {
    let (id, status) = match origin {
        Origin::Store(local) => (cancel(local, &args.id).await?, TaskStatus::Cancelled),
        Origin::Server(remote) => cancel_there(remote, &args.id).await?,
    };
    if manner.is_json() {
        print(&clean::json(&status_event(&id, status).to_string()))?;
    } else if status == TaskStatus::Cancelled {
        note(&format!("{} is cancelled", clean::line(&id, 128)));
    } else {
        note(&format!("{} is asked to end, and decides how", clean::line(&id, 128)));
    }
    Ok(Exit::Done)
}

/// The server takes a cancel of what has ended as well as any other (2026-07-28), and some work decides how it ends: so what
/// has become of the task is asked after.
async fn cancel_there(remote: &Remote, given: &str) -> Outcome<(String, TaskStatus)> {
    let (id, task) = (remote.id(given).to_owned(), remote.task(given));
    task.cancel().await?;
    let status = match task.get().await {
        Ok(task) => stands(&task),
        // It is not there any more, which is as good as cancelled.
        Err(Error::NoSuchTask { .. }) => TaskStatus::Cancelled,
        Err(error) => return Err(error.into()),
    };
    if matches!(status, TaskStatus::Completed | TaskStatus::Failed) {
        return Err(already_ended(&id, status).next(remote.command("result", &id)));
    }
    Ok((id, status))
}

fn already_ended(id: &str, status: TaskStatus) -> Failure {
    let message = format!("task {} has ended already: {}", clean::line(id, 128), status.as_str());
    Failure::new(Exit::Failed, "already_ended", message)
}

async fn cancel(local: &Local, given: &str) -> Outcome<String> {
    // What its command has come to by now is not lost to a cancel.
    let record = settled(local, local.find(given).await?).await?;
    let runs = local.runs()?;
    let reason = Some("cancelled by the operator");
    match local.store.request_cancel(Scope::Operator, &record.id, reason).await? {
        Cancellation::Cancelled(record) => {
            let id = record.id.to_string();
            // What is no command has no run, which is as good as one that has ended.
            if let Err(error) = end_run(&runs, &id).await {
                let message =
                    format!("{id} is cancelled, but its command may still run: {}", in_words(&error));
                return Err(Failure::new(Exit::Failed, "command_runs", message)
                    .next("a server on this store will end it when it next looks"));
            }
            Ok(id)
        }
        Cancellation::AlreadyTerminal(record)
            if matches!(record.outcome(), Some(Ended::Cancelled { .. })) =>
        {
            Ok(record.id.to_string())
        }
        Cancellation::AlreadyTerminal(record) => {
            let id = record.id.as_str();
            Err(already_ended(id, stands_in(&record)).next(local.command("result", id)))
        }
        Cancellation::NotFound => {
            let message = format!("task {} has been forgotten", record.id);
            Err(Failure::new(Exit::NotFound, "no_such_task", message))
        }
    }
}
