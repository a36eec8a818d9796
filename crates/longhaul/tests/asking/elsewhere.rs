//! Answers that come to another node than the one where their call waits, by a registry that has its troubles.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longhaul::store::{
    Entry, EntryKey, Holder, Memory, Registry, StoreError, StoreFuture, Swap, Value as Bytes, Version,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::rig::{Bare, accept, asked, code, sampled, text};

/// The registry that the nodes share, as one of them has it.
#[derive(Debug)]
struct Troubled {
    shared: Arc<Memory>,
    /// How many more looks for a reply fail.
    unreadable: AtomicUsize,
    /// Something is about to be said where the reply is to be.
    about_to_say: Semaphore,
    /// It may be.
    may_say: Semaphore,
    /// The clock of the node is an hour behind.
    is_behind: bool,
}

/// In milliseconds.
const HOUR: u64 = 3_600_000;

/// More words than any test has.
const MANY: usize = 10_000;

impl Troubled {
    fn with(shared: &Arc<Memory>, unreadable: usize, may_say: usize) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::clone(shared),
            unreadable: AtomicUsize::new(unreadable),
            about_to_say: Semaphore::new(0),
            may_say: Semaphore::new(may_say),
            is_behind: false,
        })
    }

    fn behind(shared: &Arc<Memory>) -> Arc<Self> {
        let mut this = Self::with(shared, 0, MANY);
        Arc::get_mut(&mut this).unwrap().is_behind = true;
        this
    }

    /// What the node writes, with every time in it as its clock has it.
    fn as_written(&self, bytes: &[u8]) -> Vec<u8> {
        let Some(text) = std::str::from_utf8(bytes).ok().filter(|_| self.is_behind) else {
            return bytes.to_vec();
        };
        let as_it_has_it = |word: &str| match word.parse::<u64>() {
            Ok(millis) if word.len() == 13 => (millis - HOUR).to_string(),
            _ => word.to_owned(),
        };
        let words = text.split_inclusive(|letter: char| !letter.is_ascii_digit()).map(|word| {
            let (digits, rest) = word.split_at(word.trim_end_matches(|c: char| !c.is_ascii_digit()).len());
            as_it_has_it(digits) + rest
        });
        words.collect::<String>().into_bytes()
    }

    async fn say(&self, key: EntryKey<'_>) {
        if key.kind == "held-reply" {
            self.about_to_say.add_permits(1);
            self.may_say.acquire().await.unwrap().forget();
        }
    }
}

impl Registry for Troubled {
    fn entry<'a>(&'a self, key: EntryKey<'a>) -> StoreFuture<'a, Option<Entry>> {
        let left = self.unreadable.load(Ordering::SeqCst);
        if key.kind == "held-reply" && left > 0 {
            self.unreadable.store(left - 1, Ordering::SeqCst);
            let source = Arc::new(std::io::Error::other("the network is away"));
            return Box::pin(ready(Err(StoreError::Backend { doing: "reading an entry", source })));
        }
        self.shared.entry(key)
    }

    fn put<'a>(&'a self, key: EntryKey<'a>, value: Bytes<'a>) -> StoreFuture<'a, Entry> {
        Box::pin(async move {
            self.say(key).await;
            let (bytes, mut value) = (self.as_written(value.bytes), value);
            value.bytes = &bytes;
            Registry::put(&*self.shared, key, value).await
        })
    }

    fn compare_and_set<'a>(
        &'a self,
        key: EntryKey<'a>,
        expected: Option<Version>,
        value: Option<Bytes<'a>>,
    ) -> StoreFuture<'a, Swap> {
        Box::pin(async move {
            self.say(key).await;
            let bytes = value.map(|value| self.as_written(value.bytes)).unwrap_or_default();
            let value = value.map(|mut value| {
                value.bytes = &bytes;
                value
            });
            self.shared.compare_and_set(key, expected, value).await
        })
    }

    fn names<'a>(
        &'a self,
        holder: Holder<'a>,
        kind: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<String>> {
        self.shared.names(holder, kind, after, limit)
    }

    fn sweep_entries(&self, limit: usize) -> StoreFuture<'_, usize> {
        self.shared.sweep_entries(limit)
    }
}

/// Nodes with these.
async fn nodes(registries: [Arc<Troubled>; 2]) -> [Bare; 2] {
    let nodes = registries.map(|registry| Bare::with(|server| server.registry(registry)));
    for node in &nodes {
        node.dispatcher.start().await.unwrap();
    }
    nodes
}

fn nap(millis: u64) -> Value {
    json!({"name": "nap", "arguments": {"millis": millis}})
}

fn ada() -> Value {
    json!({"elicit": accept(json!({"name": "Ada"}))})
}

/// Completes once the node has ended its call.
async fn ended(node: &Bare) {
    let mut looks = 0;
    while node.counts.dropped.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        looks += 1;
        assert!(looks < 300, "it goes on for nobody");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_cannot_be_read_for_a_while_is_read_then() {
    let shared = Arc::new(Memory::new());
    let nodes = nodes([Troubled::with(&shared, 0, MANY), Troubled::with(&shared, 12, MANY)]).await;
    let first = nodes[0].call(nap(1000)).await;
    let done = nodes[1].answer(nap(1000), &first, ada()).await;
    assert_eq!(done["result"]["content"][0]["text"], "rested", "{done}");
    assert_eq!(nodes[0].counts.now(), (1, 1), "it was not cut off");
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_cannot_be_read_at_all_says_that_nobody_knows() {
    let shared = Arc::new(Memory::new());
    let nodes = nodes([Troubled::with(&shared, 0, MANY), Troubled::with(&shared, MANY, MANY)]).await;
    let first = nodes[0].call(nap(600_000)).await;
    let lost = nodes[1].answer(nap(600_000), &first, ada()).await;
    assert_eq!(lost["error"]["data"]["reason"], "worker_lost", "{lost}");
    ended(&nodes[0]).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_is_waited_for_whatever_its_clock_says() {
    let shared = Arc::new(Memory::new());
    let nodes = nodes([Troubled::behind(&shared), Troubled::with(&shared, 0, MANY)]).await;
    let first = nodes[0].call(nap(100_000)).await;
    let done = nodes[1].answer(nap(100_000), &first, ada()).await;
    assert_eq!(done["result"]["content"][0]["text"], "rested", "{done}");
    assert_eq!(nodes[0].counts.now(), (1, 1), "it was not cut off");
}

#[tokio::test(start_paused = true)]
async fn answers_come_to_a_call_whatever_its_arguments() {
    let shared = Arc::new(Memory::new());
    let nodes = nodes([Troubled::with(&shared, 0, MANY), Troubled::with(&shared, 0, MANY)]).await;
    let long = || json!({"name": "delete", "arguments": {"path": "x".repeat(100_000)}});
    let first = nodes[0].call(long()).await;
    let much = json!({"approve": accept(json!({"go": true, "more": "x".repeat(100_000)}))});
    let refused = nodes[1].answer(long(), &first, much).await;
    assert_eq!(code(&refused), -32602, "{refused}");
    // It waits still.
    let done = nodes[1].answer(long(), &first, json!({"approve": {"action": "decline"}})).await;
    assert_eq!(text(&done), "declined");

    // What it asks next is bound to the same call at every node.
    let greet = || json!({"name": "greet_once", "arguments": {}});
    let first = nodes[0].call(greet()).await;
    let second = nodes[1].answer(greet(), &first, ada()).await;
    assert_eq!(asked(&second), ["elicit#2"]);
    let blue = json!({"elicit#2": accept(json!({"colour": "blue"}))});
    let third = nodes[1].answer(greet(), &second, blue).await;
    assert_eq!(asked(&third), ["sample"]);
    let done = nodes[0].answer(greet(), &third, json!({"sample": sampled("Roses")})).await;
    assert_eq!(text(&done), r#"Ada {"colour":"blue"} Roses"#);
}

/// Before whoever has taken the answers has said a word of it, and between its words.
#[tokio::test(start_paused = true)]
async fn a_caller_goes_away_whenever_it_does() {
    for (said, next) in [(0, 1), (1, 2)] {
        let shared = Arc::new(Memory::new());
        let speaks = Troubled::with(&shared, 0, said);
        let nodes = nodes([Arc::clone(&speaks), Troubled::with(&shared, 0, MANY)]).await;
        let first = nodes[0].call(nap(600_000)).await;
        tokio::select! {
            biased;
            done = nodes[1].answer(nap(600_000), &first, ada()) => panic!("{done}"),
            about = speaks.about_to_say.acquire_many(next) => about.unwrap().forget(),
        }
        // It has gone, and what it leaves behind is there.
        tokio::time::sleep(Duration::from_secs(1)).await;
        speaks.may_say.add_permits(MANY);
        ended(&nodes[0]).await;
        assert_eq!(nodes[0].counts.now(), (1, 0));
    }
}
