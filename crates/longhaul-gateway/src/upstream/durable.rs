//! A call of which the other server may make a task: what it has begun there outlives this process, and is gone on with.
//!
//! That it is called, and then which task it is there, are on disk before anything depends on them. So the next process knows
//! what to go on with, and what nobody can know any more. Where the task here is cancelled or fails, that there is cancelled.

use std::sync::{Arc, Mutex, PoisonError};

use longhaul::Cx;
use longhaul::client::{CallOptions, Error, SavedTask, Started, TaskHandle};
use longhaul::proto::jsonrpc::ErrorObject;
use longhaul::proto::model::CallToolResult;
use longhaul::server::{IntoToolResult, ToolError};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::call::{Parts, TRIES, is_gone, say};

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
    Answer(Result<CallToolResult, Error>),
    Failure(CallToolResult),
    Task(TaskHandle),
}

pub(super) async fn call(
    parts: &Arc<Parts>,
    cx: &Cx,
    arguments: &RawValue,
) -> Result<CallToolResult, ErrorObject> {
    parts.relaying(cx, |options| Box::pin(begin_and_follow(parts, cx, arguments, options))).await
}

async fn begin_and_follow(
    parts: &Arc<Parts>,
    cx: &Cx,
    arguments: &RawValue,
    options: CallOptions,
) -> Result<CallToolResult, ErrorObject> {
    let place = Mutex::new(None);
    let begin = || async {
        let came = begin(parts, arguments, options).await;
        let begun = match &came {
            Came::Task(task) => Begun::Task(task.save()),
            Came::Answer(_) | Came::Failure(_) => Begun::Answered,
        };
        *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(came);
        Ok::<_, ToolError>(begun)
    };
    let begun = cx.step("call", begin);
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
    match (begun, came) {
        (Ok(Begun::Answered), Some(Came::Answer(answer))) => parts.answer(answer),
        (Ok(Begun::Answered), Some(Came::Failure(failure))) => Ok(failure),
        (Ok(Begun::Answered), _) => Err(in_doubt()),
        (Ok(Begun::Task(saved)), Some(Came::Task(task))) => follow(parts, cx, &saved, Some(task)).await,
        (Ok(Begun::Task(saved)), _) => follow(parts, cx, &saved, None).await,
        (Err(error), _) => Err::<CallToolResult, _>(error).into_tool_result(),
    }
}

async fn begin(parts: &Parts, arguments: &RawValue, options: CallOptions) -> Came {
    let client = match parts.upstream.client().await {
        Ok(client) => client,
        Err(error) => return Came::Failure(CallToolResult::error(error.to_string())),
    };
    match client.start(&parts.tool, arguments, options).await {
        Ok(Started::Task(task)) => Came::Task(task),
        Ok(Started::Result(result)) => Came::Answer(Ok(result)),
        Err(error) => Came::Answer(Err(error)),
    }
}

/// Follows the task to its end, over whatever befalls the connection to its server.
async fn follow(
    parts: &Parts,
    cx: &Cx,
    saved: &SavedTask,
    mut task: Option<TaskHandle>,
) -> Result<CallToolResult, ErrorObject> {
    let mut tries = TRIES;
    loop {
        tries -= 1;
        let found = match task.take() {
            Some(task) => Ok(task),
            None => match parts.upstream.client().await {
                Ok(client) => client.resume(saved),
                Err(error) if tries == 0 => return Ok(CallToolResult::error(error.to_string())),
                Err(_) => continue,
            },
        };
        let ended = match found {
            Ok(task) => task.watch(|task| say(cx, task)).await,
            Err(error) => Err(error),
        };
        match ended {
            Err(error) if is_gone(&error) && tries > 0 => {}
            ended => return parts.answer(ended),
        }
    }
}

/// Nobody wants what was begun there any more.
async fn give_up(parts: &Parts, begun: Begun) -> Result<(), ToolError> {
    let Begun::Task(saved) = begun else { return Ok(()) };
    match parts.upstream.client().await?.resume(&saved)?.cancel().await {
        // It has ended, or is not there any more.
        Ok(()) | Err(Error::Answer(_) | Error::NoSuchTask { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Nobody knows what has come of it.
fn in_doubt() -> ErrorObject {
    let why = "this server ended after it had called the other one and before the answer was on disk: it is not called twice";
    ErrorObject::internal(why).with_data(&json!({ "reason": "worker_lost" }))
}
