//! What a server asks, as tasks that this client hosts (2025-11-25, Tasks): the server need not wait for the answer, and
//! may come back for it. `asked` has what it is told of them, `drafted` what came before them.

mod asked;
mod drafted;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use longhaul_proto::dialect::{Dialect, TaskWanted};
use longhaul_proto::jsonrpc::{ErrorObject, Request};
use longhaul_proto::method::Method;
use longhaul_tasks::environment::{BoxFuture, Environment, Tokio};
use longhaul_tasks::machine::{Caller, Plan};
use longhaul_tasks::project;
use longhaul_tasks::runner::{Answer, Call, Engine, Pace, Work, Worker};
use longhaul_tasks::store::{
    Dialect as Door, Durability, Json, Limits, Memory, Outcome, Owner, Retention, Settings, SystemClock,
    TaskStore,
};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use tokio::sync::{OnceCell, Semaphore, watch};

use self::drafted::Drafted;
use super::error::Error;
use super::table::{Reply, Said, Table};
use crate::hex::hex;
use crate::hosted::{Hosted, TaskNews, created};
use crate::server::{Envelope, HeldPush, Push, Write, not_begun, refused};
use crate::wire::By;

/// How a client hosts what servers ask as tasks: [`Options::host_tasks`](super::Options::host_tasks).
///
/// A server of 2025-11-25 may then ask its questions so, sees how they stand, fetches what they came to, lists and cancels
/// them. It sees only those it has asked itself: in memory those of its connection, which are cancelled when that ends; in a
/// store on a disk those of the same server, by the name that it was connected to, which go on without it. What the
/// application was answering when its process died has failed then: nobody is asked again. Where [the draft's tasks] are asked for,
/// a server may name its questions: each is answered all the same, and is cancelled by who withdraws it.
///
/// How many of them may wait for the application at once is [`Options::max_questions`](super::Options); how many are kept,
/// the store's to say: in memory 1,000 of a connection and 10,000 in all.
///
/// [the draft's tasks]: super::Options::drafted_tasks
#[derive(Clone)]
#[non_exhaustive]
pub struct Hosting {
    /// For how long a task is kept after its end whose server does not say. Default 1 h.
    pub ttl: Duration,
    /// The same at most, whatever a server says. Default 24 h.
    pub max_ttl: Duration,
    /// The same at least, of a task whose server counts from its creation: its end is to be seen, however late that comes. Default 5 min.
    pub min_ttl: Duration,
    /// How often servers are to ask after a task. Default 1 s.
    pub poll_interval: Duration,
    /// How many requests about tasks may wait for their answers at once in one connection. Default 64.
    pub max_waiting: usize,
    /// How many tasks a page of their list has. Default 100.
    pub page_size: usize,
    node: Arc<Node>,
    /// Whose the tasks are, once the server is known.
    owner: Option<Owner>,
}

/// What the connections of one program share.
struct Node {
    store: Arc<dyn TaskStore>,
    engine: OnceCell<Engine>,
    /// What runs ends with this.
    runs: watch::Sender<()>,
}

impl Default for Hosting {
    fn default() -> Self {
        let mut limits = Limits::default();
        (limits.max_retained, limits.max_retained_per_owner) = (10_000, 1_000);
        let mut settings = Settings::default();
        settings.limits = limits;
        Self::in_store(Memory::with(settings, Arc::new(SystemClock::new())))
    }
}

impl Hosting {
    /// Keeps the tasks in `store`, which may be shared in an [`Arc`], instead of in memory.
    pub fn in_store(store: impl TaskStore + 'static) -> Self {
        let node = Node { store: Arc::new(store), engine: OnceCell::new(), runs: watch::Sender::new(()) };
        Self {
            ttl: Duration::from_secs(60 * 60),
            max_ttl: Duration::from_secs(24 * 60 * 60),
            min_ttl: Duration::from_secs(5 * 60),
            poll_interval: Duration::from_secs(1),
            max_waiting: 64,
            page_size: 100,
            node: Arc::new(node),
            owner: None,
        }
    }

    /// Keeps a task for `ttl` after its end whose server does not say, and never longer than `max_ttl`.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration, max_ttl: Duration) -> Self {
        (self.ttl, self.max_ttl) = (ttl, max_ttl);
        self
    }

    /// Wants to be asked after a task this often.
    #[must_use]
    pub fn poll_interval(mut self, poll_interval: Duration) -> Self {
        self.poll_interval = poll_interval;
        self
    }

    /// Lets this many requests about tasks wait at once.
    #[must_use]
    pub fn max_waiting(mut self, max_waiting: usize) -> Self {
        self.max_waiting = max_waiting;
        self
    }

    /// Hosts from now on what the server of that name asks.
    ///
    /// # Errors
    ///
    /// When the store cannot be used.
    pub(super) async fn begin(&mut self, server: Option<&str>) -> Result<(), Error> {
        let node = &self.node;
        let started = node.engine.get_or_try_init(|| async {
            let environment = Arc::new(Tied(node.runs.subscribe()));
            let workers = [Method::Sample, Method::Elicit].map(|asked| Worker::new(tool(asked)));
            let engine = Engine::new(Arc::clone(&node.store), environment, Pace::default(), workers);
            engine.start().await.map(|_| engine)
        });
        started.await.map_err(|error| Error::Hosting { cause: Arc::new(error) })?;
        let name = match server.filter(|_| self.is_durable()) {
            Some(server) => format!("server:{}", hex(&Sha256::digest(server))),
            None => {
                let mut random = [0; 20];
                Tokio::new().random(&mut random);
                format!("connection:{}", hex(&random))
            }
        };
        self.owner = Some(Owner::principal(name).expect("it is a short name"));
        Ok(())
    }

    /// Whether tasks outlive the connection of their server.
    fn is_durable(&self) -> bool {
        self.node.store.durability() != Durability::Volatile
    }

    /// How long a task is kept after its end.
    fn retention(&self, wanted: TaskWanted) -> Retention {
        let wanted = wanted.ttl_ms.map_or(self.ttl, |ms| Duration::from_millis(ms).max(self.min_ttl));
        Retention::AfterTerminal(wanted.min(self.max_ttl))
    }
}

/// As which tool a store keeps what is asked so.
fn tool(asked: Method) -> &'static str {
    match asked {
        Method::Sample => "sampling/createMessage",
        _ => "elicitation/create",
    }
}

impl fmt::Debug for Hosting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hosting")
            .field("ttl", &self.ttl)
            .field("max_ttl", &self.max_ttl)
            .field("store", &self.node.store)
            .finish_non_exhaustive()
    }
}

/// The surroundings of an engine that ends with who has it.
#[derive(Debug)]
struct Tied(watch::Receiver<()>);

impl Environment for Tied {
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Tokio::new().sleep(duration)
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) {
        let mut over = self.0.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = future => {}
                _ = over.changed() => {}
            }
        });
    }

    fn random(&self, bytes: &mut [u8]) {
        Tokio::new().random(bytes);
    }
}

/// The hosting of one connection.
pub(crate) struct Host {
    hosting: Hosting,
    /// Servers may ask for drafted tasks, too.
    drafted: bool,
    waiting: Arc<Semaphore>,
    /// Those who wait for answers to questions that they have named.
    asking: Arc<Semaphore>,
    /// Whose tasks in which dialect, and where news of them go, once there is a session that has words for it.
    open: OnceLock<(Hosted, Arc<dyn Push>)>,
}

impl Host {
    /// That of a connection whose server is known.
    pub(super) fn new(hosting: &Hosting, drafted: bool, max_questions: usize) -> Self {
        let [waiting, asking] = [hosting.max_waiting, max_questions]
            .map(|most| Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))));
        Self { hosting: hosting.clone(), drafted, waiting, asking, open: OnceLock::new() }
    }

    /// There is a session of this dialect, whose server is told of its tasks by `push`.
    pub(super) fn open(&self, dialect: &'static Dialect, push: Arc<dyn Push>) {
        let begun = self.hosting.node.engine.get().zip(self.hosting.owner.clone());
        if let Some((engine, owner)) = begun.filter(|_| dialect.asks_for_tasks() || self.has_drafted(dialect))
        {
            // One that was opened anew in the place of another is of the same dialect, and goes the same way.
            let _ = self.open.set((Hosted { engine: engine.clone(), owner, dialect }, push));
        }
    }

    fn has_drafted(&self, dialect: &Dialect) -> bool {
        self.drafted && dialect.has_drafted_tasks()
    }

    /// The reply to a request that is to be a task, or is about one; `None` if it is neither.
    pub(super) fn handle(&self, table: &Arc<Table>, request: &Request<'_>) -> Option<Reply> {
        let (hosted, push) = self.open.get()?;
        let dialect = hosted.dialect;
        let drafted = || dialect.drafted_request(&request.method).filter(|_| self.has_drafted(dialect));
        let method = Dialect::server_request(&request.method).or_else(drafted)?;
        match method {
            Method::Sample | Method::Elicit => self.host(hosted, push, table, method, request),
            Method::GetTask
            | Method::TaskResult
            | Method::CancelTask
            | Method::ListTasks
            | Method::DeleteTask => {
                let drafted = || dialect.drafted_name_of(method).filter(|_| self.has_drafted(dialect));
                let name = dialect.name_of(method).filter(|_| dialect.asks_for_tasks()).or_else(drafted)?;
                let envelope = Envelope::to_server(request.id.clone(), dialect, name);
                Some(self.about(hosted.clone(), table.owed().begin(&request.id), envelope, method, request))
            }
            _ => None,
        }
    }

    /// Which task a question is to be, if any.
    fn wanted(
        &self,
        dialect: &Dialect,
        kind: &str,
        request: &Request<'_>,
    ) -> Result<Option<Wanted>, ErrorObject> {
        let params = &request.params;
        if let Some(wanted) = dialect.task_wanted(params)? {
            return Ok(Some(Wanted::Agreed(wanted)));
        }
        let drafted = if self.has_drafted(dialect) { dialect.drafted_task(params)? } else { None };
        let named = drafted.map(|task| Drafted::of(task, kind, params.as_str().unwrap_or("{}")));
        Ok(named.transpose()?.map(Wanted::Drafted))
    }

    /// Makes a task of a question that asks for it.
    fn host(
        &self,
        hosted: &Hosted,
        push: &Arc<dyn Push>,
        table: &Arc<Table>,
        asked: Method,
        request: &Request<'_>,
    ) -> Option<Reply> {
        let envelope = Envelope::to_server(request.id.clone(), hosted.dialect, tool(asked));
        let now = |error: &ErrorObject| {
            let mut out = Vec::new();
            envelope.error(&mut out, error);
            Some(Reply::Now(out))
        };
        let wanted = match self.wanted(hosted.dialect, tool(asked), request) {
            Ok(wanted) => wanted?,
            Err(error) => return now(&error),
        };
        let answering = match table.answering(request) {
            Ok(answering) => answering,
            Err(error) => return now(&error),
        };
        let (table, owed, lasts) = (Arc::clone(table), table.owed().clone(), self.hosting.is_durable());
        let work = async move {
            tokio::select! {
                biased;
                answered = answering => outcome(answered),
                () = table.is_over(), if !lasts => Outcome::cancelled(Some("the connection has ended".into())),
            }
        };
        let mut call =
            Call::new(hosted.owner.clone(), tool(asked), Json::null(), Work::Future(Box::pin(work)));
        call.after = Some(Duration::ZERO);
        call.poll_interval_ms = u64::try_from(self.hosting.poll_interval.as_millis()).ok();
        let wanted = match wanted {
            Wanted::Agreed(wanted) => wanted,
            Wanted::Drafted(task) => {
                // Who names one again waits with the first, for whom the question keeps its own place.
                let Ok(place) = Arc::clone(&self.asking).try_acquire_owned() else {
                    let why = "too many questions wait for their answers here: ask again later";
                    return now(&ErrorObject::overloaded(why, RETRY_AFTER));
                };
                task.lay_out(&mut call, &self.hosting, hosted.dialect, push);
                let (ticket, owing) = (hosted.engine.call(call), owed.begin(&request.id));
                return Some(Reply::Later(Box::pin(async move {
                    let said = task.answered(ticket, envelope, owing).await;
                    drop(place);
                    said
                })));
            }
        };
        let push = Arc::new(HeldPush::new(Arc::clone(push)));
        let news = TaskNews::new(By::Client, hosted.dialect, Arc::clone(&push));
        (call.plan, call.dialect) = (Plan::new(Caller::AsksForTask, true), Door::D2);
        call.retention = self.hosting.retention(wanted);
        call.observer = Arc::new(news);
        let ticket = hosted.engine.call(call);
        Some(Reply::Later(Box::pin(async move {
            let write: Write = match ticket.await {
                Answer::Task(record) | Answer::HandOver(record) => created(record, None),
                Answer::Refused(refusal) => refused(not_begun(refusal)),
                Answer::Outcome(outcome) => {
                    let why = project::value(&outcome, None).err();
                    refused(why.unwrap_or_else(|| ErrorObject::internal("the question was no task")))
                }
            };
            Said::then(written(&envelope, write), push)
        })))
    }
}

/// How a question is to be a task.
enum Wanted {
    /// As 2025-11-25 has it.
    Agreed(TaskWanted),
    /// As it was drafted.
    Drafted(Drafted),
}

/// What the application said, as a store keeps it.
fn outcome(answered: Result<Box<RawValue>, ErrorObject>) -> Outcome {
    match answered {
        Ok(answer) => Outcome::result(answer.into(), false),
        Err(error) => Outcome::error(error.code.0, error.message.as_ref(), error.data.map(Json::from)),
    }
}

fn written(envelope: &Envelope, write: Write) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    write(envelope, &mut out);
    out
}

/// When to ask again for which there was no room.
const RETRY_AFTER: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use longhaul_test::Lasting;

    use super::*;

    #[tokio::test]
    async fn only_what_outlives_a_connection_is_shared_by_those_to_the_same_server() {
        let lasting = Hosting::in_store(Lasting::default());
        for (hosting, shares) in [(lasting, true), (Hosting::default(), false)] {
            let owner = async |server| {
                let mut begun = hosting.clone();
                begun.begin(server).await.unwrap();
                begun.owner.unwrap()
            };
            let (one, other) = (Some("http://one"), Some("http://other"));
            assert_eq!(owner(one).await == owner(one).await, shares);
            assert_ne!(owner(one).await, owner(other).await);
            assert_ne!(owner(None).await, owner(None).await, "nobody knows who is at the end of a stream");
        }
    }

    #[test]
    fn a_server_cannot_have_a_task_kept_for_ever_nor_forgotten_at_once() {
        let hosting = Hosting::default();
        let kept = |ttl_ms| {
            let mut wanted = TaskWanted::default();
            wanted.ttl_ms = ttl_ms;
            hosting.retention(wanted)
        };
        assert_eq!(kept(None), Retention::AfterTerminal(Duration::from_secs(3600)));
        assert_eq!(kept(Some(1000)), Retention::AfterTerminal(Duration::from_secs(300)));
        assert_eq!(kept(Some(301_000)), Retention::AfterTerminal(Duration::from_secs(301)));
        assert_eq!(kept(Some(u64::MAX)), Retention::AfterTerminal(Duration::from_secs(24 * 3600)));
    }
}
