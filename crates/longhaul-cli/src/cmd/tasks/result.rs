//! `longhaul tasks result`: what a task that has ended came to.

use super::node::settled;
use super::origin::Origin;
use super::watch::ended;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::result;
use crate::term::Manner;

/// Print the result of a task that has ended; does not wait for one that has not.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  longhaul tasks result test-3q9v")]
pub(crate) struct Args {
    /// The task's id, or its beginning.
    pub(super) id: String,
}

pub(super) async fn run(origin: &Origin, args: &Args, manner: Manner) -> Outcome {
    let result = match origin {
        Origin::Store(local) => {
            let record = settled(local, local.find(&args.id).await?).await?;
            match ended(&record) {
                Some(ended) => ended?,
                None => {
                    let message = format!("task {} is still running", record.id);
                    let failure = Failure::new(Exit::StillRunning, "still_running", message);
                    return Err(failure.next(local.command("watch", record.id.as_str())));
                }
            }
        }
        Origin::Server(remote) => {
            let task = remote.task(&args.id);
            task.result().await.map_err(|error| {
                let failure = Failure::from(error);
                match failure.exit {
                    Exit::StillRunning => failure.next(remote.command("watch", remote.id(&args.id))),
                    _ => failure,
                }
            })?
        }
    };
    result::show(&result, manner)
}
