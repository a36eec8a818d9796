//! `longhaul tasks again`: the same call from its beginning, as a task of its own.

use std::sync::Arc;

use longhaul::client::{CallOptions, Started, handed_over};
use longhaul::tasks::environment::Tokio;
use longhaul::tasks::runner::{Engine, Pace};
use serde_json::json;

use super::origin::{Local, Origin, Remote};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::handles::{self, Handle};
use crate::result;
use crate::term::{Manner, clean, is_watched, note, print};

/// Start the same call again, as a new task, and print its id.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
On a store the new task waits for a server that runs its tool. At a server what `longhaul call` started can be called \
again.

Examples:
  longhaul tasks again build-77a
  longhaul tasks watch $(longhaul tasks again build-77a)")]
pub(crate) struct Args {
    /// The task's id, or its beginning.
    pub(super) id: String,
}

pub(super) async fn run(origin: &Origin, args: &Args, manner: Manner) -> Outcome {
    match origin {
        Origin::Store(local) => on_store(local, &args.id, manner).await,
        Origin::Server(remote) => at_server(remote, &args.id, manner).await,
    }
}

async fn on_store(local: &Local, given: &str, manner: Manner) -> Outcome {
    let record = local.find(given).await?;
    let engine = Engine::new(Arc::clone(&local.store), Arc::new(Tokio::new()), Pace::default(), []);
    let was = record.id.as_str();
    let Some(again) = engine.again(&record).await? else {
        let message = format!("nothing is kept of {was} to begin it again with: its tool never runs twice");
        return Err(Failure::new(Exit::Failed, "never_again", message)
            .next("`longhaul call` starts it anew at its server, and so does --url with `again`"));
    };
    let id = again.id.as_str();
    tell(id, was, &local.command("watch", id), manner)
}

async fn at_server(remote: &Remote, given: &str, manner: Manner) -> Outcome {
    let known = remote.handle.as_deref().cloned();
    let known = known.or_else(|| match handles::find(&handles::path()?, given).ok()? {
        handles::Found::One(handle) => Some(*handle),
        _ => None,
    });
    let Some(Handle { arguments: Some(arguments), tool, task: was, .. }) = &known else {
        let message = format!("it is not known here what task {} was called with", clean::line(given, 128));
        return Err(
            Failure::usage(message).next("`longhaul call` starts it again, with its tool and its arguments")
        );
    };
    // Whoever is asked something at once is told of it by the call's own verb.
    let started = remote.client.start(tool, arguments, CallOptions::default()).await?;
    let id = match started {
        Started::Task(task) => task.id().to_owned(),
        Started::Result(result) => match handed_over(&result) {
            Some(id) => id,
            None => return result::show(&result, manner),
        },
    };
    if let Some(handle) = known.clone() {
        handles::note(Handle { task: id.clone(), started: handles::now(), ..handle });
    }
    tell(&id, was, &remote.command("watch", &id), manner)
}

fn tell(id: &str, was: &str, next: &str, manner: Manner) -> Outcome {
    if manner.is_json() {
        print(&clean::json(&json!({ "taskId": id, "again": was }).to_string()))?;
    } else {
        print(&clean::line(id, 128))?;
        if is_watched() {
            note(&format!("the call of {} again; follow it: {next}", clean::line(was, 128)));
        }
    }
    Ok(Exit::Done)
}
