//! Streams that two nodes of a fleet have, in the time of the runtime.

use std::sync::atomic::{AtomicUsize, Ordering};

use longhaul_tasks::store::{Clock, Memory, Registry, Settings, StoreError, StoreFuture, Time};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::*;
use crate::server::{Again, StreamSender};

/// The clock of the runtime, which stands still while anything is to be done.
#[derive(Debug)]
struct Runtimes(Instant);

impl Clock for Runtimes {
    fn wall(&self) -> Time {
        Time::from_unix_ms(1_800_000_000_000).after(self.0.elapsed())
    }

    fn steady(&self) -> Duration {
        self.0.elapsed()
    }

    fn boot(&self) -> &str {
        "runtime"
    }
}

/// What a node keeps of its streams, where the next operations fail.
#[derive(Debug)]
struct Failing {
    store: Memory,
    /// So many appends are kept, and fail.
    appends: AtomicUsize,
    /// So many reads of what was said fail.
    replays: AtomicUsize,
}

fn is_due(failures: &AtomicUsize) -> bool {
    failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

fn failed<T>() -> Result<T, StoreError> {
    let source = Arc::new(std::io::Error::other("the line is cut"));
    Err(StoreError::Unreachable { place: "another machine".to_owned(), source })
}

impl EventStore for Failing {
    fn append<'a>(&'a self, stream: Key<'a>, text: &'a str) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            let number = self.store.append(stream, text).await?;
            if text.is_empty() || !is_due(&self.appends) { Ok(number) } else { failed() }
        })
    }

    fn replay<'a>(
        &'a self,
        stream: Key<'a>,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Option<Vec<Event>>> {
        if !stream.name.starts_with([NOTES, CALLS]) && is_due(&self.replays) {
            return Box::pin(std::future::ready(failed()));
        }
        self.store.replay(stream, after, limit)
    }

    fn trim<'a>(&'a self, owner: &'a Owner, session: &'a str) -> StoreFuture<'a, usize> {
        self.store.trim(owner, session)
    }

    fn sweep_streams(&self, limit: usize) -> StoreFuture<'_, usize> {
        self.store.sweep_streams(limit)
    }
}

/// A node of a fleet, and its streams of a session that others have, too.
struct Node {
    streams: Arc<Streams>,
    events: Arc<Failing>,
    nodes: Arc<Nodes>,
}

fn fleet() -> [Node; 2] {
    let store = Memory::with(Settings::default(), Arc::new(Runtimes(Instant::now())));
    [Node::on(&store), Node::on(&store)]
}

impl Node {
    fn on(store: &Memory) -> Self {
        let events = Failing {
            store: store.another_node(),
            appends: AtomicUsize::new(0),
            replays: AtomicUsize::new(0),
        };
        let events = Arc::new(events);
        let registry: Arc<dyn Registry> = Arc::new(store.another_node());
        let nodes = Arc::new(Nodes::new(registry));
        let kept: Arc<dyn EventStore> = Arc::<Failing>::clone(&events);
        let streams = Streams::new(kept, Owner::Anonymous, "session".to_owned(), Some(Arc::clone(&nodes)));
        Self { streams: Arc::new(streams), events, nodes }
    }

    /// Opens a stream for the answer to a request: what is said in it, its first event and its client.
    async fn open(&self) -> (StreamSender, EventId, mpsc::Receiver<Box<Sent>>) {
        let (stream, client) = Stream::new();
        let (said, rest) = own_stream(8);
        let noting = Some(self.nodes.owe(RequestId::from(1), None));
        let priming = self.streams.open(stream, true, Begun { first: None, rest, noting }).await;
        (said, priming.unwrap().id.unwrap(), client)
    }

    /// What comes to a client that was sent this event last. A request that is gone on with here is `lost`.
    async fn resume(&self, last: &EventId) -> mpsc::Receiver<Box<Sent>> {
        let go_on: GoOn = Box::new(|_, _| Some(Begun { first: Some(answer("lost")), ..Begun::nothing() }));
        let resumed = Resumed { several: false, go_on };
        self.streams.resume(&last.to_string(), resumed, |_| own_stream(1).1).await.unwrap()
    }

    /// Another node has gone on with a stream, and no further.
    async fn leave(&self, stream: &EventId) {
        self.events.append(self.streams.key(&stream.stream), GOES_ON).await.unwrap();
    }
}

fn answer(text: &str) -> Outgoing {
    Outgoing::pushed(json!({"jsonrpc": "2.0", "id": 1, "result": {"text": text}}).to_string().into_bytes())
}

fn progress() -> Outgoing {
    Outgoing::pushed(json!({"jsonrpc": "2.0", "method": "notifications/progress"}).to_string().into_bytes())
}

/// What a client is sent until its connection ends: the text of answers, else the method. Whoever waits for long waits for ever.
async fn all(mut client: mpsc::Receiver<Box<Sent>>) -> Vec<String> {
    let mut all = Vec::new();
    let whole = tokio::time::timeout(Duration::from_secs(24 * 3600), async {
        while let Some(sent) = client.recv().await {
            let message: Value = serde_json::from_slice(&sent.message).unwrap();
            let text = message["result"]["text"].as_str().or_else(|| message["method"].as_str());
            all.push(text.unwrap().to_owned());
        }
    });
    whole.await.unwrap_or_else(|_| panic!("it does not end"));
    all
}

#[tokio::test(start_paused = true)]
async fn a_call_that_says_nothing_for_hours_is_answered_and_can_be_resumed() {
    let [one, other] = fleet();
    let (said, primed, client) = one.open().await;
    // More than a page of what nobody is sent.
    tokio::time::sleep(Duration::from_secs(12 * 3600)).await;
    let resumed = other.resume(&primed).await;
    assert!(said.send(answer("late")).await);
    drop(said);
    assert_eq!(all(client).await, ["late"]);
    assert_eq!(all(resumed).await, ["late"], "and at another node, which waits for it");
    assert_eq!(all(one.resume(&primed).await).await, ["late"]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_pushes_outlives_a_silence() {
    let [one, _] = fleet();
    let (stream, client) = Stream::for_pushes();
    let (said, rest) = own_stream(8);
    let primed = one.streams.open(stream, true, Begun::of(rest)).await.unwrap().id.unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(said.send(progress()).await);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let resumed = one.resume(&primed).await;
    assert_eq!(all(client).await, ["notifications/progress"]);
    drop(said);
    assert_eq!(all(resumed).await, ["notifications/progress"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_kept_though_it_failed_is_said_and_what_follows_too() {
    let [one, _] = fleet();
    let (said, primed, client) = one.open().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    // It has not said for long that it is there: nothing is sent that is not kept.
    one.nodes.say_nothing();
    one.events.appends.store(2, Ordering::SeqCst);
    assert!(said.send(progress()).await && said.send(answer("done")).await);
    drop(said);
    assert_eq!(all(client).await, ["notifications/progress", "done"]);
    let resumed = all(one.resume(&primed).await).await;
    assert_eq!(resumed.last().map(String::as_str), Some("done"), "it is kept whole: {resumed:?}");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_node_that_has_left_a_stream_to_one_that_went_no_further() {
    let [one, other] = fleet();
    let (said, primed, client) = one.open().await;
    // Which is there, for it owes others.
    let _owes = one.nodes.owe(RequestId::from(2), None);
    other.leave(&primed).await;
    assert!(said.send(progress()).await);
    assert_eq!(all(client).await, [""; 0], "it is not its own any more");
    let resumed = all(other.resume(&primed).await).await;
    assert_eq!(resumed, ["notifications/progress", "lost"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_says_nothing_finds_that_it_was_left() {
    let [one, other] = fleet();
    let (_said, primed, _client) = one.open().await;
    let _owes = one.nodes.owe(RequestId::from(2), None);
    other.leave(&primed).await;
    assert_eq!(all(other.resume(&primed).await).await, ["lost"]);
}

#[tokio::test(start_paused = true)]
async fn who_owes_an_answer_no_more_says_nothing_of_who_owes_it_by_then() {
    let [one, other] = fleet();
    let (_said, EventId { stream, .. }, _client) = one.open().await;
    for (node, is_over, by) in [(&other, false, &other), (&one, true, &other), (&other, true, &other)] {
        let note = Note { is_over, ..node.nodes.owe(RequestId::from(1), None).note() };
        node.streams.append_note(&format!("{NOTES}{stream}"), &note).await;
        let noted = one.streams.noted(&stream).await.unwrap();
        let named = by.nodes.owe(RequestId::from(1), None).note().node;
        assert_eq!((&noted.node, noted.is_over), (&named, is_over && Arc::ptr_eq(&node.nodes, &by.nodes)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_read_what_was_said_answers_nothing_in_its_place() {
    let [one, other] = fleet();
    let (said, primed, _client) = one.open().await;
    let (stream, _live) = other.streams.take_in(&primed.stream).unwrap_or_else(|_| panic!("not there"));
    stream.lock().last = other.events.append(other.streams.key(&stream.name), GOES_ON).await.unwrap();
    // The answer of the first comes before that of the second, which cannot read it at first.
    assert!(said.send(answer("first")).await);
    tokio::time::sleep(Duration::from_secs(1)).await;
    other.events.replays.store(3, Ordering::SeqCst);
    let Outgoing::Notification { message, .. } = answer("second") else { panic!("an answer is pushed") };
    let Err(NotOurs::Answered(sent)) = other.streams.keep(&stream, message).await else {
        panic!("there is one answer");
    };
    assert!(String::from_utf8_lossy(&sent.message).contains("first"));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_gone_on_with_where_what_was_said_cannot_be_read() {
    let [one, other] = fleet();
    let (said, primed, client) = one.open().await;
    let note = Note { is_over: true, ..one.nodes.owe(RequestId::from(1), None).note() };
    let (sender, receiver) = mpsc::channel(BOUND);
    assert!(said.send(answer("kept")).await);
    drop(said);
    assert_eq!(all(client).await, ["kept"]);
    other.events.replays.store(1, Ordering::SeqCst);
    let back = Client { last: primed, several: false, sender };
    let go_on: GoOn = Box::new(|_, _| panic!("it was answered"));
    Arc::clone(&other.streams).go_on(back, &note, go_on).await;
    assert_eq!(all(receiver).await, [""; 0], "it comes back for it");
}

#[tokio::test(start_paused = true)]
async fn what_a_call_has_become_is_known_once_it_has_ended_too() {
    let [one, _] = fleet();
    let became = Again::Followed { task: "t".to_owned(), tool: "wait".to_owned() };
    let (again, watched) = watch::channel(Some(became));
    let mut noting = one.nodes.owe(RequestId::from(1), Some(watched));
    assert_eq!(noting.note().task(), Some("t"));
    drop(again);
    let more = tokio::time::timeout(Duration::from_secs(60), noting.changed()).await;
    assert!(more.is_err(), "there is no more to note");
    assert_eq!(noting.note().task(), Some("t"));
}

#[test]
fn an_answer_is_one_however_deep_it_is() {
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    assert!(is_answer(format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"deep":{deep}}}}}"#).as_bytes()));
    assert!(!is_answer(GOES_ON.as_bytes()) && !is_answer(NOTHING.as_bytes()));
}
