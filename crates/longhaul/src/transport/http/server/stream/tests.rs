//! Streams that two nodes of a fleet have, in the time of the runtime.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use longhaul_proto::jsonrpc::RequestId;
use longhaul_tasks::store::{Clock, Memory, Quota, Registry, Settings, StoreError, StoreFuture, Time};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::elsewhere::Followed;
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
    /// There is no room for anything.
    is_full: AtomicBool,
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
            if self.is_full.load(Ordering::SeqCst) {
                return Err(StoreError::Overloaded { what: Quota::EventBytes, limit: 0 });
            }
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
        if !noted::is_of_notes(stream.name) && is_due(&self.replays) {
            return Box::pin(std::future::ready(failed()));
        }
        self.store.replay(stream, after, limit)
    }

    fn prolong<'a>(&'a self, stream: Key<'a>) -> StoreFuture<'a, Option<u64>> {
        self.store.prolong(stream)
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
            is_full: AtomicBool::new(false),
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
        self.open_for(None).await
    }

    /// The same for one of which it is known how its answer is come by once more.
    async fn open_for(
        &self,
        again: Option<watch::Receiver<Again>>,
    ) -> (StreamSender, EventId, mpsc::Receiver<Box<Sent>>) {
        let (stream, client) = Stream::new();
        let (said, rest) = own_stream(8);
        let noting = Some(self.nodes.owe(RequestId::from(1), again));
        let priming = self.streams.open(stream, true, Begun { first: None, rest, noting }).await;
        (said, priming.unwrap().id.unwrap(), client)
    }

    /// What comes to a client that was sent this event last. A request that is gone on with here is `lost`.
    async fn resume(&self, last: &EventId) -> mpsc::Receiver<Box<Sent>> {
        self.try_resume(last).await.expect("it can be told what follows")
    }

    async fn try_resume(&self, last: &EventId) -> Option<mpsc::Receiver<Box<Sent>>> {
        let go_on: GoOn = Box::new(|_, _| Some(Begun { first: Some(answer("lost")), ..Begun::nothing() }));
        let resumed = Resumed { primes: true, go_on };
        let (priming, rest) = self.streams.resume(&last.to_string(), resumed, |_| own_stream(1).1).await?;
        let named = priming.expect("it begins with an event");
        assert_eq!((named.id.unwrap().to_string(), named.message.len()), (last.to_string(), 0));
        Some(rest)
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
    sleep(Duration::from_secs(12 * 3600)).await;
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
    sleep(Duration::from_secs(3600)).await;
    assert!(said.send(progress()).await);
    sleep(Duration::from_secs(1)).await;
    let resumed = one.resume(&primed).await;
    assert_eq!(all(client).await, ["notifications/progress"]);
    drop(said);
    assert_eq!(all(resumed).await, ["notifications/progress"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_kept_though_it_failed_is_said_and_what_follows_too() {
    let [one, _] = fleet();
    let (said, primed, client) = one.open().await;
    sleep(Duration::from_secs(1)).await;
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
        node.streams.events.append(node.streams.key(&format!("n{stream}")), &note.to_string()).await.unwrap();
        let noted = one.streams.noted(&stream).await.unwrap();
        let named = by.nodes.owe(RequestId::from(1), None).note().node;
        assert_eq!((&noted.node, noted.is_over), (&named, is_over && Arc::ptr_eq(&node.nodes, &by.nodes)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_read_what_was_said_answers_nothing_in_its_place() {
    let [one, other] = fleet();
    let (said, primed, _client) = one.open().await;
    let (stream, _live) = Stream::with(Arc::clone(&primed.stream));
    let mark = other.events.append(other.streams.key(&stream.name), GOES_ON).await.unwrap();
    (stream.lock().last, stream.lock().gone_on_with) = (mark, true);
    // The answer of the first comes before that of the second, which cannot read it at first.
    assert!(said.send(answer("first")).await);
    sleep(Duration::from_secs(1)).await;
    other.events.replays.store(3, Ordering::SeqCst);
    let Outgoing::Notification { message, .. } = answer("second") else { panic!("an answer is pushed") };
    let Err(NotOurs::Answered(sent)) = other.streams.keep(&stream, message, true).await else {
        panic!("there is one answer");
    };
    assert!(String::from_utf8_lossy(&sent.message).contains("first"));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_gone_on_with_where_what_was_said_cannot_be_read() {
    let [one, other] = fleet();
    let (said, primed, client) = one.open().await;
    let note = Note { is_over: true, ..one.nodes.owe(RequestId::from(1), None).note() };
    assert!(said.send(answer("kept")).await);
    drop(said);
    assert_eq!(all(client).await, ["kept"]);
    other.events.replays.store(1, Ordering::SeqCst);
    let (stream, back) = Stream::with(Arc::clone(&primed.stream));
    let followed = Followed { stream, last: primed.number };
    let go_on: GoOn = Box::new(|_, _| panic!("it was answered"));
    Arc::clone(&other.streams).go_on(followed, &note, go_on).await;
    assert_eq!(all(back).await, [""; 0], "it comes back for it");
}

#[tokio::test(start_paused = true)]
async fn what_a_call_has_become_is_known_once_it_has_ended_too() {
    let [one, _] = fleet();
    let became = Again::Followed { task: "t".to_owned(), tool: "wait".to_owned(), is_anothers: false };
    let (again, watched) = watch::channel(became);
    let mut noting = one.nodes.owe(RequestId::from(1), Some(watched));
    assert_eq!(noting.note().own_task(), Some("t"));
    drop(again);
    let more = tokio::time::timeout(Duration::from_secs(60), noting.changed()).await;
    assert!(more.is_err(), "there is no more to note");
    assert_eq!(noting.note().own_task(), Some("t"));
}

#[tokio::test(start_paused = true)]
async fn what_its_caller_has_cancelled_nobody_does_again() {
    let nodes = fleet();
    let [one, other] = &nodes;
    let asked = Again::Asked {
        method: "tasks/result".to_owned(),
        params: RawValue::from_string("{}".to_owned()).unwrap(),
    };
    let (again, watched) = watch::channel(asked);
    let (said, primed, client) = one.open_for(Some(watched)).await;
    let follows = other.resume(&primed).await;
    sleep(Duration::from_secs(1)).await;
    again.send_replace(Again::Unwanted);
    drop(said);
    assert_eq!(all(client).await, [""; 0]);
    assert_eq!(all(follows).await, [""; 0]);
    for node in &nodes {
        assert!(node.try_resume(&primed).await.is_none(), "nothing follows");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silence_of_days_costs_nothing_that_was_said() {
    let [one, other] = fleet();
    let (said, primed, client) = one.open().await;
    // More often renewed than a stream has room for events.
    sleep(Duration::from_secs(100 * 3600)).await;
    let resumed = other.resume(&primed).await;
    let notes = format!("n{}", primed.stream);
    let noted = other.events.store.replay(other.streams.key(&notes), 0, 1000).await.unwrap().unwrap();
    assert_eq!(noted.len(), 1, "what is noted is known for longer, and not noted anew");
    assert!(said.send(answer("late")).await);
    drop(said);
    assert_eq!((all(client).await, all(resumed).await), (vec!["late".to_owned()], vec!["late".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_room_where_nobody_else_can_have_gone_on() {
    let [one, _] = fleet();
    one.events.is_full.store(true, Ordering::SeqCst);
    // It owes nothing, and so has not said that it is there.
    one.nodes.say_nothing();
    let (stream, client) = Stream::for_pushes();
    let (said, rest) = own_stream(8);
    let begun = Instant::now();
    assert!(one.streams.open(stream, true, Begun::of(rest)).await.is_none(), "it cannot be come back to");
    assert!(said.send(progress()).await);
    drop(said);
    assert_eq!(all(client).await, ["notifications/progress"]);
    // And where it owes an answer, only what was kept can have been gone on with.
    one.events.is_full.store(false, Ordering::SeqCst);
    let (said, _, client) = one.open().await;
    sleep(Duration::from_secs(1)).await;
    one.events.is_full.store(true, Ordering::SeqCst);
    one.nodes.say_nothing();
    assert!(said.send(answer("done")).await);
    drop(said);
    assert_eq!(all(client).await, ["done"]);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_got_and_that_was_not_kept_is_given_elsewhere() {
    let [one, other] = fleet();
    let (said, primed, client) = one.open().await;
    // It owes others, and so is there.
    let _owes = one.nodes.owe(RequestId::from(2), None);
    drop(client);
    one.events.is_full.store(true, Ordering::SeqCst);
    assert!(said.send(answer("in vain")).await);
    drop(said);
    sleep(Duration::from_secs(60)).await;
    one.events.is_full.store(false, Ordering::SeqCst);
    assert_eq!(all(other.resume(&primed).await).await, ["lost"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_node_notes_in_vain_it_notes_again() {
    let [one, other] = fleet();
    one.events.is_full.store(true, Ordering::SeqCst);
    let (stream, _client) = Stream::new();
    let (_said, rest) = own_stream(8);
    let name = Arc::clone(&stream.name);
    let noting = Some(one.nodes.owe(RequestId::from(1), None));
    one.streams.open(stream, false, Begun { first: None, rest, noting }).await;
    one.events.is_full.store(false, Ordering::SeqCst);
    sleep(Duration::from_secs(5)).await;
    assert!(other.streams.noted(&name).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_pushes_that_goes_on_here_can_be_come_back_to_before_anything_is_said() {
    let [one, other] = fleet();
    let (stream, _client) = Stream::for_pushes();
    let (_said, rest) = own_stream(8);
    let primed = one.streams.open(stream, true, Begun::of(rest)).await.unwrap().id.unwrap();
    let go_on: GoOn = Box::new(|_, _| None);
    let resumed = Resumed { primes: true, go_on };
    let (said, rest) = own_stream(8);
    let (_, mut here) = other.streams.resume(&primed.to_string(), resumed, |_| rest).await.unwrap();
    let first = here.recv().await.unwrap();
    let id = first.id.filter(|_| first.message.is_empty()).expect("it begins with an event to come back to");
    assert_ne!(id.stream, primed.stream);
    sleep(Duration::from_secs(3600)).await;
    drop(here);
    let again = other.resume(&id).await;
    assert!(said.send(progress()).await);
    drop(said);
    assert_eq!(all(again).await, ["notifications/progress"]);
}

#[tokio::test(start_paused = true)]
async fn the_first_answer_counts_behind_what_is_none_too() {
    let [one, other] = fleet();
    let (said, primed, _client) = one.open().await;
    let (stream, _live) = Stream::with(Arc::clone(&primed.stream));
    let mark = other.events.append(other.streams.key(&stream.name), GOES_ON).await.unwrap();
    (stream.lock().last, stream.lock().gone_on_with) = (mark, true);
    // Its first answers late, and finds that it is left; then this one says something, and answers.
    assert!(said.send(answer("first")).await);
    sleep(Duration::from_secs(1)).await;
    let message = |outgoing| match outgoing {
        Outgoing::Notification { message, .. } => message,
        _ => panic!("a push is a notification"),
    };
    assert!(other.streams.keep(&stream, message(progress()), true).await.is_ok());
    let kept = other.streams.keep(&stream, message(answer("second")), true).await;
    assert!(
        matches!(kept, Err(NotOurs::Answered(sent)) if String::from_utf8_lossy(&sent.message).contains("first"))
    );
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_back_twice_is_told_by_one_and_on_the_newer_connection() {
    let [one, other] = fleet();
    let (said, primed, _client) = one.open().await;
    let older = other.resume(&primed).await;
    sleep(Duration::from_secs(1)).await;
    let newer = other.resume(&primed).await;
    assert_eq!(all(older).await, [""; 0], "its client has another connection");
    assert!(other.streams.have_client());
    assert!(said.send(answer("done")).await);
    drop(said);
    assert_eq!(all(newer).await, ["done"]);
    let third = other.resume(&EventId { number: primed.number, stream: Arc::clone(&primed.stream) }).await;
    assert_eq!(all(third).await, ["done"]);
    sleep(Duration::from_secs(2)).await;
    assert!(!other.streams.have_client());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stops_waits_for_no_stream_of_another() {
    let [one, other] = fleet();
    let (_said, primed, _client) = one.open().await;
    let follows = other.resume(&primed).await;
    sleep(Duration::from_secs(1)).await;
    let begun = Instant::now();
    other.streams.let_clients_go();
    assert_eq!(all(follows).await, [""; 0]);
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[test]
fn an_answer_is_one_however_deep_it_is() {
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    assert!(is_answer(format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"deep":{deep}}}}}"#).as_bytes()));
    assert!(!is_answer(GOES_ON.as_bytes()) && !is_answer(b""));
}
