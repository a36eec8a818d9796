//! What nodes tell each other over a store that fails, or takes its time.

use longhaul_tasks::store::{Entry, Memory, StoreFuture, Swap, Version};
use tokio::sync::Semaphore;

use super::*;

fn word(session: &str) -> Word {
    Word::TakenOver { session: session.to_owned() }
}

fn pushed(session: &str, message: &str) -> Word {
    Word::Pushed { session: session.to_owned(), message: message.to_owned() }
}

fn sent(session: &str, message: &str) -> Word {
    Word::Sent { session: session.to_owned(), message: message.to_owned() }
}

fn owner(name: &str) -> Option<Standing> {
    Some(Standing(name.into()))
}

fn board(registry: impl Registry + 'static) -> Arc<Board> {
    Arc::new(Board::new(Arc::new(registry)))
}

/// What is heard, whoever says it, and whether all could be read.
async fn heard(board: &Board, heard: &mut Heard) -> (Vec<Word>, bool) {
    let mut words = Vec::new();
    let read = board.hear(heard, &mut words).await;
    (words.into_iter().map(|(_, word)| word).collect(), read.is_ok())
}

/// A store that fails to read one entry, and whose first write takes until it is let through, whoever waits for it.
#[derive(Clone, Debug)]
struct Frail {
    store: Arc<Memory>,
    unreadable: Arc<Mutex<String>>,
    slow: Arc<Semaphore>,
    writes: Arc<Mutex<usize>>,
}

impl Frail {
    fn new(store: &Memory) -> Self {
        let slow = Arc::new(Semaphore::new(0));
        Self {
            store: Arc::new(store.another_node()),
            unreadable: Arc::default(),
            slow,
            writes: Arc::default(),
        }
    }

    fn writes(&self) -> usize {
        *self.writes.lock().unwrap()
    }
}

impl Registry for Frail {
    fn entry<'a>(&'a self, key: EntryKey<'a>) -> StoreFuture<'a, Option<Entry>> {
        if key.name != *self.unreadable.lock().unwrap() {
            return self.store.entry(key);
        }
        let source = Arc::new(std::io::Error::other("the line is cut"));
        let place = "another machine".to_owned();
        Box::pin(std::future::ready(Err(StoreError::Unreachable { place, source })))
    }

    fn put<'a>(&'a self, key: EntryKey<'a>, value: Value<'a>) -> StoreFuture<'a, Entry> {
        let number = {
            let mut writes = self.writes.lock().unwrap();
            *writes += 1;
            *writes
        };
        let (this, name, bytes) = (self.clone(), key.name.to_owned(), value.bytes.to_vec());
        let writing = tokio::spawn(async move {
            if number == 1 {
                this.slow.acquire().await.unwrap().forget();
            }
            Registry::put(&*this.store, EntryKey::of_server(KIND, &name), Value::lasting(&bytes, KEPT)).await
        });
        Box::pin(async move { writing.await.unwrap() })
    }

    fn compare_and_set<'a>(
        &'a self,
        key: EntryKey<'a>,
        expected: Option<Version>,
        value: Option<Value<'a>>,
    ) -> StoreFuture<'a, Swap> {
        self.store.compare_and_set(key, expected, value)
    }

    fn names<'a>(
        &'a self,
        holder: Holder<'a>,
        kind: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<String>> {
        self.store.names(holder, kind, after, limit)
    }

    fn sweep_entries(&self, limit: usize) -> StoreFuture<'_, usize> {
        self.store.sweep_entries(limit)
    }
}

#[tokio::test]
async fn each_node_hears_once_what_the_others_say() {
    let store = Memory::new();
    let [one, two] = [(); 2].map(|()| board(store.another_node()));
    let [mut before, mut late] = [Heard::new(), Heard::new()];
    assert!(one.say_now(word("a"), None).await && one.say_now(word("b"), None).await);
    assert_eq!(heard(&two, &mut before).await, (vec![word("a"), word("b")], true));
    assert_eq!(heard(&one, &mut Heard::new()).await, (vec![], true), "its own it knows");
    assert!(one.say_now(word("c"), None).await);
    assert_eq!(heard(&two, &mut before).await, (vec![word("c")], true));
    assert_eq!(heard(&two, &mut late).await.0.len(), 3, "who looks late misses none");
}

#[tokio::test]
async fn what_one_node_says_is_heard_though_another_cannot_be_read() {
    let store = Memory::new();
    let frail = Frail::new(&store);
    let (reader, others) = (board(frail.clone()), [(); 2].map(|()| board(store.another_node())));
    for other in &others {
        assert!(other.say_now(word(&other.name), None).await);
    }
    let [first, last] =
        if others[0].name < others[1].name { [&others[0], &others[1]] } else { [&others[1], &others[0]] };
    frail.unreadable.lock().unwrap().clone_from(&last.name);
    let mut before = Heard::new();
    assert_eq!(heard(&reader, &mut before).await, (vec![word(&first.name)], false));
    frail.unreadable.lock().unwrap().clear();
    assert_eq!(heard(&reader, &mut before).await, (vec![word(&last.name)], true));
}

#[tokio::test]
async fn what_only_a_later_release_can_say_takes_nothing_from_the_rest() {
    let store = Memory::new();
    let later =
        br#"[{"number":1,"word":{"later":{"session":"a"}}},{"number":2,"word":{"takenOver":{"session":"b"}}},
        {"later":3},{"number":4,"word":{"takenOver":{"session":"c"}}}]"#;
    let key = EntryKey::of_server(KIND, "later");
    Registry::put(&store, key, Value::lasting(later, KEPT)).await.unwrap();
    let heard = heard(&board(store.another_node()), &mut Heard::new()).await;
    assert_eq!(heard, (vec![word("b"), word("c")], true));
}

#[tokio::test]
async fn what_was_accepted_stays_said_though_who_said_something_before_has_left() {
    let store = Memory::new();
    let frail = Frail::new(&store);
    let board = board(frail.clone());
    let say = |session: &'static str| {
        let board = Arc::clone(&board);
        tokio::spawn(async move { board.say_now(sent(session, "{}"), None).await })
    };
    let leaves = say("a");
    while frail.writes() == 0 {
        tokio::task::yield_now().await;
    }
    leaves.abort();
    assert!(leaves.await.is_err());
    let stays = say("b");
    // As long as the store does what it was asked first, nothing else overtakes it.
    sleep(MOMENT).await;
    frail.slow.add_permits(1);
    assert!(stays.await.unwrap());
    sleep(MOMENT).await;
    let reader = Board::new(Arc::new(store.another_node()));
    assert_eq!(heard(&reader, &mut Heard::new()).await, (vec![sent("a", "{}"), sent("b", "{}")], true));
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_written_in_its_time_is_not_said_to_be() {
    let frail = Frail::new(&Memory::new());
    let board = board(frail.clone());
    let say = |session: &'static str| {
        let board = Arc::clone(&board);
        tokio::spawn(async move { board.say_now(sent(session, "{}"), None).await })
    };
    let first = say("a");
    while frail.writes() == 0 {
        tokio::task::yield_now().await;
    }
    let second = say("b");
    sleep(SAID + Duration::from_secs(1)).await;
    frail.slow.add_permits(1);
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (true, false));
}

#[tokio::test]
async fn many_that_wait_are_written_at_once() {
    let frail = Frail::new(&Memory::new());
    let board = board(frail.clone());
    let waiting: Vec<_> = (0..10)
        .map(|number: u32| {
            let board = Arc::clone(&board);
            tokio::spawn(async move { board.say_now(sent(&number.to_string(), "{}"), None).await })
        })
        .collect();
    while board.said().number < 10 {
        tokio::task::yield_now().await;
    }
    frail.slow.add_permits(1);
    for waits in waiting {
        assert!(waits.await.unwrap());
    }
    assert!(frail.writes() <= 2, "{}", frail.writes());
}

#[tokio::test(start_paused = true)]
async fn what_is_said_has_a_bound_and_its_time() {
    let board = board(Memory::new());
    let long = "x".repeat(LARGEST / 2);
    assert!(board.say(word(&long), None));
    assert!(!board.say(word(&long), None), "there is no room");
    assert!(board.say(word("short"), None));
    tokio::time::advance(SAID + Duration::from_secs(1)).await;
    assert!(board.say(word(&long), None), "what was said long enough makes room");
}

#[test]
fn no_session_and_no_hint_takes_all_the_room() {
    let board = board(Memory::new());
    let message = "x".repeat(SHARE / 2);
    let push = |session: &str| board.say(pushed(session, &message), owner(session));
    assert!(push("a") && !push("a"), "a session has its share");
    assert!(!board.say(sent("a", &message), owner("a")));
    assert_eq!(["b", "c", "d", "e", "f"].map(push), [true, true, true, true, false]);
    let taken = (0..LARGEST / 4).take_while(|_| board.say(word("g"), None)).count();
    assert!(taken < LARGEST / 4, "that a session was taken over its entry says, too");
    assert!(board.say(sent("f", &message), owner("f")), "there is room for what is no hint");
}

#[test]
fn no_owner_takes_all_the_room_by_many_sessions() {
    let board = board(Memory::new());
    let message = "x".repeat(SHARE / 3);
    let push = |session: &str| board.say(pushed(session, &message), owner("ann"));
    assert_eq!(["a", "b", "c"].map(push), [true, true, false], "its hints have a share");
    let send = |session: &str| board.say(sent(session, &message), owner("ann"));
    assert_eq!(["d", "e", "f", "g"].map(send), [true, true, true, false], "and so has everything of its");
    assert!(board.say(pushed("h", &message), owner("bob")) && board.say(sent("h", &message), owner("bob")));
}

#[test]
fn news_that_are_too_large_are_told_in_parts() {
    let board = board(Memory::new());
    let uris: Vec<_> = (0..3).map(|n| format!("app://{n}/{}", "x".repeat(LARGEST / 3))).collect();
    let news = serde_json::from_value(serde_json::json!({"tools": true, "uris": uris})).unwrap();
    board.tell(&news);
    let said = board.said();
    let told = serde_json::to_string(&said.words.iter().map(|told| &told.spoken.word).collect::<Vec<_>>());
    let told = told.unwrap();
    let heard = uris.iter().filter(|uri| told.contains(uri.as_str())).count();
    assert_eq!((heard, told.contains(r#""tools":true"#)), (2, true));
}
