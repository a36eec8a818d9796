//! A client that is killed, at every write of its journal and anywhere between: one task, one question, the right result.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longhaul::client::{CallOptions, Client, Entry, FileJournal, Journal, JournalError, Kept, Options};
use longhaul::proto::dialect::Revision;
use longhaul::proto::model::{CallToolResult, ElicitResult, InputKind};
use longhaul::server::{TaskPolicy, ToolError};
use longhaul::store::{Rerun, Sqlite};
use longhaul::tasks::environment::BoxFuture;
use longhaul::transport::http::server;
use longhaul::{Cx, Server, Tool};
use longhaul_test::Random;
use rustix::process::{Signal, getpid, kill_process};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// What a child is told: the folder it keeps everything in, the server, the revision, its order, and when to die.
const FOLDER: &str = "LONGHAUL_TEST_KILLED";
const SERVER: &str = "LONGHAUL_TEST_SERVER";
const REVISION: &str = "LONGHAUL_TEST_REVISION";
const ORDER: &str = "LONGHAUL_TEST_ORDER";
const DIES: &str = "LONGHAUL_TEST_DIES";

/// A call with one question: begun, its task, the answer, its end, and that its application is done with it.
const WRITES: usize = 5;

const RANDOM_KILLS: u64 = 30;

/// A journal whose process ends itself with SIGKILL before or after its nth write.
#[derive(Debug)]
struct Deadly {
    journal: FileJournal,
    writes: AtomicUsize,
    before: usize,
    after: usize,
}

impl Deadly {
    fn new(journal: FileJournal) -> Self {
        let dies = std::env::var(DIES).unwrap_or_default();
        let at = |when: &str| dies.strip_prefix(when).map_or(0, |nth| nth.parse().unwrap());
        Self { journal, writes: AtomicUsize::new(0), before: at("before "), after: at("after ") }
    }
}

impl Journal for Deadly {
    fn note<'a>(&'a self, call: &'a str, entry: Entry) -> BoxFuture<'a, Result<(), JournalError>> {
        let nth = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        Box::pin(async move {
            if nth == self.before {
                kill_process(getpid(), Signal::KILL).unwrap();
            }
            self.journal.note(call, entry).await?;
            if nth == self.after {
                kill_process(getpid(), Signal::KILL).unwrap();
            }
            Ok(())
        })
    }

    fn open(&self) -> BoxFuture<'_, Result<Vec<Kept>, JournalError>> {
        self.journal.open()
    }
}

fn append(path: PathBuf, line: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn lines(path: PathBuf) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The application: recovers, orders what was not ordered, writes down what it got, and forgets it.
async fn order(folder: PathBuf) {
    let told = |name| std::env::var(name).unwrap();
    let prompts = folder.join("prompts");
    let options = Options::default()
        .revision(Revision::from_date(&told(REVISION)).unwrap())
        .journal(Deadly::new(FileJournal::open(folder.join("journal")).unwrap()))
        .on_form(move |form| {
            append(prompts.clone(), &form.message);
            let content = serde_json::value::to_raw_value(&json!({ "go": true })).unwrap();
            async move { ElicitResult::accepted(content) }
        });
    let client = Client::connect_with(told(SERVER).as_str(), options).await.unwrap();
    let words = |result: CallToolResult| result.content[0].as_text().unwrap().to_owned();
    let (arguments, results) = (json!({ "order": told(ORDER) }), folder.join("results"));
    for call in client.recover().await.unwrap() {
        assert_eq!(call.name.as_deref(), Some("the order"));
        append(results.clone(), &words(call.outcome.unwrap()));
    }
    if lines(results.clone()).is_empty() {
        let named = CallOptions::default().name("the order");
        append(results, &words(client.call_with("order", &arguments, named).await.unwrap()));
    }
    client.forget("the order").await.unwrap();
    client.close().await;
}

/// Orders by their names, and how often each was charged.
type Charged = Arc<Mutex<BTreeMap<String, usize>>>;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Order {
    order: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Approve {
    go: bool,
}

async fn charge_and_ask(cx: Cx, order: String, charged: Charged) -> Result<String, ToolError> {
    let charge = || async {
        *charged.lock().unwrap().entry(order.clone()).or_default() += 1;
        Ok::<_, ToolError>(())
    };
    cx.step("charge", charge).await?;
    let go = cx.elicit::<Approve>(format!("Ship {order}?")).await?.accepted().map(|answer| answer.go);
    Ok(format!("{order} shipped: {go:?}"))
}

async fn shop(folder: &Path) -> (String, Charged) {
    let charged = Charged::default();
    let counts = Arc::clone(&charged);
    let mut policy = TaskPolicy::always();
    (policy.rerun, policy.poll_interval) = (Rerun::Resumable, Duration::from_millis(20));
    let order = Tool::typed("order", "Order", move |cx: Cx, Order { order }| {
        charge_and_ask(cx, order, Arc::clone(&counts))
    });
    let server = Server::new("shop", "1")
        .tool(order.task(policy).asks(InputKind::Form))
        .store(Sqlite::open(folder.join("tasks.db")).unwrap());
    let dispatcher = server.dispatcher().unwrap();
    dispatcher.start().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(server::serve(dispatcher, listener, server::Options::default(), std::future::pending()));
    (format!("http://{address}/mcp"), charged)
}

/// One client after the other.
struct Clients {
    server: String,
    folder: PathBuf,
    revision: Revision,
    order: String,
}

impl Clients {
    /// Runs one, which dies as it is told, or when `killed` is ready.
    async fn run(&self, dies: &str, killed: impl Future<Output = ()>) -> ExitStatus {
        let mut child = tokio::process::Command::new(std::env::current_exe().unwrap());
        child.args(["killed::a_client_that_is_killed_calls_once_and_asks_once", "--exact", "--nocapture"]);
        child.env(FOLDER, &self.folder).env(SERVER, &self.server).env(ORDER, &self.order);
        child.env(REVISION, self.revision.as_str()).env(DIES, dies);
        child.stdout(Stdio::null()).stderr(fs::File::create(self.folder.join("stderr")).unwrap());
        let mut child = child.kill_on_drop(true).spawn().unwrap();
        tokio::select! {
            ended = timeout(Duration::from_secs(120), child.wait()) => ended.expect("it ends").unwrap(),
            () = killed => {
                // It may have ended just now.
                let _ = child.start_kill();
                child.wait().await.unwrap()
            }
        }
    }

    /// Runs one that is killed, and another to the end, and says what is wrong with what became of the order.
    async fn live_twice(&self, dies: &str, killed: impl Future<Output = ()>) -> (ExitStatus, usize) {
        let path = |name: &str| self.folder.join(name);
        let first = self.run(dies, killed).await;
        let asked = lines(path("prompts")).len();
        let is_noted = fs::read_to_string(path("journal")).unwrap_or_default().contains("\"answered\"");
        let is_done = !lines(path("results")).is_empty();
        let second = self.run("", std::future::pending()).await;
        let order = &self.order;
        assert!(second.success(), "{order}: {}", fs::read_to_string(path("stderr")).unwrap());
        // An answer that nobody had noted yet has died with its process.
        let asked_again = usize::from(!is_noted && !is_done);
        assert_eq!(lines(path("prompts")).len(), asked + asked_again, "{order}: it was asked {asked} times");
        let results = lines(path("results"));
        assert!(!results.is_empty(), "{order}");
        assert!(
            results.iter().all(|result| *result == format!("{order} shipped: Some(true)")),
            "{results:?}"
        );
        (first, asked)
    }
}

#[test]
fn a_client_that_is_killed_calls_once_and_asks_once() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    match std::env::var_os(FOLDER) {
        Some(folder) => runtime.block_on(order(folder.into())),
        None => runtime.block_on(kill_clients()),
    }
}

async fn kill_clients() {
    let folder = tempfile::tempdir().unwrap();
    let (server, charged) = shop(folder.path()).await;
    let clients = |revision: Revision, order: String| {
        let folder = folder.path().join(&order);
        fs::create_dir(&folder).unwrap();
        Clients { server: server.clone(), folder, revision, order }
    };
    let room = Arc::new(Semaphore::new(4));
    let mut lives = JoinSet::new();
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let revisions = [Revision::V2026_07_28, Revision::V2025_11_25];
    for revision in revisions {
        for nth in 1..=WRITES {
            for when in ["before", "after"] {
                let clients = clients(revision, format!("{revision}-{when}-{nth}"));
                let room = Arc::clone(&room);
                lives.spawn(async move {
                    let _room = room.acquire().await.unwrap();
                    let dies = format!("{when} {nth}");
                    let (first, asked) = clients.live_twice(&dies, std::future::pending()).await;
                    assert!(!first.success(), "it is killed {dies}");
                    let is_asked = nth > 3 || (nth, when) == (3, "before") || (nth, when) == (3, "after");
                    assert_eq!(asked, usize::from(is_asked), "{dies}");
                });
            }
        }
    }
    for nth in 0..RANDOM_KILLS {
        let revision = revisions[(nth % 2) as usize];
        let after = Random::new(seed).part(nth).below(400_000);
        let clients = clients(revision, format!("random-{nth}-after-{after}-us"));
        let (room, after) = (Arc::clone(&room), Duration::from_micros(after));
        lives.spawn(async move {
            let _room = room.acquire().await.unwrap();
            clients.live_twice("", sleep(after)).await;
        });
    }
    while let Some(life) = lives.join_next().await {
        life.unwrap();
    }
    let charged = charged.lock().unwrap();
    assert_eq!(charged.len(), 2 * 2 * WRITES + RANDOM_KILLS as usize);
    assert!(charged.values().all(|times| *times == 1), "one task each: {charged:?}");
}
