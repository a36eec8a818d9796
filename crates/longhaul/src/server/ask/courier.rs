//! Putting what a task asks to a client of a session: on the stream for what belongs to no request while its client is
//! there, else to who waits for the task's result (2025-11-25, Tasks, Input Required Status). Never on both at once.

use std::convert::Infallible;
use std::future::pending;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::dialect::{Dialect, StoredQuestion};
use longhaul_proto::jsonrpc::ErrorObject;
#[cfg(feature = "http")]
use longhaul_proto::jsonrpc::RequestId;
use longhaul_tasks::runner::Engine;
use longhaul_tasks::store::{Json, Owner, Question, Record, Reply, Scope, TaskId};

use super::super::context::Cx;
use super::super::outlet::{Push, Reach};
use super::PATIENCE;
use super::in_task::refusal;
use super::line::{self, Carry, LOOK_AGAIN, Line, OfTask};

/// Puts what the task asks to the client of `cx` for as long as this is polled, on the stream of its request, and
/// records the answers. A question that another request of the session has put is left to that one while it waits.
pub(in super::super) async fn deliver(cx: &Cx, engine: &Engine, owner: &Owner, id: &TaskId) -> Infallible {
    let line = cx.caller().line.clone().filter(|_| cx.dialect().asks_by_request());
    if let Some(line) = line {
        let session = None;
        let (engine, owner, id) = (engine.clone(), owner.clone(), id.clone());
        let courier = Courier { line, dialect: cx.dialect(), session, request: Some(cx), engine, owner, id };
        courier.run().await;
    }
    pending().await
}

/// The same of who waits for a result: the stream for what belongs to no request comes first.
pub(in super::super) async fn deliver_result(
    cx: &Cx,
    engine: &Engine,
    owner: &Owner,
    id: &TaskId,
) -> Infallible {
    let line = cx.caller().line.clone().filter(|_| cx.dialect().asks_by_request());
    if let Some(line) = line {
        let session = line.push().cloned();
        let (engine, owner, id) = (engine.clone(), owner.clone(), id.clone());
        let courier = Courier { line, dialect: cx.dialect(), session, request: Some(cx), engine, owner, id };
        courier.run().await;
    }
    pending().await
}

/// Puts what the task asks to the session that created it, as soon as it is asked and whenever its client is there, for
/// as long as both last.
pub(in super::super) async fn attend(
    line: Line,
    dialect: &'static Dialect,
    push: Arc<dyn Push>,
    engine: Engine,
    owner: Owner,
    id: TaskId,
) {
    Courier { line, dialect, session: Some(push), request: None, engine, owner, id }.run().await;
}

/// Who puts the questions of one task.
struct Courier<'c> {
    line: Line,
    dialect: &'static Dialect,
    /// Where messages go that belong to no request.
    session: Option<Arc<dyn Push>>,
    /// The request that waits for the task.
    request: Option<&'c Cx>,
    engine: Engine,
    owner: Owner,
    id: TaskId,
}

impl Courier<'_> {
    /// Puts questions until the task has ended, or nobody can ever be asked any more.
    async fn run(&self) {
        let (scope, mut asking) = (Scope::Owner(&self.owner), Vec::<Asking>::new());
        loop {
            let record = match self.engine.find(scope, &self.id).await {
                Ok(Some(record)) if !record.is_terminal() => record,
                Ok(_) => return,
                Err(error) => {
                    tracing::warn!(task = %self.id, %error, "what a task asks could not be read");
                    tokio::time::sleep(LOOK_AGAIN).await;
                    continue;
                }
            };
            asking.retain(|one| record.questions.iter().any(|open| *open.key == *one.key));
            if self.put_until_changed(&record, &mut asking).await {
                return;
            }
        }
    }

    /// Puts what `record` asks until it is another, or one of the questions has been dealt with; says whether nobody
    /// can ever be asked any more.
    async fn put_until_changed(&self, record: &Record, asking: &mut Vec<Asking>) -> bool {
        let scope = Scope::Owner(&self.owner);
        let mut changed = pin!(self.engine.changed(scope, &self.id, record.seq));
        loop {
            if self.request.is_none() && self.reach() == Reach::Gone {
                return true;
            }
            self.put(record, asking);
            let look_again = if asking.len() < record.questions.len() { LOOK_AGAIN } else { SELDOM };
            let answered = tokio::select! {
                answered = next(asking) => answered,
                _ = &mut changed => return false,
                // What another has put may be free again, or a client there.
                () = tokio::time::sleep(look_again) => continue,
            };
            if let Some(Heard { reply, receipt, place: _place }) = answered {
                match self.engine.answer(scope, &self.id, &[reply]).await {
                    // Recorded, or another was first.
                    Ok(_) => receipt.kept(),
                    Err(error) => {
                        drop(receipt);
                        tracing::warn!(task = %self.id, %error, "an answer could not be recorded: it is asked for again");
                        tokio::time::sleep(LOOK_AGAIN).await;
                    }
                }
            }
            return false;
        }
    }

    fn reach(&self) -> Reach {
        self.session.as_ref().map_or(Reach::Away, |session| session.reach())
    }

    /// By which a question can go out now.
    fn carry(&self) -> Option<Carry> {
        match (&self.session, self.request) {
            (Some(session), _) if session.reach() == Reach::Here => Some(Carry::Session(Arc::clone(session))),
            (_, Some(cx)) if cx.outlet().is_heard() => Some(Carry::Waiting(cx.clone())),
            _ => None,
        }
    }

    /// Puts those questions that nobody has put.
    fn put(&self, record: &Record, asking: &mut Vec<Asking>) {
        for question in &record.questions {
            if asking.iter().any(|one| *one.key == *question.key) {
                continue;
            }
            if let Some(carry) = self.carry()
                && let Some(place) = self.line.put(&format!("{}/{}", self.id, question.key))
            {
                let (line, dialect, question) = (self.line.clone(), self.dialect, question.clone());
                let (engine, owner, id) = (self.engine.clone(), self.owner.clone(), self.id.clone());
                let key = question.key.to_string();
                let of = OfTask { task: id.as_str().to_owned(), key: key.clone() };
                let future = Box::pin(async move {
                    // Another may have put it, and have its answer, since the task was read.
                    match engine.find(Scope::Owner(&owner), &id).await {
                        Ok(Some(now)) if now.questions.iter().any(|open| *open.key == *question.key) => {}
                        _ => return None,
                    }
                    put(line, carry, of, dialect, question, place).await
                });
                asking.push(Asking { key, future });
            }
        }
    }
}

/// A question that is put, until it is answered.
struct Asking {
    key: String,
    future: Pin<Box<dyn Future<Output = Option<Heard>> + Send>>,
}

/// What a client has said, which nobody else is asked while it is recorded.
struct Heard {
    reply: Reply,
    receipt: line::Receipt,
    place: line::Put,
}

/// The first of them that is answered, or `None` if its client cannot answer.
async fn next(asking: &mut Vec<Asking>) -> Option<Heard> {
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

async fn put(
    line: Line,
    carry: Carry,
    of: OfTask,
    dialect: &'static Dialect,
    question: Question,
    place: line::Put,
) -> Option<Heard> {
    let asked = match StoredQuestion::read(&question.request) {
        Ok(asked) => asked,
        Err(error) => {
            tracing::error!(%error, "a question of a task cannot be read, and is put to nobody");
            return pending().await;
        }
    };
    let write = |out: &mut Vec<u8>, id: &_| asked.write(out, id);
    let line::Given { outcome, receipt } =
        match line::put(line, carry, Some(of), dialect, asked.method(), write, PATIENCE).await {
            Ok(given) => given,
            // It is asked still, of whoever comes for it.
            Err(error) => {
                tracing::debug!(%error, "a question of a task was not answered");
                drop(place);
                tokio::time::sleep(LOOK_AGAIN).await;
                return None;
            }
        };
    match reply_of(&asked, &question.key, outcome) {
        Ok(reply) => Some(Heard { reply, receipt, place }),
        Err(wrong) => {
            // There is nothing to keep.
            receipt.kept();
            tracing::debug!(wrong, "an answer does not fit its question, which is put again");
            tokio::time::sleep(LOOK_AGAIN).await;
            None
        }
    }
}

/// What a client has said to the question under this key, as its task is told.
///
/// # Errors
///
/// Why it does not fit the question.
fn reply_of(
    asked: &StoredQuestion<'_>,
    key: &str,
    outcome: Result<String, ErrorObject>,
) -> Result<Reply, String> {
    match outcome {
        Ok(answer) => {
            let json = Json::parse(answer).map_err(|error| error.to_string())?;
            asked.check(&json)?;
            Ok(Reply::new(key, json))
        }
        Err(error) => Ok(Reply::error(key, refusal(&error))),
    }
}

/// Records the answer to a question that another node has put, or this one before a crash, if its id says which task asks.
/// `None` if it does not; else whether it is recorded, or nobody waits for it any more.
#[cfg(feature = "http")]
pub(in super::super) async fn record(
    engine: &Engine,
    owner: &Owner,
    id: &RequestId,
    outcome: Result<String, ErrorObject>,
) -> Option<bool> {
    let OfTask { task, key } = OfTask::named_by(id)?;
    let (scope, task) = (Scope::Owner(owner), TaskId::new(task).ok()?);
    let record = match engine.find(scope, &task).await {
        Ok(Some(record)) => record,
        Ok(None) => return Some(true),
        Err(error) => {
            tracing::warn!(%task, %error, "what a task asks could not be read");
            return Some(false);
        }
    };
    let Some(question) = record.questions.iter().find(|question| *question.key == *key) else {
        return Some(true);
    };
    let asked = StoredQuestion::read(&question.request).map_err(|error| error.to_string());
    let reply = match asked.and_then(|asked| reply_of(&asked, &key, outcome)) {
        Ok(reply) => reply,
        Err(wrong) => {
            tracing::debug!(wrong, "an answer does not fit its question, which is asked still");
            return Some(true);
        }
    };
    let answered = engine.answer(scope, &task, &[reply]).await;
    if let Err(error) = &answered {
        tracing::warn!(%task, %error, "an answer could not be recorded");
    }
    Some(answered.is_ok())
}

/// How seldom it is looked whether a session is there still whose task asks nothing.
const SELDOM: Duration = Duration::from_secs(60);
