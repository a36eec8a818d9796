//! Who waits for which answer: what every transport of a client shares.

use std::collections::HashMap;
use std::fmt;
#[cfg(feature = "http-client")]
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use longhaul_proto::connection::ClientConnection;
use longhaul_proto::dialect::Dialect;
use longhaul_proto::jsonrpc::{
    DecodeError, ErrorObject, Glimpse, Message, Notification, ObjectWriter, Params, ProgressToken, Request,
    RequestId, Text, clip,
};
use longhaul_proto::method::{Method, Notice};
use longhaul_proto::model::{InputRequest, LoggingLevel, Progress, SUBSCRIPTION_ID, SubscriptionFilter};
use longhaul_tasks::environment::BoxFuture;
use serde_json::value::RawValue;
use tokio::sync::{oneshot, watch};
#[cfg(feature = "http-client")]
use tokio::time::sleep_until;
use tokio::time::{Instant, timeout_at};

use super::answers::Question;
use super::cache::Cache;
use super::drafted::Expected;
use super::error::Error;
use super::hosting::Host;
use super::journal::{Page, name_of};
use super::link::Outgoing;
use super::options::{Callback, LogMessage, Options};
use super::owed::Owed;
use super::pages::Pages;
use super::told::{Change, Told};
use crate::server::{HeldPush, contained};
use crate::trace;
use crate::wire::{self, By};

/// What an answer is once it has come: the result's text, or the error, be it that it cannot be read.
type Outcome = Result<String, Error>;

/// The requests of one connection that wait, and the machine that counts them.
pub(crate) struct Table {
    origin: Instant,
    options: Options,
    tools_changed: AtomicBool,
    /// The server has asked something.
    asked: AtomicBool,
    /// How many of its questions wait for the application.
    open: AtomicUsize,
    owed: Owed,
    /// Whether no message will come any more, for those who wait for something else than an answer.
    over: watch::Sender<bool>,
    cache: Mutex<Cache>,
    pages: Pages,
    expected: Expected,
    host: Option<Host>,
    state: Mutex<State>,
}

struct State {
    machine: ClientConnection,
    waiting: HashMap<RequestId, oneshot::Sender<Outcome>>,
    listening: HashMap<ProgressToken, Callback<Progress>>,
    /// The subscriptions that are requests of their own.
    told: HashMap<RequestId, Arc<Told>>,
    /// Those that hear in the session, and of what.
    hearing: Vec<(Weak<Told>, SubscriptionFilter)>,
    /// How many of them want each resource.
    held: HashMap<String, usize>,
    ended: Option<Error>,
}

impl Table {
    pub(crate) fn new(options: Options) -> Arc<Self> {
        let state = State {
            machine: ClientConnection::new(options.max_pending),
            waiting: HashMap::new(),
            listening: HashMap::new(),
            told: HashMap::new(),
            hearing: Vec::new(),
            held: HashMap::new(),
            ended: None,
        };
        let (origin, tools_changed) = (Instant::now(), AtomicBool::new(false));
        let over = watch::Sender::new(false);
        let (asked, open) = (AtomicBool::new(false), AtomicUsize::new(0));
        let cache = Mutex::new(Cache::new(options.max_cached, options.max_cached_bytes));
        let (pages, state) = (Pages::new(options.max_pages), Mutex::new(state));
        let host = options
            .hosting
            .as_ref()
            .map(|hosting| Host::new(hosting, options.drafted_tasks, options.max_questions));
        let expected = Expected::default();
        Arc::new(Self {
            origin,
            options,
            tools_changed,
            asked,
            open,
            owed: Owed::default(),
            over,
            cache,
            pages,
            expected,
            host,
            state,
        })
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Starts waiting for a new request, with what it has to hear meanwhile.
    pub(crate) fn start(self: &Arc<Self>, request: &Outgoing<'_>) -> Result<Waiting, Error> {
        let (now, idle) = (self.now(), request.idle);
        let mut state = self.lock();
        if let Some(ended) = &state.ended {
            return Err(ended.clone());
        }
        let id = state.machine.start(now, idle)?;
        let (sender, answer) = oneshot::channel();
        state.waiting.insert(id.clone(), sender);
        if let Some(told) = request.told.clone() {
            state.told.insert(id.clone(), told);
        }
        let listening = request.on_progress.clone().map(|on_progress| {
            state.machine.listen(&id);
            state.listening.insert(id.clone(), on_progress);
            Listening { table: Arc::clone(self), token: id.clone() }
        });
        drop(state);
        Ok(Waiting { table: Arc::clone(self), id, idle, answer, listening, settled: false, on_abandon: None })
    }

    /// Takes a message of the server; gives what to send back, if anything.
    pub(crate) fn handle_message(self: &Arc<Self>, bytes: &[u8]) -> Result<Option<Reply>, DecodeError> {
        trace::received(bytes);
        match Message::decode(bytes, &self.options.limits)? {
            Message::Response(response) => {
                match (response.id, response.outcome) {
                    (Some(id), outcome) => {
                        self.handle_response(&id, outcome.map(str::to_owned).map_err(Error::Answer));
                    }
                    (None, Err(error)) => {
                        tracing::warn!(%error, "the server could not read a message of ours");
                    }
                    (None, Ok(_)) => {}
                }
                Ok(None)
            }
            Message::Notification(notification) => {
                self.handle_notification(&notification);
                Ok(None)
            }
            Message::Request(request) => Ok(Some(self.handle_request(&request))),
        }
    }

    /// Takes a message that is none. If it is meant to answer a request, that has failed: nothing else will come for it.
    pub(crate) fn handle_unreadable(&self, bytes: &[u8], error: &DecodeError) {
        // Where it is no JSON, nobody knows where in it the mistake is.
        let glimpsed = || match Glimpse::of(bytes, bytes) {
            Some(Glimpse::Answer(id)) => Some(id),
            _ => None,
        };
        if let Some(id) = error.answered().cloned().or_else(glimpsed) {
            self.handle_response(
                &id,
                Err(Error::protocol(format!("an answer that cannot be read: {error}"))),
            );
        }
    }

    /// Takes a message that is longer than the limit, of which only the two ends are there: the request that it answers has failed,
    /// and the one that it is is refused.
    ///
    /// # Errors
    ///
    /// When nobody can tell what it is: some request then waits for it, and none knows which.
    pub(crate) fn handle_too_long(&self, head: &[u8], tail: &[u8]) -> Result<Option<Reply>, Error> {
        let limit = self.options.limits.max_bytes;
        tracing::warn!(limit, "passed over a message longer than the limit");
        match Glimpse::of(head, tail) {
            Some(Glimpse::Answer(id)) => {
                let what = format!("an answer longer than the limit of {limit} bytes");
                self.handle_response(&id, Err(Error::protocol(what)));
                Ok(None)
            }
            Some(Glimpse::Request(id)) => {
                let mut out = Vec::new();
                let refusal = DecodeError::TooLong { limit }.to_error_object();
                wire::refuse(By::Client, &mut out, Some(&id), &refusal);
                Ok(Some(Reply::Now(out)))
            }
            Some(Glimpse::Notification) => Ok(None),
            None => Err(too_long(limit)),
        }
    }

    /// No message will come any more: whoever waits is told why.
    pub(crate) fn end(&self, why: Error) {
        let mut state = self.lock();
        state.ended.get_or_insert(why);
        state.waiting.clear();
        state.listening.clear();
        state.told.clear();
        let (hearing, why) = (std::mem::take(&mut state.hearing), state.ended.clone());
        drop(state);
        for told in hearing.iter().filter_map(|(told, _)| told.upgrade()) {
            told.end(why.clone());
        }
        self.over.send_replace(true);
        self.owed.end();
    }

    /// Lets a subscription hear in the session, of what `filter` asks for, while it lives.
    pub(super) fn hear(&self, told: &Arc<Told>, filter: SubscriptionFilter) {
        let mut state = self.lock();
        if let Some(why) = &state.ended {
            told.end(Some(why.clone()));
            return;
        }
        state.hearing.retain(|(told, _)| told.strong_count() > 0);
        state.hearing.push((Arc::downgrade(told), filter));
    }

    /// One more wants this resource: whether it is the first.
    pub(super) fn hold(&self, uri: &str) -> bool {
        let mut state = self.lock();
        let held = state.held.entry(uri.to_owned()).or_default();
        *held += 1;
        *held == 1
    }

    /// One less wants this resource: whether it was the last.
    pub(super) fn give_back(&self, uri: &str) -> bool {
        let mut state = self.lock();
        let Some(held) = state.held.get_mut(uri) else { return false };
        *held -= 1;
        let is_last = *held == 0;
        if is_last {
            state.held.remove(uri);
        }
        is_last
    }

    /// Every resource that somebody wants.
    pub(super) fn all_held(&self) -> Vec<String> {
        self.lock().held.keys().cloned().collect()
    }

    /// Whether anybody wants this resource.
    pub(super) fn holds(&self, uri: &str) -> bool {
        self.lock().held.contains_key(uri)
    }

    /// Why no message will come any more, if that is so.
    pub(crate) fn ended(&self) -> Option<Error> {
        self.lock().ended.clone()
    }

    /// Whether the server has said, since this was last asked, that its tools are others now.
    pub(crate) fn take_tools_changed(&self) -> bool {
        self.tools_changed.swap(false, Ordering::AcqRel)
    }

    /// A line that is no message: for whoever reads along.
    pub(crate) fn say(&self, line: &str) {
        if let Some(on_stderr) = &self.options.on_stderr {
            on_stderr(line.to_owned());
        }
    }

    fn handle_request(self: &Arc<Self>, request: &Request<'_>) -> Reply {
        if self.options.answers.is_empty() || !may_be_asked(&request.method) {
            return Reply::Now(answer(request));
        }
        if let Some(reply) = self.host.as_ref().and_then(|host| host.handle(self, request)) {
            return reply;
        }
        if !InputRequest::is_asked_by(&request.method) {
            return Reply::Now(answer(request));
        }
        let id = request.id.clone();
        let answering = match self.answering(request) {
            Ok(answering) => answering,
            Err(error) => {
                let mut out = Vec::new();
                wire::refuse(By::Client, &mut out, Some(&id), &error);
                return Reply::Now(out);
            }
        };
        let (method, owing) = (request.method.clone().into_owned(), self.owed.begin(&id));
        Reply::Later(Box::pin(async move {
            let Ok(answered) = owing.while_wanted(answering).await else { return Said::nothing() };
            let mut out = Vec::new();
            match answered {
                Ok(answer) => {
                    let mut message = ObjectWriter::new(&mut out);
                    message.raw("jsonrpc", "\"2.0\"").field("id", &id).raw("result", answer.get());
                    message.end();
                    wire::said(By::Client, Dialect::newest_legacy(), Some(&method), &out);
                }
                Err(error) => wire::refuse(By::Client, &mut out, Some(&id), &error),
            }
            out.into()
        }))
    }

    /// What the application says to what is asked, once it does; noted first if it is of a task whose call the journal knows.
    ///
    /// # Errors
    ///
    /// `-32602` when it cannot be read; `-32603` when too much is asked already.
    pub(super) fn answering(
        self: &Arc<Self>,
        request: &Request<'_>,
    ) -> Result<impl Future<Output = Result<Box<RawValue>, ErrorObject>> + Send + 'static, ErrorObject> {
        let params = request.params.as_str().unwrap_or("{}");
        let noted = self.noted(&request.method, params);
        let asked = InputRequest::read_request(&request.method, params)
            .map_err(|error| ErrorObject::invalid_params(error.to_string()))?;
        let question = Question { request: asked, task: Dialect::related_task(params) };
        let open = Open::begin(self)
            .ok_or_else(|| ErrorObject::internal("too many questions wait for their answers here"))?;
        let this = Arc::clone(self);
        Ok(async move {
            // Its server waits for an answer whatever becomes of the application.
            let answering = contained(this.options.answers.answer(question, &this.pages), Err);
            let answered = match noted {
                Some((page, name)) => {
                    let unnoted = |error: Error| ErrorObject::internal(error.to_string());
                    page.answer_once(&name, answering, unnoted).await
                }
                None => answering.await,
            };
            drop(open);
            answered
        })
    }

    /// Where an answer to a question is noted, and under which name: that of a task whose call the journal knows.
    fn noted(&self, method: &str, params: &str) -> Option<(Arc<Page>, String)> {
        let book = self.options.journal.as_ref()?;
        let task = Dialect::related_task(params)?;
        Some((book.of_task(&task)?, name_of(method, params)))
    }

    /// What the server is owed.
    pub(super) fn owed(&self) -> &Owed {
        &self.owed
    }

    /// What is hosted for the server, if anything is.
    pub(super) fn host(&self) -> Option<&Host> {
        self.host.as_ref()
    }

    /// Completes once no message will come any more.
    pub(super) async fn is_over(&self) {
        // The sender lives as long as this.
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }

    /// Whether the server has asked something since this was last asked, or still waits for an answer.
    pub(crate) fn take_asked(&self) -> bool {
        self.asked.swap(false, Ordering::AcqRel) || self.is_asked()
    }

    fn handle_response(&self, id: &RequestId, outcome: Outcome) {
        let mut state = self.lock();
        if !state.machine.handle_response(id) {
            tracing::debug!(%id, "dropped an answer that nobody waits for");
            return;
        }
        if let Some(sender) = state.waiting.remove(id) {
            // A closed channel means that its caller has just gone.
            let _ = sender.send(outcome);
        }
    }

    /// A notification that cannot be read is dropped: nobody could be told.
    fn handle_notification(&self, notification: &Notification<'_>) {
        let params = &notification.params;
        match Dialect::server_notice(&notification.method) {
            Some(Notice::Progress) => {
                let Ok(token) = params.require::<ProgressToken>("progressToken") else { return };
                let text = params.as_str().unwrap_or("{}");
                let Ok(progress) = serde_json::from_str::<Progress>(text) else { return };
                let now = self.now();
                let mut state = self.lock();
                if !state.machine.handle_progress(now, &token, progress.value) {
                    return;
                }
                let listener = state.listening.get(&token).cloned();
                // What the callback does, such as dropping a handle, may need the lock.
                drop(state);
                if let Some(listener) = listener {
                    listener(progress);
                }
            }
            Some(Notice::Log) => {
                let Some(on_log) = &self.options.on_log else { return };
                let (Ok(level), Ok(data)) =
                    (params.require::<LoggingLevel>("level"), params.require::<Box<RawValue>>("data"))
                else {
                    return;
                };
                let logger = params.read::<Text<'_>>("logger").ok().flatten();
                on_log(LogMessage { level, logger: logger.map(|text| text.0.into_owned()), data });
            }
            Some(Notice::ElicitationComplete) => {
                let Ok(id) = params.require::<String>("elicitationId") else { return };
                if self.pages.close(&id) {
                    if let Some(on_page_done) = &self.options.on_page_done {
                        on_page_done(id);
                    }
                } else {
                    tracing::debug!(id, "passed over what was said of a page that nobody was sent to");
                }
            }
            Some(Notice::Cancelled) => {
                if let Ok(id) = params.require("requestId") {
                    self.owed.withdraw(&id);
                }
            }
            Some(notice) => {
                if notice == Notice::ToolsChanged {
                    self.tools_changed.store(true, Ordering::Release);
                }
                let uri = params.require::<String>("uri").ok();
                self.cache().handle(notice, uri.as_deref());
                self.tell(notice, params);
            }
            None => {
                if let Some(id) = Dialect::drafted_created(&notification.method, params) {
                    self.expected.note(&id);
                }
            }
        }
    }

    /// Tells a change to the subscription that the notification names, or to all that hear in the session.
    fn tell(&self, notice: Notice, params: &Params<'_>) {
        let state = self.lock();
        if let Some(id) = subscription(params) {
            let told = state.told.get(&id).cloned();
            drop(state);
            match told {
                Some(told) => told.handle(notice, params),
                None => tracing::debug!(%id, "dropped a change of a subscription that nobody holds"),
            }
            return;
        }
        if state.hearing.is_empty() {
            return;
        }
        // In the modern era every change belongs to a subscription.
        let Some(change) = Change::read(Dialect::newest_legacy(), notice, params) else { return };
        for (told, filter) in &state.hearing {
            if let Some(told) = told.upgrade().filter(|_| change.is_wanted(filter)) {
                told.tell(change.clone());
            }
        }
    }

    /// The session is lost, and with it who has asked in it.
    #[cfg(feature = "http-client")]
    pub(crate) fn lose_session(&self) {
        self.owed.forsake();
        self.may_have_changed();
    }

    /// For a while nobody could hear in the session of what changed: anything may have.
    #[cfg(feature = "http-client")]
    pub(crate) fn may_have_changed(&self) {
        self.tools_changed.store(true, Ordering::Release);
        for list in [Notice::ToolsChanged, Notice::PromptsChanged, Notice::ResourcesChanged] {
            self.cache().handle(list, None);
        }
        for (told, filter) in &self.lock().hearing {
            if let Some(told) = told.upgrade() {
                Change::all_of(filter).for_each(|change| told.tell(change));
            }
        }
    }

    /// The pages that the user was sent to.
    pub(super) fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Who waits to hear that there is a drafted task.
    pub(super) fn expected(&self) -> &Expected {
        &self.expected
    }

    /// The answers that may be used again.
    pub(super) fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a question of the server's waits for the application.
    fn is_asked(&self) -> bool {
        self.open.load(Ordering::Acquire) > 0
    }

    /// What was waited for had to wait for us: whoever waits does so from now on.
    fn wait_anew(&self) {
        let now = self.now();
        self.lock().machine.wait_anew(now);
    }

    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The subscription that a notification belongs to.
fn subscription(params: &Params<'_>) -> Option<RequestId> {
    let meta: HashMap<String, &RawValue> = serde_json::from_str(params.member("_meta")?).ok()?;
    serde_json::from_str(meta.get(SUBSCRIPTION_ID)?.get()).ok()
}

/// Whether a server may ask anything by that method.
fn may_be_asked(method: &str) -> bool {
    InputRequest::is_asked_by(method)
        || matches!(
            Dialect::server_request(method),
            Some(Method::GetTask | Method::TaskResult | Method::CancelTask | Method::ListTasks)
        )
        || Dialect::newest_legacy().drafted_request(method).is_some()
}

/// What is sent back for a message.
pub(crate) enum Reply {
    Now(Vec<u8>),
    /// Once the application has answered.
    Later(BoxFuture<'static, Said>),
}

/// A message, and what may only follow it.
pub(crate) struct Said {
    pub(crate) message: Vec<u8>,
    held: Option<Arc<HeldPush>>,
}

impl Said {
    /// The message, and what `held` holds.
    pub(super) fn then(message: Vec<u8>, held: Arc<HeldPush>) -> Self {
        Self { message, held: Some(held) }
    }

    /// Nothing: a request that was withdrawn is not answered.
    pub(super) fn nothing() -> Self {
        Vec::new().into()
    }

    /// Has it sent, and then what follows it.
    pub(crate) fn send(self, send: impl FnOnce(Vec<u8>)) {
        if !self.message.is_empty() {
            send(self.message);
        }
        if let Some(held) = self.held {
            held.release();
        }
    }
}

impl From<Vec<u8>> for Said {
    fn from(message: Vec<u8>) -> Self {
        Self { message, held: None }
    }
}

#[cfg(feature = "http-client")]
impl Reply {
    /// Has it sent, now or when it is there.
    pub(crate) fn send(self, send: impl FnOnce(Vec<u8>) + Send + 'static) {
        match self {
            Self::Now(reply) => send(reply),
            Self::Later(reply) => drop(tokio::spawn(async move { reply.await.send(send) })),
        }
    }
}

/// A question that waits for the application, until dropped.
struct Open(Arc<Table>);

impl Open {
    fn begin(table: &Arc<Table>) -> Option<Self> {
        let most = table.options.max_questions;
        let room = table
            .open
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |open| (open < most).then_some(open + 1));
        table.asked.store(true, Ordering::Release);
        room.ok().map(|_| Self(Arc::clone(table)))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // Before whoever looks at its clock meanwhile could find that nothing is asked, and little time left.
        self.0.wait_anew();
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What a server may ask without our having declared anything: whether we live.
fn answer(request: &Request<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    if Dialect::server_request(&request.method) == Some(Method::Ping) {
        let mut message = ObjectWriter::new(&mut out);
        message.raw("jsonrpc", "\"2.0\"").field("id", &request.id).raw("result", "{}");
        message.end();
        wire::said(By::Client, Dialect::newest_legacy(), Some(&request.method), &out);
    } else {
        let unknown = ErrorObject::method_not_found(&request.method);
        wire::refuse(By::Client, &mut out, Some(&request.id), &unknown);
    }
    out
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("pending", &self.lock().machine.pending()).finish_non_exhaustive()
    }
}

/// One request that waits. Dropped before its answer, it is forgotten and its server told so.
pub(crate) struct Waiting {
    table: Arc<Table>,
    id: RequestId,
    idle: Option<Duration>,
    answer: oneshot::Receiver<Outcome>,
    listening: Option<Listening>,
    settled: bool,
    on_abandon: Option<OnAbandon>,
}

/// What tells a server that nobody waits any more.
type OnAbandon = Box<dyn FnOnce(&RequestId) + Send + Sync>;

/// An answer, and the ear for progress that may go on after it.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) result: String,
    pub(crate) listening: Option<Listening>,
}

impl Waiting {
    pub(crate) fn id(&self) -> &RequestId {
        &self.id
    }

    /// The token to ask for progress with, if progress is wanted.
    pub(crate) fn progress_token(&self) -> Option<&ProgressToken> {
        self.listening.as_ref().map(|listening| &listening.token)
    }

    /// What to do if the request is given up before its answer.
    pub(crate) fn on_abandon(&mut self, on_abandon: impl FnOnce(&RequestId) + Send + Sync + 'static) {
        self.on_abandon = Some(Box::new(on_abandon));
    }

    /// The request never left, or its answer came another way: nobody need be told.
    pub(crate) fn settle(&mut self) {
        self.settled = true;
    }

    /// Waits for the answer.
    pub(crate) async fn answered(mut self) -> Result<Answered, Error> {
        let received = loop {
            let Some(deadline) = self.deadline() else { break (&mut self.answer).await };
            match timeout_at(deadline, &mut self.answer).await {
                Ok(received) => break received,
                Err(_) => self.check_time()?,
            }
        };
        self.take(received.ok())
    }

    /// Waits for `future` no longer than the request may wait, progress meanwhile giving it more time, and no
    /// longer than the connection lives.
    #[cfg(feature = "http-client")]
    pub(crate) async fn within<F: Future>(&self, future: F) -> Result<F::Output, Error> {
        let mut future = std::pin::pin!(future);
        let mut over = self.table.over.subscribe();
        let mut over = std::pin::pin!(over.wait_for(|over| *over));
        loop {
            let deadline = self.deadline();
            let time_is_up = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                output = &mut future => return Ok(output),
                _ = &mut over => return Err(self.table.ended().unwrap_or(Error::Lost { cause: None })),
                () = time_is_up => self.check_time()?,
            }
        }
    }

    /// The answer, if it has come.
    #[cfg(feature = "http-client")]
    pub(crate) fn try_answered(&mut self) -> Option<Result<Answered, Error>> {
        match self.answer.try_recv() {
            Ok(outcome) => Some(self.take(Some(outcome))),
            Err(oneshot::error::TryRecvError::Closed) => Some(self.take(None)),
            Err(oneshot::error::TryRecvError::Empty) => None,
        }
    }

    /// When to look at the time next.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let deadline = self.table.lock().machine.deadline(&self.id)?;
        Some(self.table.origin + deadline)
    }

    /// Whether there is time left; progress may have come since the deadline was asked for. While a question of the server's waits
    /// for the application there is: it may be this request that asks, and no session tells.
    pub(crate) fn check_time(&self) -> Result<(), Error> {
        if self.table.is_asked() {
            self.table.wait_anew();
        }
        match self.deadline() {
            Some(deadline) if deadline <= Instant::now() => {
                Err(Error::TimedOut { after: self.idle.unwrap_or_default() })
            }
            _ => Ok(()),
        }
    }

    fn take(&mut self, received: Option<Outcome>) -> Result<Answered, Error> {
        self.settled = true;
        match received {
            Some(Ok(result)) => Ok(Answered { result, listening: self.listening.take() }),
            Some(Err(error)) => Err(error),
            None => Err(self.table.ended().unwrap_or(Error::Lost { cause: None })),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = self.table.lock();
        state.machine.cancel(&self.id);
        state.waiting.remove(&self.id);
        state.told.remove(&self.id);
        let is_over = state.ended.is_some();
        drop(state);
        // Of a connection that has ended there is nobody to tell.
        if let Some(on_abandon) = self.on_abandon.take().filter(|_| !self.settled && !is_over) {
            on_abandon(&self.id);
        }
    }
}

/// An ear for the progress under one token, until it is dropped.
pub(crate) struct Listening {
    table: Arc<Table>,
    token: ProgressToken,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut state = self.table.lock();
        state.machine.release(&self.token);
        let listener = state.listening.remove(&self.token);
        drop(state);
        drop(listener);
    }
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listening").field(&self.token).finish()
    }
}

/// A message is longer than `limit` bytes, and nobody knows what it was.
pub(crate) fn too_long(limit: usize) -> Error {
    Error::protocol(format!("a message longer than the limit of {limit} bytes"))
}

/// What to say of bytes that are no message.
pub(crate) fn unreadable(bytes: &[u8]) -> String {
    clip(&String::from_utf8_lossy(bytes)).into_owned()
}
