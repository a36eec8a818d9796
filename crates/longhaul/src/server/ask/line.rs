//! The line to the client of a session, on which a server asks by requests of its own.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_proto::dialect::Dialect;
use longhaul_proto::jsonrpc::{ErrorObject, RequestId, Response};
use longhaul_proto::model::InputRequest;
use tokio::sync::oneshot;

use super::super::context::Cx;
use super::super::outlet::Push;
use super::AskError;
use crate::wire::{self, By};

/// How many questions may be open in a session at once.
const MAX_OPEN: usize = 64;

/// The questions that are open in one session. Clones are the same line.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    questions: Arc<Mutex<Questions>>,
    /// How to reach the client when the call that asked is over.
    push: Option<Arc<dyn Push>>,
}

#[derive(Debug)]
struct Questions {
    /// Begins every id, so that no session can guess another's.
    salt: String,
    next: u64,
    waiting: HashMap<RequestId, oneshot::Sender<Result<String, ErrorObject>>>,
    /// What tasks ask that some request of the session has put.
    put: HashSet<String>,
}

impl Line {
    pub(crate) fn new() -> Self {
        let mut random = [0; 12];
        getrandom::fill(&mut random).expect("the system has randomness");
        let salt = random.iter().fold(String::new(), |mut salt, byte| {
            // Writing to a string cannot fail.
            let _ = write!(salt, "{byte:02x}");
            salt
        });
        let questions = Questions { salt, next: 1, waiting: HashMap::new(), put: HashSet::new() };
        Self { questions: Arc::new(Mutex::new(questions)), push: None }
    }

    /// The same line, for a call whose session is pushed to so.
    pub(in super::super) fn with_push(mut self, push: Option<Arc<dyn Push>>) -> Self {
        self.push = push;
        self
    }

    /// The right to put what a task asks, which one request has at a time.
    pub(super) fn put(&self, question: &str) -> Option<Put> {
        let is_free = self.lock().put.insert(question.to_owned());
        is_free.then(|| Put { line: self.clone(), question: question.to_owned() })
    }

    /// Whether an answer is awaited.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.lock().waiting.is_empty()
    }

    /// An answer has come. One to no open question is passed over.
    pub(crate) fn handle_response(&self, response: Response<'_>) {
        let waiting = response.id.and_then(|id| self.lock().waiting.remove(&id));
        match waiting {
            // A closed channel means that the question has just been withdrawn.
            Some(waiting) => drop(waiting.send(response.outcome.map(str::to_owned))),
            None => tracing::debug!("dropped an answer to no open question"),
        }
    }

    fn open(&self) -> Result<(RequestId, oneshot::Receiver<Result<String, ErrorObject>>), AskError> {
        let mut questions = self.lock();
        if questions.waiting.len() >= MAX_OPEN {
            return Err(AskError::TooMany { limit: MAX_OPEN });
        }
        let id = RequestId::from(format!("{}-{}", questions.salt, questions.next).as_str());
        questions.next += 1;
        let (sender, receiver) = oneshot::channel();
        questions.waiting.insert(id.clone(), sender);
        Ok((id, receiver))
    }

    fn lock(&self) -> MutexGuard<'_, Questions> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to put what a task asks, until it is dropped.
pub(super) struct Put {
    line: Line,
    question: String,
}

impl Drop for Put {
    fn drop(&mut self) {
        self.line.lock().put.remove(&self.question);
    }
}

/// Asks on the stream of the call, and waits for the answer.
pub(super) async fn ask(
    line: Line,
    cx: Cx,
    question: Arc<InputRequest>,
    patience: Duration,
) -> Result<String, AskError> {
    let dialect = cx.dialect();
    let method = question.method();
    put(line, cx, method, move |out, id| dialect.write_question(out, id, &question), patience).await
}

/// Puts a question by `method`, which `write` writes.
pub(super) async fn put(
    line: Line,
    cx: Cx,
    method: &str,
    write: impl FnOnce(&mut Vec<u8>, &RequestId),
    patience: Duration,
) -> Result<String, AskError> {
    let (id, answer) = line.open()?;
    let mut message = Vec::with_capacity(256);
    write(&mut message, &id);
    wire::said(By::Server, cx.dialect(), None, &message);
    let mut open = Open { line, cx: cx.clone(), dialect: cx.dialect(), id, sent: false };
    let asked = async {
        if !cx.outlet().is_open() {
            return Err(AskError::Gone);
        }
        cx.outlet().notify(message).await;
        open.sent = true;
        match answer.await {
            Ok(answer) => {
                open.sent = false;
                if let Ok(answer) = &answer {
                    wire::answered(cx.dialect(), method, answer);
                }
                answer.map_err(AskError::Refused)
            }
            Err(_) => Err(AskError::Gone),
        }
    };
    tokio::time::timeout(patience, asked).await.unwrap_or(Err(AskError::TimedOut { after: patience }))
}

/// A question that is open: dropped while it is, it is withdrawn.
struct Open {
    line: Line,
    cx: Cx,
    dialect: &'static Dialect,
    id: RequestId,
    /// The client knows of it and has not answered.
    sent: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.line.lock().waiting.remove(&self.id);
        if !self.sent {
            return;
        }
        if let Some(message) = wire::cancelled(By::Server, self.dialect, &self.id, "no longer asked") {
            self.cx.outlet().withdraw(message, self.line.push.as_deref());
        }
    }
}
