//! `longhaul tasks cancel`: the end of a task, and of the command that it runs.

use longhaul::store::{Cancellation, Outcome as Ended, Scope};
use longhaul::tasks::project::{self, View};
use longhaul_gateway::tool::end_run;

use super::node::settled;
use super::origin::{Local, Origin};
use super::watch::cancelled_event;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome, chain};
use crate::term::{Manner, clean, note, print};

/// Cancel a task and end what it runs.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  longhaul tasks cancel test-3q9v")]
pub(crate) struct Args {
    /// The task's id, or its beginning.
    pub(super) id: String,
}

pub(super) async fn run(origin: &Origin, args: &Args, manner: Manner) -> Outcome {
    let id = match origin {
        Origin::Store(local) => cancel(local, &args.id).await?,
        Origin::Server(remote) => {
            remote.task(&args.id).cancel().await?;
            remote.id(&args.id).to_owned()
        }
    };
    if manner.is_json() {
        print(&clean::json(&cancelled_event(&id).to_string()))?;
    } else {
        note(&format!("{} is cancelled", clean::line(&id, 128)));
    }
    Ok(Exit::Done)
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
                let message = format!("{id} is cancelled, but its command may still run: {}", chain(&error));
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
            let status = project::status(&record, View::D3).as_str();
            let message = format!("task {} has ended already: {status}", record.id);
            Err(Failure::new(Exit::Failed, "already_ended", message)
                .next(local.command("result", record.id.as_str())))
        }
        Cancellation::NotFound => {
            let message = format!("task {} has been forgotten", record.id);
            Err(Failure::new(Exit::NotFound, "no_such_task", message))
        }
    }
}
