//! Who asks about tasks without end, and who guesses their ids.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::Server;
use longhaul::proto::dialect::{Dialect, Revision};
use longhaul::proto::jsonrpc::{Limits, Message};
use longhaul::proto::model::ClientCapabilities;
use longhaul::server::{Caller, Dispatched, Dispatcher, Exchange, PollOptions, Principal};
use longhaul::store::{Memory, StoreFuture};
use longhaul::transport::http::server::Options;
use longhaul_store::wrap::{Operation, Wrap, Wrapped};
use longhaul_store::{Settings, SystemClock};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::rig::{Host, modern, server};

/// Counts the reads of a store.
#[derive(Clone, Debug, Default)]
struct Reads(Arc<AtomicUsize>);

impl Wrap for Reads {
    fn around<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        doing: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        if matches!(operation, Operation::Get | Operation::List | Operation::RequestCancel) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
        doing
    }
}

pub(crate) struct Rig {
    pub(crate) dispatcher: Dispatcher,
    reads: Reads,
}

impl Rig {
    fn with(polls: PollOptions) -> Self {
        Self::of(server(&Arc::default()), polls)
    }

    pub(crate) fn of(server: Server, polls: PollOptions) -> Self {
        Self::on(Memory::new(), server, polls)
    }

    fn on(store: Memory, server: Server, polls: PollOptions) -> Self {
        let reads = Reads::default();
        let store = Wrapped::new(store, reads.clone());
        Self { dispatcher: server.polls(polls).store(store).dispatcher().unwrap(), reads }
    }

    /// What `who` is answered; `None` if that takes longer.
    pub(crate) async fn ask_in(
        &self,
        revision: Revision,
        who: Option<&str>,
        method: &str,
        params: Value,
    ) -> Option<Value> {
        let text = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let Message::Request(request) = Message::decode(text.as_bytes(), &Limits::default()).unwrap() else {
            panic!("{text}");
        };
        let mut caller = Caller::new(who.map(|name| Principal::new(name).unwrap()));
        let declared = r#"{"extensions": {"io.modelcontextprotocol/tasks": {}}}"#;
        caller.capabilities = serde_json::from_str::<ClientCapabilities>(declared).unwrap();
        let dialect = Dialect::of(revision);
        let exchange =
            Exchange::new(&request.id, dialect, dialect.request(method).unwrap(), &request.params, caller);
        let mut out = Vec::new();
        if let Dispatched::Pending(answer) = self.dispatcher.dispatch(exchange, &mut out) {
            // Longer than a call takes to become a task.
            (_, out) = tokio::time::timeout(Duration::from_millis(500), answer).await.ok()?;
        }
        Some(serde_json::from_slice(&out).unwrap())
    }

    pub(crate) async fn ask(&self, who: Option<&str>, method: &str, params: Value) -> Value {
        self.ask_in(Revision::V2026_07_28, who, method, params).await.unwrap()
    }

    pub(crate) async fn task_of(&self, who: Option<&str>) -> String {
        let created = self
            .ask(who, "tools/call", json!({"name": "long_nap", "arguments": {"millis": 3_600_000}}))
            .await;
        created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned()
    }

    pub(crate) async fn get(&self, who: Option<&str>, id: &str) -> Value {
        self.ask(who, "tasks/get", json!({"taskId": id})).await
    }

    fn reads(&self) -> usize {
        self.reads.0.load(Ordering::SeqCst)
    }
}

/// Whether as many are tried as the matrix of failures asks for.
fn is_many() -> bool {
    std::env::var_os("LONGHAUL_MANY").is_some()
}

fn refused(answer: &Value) -> bool {
    answer["error"]["code"] == -31001 && answer["error"]["data"]["retryAfterMs"].is_u64()
}

#[tokio::test(start_paused = true)]
async fn s2_who_polls_without_end_is_slowed_down_then_refused_and_nobody_else_is() {
    let rig = Rig::with(PollOptions::default().each(10));
    let (ann, bob) = (Some("ann"), Some("bob"));
    let (id, other) = (rig.task_of(ann).await, rig.task_of(bob).await);
    let mut intervals = Vec::new();
    for _ in 0..50 {
        intervals.push(rig.get(ann, &id).await["result"]["pollIntervalMs"].as_u64().unwrap());
    }
    assert_eq!((intervals[0], intervals[49]), (1000, 4000), "it is asked to slow down first");
    let reads = rig.reads();
    let refusal = rig.get(ann, &id).await;
    assert!(refused(&refusal), "{refusal}");
    assert!(refusal["error"]["data"]["retryAfterMs"].as_u64().unwrap() <= 100, "{refusal}");
    let wait = json!({"name": "task_wait", "arguments": {"id": id}});
    assert!(refused(&rig.ask(ann, "tools/call", wait).await), "nor by any other way");
    let older = rig.ask_in(Revision::V2025_11_25, ann, "tasks/get", json!({"taskId": id})).await.unwrap();
    assert_eq!(older["error"]["code"], -32603, "which an older revision has no code for: {older}");
    assert!(older["error"]["data"]["retryAfterMs"].is_u64(), "{older}");
    assert_eq!(rig.reads(), reads, "and the store is not read for it");
    for who in [bob, None] {
        let theirs = rig.task_of(who).await;
        assert_eq!(rig.get(who, &theirs).await["result"]["status"], "working", "{who:?}");
    }
    assert_eq!(rig.get(bob, &other).await["result"]["pollIntervalMs"], 1000);
    tokio::time::advance(Duration::from_millis(100)).await;
    assert_eq!(rig.get(ann, &id).await["result"]["status"], "working", "a moment later it may ask again");
    let figures = rig.dispatcher.poll_figures();
    assert_eq!((figures.refused, figures.in_vain, figures.refused_look_ups), (3, 0, 0), "{figures:?}");
}

/// S2 of `conformance/REQUIREMENTS.md`: a thousand tasks for three seconds; with `LONGHAUL_MANY` ten thousand for ten, as the matrix of
/// failures has it and `cargo xtask chaos many` tries.
#[tokio::test(start_paused = true)]
async fn s2_who_polls_very_many_tasks_a_thousand_times_a_second_is_slowed_down_alone() {
    let (many, polls) = if is_many() { (10_000, 10_000) } else { (1_000, 3_000) };
    let mut settings = Settings::default();
    (settings.limits.max_open, settings.limits.max_open_per_owner) = (2 * many as u64, 2 * many as u64);
    let store = Memory::with(settings, Arc::new(SystemClock::new()));
    let rig = Rig::on(store, server(&Arc::default()), PollOptions::default());
    let mut tasks = Vec::with_capacity(many);
    for _ in 0..many {
        tasks.push(rig.task_of(Some("ann")).await);
    }
    let other = rig.task_of(Some("bob")).await;
    let (mut intervals, mut turned_away) = (Vec::new(), 0);
    for (number, id) in tasks.iter().cycle().take(polls).enumerate() {
        tokio::time::advance(Duration::from_millis(1)).await;
        let answer = rig.get(Some("ann"), id).await;
        match answer["result"]["pollIntervalMs"].as_u64() {
            Some(interval) => intervals.push(interval),
            None => {
                assert!(refused(&answer), "{answer}");
                turned_away += 1;
            }
        }
        if number % 100 == 0 {
            assert_eq!(rig.get(Some("bob"), &other).await["result"]["pollIntervalMs"], 1000, "at {number}");
        }
    }
    assert_eq!((intervals[0], intervals[intervals.len() - 1]), (1000, 4000), "it is asked to slow down");
    // A thousand at once, and two hundred a second.
    let let_through = 1_000 + polls / 5;
    assert!(intervals.len().abs_diff(let_through) <= 100, "{} were answered", intervals.len());
    assert_eq!(intervals.len() + turned_away, polls);
}

#[tokio::test(start_paused = true)]
async fn s2_waiting_for_a_result_costs_one_request() {
    let rig = Rig::with(PollOptions::default().each(1));
    let id = rig.task_of(Some("ann")).await;
    let wait = json!({"name": "task_wait", "arguments": {"id": id, "up_to": 0.4}});
    for _ in 0..5 {
        let handed = rig.ask(Some("ann"), "tools/call", wait.clone()).await;
        assert_eq!(handed["result"]["structuredContent"]["taskId"], id, "{handed}");
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert_eq!(rig.dispatcher.poll_figures().refused, 0);
}

#[tokio::test(start_paused = true)]
async fn s2_all_together_are_bounded_and_strangers_take_nothing_from_who_is_known() {
    let rig = Rig::with(PollOptions::default().in_all(2));
    let (ann, stranger) = (rig.task_of(Some("ann")).await, rig.task_of(None).await);
    for _ in 0..10 {
        assert!(!refused(&rig.get(None, &stranger).await));
    }
    assert!(refused(&rig.get(None, &stranger).await));
    for number in 0..10 {
        assert!(!refused(&rig.get(Some("ann"), &ann).await), "{number}");
    }
    assert!(refused(&rig.get(Some("bob"), &ann).await), "whoever asks");
}

#[tokio::test]
async fn s2_strangers_are_bounded_by_their_connections() {
    let server = |server: Server| server.polls(PollOptions::default().each(1));
    let host = Host::of(server, Options::default()).await;
    let id = host.call("long_nap", json!({"millis": 60_000})).await.json()["result"]["taskId"].clone();
    let body = modern("tasks/get", json!({"taskId": id})).to_string();
    let one = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMcp-Method: tasks/get\r\n\
         Accept: application/json, text/event-stream\r\nMcp-Protocol-Version: 2026-07-28\r\nMcp-Name: {}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        id.as_str().unwrap(),
        body.len()
    );
    // Far more than come back while they are answered.
    const MANY: usize = 60;
    let mut stream = host.connect().await;
    stream.write_all(one.repeat(MANY).as_bytes()).await.unwrap();
    let mut heard = String::new();
    while heard.matches("HTTP/1.1 ").count() < MANY {
        let mut bytes = [0; 1 << 12];
        let read = tokio::time::timeout(Duration::from_secs(60), stream.read(&mut bytes)).await;
        let read = read.unwrap_or_else(|_| panic!("no more answers: {heard}")).unwrap();
        assert_ne!(read, 0, "{heard}");
        heard += &String::from_utf8_lossy(&bytes[..read]);
    }
    let statuses: Vec<_> =
        heard.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3.min(answer.len())]).collect();
    assert_eq!(statuses[..5], ["200"; 5]);
    assert!(statuses.contains(&"429"), "{statuses:?}");
    assert!(heard.to_ascii_lowercase().contains("retry-after: "), "{heard}");
    assert_eq!(
        host.modern("tasks/get", json!({"taskId": id})).await.status,
        200,
        "another connection is another's"
    );
}

/// What is logged on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        std::io::Write::write(&mut *self.0.lock().unwrap(), bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a2_ids_that_are_guessed_are_refused_before_the_store_is_read() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(move || writer.clone())
        .finish();
    let _logged = tracing::subscriber::set_default(subscriber);
    let rig = Rig::with(PollOptions::default().in_vain(20));
    let (mallory, ann) = (Some("mallory"), Some("ann"));
    let (theirs, own) = (rig.task_of(ann).await, rig.task_of(mallory).await);
    for number in 0..20 {
        assert_eq!(
            rig.get(mallory, &own).await["result"]["status"],
            "working",
            "what is there costs nothing"
        );
        let guess = if number % 2 == 0 { theirs.clone() } else { format!("long_nap-{number}") };
        assert_eq!(rig.get(mallory, &guess).await["error"]["code"], -32602, "{number}");
    }
    let reads = rig.reads();
    for id in [&theirs, &own, "x"] {
        let refusal = rig.get(mallory, id).await;
        assert!(refused(&refusal), "whether it is there or not: {refusal}");
    }
    assert_eq!(rig.reads(), reads);
    assert_eq!(rig.get(ann, &theirs).await["result"]["status"], "working", "nobody else is");
    let figures = rig.dispatcher.poll_figures();
    assert_eq!((figures.in_vain, figures.refused_look_ups), (20, 3), "{figures:?}");
    // One guess in half a minute.
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(rig.get(mallory, &own).await["result"]["status"], "working");
    assert_eq!(rig.get(mallory, &theirs).await["error"]["code"], -32602);
    assert!(refused(&rig.get(mallory, &own).await));
    let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert_eq!(logged.matches("again and again").count(), 1, "it is said once: {logged}");
    assert!(!logged.contains(&theirs) && !logged.contains(&own), "and no id is: {logged}");
}

/// Sixty thousand guesses at once, by one after another of those who guess; with `LONGHAUL_MANY` a million, which
/// `cargo xtask chaos many` makes.
#[tokio::test(start_paused = true)]
async fn a2_of_very_many_guesses_hardly_any_is_looked_up_and_nobody_else_is_kept_waiting() {
    let many = if is_many() { 1_000_000_u64 } else { 60_000 };
    let rig = Rig::with(PollOptions::default());
    let theirs = rig.task_of(Some("ann")).await;
    let before = rig.reads();
    for number in 0..many {
        let letters = format!("{number:032}").bytes().map(|digit| char::from(digit - b'0' + b'a')).collect();
        let guess: String = [theirs[..theirs.len() - 32].to_owned(), letters].concat();
        let answer = rig.get(Some("mallory"), &guess).await;
        assert!(refused(&answer) || answer["error"]["code"] == -32602, "{answer}");
        if number.is_multiple_of(many / 100) {
            assert_eq!(rig.get(Some("ann"), &theirs).await["result"]["status"], "working", "{number}");
        }
    }
    let (figures, read) = (rig.dispatcher.poll_figures(), rig.reads() - before - 100);
    assert_eq!(figures.in_vain + figures.refused_look_ups + figures.refused, many, "{figures:?}");
    assert!((300..400).contains(&figures.in_vain) && read < 400, "{read} were looked up: {figures:?}");
}

#[tokio::test(start_paused = true)]
async fn a2_no_way_to_guess_is_left_out() {
    let rig = Rig::with(PollOptions::default());
    let id = rig.task_of(Some("ann")).await;
    let companion = |name: &str| ("tools/call", json!({"name": name, "arguments": {"id": id}}), 1);
    let watched = json!({"notifications": {"taskIds": [id, "no-such-task", id]}});
    let ways = [
        ("tasks/get", json!({"taskId": id}), 1),
        ("tasks/get", json!({"taskId": "%"}), 1),
        ("tasks/update", json!({"taskId": id, "inputResponses": {}}), 1),
        ("tasks/cancel", json!({"taskId": id}), 1),
        ("subscriptions/listen", watched, 3),
        companion("task_wait"),
        companion("task_output"),
        companion("task_cancel"),
        companion("task_answer"),
    ];
    let mut in_vain = 0;
    for (method, params, vain) in ways {
        // A subscription goes on.
        let _ = rig.ask_in(Revision::V2026_07_28, Some("mallory"), method, params.clone()).await;
        in_vain += vain;
        assert_eq!(rig.dispatcher.poll_figures().in_vain, in_vain, "{method} {params}");
    }
    let older =
        rig.ask_in(Revision::V2025_11_25, Some("mallory"), "tasks/result", json!({"taskId": id})).await;
    assert_eq!(older.unwrap()["error"]["code"], -32602);
    assert_eq!(rig.dispatcher.poll_figures().in_vain, in_vain + 1);
    assert_eq!(rig.get(Some("ann"), &id).await["result"]["status"], "working", "and the task goes on");
}
