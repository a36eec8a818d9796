//! One session at several nodes, over a store that takes its time.

use std::sync::atomic::{AtomicBool, Ordering};

use longhaul_tasks::store::{Memory, StoreFuture, Version};

use super::super::Options;
use super::super::session::Watch;
use super::*;
use crate::Server;
use crate::server::Resource;

const SAVED: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{},"hosts":{},
    "clientInfo":{"name":"t","version":"1"},"logLevel":"info"}"#;

/// How many resources there are.
const MANY: usize = 48;

/// A resource, by a name that is a kibibyte long: a session that watches all has no room to say so.
fn uri(number: usize) -> String {
    format!("app://{number:0>1000}")
}

/// A store that takes its time, and may refuse to write.
#[derive(Debug)]
struct Slow {
    store: Memory,
    refuses: AtomicBool,
}

impl Slow {
    async fn wait() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

impl Registry for Slow {
    fn entry<'a>(&'a self, key: EntryKey<'a>) -> StoreFuture<'a, Option<Entry>> {
        Box::pin(async move {
            Self::wait().await;
            self.store.entry(key).await
        })
    }

    fn put<'a>(&'a self, key: EntryKey<'a>, value: Value<'a>) -> StoreFuture<'a, Entry> {
        Registry::put(&self.store, key, value)
    }

    fn compare_and_set<'a>(
        &'a self,
        key: EntryKey<'a>,
        expected: Option<Version>,
        value: Option<Value<'a>>,
    ) -> StoreFuture<'a, Swap> {
        Box::pin(async move {
            Self::wait().await;
            if self.refuses.load(Ordering::SeqCst) {
                let source = Arc::new(std::io::Error::other("the line is cut"));
                return Err(StoreError::Unreachable { place: "another machine".to_owned(), source });
            }
            self.store.compare_and_set(key, expected, value).await
        })
    }

    fn names<'a>(
        &'a self,
        holder: longhaul_tasks::store::Holder<'a>,
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

/// One of the nodes of a store, and the session that all have.
struct Node {
    sessions: Sessions,
    dispatcher: Dispatcher,
    registry: Arc<Slow>,
    session: Arc<Session>,
}

impl Node {
    fn shared(&self) -> &Shared {
        self.sessions.shared().unwrap()
    }

    async fn renew(&self, caller: Option<&Caller>) {
        self.shared().renew(&self.sessions, &self.session, caller).await;
    }

    /// Its client subscribes to a resource.
    async fn watch(&self, number: usize) {
        let _wish = self.session.wishes(Watch { uri: uri(number), begins: true });
        self.begin(number);
        self.renew(Some(&Caller::default())).await;
    }

    /// The same, of which no other node is told.
    fn begin(&self, number: usize) {
        let dialect = self.session.lock().exchanges.dialect().unwrap();
        let push = self.session.push();
        self.dispatcher.watch_again(&Caller::default(), dialect, &push, vec![uri(number)]);
    }

    /// Its client lets go of one.
    async fn leave(&self, number: usize) {
        let _wish = self.session.wishes(Watch { uri: uri(number), begins: false });
        self.session.is_left(&uri(number));
        self.dispatcher.unwatch(&self.session.push(), &uri(number));
        self.renew(Some(&Caller::default())).await;
    }

    /// The numbers of the resources that it watches.
    fn watches(&self) -> Vec<usize> {
        numbers(&self.dispatcher.watched(&self.session.push()))
    }

    async fn entry(&self) -> Entry {
        let owner = self.session.owner();
        self.registry.store.entry(key(&owner, self.session.id())).await.unwrap().unwrap()
    }

    /// The numbers of those that any node would watch.
    async fn written(&self) -> Vec<usize> {
        numbers(&Exchanges::watched(&self.entry().await.value).unwrap().uris)
    }
}

fn numbers(uris: &[String]) -> Vec<usize> {
    uris.iter().map(|uri| uri.trim_start_matches("app://").parse().unwrap()).collect()
}

/// Sessions of a node of its own.
fn node(store: &Memory) -> (Sessions, Dispatcher, Arc<Slow>, Exchanges) {
    let (mut server, _) = Server::new("bench", "1.0.0").dynamic();
    for number in 0..MANY {
        server = server.resource(Resource::text(uri(number), number.to_string(), "text"));
    }
    let dispatcher = server.dispatcher().unwrap();
    let registry = Arc::new(Slow { store: store.another_node(), refuses: AtomicBool::new(false) });
    let options = Options::default().shared_sessions(Arc::clone(&registry));
    let sessions = Sessions::new(&dispatcher, &options, Arc::new(store.another_node()));
    let exchanges = Exchanges::restored(&dispatcher, 1, SAVED.as_bytes()).unwrap().0;
    (sessions, dispatcher, registry, exchanges)
}

/// A node that has opened a session whose client has come back.
async fn opened(store: &Memory) -> Node {
    let (sessions, dispatcher, registry, exchanges) = node(store);
    let session = sessions.open(exchanges, Party::Strangers(None)).unwrap();
    let node = Node { sessions, dispatcher, registry, session };
    assert_eq!(node.shared().keep(&node.sessions, &node.session, None).await, Kept::Settled);
    node.session.lock().followed_up = true;
    node.renew(None).await;
    node
}

/// Another that goes on with that.
async fn taken_over(store: &Memory, from: &Node) -> Node {
    let (sessions, dispatcher, registry, exchanges) = node(store);
    let session = sessions.take_over(from.session.id(), exchanges, Party::Strangers(None)).unwrap().unwrap();
    let (found, watched) = (from.entry().await, from.written().await);
    session.note_found(&found, &watched.iter().map(|number| uri(*number)).collect::<Vec<_>>());
    let node = Node { sessions, dispatcher, registry, session };
    watched.into_iter().for_each(|number| node.begin(number));
    assert_eq!(node.shared().keep(&node.sessions, &node.session, Some(&found)).await, Kept::Settled);
    node
}

#[tokio::test(start_paused = true)]
async fn that_another_node_has_a_session_is_known_without_a_word_and_is_not_written_without_end() {
    let store = Memory::new();
    let here = opened(&store).await;
    assert!(here.session.elsewhere().is_none(), "it is here alone");
    let _there = taken_over(&store, &here).await;
    here.renew(None).await;
    assert!(here.session.elsewhere().is_some(), "another has written its entry");

    let extended = here.entry().await.version;
    here.renew(None).await;
    assert_eq!(here.entry().await.version, extended, "it lasts long enough");
}

#[tokio::test(start_paused = true)]
async fn what_is_subscribed_at_once_is_written_before_any_of_it_is_answered() {
    let here = opened(&Memory::new()).await;
    let watch = async |number: usize| {
        here.watch(number).await;
        assert!(here.written().await.contains(&number), "{number}");
    };
    tokio::join!(watch(0), watch(1), watch(2), watch(3), watch(4));
    assert_eq!(here.written().await, [0, 1, 2, 3, 4]);
    assert!(here.session.elsewhere().is_none(), "it is here alone");
}

#[tokio::test(start_paused = true)]
async fn nodes_that_write_at_once_take_nothing_from_one_another() {
    let store = Memory::new();
    let here = opened(&store).await;
    let (there, third) = (taken_over(&store, &here).await, taken_over(&store, &here).await);
    tokio::join!(here.watch(0), there.watch(1), third.watch(2));
    assert_eq!(here.written().await, [0, 1, 2]);
    tokio::join!(here.leave(1), there.watch(3));
    assert_eq!(here.written().await, [0, 2, 3]);
    for node in [&here, &there, &third] {
        node.renew(Some(&Caller::default())).await;
        assert_eq!(node.watches(), [0, 2, 3]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_client_wants_at_one_node_counts_for_more_than_what_it_left_at_another_before() {
    let store = Memory::new();
    let here = opened(&store).await;
    here.watch(0).await;
    let there = taken_over(&store, &here).await;
    there.leave(0).await;
    assert_eq!(here.written().await, [0; 0]);
    // It is still watched here, where nobody has looked since, and so it stays, whoever looks first.
    let _wish = here.session.wishes(Watch { uri: uri(0), begins: true });
    here.watch(1).await;
    assert_eq!((here.watches(), here.written().await), (vec![0, 1], vec![0, 1]));
    there.leave(1).await;
    assert_eq!((there.watches(), here.written().await), (vec![0], vec![0]));
}

#[tokio::test(start_paused = true)]
async fn what_is_as_a_node_wrote_it_last_is_written_again_where_another_has_written_since() {
    let store = Memory::new();
    let here = opened(&store).await;
    let there = taken_over(&store, &here).await;
    here.watch(0).await;
    there.leave(0).await;
    assert_eq!(here.written().await, [0; 0]);
    there.watch(1).await;
    here.leave(1).await;
    there.watch(1).await;
    assert_eq!(here.written().await, [1]);
}

#[tokio::test(start_paused = true)]
async fn what_was_heard_of_another_node_and_could_not_be_written_is_left_with_it() {
    let store = Memory::new();
    let here = opened(&store).await;
    let there = taken_over(&store, &here).await;
    there.watch(0).await;
    here.registry.refuses.store(true, Ordering::SeqCst);
    here.watch(1).await;
    assert_eq!((here.watches(), here.written().await), (vec![0, 1], vec![0]));
    there.leave(0).await;
    here.registry.refuses.store(false, Ordering::SeqCst);
    here.renew(Some(&Caller::default())).await;
    assert_eq!((here.watches(), here.written().await), (vec![1], vec![1]));
}

#[tokio::test(start_paused = true)]
async fn what_a_list_has_no_room_for_is_not_left() {
    let store = Memory::new();
    let here = opened(&store).await;
    for number in 1..MANY {
        here.begin(number);
    }
    here.renew(None).await;
    let listed = here.written().await;
    assert!(listed.len() < MANY - 1, "there is no room for all");
    let there = taken_over(&store, &here).await;
    there.watch(0).await;
    here.renew(Some(&Caller::default())).await;
    assert_eq!(here.watches(), (0..MANY).collect::<Vec<_>>());
    // Of what the list would have it is known that it was left.
    there.leave(2).await;
    here.renew(Some(&Caller::default())).await;
    assert!(!here.watches().contains(&2) && here.watches().contains(&(MANY - 1)), "{:?}", here.watches());
}
