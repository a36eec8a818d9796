//! A call of which the other server may make a task: what it has begun there outlives this process, and is gone on with.
//!
//! That it is called, and then which task it is there, are on disk before anything depends on them. So the next process knows
//! what to go on with, and what nobody can know any more. Where the task here is cancelled or fails, that there is cancelled. What
//! is gone with its server is called again, if its operator allows that.

use std::sync::{Arc, Mutex, PoisonError};

use longhaul::client::{CallOptions, Client, Error, SavedTask, Started, TaskHandle};
use longhaul::proto::jsonrpc::ErrorObject;
use longhaul::proto::model::CallToolResult;
use longhaul::server::{IntoToolResult, ToolError};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::away::Pauses;
use super::call::{Calling, Parts, TRIES, is_gone};
use super::connection::{Reached, Unreached, Upstream};
use crate::config::Reach;

/// What a call has come to, as it is written down.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
enum Begun {
    /// It never left: its server was away.
    Away,
    /// It was answered: with what, the task here says.
    Answered,
    /// It goes on there.
    Task(SavedTask),
}

/// The same, as this process has it.
enum Came {
    Answer {
        answer: Result<CallToolResult, Error>,
        /// There is none for want of the server.
        is_lost: bool,
    },
    Failure(CallToolResult),
    Away(Unreached),
    Task(Reached, TaskHandle),
}

/// What comes after a turn.
enum Next {
    Ended(Result<CallToolResult, ErrorObject>),
    /// It is called again.
    Again,
    /// It is called again once its server is there; at once, if it was away for a process before this one.
    Away(Option<Unreached>),
}

/// How often it was called.
struct Tries {
    /// By this process and by those before it.
    called: u64,
    /// How often more this one may.
    left: u32,
}

pub(super) async fn call(call: &Calling) -> Result<CallToolResult, ErrorObject> {
    let Calling { parts, cx, .. } = call;
    let (mut tries, mut pauses) = (Tries { called: 0, left: TRIES }, Pauses::new());
    loop {
        let calling = parts.relaying(cx, |options| Box::pin(begin_and_follow(call, options, &mut tries)));
        let calling = Box::pin(calling);
        match parts.upstream.in_turn(cx, calling).await {
            Next::Ended(ended) => return ended,
            Next::Again => cx.status("its server ended: calling it again"),
            Next::Away(Some(away)) => call.until_there(away, &mut pauses).await,
            Next::Away(None) => {}
        }
    }
}

async fn begin_and_follow(call: &Calling, options: CallOptions, tries: &mut Tries) -> Next {
    let Calling { parts, cx, .. } = call;
    let place = Mutex::new(None);
    let begin = || async {
        let came = begin(call, options.clone()).await;
        let begun = match &came {
            Came::Task(_, task) => Begun::Task(parts.upstream.name(task.save())),
            Came::Away(_) => Begun::Away,
            Came::Answer { .. } | Came::Failure(_) => Begun::Answered,
        };
        *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(came);
        Ok::<_, ToolError>(begun)
    };
    let begun = match tries.called {
        0 => cx.step("call", begin),
        again => cx.step(("call", again), begin),
    };
    let begun = if parts.may_repeat {
        begun
    } else {
        begun.reconcile(|_| async { Err::<Option<Begun>, _>(in_doubt()) })
    };
    let undoing = Arc::clone(parts);
    let begun = begun.compensate(move |begun, _| {
        let parts = Arc::clone(&undoing);
        async move { give_up(&parts, begun).await }
    });
    let begun = begun.await;
    let came = place.lock().unwrap_or_else(PoisonError::into_inner).take();
    tries.called += 1;
    // What was called before this process began counts against none of its tries.
    tries.left -= u32::from(came.as_ref().is_some_and(|came| !matches!(came, Came::Away(_))));
    let may_repeat = parts.may_repeat && tries.left > 0;
    Next::Ended(match (begun, came) {
        (Ok(Begun::Answered), Some(Came::Answer { is_lost: true, .. })) if may_repeat => return Next::Again,
        (Ok(Begun::Answered), Some(Came::Answer { answer, is_lost })) => parts.answer(cx, answer, is_lost),
        (Ok(Begun::Answered), Some(Came::Failure(failure))) => Ok(failure),
        (Ok(Begun::Answered), _) if may_repeat => return Next::Again,
        (Ok(Begun::Answered), _) => Err(in_doubt()),
        (Ok(Begun::Away), Some(Came::Away(away))) => return Next::Away(Some(away)),
        (Ok(Begun::Away), _) => return Next::Away(None),
        (Ok(Begun::Task(saved)), came) => {
            let task = match came {
                Some(Came::Task(reached, task)) => Some((reached, task)),
                _ => None,
            };
            match Box::pin(follow(call, &saved, task)).await {
                // It was in the memory of a process that is not there any more, for one.
                Some(Err(error)) if error.is_gone() && may_repeat => return Next::Again,
                None if may_repeat => return Next::Again,
                Some(ended) => parts.answer(cx, ended, false),
                None => {
                    Ok(parts.failure("another server has its name by now, and knows nothing of this call"))
                }
            }
        }
        (Err(error), _) => Err::<CallToolResult, _>(error).into_tool_result(),
    })
}

async fn begin(call: &Calling, options: CallOptions) -> Came {
    let (reached, answer) = match call.start(options).await {
        Ok((reached, Ok(Started::Task(task)))) => return Came::Task(reached, task),
        Ok((reached, Ok(Started::Result(result)))) => (reached, Ok(result)),
        Ok((reached, Err(error))) => (reached, Err(error)),
        Err(away) if away.is_denied => return Came::Failure(CallToolResult::error(away.to_string())),
        Err(away) => return Came::Away(away),
    };
    let is_lost = call.parts.is_lost(&reached, &answer).await;
    Came::Answer { answer, is_lost }
}

/// Follows the task to its end, over whatever befalls the connection to its server; `None` when another server has taken the place of
/// the one that knows it.
async fn follow(
    call: &Calling,
    saved: &SavedTask,
    mut task: Option<(Reached, TaskHandle)>,
) -> Option<Result<CallToolResult, Error>> {
    let mut tries = TRIES;
    loop {
        let (reached, task) = match task.take() {
            Some(begun) => begun,
            None => {
                let reached = call.reach_again().await;
                match call.parts.upstream.resume(&reached.client, saved)? {
                    Ok(task) => (reached, task),
                    Err(error) => return Some(Err(error)),
                }
            }
        };
        match call.waiting(&reached, call.until_ended(&reached, &task, None)).await {
            Err(error) if is_gone(&error) && tries > 1 => tries -= 1,
            ended => return Some(ended),
        }
    }
}

/// Nobody wants what was begun there any more.
async fn give_up(parts: &Parts, begun: Begun) -> Result<(), ToolError> {
    let Begun::Task(saved) = begun else { return Ok(()) };
    let _using = parts.upstream.callers.using();
    let client = parts.upstream.client().await?;
    // Whoever has its name by now knows nothing of it.
    let Some(task) = parts.upstream.resume(&client, &saved) else { return Ok(()) };
    match task?.cancel().await {
        // It has ended, or is not there any more.
        Ok(()) | Err(Error::Answer(_) | Error::NoSuchTask { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Upstream {
    /// What is saved of a task, with its server as its operator names it: what starts a program is another for each process
    /// of ours.
    fn name(&self, saved: SavedTask) -> SavedTask {
        let mut named = saved;
        if let Some(name) = self.command_line() {
            named.server = name;
        }
        named
    }

    /// The task that was saved; `None` when another server has taken the place of the one that knows it, for an id may be all
    /// that keeps others from a task.
    fn resume(&self, client: &Client, saved: &SavedTask) -> Option<Result<TaskHandle, Error>> {
        let is_its = match self.command_line() {
            Some(name) => name == saved.server,
            None => client.server() == saved.server,
        };
        is_its.then(|| {
            let mut here = saved.clone();
            client.server().clone_into(&mut here.server);
            client.resume(&here)
        })
    }

    fn command_line(&self) -> Option<String> {
        match &self.config().reach {
            Reach::Command(command) => Some(command.argv.join(" ")),
            Reach::Url(_) => None,
        }
    }
}

/// Nobody knows what has come of it.
fn in_doubt() -> ErrorObject {
    let why = "this server ended after it had called the other one and before the answer was on disk: it is not called twice";
    ErrorObject::internal(why).with_data(&json!({ "reason": "worker_lost" }))
}
