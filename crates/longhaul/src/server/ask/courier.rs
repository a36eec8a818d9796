//! Putting what a task asks to a client that waits for it in a session (2025-11-25, Tasks, Input Required Status).

use std::convert::Infallible;
use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use longhaul_tasks::runner::Engine;
use longhaul_tasks::store::{Json, Owner, Question, Reply, Scope, TaskId};

use super::super::context::Cx;
use super::in_task::{check, refusal};
use super::line::{self, Line};
use super::{AskError, PATIENCE};

/// Puts what the task asks to the client of `cx` for as long as this is polled, on the stream of its request, and
/// records the answers. A question that another request of the session has put is left to that one while it waits.
pub(in super::super) async fn deliver(cx: &Cx, engine: &Engine, owner: &Owner, id: &TaskId) -> Infallible {
    let Some(line) = cx.caller().line.clone().filter(|_| cx.dialect().asks_by_request()) else {
        return pending().await;
    };
    let scope = Scope::Owner(owner);
    let (mut asking, mut seen) = (Vec::<Asking>::new(), 0);
    loop {
        let record = match engine.find(scope, id).await {
            Ok(Some(record)) if !record.is_terminal() => record,
            Ok(_) => return pending().await,
            Err(error) => {
                tracing::warn!(task = %id, %error, "what a task asks could not be read");
                tokio::time::sleep(LOOK_AGAIN).await;
                continue;
            }
        };
        asking.retain(|one| record.questions.iter().any(|open| *open.key == *one.key));
        for question in &record.questions {
            if let Some(place) = line.put(&format!("{id}/{}", question.key)) {
                let future = Box::pin(put(line.clone(), cx.clone(), question.clone(), place));
                asking.push(Asking { key: question.key.to_string(), future });
            }
        }
        seen = record.seq.max(seen);
        let answered = tokio::select! {
            answered = next(&mut asking) => Some(answered),
            _ = engine.changed(scope, id, seen) => None,
            // What another request has put may be free again.
            () = tokio::time::sleep(LOOK_AGAIN), if asking.len() < record.questions.len() => None,
        };
        if let Some(Some(reply)) = answered
            && let Err(error) = engine.answer(scope, id, &[reply]).await
        {
            tracing::warn!(task = %id, %error, "an answer could not be recorded: it is asked for again");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

/// A question that is put, until it is answered.
struct Asking {
    key: String,
    future: Pin<Box<dyn Future<Output = Option<Reply>> + Send>>,
}

/// The first of them that is answered, or `None` if its client cannot answer.
async fn next(asking: &mut Vec<Asking>) -> Option<Reply> {
    std::future::poll_fn(|task| {
        for at in 0..asking.len() {
            if let std::task::Poll::Ready(reply) = asking[at].future.as_mut().poll(task) {
                drop(asking.swap_remove(at));
                return std::task::Poll::Ready(reply);
            }
        }
        std::task::Poll::Pending
    })
    .await
}

async fn put(line: Line, cx: Cx, question: Question, place: line::Put) -> Option<Reply> {
    let dialect = cx.dialect();
    let request = question.request.clone();
    let write = move |out: &mut Vec<u8>, id: &_| dialect.write_stored_question(out, id, &request);
    let method = dialect.method_of_stored(&question.request);
    let answer = line::put(line, cx, method, write, PATIENCE).await;
    let answer = answer.map(|answer| {
        let json = Json::parse(answer).map_err(|error| error.to_string())?;
        check(&question.request, &json).map(|()| json)
    });
    let reply = match answer {
        Ok(Ok(json)) => Some(Reply::new(question.key, json)),
        Ok(Err(wrong)) => {
            tracing::debug!(wrong, "an answer does not fit its question, which is put again");
            tokio::time::sleep(LOOK_AGAIN).await;
            None
        }
        Err(AskError::Refused(error)) => Some(Reply::error(question.key, refusal(&error))),
        // It is asked still, of whoever comes for it.
        Err(error) => {
            tracing::debug!(%error, "a question of a task was not answered");
            tokio::time::sleep(LOOK_AGAIN).await;
            None
        }
    };
    drop(place);
    reply
}

/// How soon a question is put again that was not answered.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
