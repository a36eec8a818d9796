//! The line to the client of a session, on which a server asks by requests of its own.

use std::collections::{HashMap, HashSet, VecDeque};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_proto::dialect::Dialect;
use longhaul_proto::jsonrpc::{ErrorObject, RequestId, Response, write_request};
use longhaul_proto::method::Method;
use longhaul_proto::model::InputRequest;
#[cfg(feature = "http")]
use sha2::{Digest as _, Sha256};
use tokio::sync::oneshot;

use super::super::context::Cx;
use super::super::outlet::{Carrier, Push};
use super::AskError;
use crate::hex::hex;
use crate::wire::{self, By};

/// How many questions may be open in a session at once, and how many that were withdrawn are known.
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
    waiting: HashMap<RequestId, Waiting>,
    /// A task's whose answers nobody has kept or will keep, the newest last.
    unkept: VecDeque<RequestId>,
    /// What tasks ask that some request of the session has put.
    put: HashSet<String>,
    /// An answer has come that was meant for another line.
    has_strayed: bool,
}

impl Questions {
    fn next_id(&mut self) -> RequestId {
        let id = RequestId::from(format!("{}-{}", self.salt, self.next).as_str());
        self.next += 1;
        id
    }

    /// The same for what a task asks, which it names: so the answer finds the task wherever it comes.
    fn next_id_of(&mut self, question: &OfTask) -> RequestId {
        let OfTask { task, key } = question;
        let id = RequestId::from(format!("{}-{}/{task}/{key}", self.salt, self.next).as_str());
        self.next += 1;
        id
    }

    /// Nobody waits for an answer any more. Who gives one to what a task asks is told that it is not kept, unless it is by then.
    fn close(&mut self, id: &RequestId) -> Option<Waiting> {
        let waiting = self.waiting.remove(id)?;
        if waiting.is_recorded {
            if self.unkept.len() == MAX_OPEN {
                self.unkept.pop_front();
            }
            self.unkept.push_back(id.clone());
        }
        Some(waiting)
    }

    /// Whether an answer to no open question is one that a task may still lack: to what has no answer that was kept, or what
    /// another line has put, at another node or before a crash. One that was kept may come twice.
    fn is_lost(&self, id: &RequestId) -> bool {
        self.unkept.contains(id) || self.line_of(id).is_some_and(|salt| salt != self.salt)
    }

    /// Whether another line of the same session has put that question.
    #[cfg(feature = "http")]
    fn is_of_another(&self, id: &RequestId) -> bool {
        self.line_of(id).is_some_and(|salt| salt != self.salt && salt[..SESSION] == self.salt[..SESSION])
    }

    /// Whether it is the first answer that was meant for another session.
    fn strays(&mut self, id: &RequestId) -> bool {
        let is_stray = self.line_of(id).is_some_and(|salt| salt[..SESSION] != self.salt[..SESSION]);
        is_stray && !mem::replace(&mut self.has_strayed, true)
    }

    /// The salt of the line that has put a question.
    fn line_of<'i>(&self, id: &'i RequestId) -> Option<&'i str> {
        let RequestId::String(text) = id else { return None };
        let (salt, _) = text.split_once('-')?;
        let is_salt = salt.len() == self.salt.len() && salt.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_salt.then_some(salt)
    }
}

/// How much of a salt says of which session it is; the rest, of which line of that.
const SESSION: usize = 12;

/// A question of a task.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct OfTask {
    pub(super) task: String,
    pub(super) key: String,
}

#[cfg(feature = "http")]
impl OfTask {
    /// The one that the id of a request names, if it names any.
    pub(super) fn named_by(id: &RequestId) -> Option<Self> {
        let RequestId::String(text) = id else { return None };
        let mut parts = text.splitn(3, '/').skip(1);
        let (task, key) = parts.next().zip(parts.next())?;
        Some(Self { task: task.to_owned(), key: key.to_owned() })
    }
}

/// Who waits for an answer.
#[derive(Debug)]
struct Waiting {
    answer: oneshot::Sender<Given>,
    /// It is a task's, and counts once it is recorded.
    is_recorded: bool,
}

/// What has come to a question.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) outcome: Result<String, ErrorObject>,
    pub(super) receipt: Receipt,
}

/// By which whoever has sent an answer hears that it is kept. Dropped, it says that it is not.
#[derive(Debug)]
pub(super) struct Receipt(Option<Sent>);

/// By whom an answer was sent that is to be kept.
#[derive(Debug)]
struct Sent {
    told: oneshot::Sender<()>,
    line: Line,
    id: RequestId,
}

impl Receipt {
    /// The answer will not be asked for again.
    pub(super) fn kept(self) {
        if let Some(Sent { told, line, id }) = self.0 {
            line.lock().unkept.retain(|unkept| *unkept != id);
            // Who sent it may have gone.
            let _ = told.send(());
        }
    }
}

/// Completes once an answer is kept, or with an error if it is not.
pub(crate) type Kept = oneshot::Receiver<()>;

impl Line {
    pub(crate) fn new() -> Self {
        let mut random = [0; 12];
        getrandom::fill(&mut random).expect("the system has randomness");
        let questions = Questions {
            salt: hex(&random),
            next: 1,
            waiting: HashMap::new(),
            unkept: VecDeque::new(),
            put: HashSet::new(),
            has_strayed: false,
        };
        Self { questions: Arc::new(Mutex::new(questions)), push: None }
    }

    /// The same line, of the session of this id: its lines at other nodes know what it has put, and those of no other session do.
    #[cfg(feature = "http")]
    pub(crate) fn belong_to(&self, session: &str) {
        let of_session = Sha256::digest(session);
        let mut questions = self.lock();
        questions.salt.replace_range(..SESSION, &hex(&of_session[..SESSION / 2]));
    }

    /// The same line, for a call whose session is pushed to so.
    pub(in super::super) fn with_push(mut self, push: Option<Arc<dyn Push>>) -> Self {
        self.push = push;
        self
    }

    /// Where messages of its session go that belong to no request.
    pub(super) fn push(&self) -> Option<&Arc<dyn Push>> {
        self.push.as_ref()
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

    /// An answer has come: when it is kept, if whoever has sent it is to know. `stray` hears of the first one that was meant
    /// for another line.
    pub(crate) fn handle_response(&self, response: Response<'_>, stray: impl FnOnce()) -> Option<Kept> {
        let id = response.id?;
        let (sender, kept) = oneshot::channel();
        let mut questions = self.lock();
        let Some(Waiting { answer, is_recorded }) = questions.close(&id) else {
            tracing::debug!("dropped an answer to no open question");
            if questions.strays(&id) {
                stray();
            }
            return questions.is_lost(&id).then_some(kept);
        };
        let given = Given {
            outcome: response.outcome.map(str::to_owned),
            receipt: Receipt(is_recorded.then(|| Sent { told: sender, line: self.clone(), id })),
        };
        // Whoever waited has just gone: with the answer goes its receipt.
        let _ = answer.send(given);
        is_recorded.then_some(kept)
    }

    /// Whether another line of the same session has put that question: at another node, or before a crash.
    #[cfg(feature = "http")]
    pub(crate) fn is_of_another(&self, id: &RequestId) -> bool {
        self.lock().is_of_another(id)
    }

    /// Opens a question, be it a task's.
    fn open(&self, of: Option<&OfTask>) -> Result<(RequestId, oneshot::Receiver<Given>), AskError> {
        let mut questions = self.lock();
        if questions.waiting.len() >= MAX_OPEN {
            return Err(AskError::TooMany { limit: MAX_OPEN });
        }
        let id = match of {
            Some(of) => questions.next_id_of(of),
            None => questions.next_id(),
        };
        let (answer, receiver) = oneshot::channel();
        questions.waiting.insert(id.clone(), Waiting { answer, is_recorded: of.is_some() });
        Ok((id, receiver))
    }

    /// An id for a request whose answer nobody waits for.
    fn next_id(&self) -> RequestId {
        self.lock().next_id()
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

/// By which a question goes out.
#[derive(Clone)]
pub(super) enum Carry {
    /// The stream of this request, which asks for itself: whoever loses it may come back for the question.
    Request(Cx),
    /// The stream of this request, which waits for a task: while its client is not there, others are asked.
    Waiting(Cx),
    /// The stream for what belongs to no request.
    Session(Arc<dyn Push>),
}

/// Asks on the stream of the call, and waits for the answer: as a task that is to be kept for `as_task`, where the client
/// hosts one.
pub(super) async fn ask(
    line: Line,
    cx: Cx,
    question: Arc<InputRequest>,
    patience: Duration,
    as_task: Option<Duration>,
) -> Result<String, AskError> {
    let dialect = cx.dialect();
    let method = question.method();
    let as_task = as_task.filter(|_| hosts(&cx, &question));
    let write = move |out: &mut Vec<u8>, id: &_| match as_task {
        None => dialect.write_question(out, id, &question),
        Some(ttl) => {
            let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
            dialect.write_question_as_task(out, id, &question, Some(ttl_ms));
        }
    };
    let carry = Carry::Request(cx.clone());
    let given = put(line.clone(), carry, None, dialect, method, write, patience).await?;
    let answer = given.outcome.map_err(AskError::Refused)?;
    let created = if as_task.is_some() { dialect.read_task_created(&answer) } else { Ok(None) };
    match created.map_err(|error| AskError::Invalid { what: error.message.into_owned() })? {
        // It was asked as ever.
        None => Ok(answer),
        Some(task) => answer_of(line, cx, task.id, patience).await,
    }
}

/// Whether the client makes a task of such a question when it is asked to.
fn hosts(cx: &Cx, question: &InputRequest) -> bool {
    let hosted = cx.caller().capabilities.tasks;
    cx.dialect().asks_for_tasks()
        && match question {
            InputRequest::Elicit(_) => hosted.elicitation,
            InputRequest::Sample(_) => hosted.sampling,
            InputRequest::ListRoots => false,
        }
}

/// The answer to a question that is a task of the client's by now. Dropped before, it cancels the task.
async fn answer_of(line: Line, cx: Cx, task: String, patience: Duration) -> Result<String, AskError> {
    let dialect = cx.dialect();
    let Some(method) = dialect.name_of(Method::TaskResult) else { return Err(AskError::Gone) };
    let mut unanswered = Unanswered { line: line.clone(), cx: cx.clone(), task: Some(task.clone()) };
    let write = move |out: &mut Vec<u8>, id: &_| {
        write_request(out, id, method, |params| {
            params.field("taskId", &task);
        });
    };
    let given = put(line, Carry::Request(cx), None, dialect, method, write, patience).await?;
    unanswered.task = None;
    given.outcome.map_err(AskError::Refused)
}

/// A task of the client's whose answer is wanted: dropped while it is, it is cancelled.
struct Unanswered {
    line: Line,
    cx: Cx,
    task: Option<String>,
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        let dialect = self.cx.dialect();
        let hosted = self.cx.caller().capabilities.tasks;
        let method = dialect.name_of(Method::CancelTask).filter(|_| hosted.cancel);
        if let (Some(task), Some(method)) = (self.task.take(), method) {
            // Nobody waits for what is answered to it.
            let mut message = Vec::with_capacity(128);
            write_request(&mut message, &self.line.next_id(), method, |params| {
                params.field("taskId", &task);
            });
            wire::said(By::Server, dialect, None, &message);
            self.cx.outlet().withdraw(message, self.line.push.as_deref());
        }
    }
}

/// Puts a question, be it a task's, by `method`, which `write` writes.
pub(super) async fn put(
    line: Line,
    carry: Carry,
    of: Option<OfTask>,
    dialect: &'static Dialect,
    method: &str,
    write: impl FnOnce(&mut Vec<u8>, &RequestId),
    patience: Duration,
) -> Result<Given, AskError> {
    let (id, answer) = line.open(of.as_ref())?;
    let mut message = Vec::with_capacity(256);
    write(&mut message, &id);
    wire::said(By::Server, dialect, None, &message);
    let mut open = Open { line, carry, dialect, id, sent: false };
    let asked = async {
        let carrier = match &open.carry {
            Carry::Request(cx) | Carry::Waiting(cx) if !cx.outlet().is_open() => return Err(AskError::Gone),
            Carry::Request(cx) | Carry::Waiting(cx) => {
                cx.outlet().notify(message).await;
                None
            }
            Carry::Session(push) => Some(push.ask(message).ok_or(AskError::Gone)?),
        };
        open.sent = true;
        let answer = tokio::select! {
            biased;
            answer = answer => answer,
            () = lost(&open.carry, carrier) => return Err(AskError::Gone),
        };
        match answer {
            Ok(given) => {
                open.sent = false;
                if let Ok(answer) = &given.outcome {
                    wire::answered(dialect, method, answer);
                }
                Ok(given)
            }
            Err(_) => Err(AskError::Gone),
        }
    };
    tokio::time::timeout(patience, asked).await.unwrap_or(Err(AskError::TimedOut { after: patience }))
}

/// Completes once the client that a question was put to has been away for longer than it takes to come back.
async fn lost(carry: &Carry, carrier: Option<Box<dyn Carrier>>) {
    let is_there = || match (carry, &carrier) {
        (Carry::Waiting(cx), _) => cx.outlet().is_heard(),
        (_, Some(carrier)) => carrier.is_there(),
        (_, None) => true,
    };
    let mut away = 0;
    while away < AWAY {
        tokio::time::sleep(LOOK_AGAIN).await;
        away = if is_there() { 0 } else { away + 1 };
    }
}

/// How often a client is looked for before it counts as gone.
const AWAY: u32 = 3;

/// How soon it is looked whether a client is there.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A question that is open: dropped while it is, it is withdrawn.
struct Open {
    line: Line,
    carry: Carry,
    dialect: &'static Dialect,
    id: RequestId,
    /// The client knows of it and has not answered.
    sent: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.line.lock().close(&self.id);
        if !self.sent {
            return;
        }
        let Some(message) = wire::cancelled(By::Server, self.dialect, &self.id, "no longer asked") else {
            return;
        };
        match &self.carry {
            Carry::Request(cx) | Carry::Waiting(cx) => {
                cx.outlet().withdraw(message, self.line.push.as_deref())
            }
            Carry::Session(push) => push.push(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use longhaul_proto::jsonrpc::{Limits, Message};

    use super::*;

    /// Whether `line` says to whoever answers `id` that the answer is kept; `None` if it says nothing of that.
    async fn answer(line: &Line, id: &RequestId) -> Option<bool> {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        let Ok(Message::Response(response)) = Message::decode(text.as_bytes(), &Limits::default()) else {
            panic!("{text} is an answer");
        };
        match line.handle_response(response, || {}) {
            Some(kept) => Some(kept.await.is_ok()),
            None => None,
        }
    }

    fn of_a_task() -> OfTask {
        OfTask { task: "t-1".to_owned(), key: "a/b".to_owned() }
    }

    #[cfg(feature = "http")]
    #[test]
    fn what_a_task_asks_is_found_by_the_id_that_it_is_asked_by() {
        let line = Line::new();
        let (of_a_task, _waits) = line.open(Some(&of_a_task())).unwrap();
        assert_eq!(OfTask::named_by(&of_a_task), Some(self::of_a_task()));
        let (of_a_call, _waits) = line.open(None).unwrap();
        assert_eq!(OfTask::named_by(&of_a_call), None);
    }

    #[tokio::test]
    async fn an_answer_that_comes_too_late_is_not_said_to_be_kept() {
        let line = Line::new();
        let (late, waits) = line.open(Some(&of_a_task())).unwrap();
        line.lock().close(&late);
        drop(waits);
        assert_eq!(answer(&line, &late).await, Some(false), "withdrawn before it came");

        let (crossed, waits) = line.open(Some(&of_a_task())).unwrap();
        drop(waits);
        assert_eq!(answer(&line, &crossed).await, Some(false), "withdrawn while it came");
        line.lock().close(&crossed);

        let (answered, waits) = line.open(Some(&of_a_task())).unwrap();
        let kept = tokio::spawn(async move { waits.await.unwrap().receipt.kept() });
        assert_eq!(answer(&line, &answered).await, Some(true));
        kept.await.unwrap();
        line.lock().close(&answered);
        assert_eq!(answer(&line, &answered).await, None, "its 202 was lost, and it comes again");

        let (failed, waits) = line.open(Some(&of_a_task())).unwrap();
        let dropped = tokio::spawn(async move { drop(waits.await) });
        assert_eq!(answer(&line, &failed).await, Some(false), "the store was not there");
        dropped.await.unwrap();
        assert_eq!(answer(&line, &failed).await, Some(false), "it is kept no more for coming twice");

        let (of_a_call, _gone) = line.open(None).unwrap();
        line.lock().close(&of_a_call);
        assert_eq!(answer(&line, &of_a_call).await, None, "nobody wants it");

        // It was asked at another node, or here before a crash.
        let (elsewhere, _waits) = Line::new().open(Some(&of_a_task())).unwrap();
        assert_eq!(answer(&line, &elsewhere).await, Some(false));
        assert!(!line.lock().strays(&elsewhere), "it is told of once");
        for never_put in [RequestId::from(1), RequestId::from("another")] {
            assert_eq!(answer(&line, &never_put).await, None, "{never_put}");
        }
    }

    #[cfg(feature = "http")]
    #[test]
    fn a_line_knows_what_other_lines_of_its_session_have_put_and_no_others() {
        let of = |session| {
            let line = Line::new();
            line.belong_to(session);
            line
        };
        let (line, elsewhere, stranger) = (of("ann's"), of("ann's"), of("bob's"));
        let put = |line: &Line| line.open(Some(&of_a_task())).unwrap().0;
        assert!(line.is_of_another(&put(&elsewhere)));
        assert!(!line.is_of_another(&put(&line)) && !line.is_of_another(&put(&stranger)));
        assert!(!line.lock().strays(&put(&elsewhere)));
        assert!(line.lock().strays(&put(&stranger)));
        assert!(!line.lock().strays(&put(&stranger)), "it is told of once");
    }
}
