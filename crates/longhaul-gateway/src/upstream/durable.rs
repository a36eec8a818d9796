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

use super::call::{Calling, Parts, TRIES, is_gone, say};
use super::connection::{Unreached, Upstream};
use crate::config::Reach;

/// What a call has come to, as it is written down.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
enum Begun {
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
    Task(TaskHandle),
}

pub(super) async fn call(call: &Calling<'_>) -> Result<CallToolResult, ErrorObject> {
    call.parts.relaying(call.cx, |options| Box::pin(begin_and_follow(call, options))).await
}

async fn begin_and_follow(call: &Calling<'_>, options: CallOptions) -> Result<CallToolResult, ErrorObject> {
    let Calling { parts, cx, .. } = *call;
    // How often it was called, by this process and by those before it; and how often more this one may.
    let (mut called, mut tries) = (0, TRIES);
    loop {
        let place = Mutex::new(None);
        let begin = || async {
            let came = begin(call, options.clone()).await;
            let begun = match &came {
                Came::Task(task) => Begun::Task(parts.upstream.name(task.save())),
                Came::Answer { .. } | Came::Failure(_) => Begun::Answered,
            };
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(came);
            Ok::<_, ToolError>(begun)
        };
        let begun = match called {
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
        called += 1;
        // What was called before this process began counts against none of its tries.
        tries -= u32::from(came.is_some());
        let may_repeat = parts.may_repeat && tries > 0;
        match (begun, came) {
            (Ok(Begun::Answered), Some(Came::Answer { is_lost: true, .. })) if may_repeat => {}
            (Ok(Begun::Answered), Some(Came::Answer { answer, is_lost })) => {
                return parts.answer(cx, answer, is_lost);
            }
            (Ok(Begun::Answered), Some(Came::Failure(failure))) => return Ok(failure),
            (Ok(Begun::Answered), _) if may_repeat => {}
            (Ok(Begun::Answered), _) => return Err(in_doubt()),
            (Ok(Begun::Task(saved)), came) => {
                let task = came.and_then(Came::task);
                match follow(call, &saved, task).await {
                    // It was in the memory of a process that is not there any more, for one.
                    Followed::Ended(Err(error)) if error.is_gone() && may_repeat => {}
                    Followed::Elsewhere if may_repeat => {}
                    Followed::Ended(ended) => return parts.answer(cx, ended, false),
                    Followed::Elsewhere => {
                        return Ok(parts
                            .failure("another server has its name by now, and knows nothing of this call"));
                    }
                    Followed::Unreached(why) => return Ok(CallToolResult::error(why.to_string())),
                }
            }
            (Err(error), _) => return Err::<CallToolResult, _>(error).into_tool_result(),
        }
        cx.status("its server ended: calling it again");
    }
}

impl Came {
    fn task(self) -> Option<TaskHandle> {
        match self {
            Self::Task(task) => Some(task),
            Self::Answer { .. } | Self::Failure(_) => None,
        }
    }
}

async fn begin(call: &Calling<'_>, options: CallOptions) -> Came {
    let Calling { parts, cx, arguments, .. } = *call;
    let reached = match parts.upstream.reach().await {
        Ok(reached) => reached,
        Err(error) => return Came::Failure(CallToolResult::error(error.to_string())),
    };
    parts.upstream.log.ask_for(cx, &reached.client).await;
    let answer = match call.waiting(&reached, reached.client.start(&parts.tool, arguments, options)).await {
        Ok(Started::Task(task)) => return Came::Task(task),
        Ok(Started::Result(result)) => Ok(result),
        Err(error) => Err(error),
    };
    let is_lost = parts.is_lost(&reached, &answer).await;
    Came::Answer { answer, is_lost }
}

/// What came of following a task.
enum Followed {
    Ended(Result<CallToolResult, Error>),
    /// The server that knows it has another in its place.
    Elsewhere,
    Unreached(Unreached),
}

/// Follows the task to its end, over whatever befalls the connection to its server.
async fn follow(call: &Calling<'_>, saved: &SavedTask, mut task: Option<TaskHandle>) -> Followed {
    let Calling { parts, cx, .. } = *call;
    let mut tries = TRIES;
    loop {
        tries -= 1;
        let found = match task.take() {
            Some(task) => Ok(task),
            None => match parts.upstream.client().await {
                Ok(client) => match parts.upstream.resume(&client, saved) {
                    Some(found) => found,
                    None => return Followed::Elsewhere,
                },
                Err(why) if tries == 0 => return Followed::Unreached(why),
                Err(_) => continue,
            },
        };
        let ended = match found {
            Ok(task) => parts.upstream.waiting(task.watch(|task| say(cx, task))).await,
            Err(error) => Err(error),
        };
        match ended {
            Err(error) if is_gone(&error) && tries > 0 => {}
            ended => return Followed::Ended(ended),
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
