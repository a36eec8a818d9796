//! The stores on one Redis or Valkey server, shared by the nodes of a fleet.

mod address;
mod commit;
mod entries;
mod events;
mod fault;
mod here;
mod keeper;
mod keys;
mod link;
mod open;
mod read;
mod recent;
mod renew;
mod row;
mod settings;
mod transfer;
mod tx;
mod waiting;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::{sleep, timeout};

pub use self::open::RedisOptions;
use self::{address::Place, fault::Fault, keys::Keys, link::Link, recent::Recent, tx::Tx};
use crate::{
    Epoch, Overlay, Record, Scope, StoreError, StoreFuture, TaskId, TaskStore,
    networked::{
        Handle,
        look::{Look, Moment},
        node::Node,
        server::Server,
        transaction::Operation,
    },
};

/// Tasks, events and entries on one Redis (7 or later) or Valkey server, under keys that all begin with the store's name.
///
/// An operation on tasks reads what it is about, applies the rules that every backend has, and writes all that comes of it by
/// one script, which does so only if everything read is still as it was. Operations that meet are tried again, a bounded number
/// of times. What is sent in streams, and the registry, have a script for each operation. Operations run as tasks of their own, so that
/// one whose caller goes away still happens as a whole; any runtime may wait for them. They run on threads of the store's own; who waits
/// in the runtime in which the store was opened reads single tasks, and changes them if it is one of several threads, by a connection of
/// that runtime.
///
/// **What it survives** is what the server is set to ([`durability`](TaskStore::durability)): with `appendonly yes` and
/// `appendfsync always` a loss of power; with `everysec` up to two seconds may be lost when the server or its machine goes down.
/// It is never the loss of the machine: a replica that takes over need not have what was acknowledged, however many were waited
/// for, and then tasks, answers and outcomes may be missing or older, and an epoch may be given a second time. Whoever
/// needs more takes PostgreSQL.
///
/// **Memory** is the server's: it must be set to refuse what it has no room for (`maxmemory-policy noeviction`), or the store
/// is not opened. What takes room fails then with [`StoreError::Full`]; what makes some goes on, and so do leases and cancels.
/// One that is set otherwise later is [at risk](TaskStore::at_risk), as each node finds out within ten seconds.
///
/// **A cluster** keeps a store on one of its nodes, for all its keys have one tag: name that node. More of them do not make one
/// store faster; stores of other [names](RedisOptions::open) are kept by others.
///
/// **Time** is the server's, as it is the database's in `Postgres`. **Alive** is who listens on a channel of its own. A node
/// whose session ends without a word, and that does not make another within [`session_grace`](RedisOptions::session_grace),
/// loses its leases.
///
/// **When the server goes away** operations fail with [`StoreError::Unreachable`] until it is back.
///
/// Dropping the handle gives up its leases; it blocks for that, for at most two seconds.
///
/// ```no_run
/// # async fn f() -> Result<(), longhaul_store::StoreError> {
/// let store = longhaul_store::Redis::open("redis://localhost").await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Redis {
    handle: Handle<Site>,
}

/// What all parts of one store handle share.
struct Site {
    node: Node,
    link: Link,
    place: Place,
    keys: Keys,
    replicas: usize,
    /// How often changes are looked for that no hint has told of.
    poll: Duration,
    /// How many rows this node has written.
    versions: AtomicU64,
    /// Those that it has read or written lately.
    recent: Recent,
    /// Here those of this node wait that others were faster than, so that they are not in each other's way, too.
    line: tokio::sync::Mutex<()>,
}

impl Redis {
    /// Opens the store on this server with default [`RedisOptions`], creating it if there is none.
    ///
    /// # Errors
    ///
    /// As [`RedisOptions::open`].
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        RedisOptions::new().open(url).await
    }

    /// Where the server is, and nothing else that its URL says.
    #[must_use]
    pub fn place(&self) -> String {
        self.handle.site.place.to_string()
    }

    /// The settings of the server that its [`durability`](TaskStore::durability) follows from, such as
    /// `appendfsync = always`.
    #[must_use]
    pub fn commits(&self) -> String {
        self.handle.site.node.commits()
    }

    /// Has the store's own threads do something, whoever goes on to wait for it.
    fn on_own<'a, T, F>(&'a self, make: impl FnOnce(Arc<Site>) -> F + Send + 'a) -> StoreFuture<'a, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        self.handle.on_own(move |site| {
            let doing = make(Arc::clone(&site));
            async move { site.in_time(doing).await }
        })
    }
}

impl Overlay for Redis {
    type Below = dyn TaskStore;

    fn below(&self) -> &(dyn TaskStore + 'static) {
        &self.handle
    }

    fn get<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        Box::pin(async move {
            match self.handle.site.read_here(scope, id).await {
                Some(read) => read,
                None => self.below().get(scope, id).await,
            }
        })
    }
}

impl Server for Site {
    type Tx = Tx;
    type Moment = Self;

    fn node(&self) -> &Node {
        &self.node
    }

    fn place(&self) -> String {
        self.place.to_string()
    }

    fn near(&self) -> Option<tokio::runtime::Handle> {
        self.link.near()
    }

    async fn change<O: Operation<Tx>>(self: Arc<Self>, operation: O) -> Result<O::Done, StoreError> {
        self.in_time(self.try_to_change(&operation)).await
    }

    async fn look<L: Look<Self>>(self: Arc<Self>, look: L) -> Result<L::Found, StoreError> {
        let looking = self.try_to_look(&look);
        if L::LASTS { looking.await } else { self.in_time(looking).await }
    }

    async fn renew(self: Arc<Self>, held: Vec<(TaskId, Epoch)>) -> Result<Vec<TaskId>, StoreError> {
        self.in_time(renew::renew(&self, &held)).await
    }
}

impl Moment for Site {
    type Fault = Fault;
}

impl Site {
    async fn try_to_change<O: Operation<Tx>>(self: &Arc<Self>, operation: &O) -> Result<O::Done, StoreError> {
        let mut waited_for = None;
        for tries in 1.. {
            self.admit()?;
            let fault = match Tx::attempt(self, operation, tries > MOST_PATIENT).await {
                Ok((done, changes)) => {
                    changes.iter().for_each(|id| self.node.wake(id));
                    return Ok(done);
                }
                Err(fault) => fault,
            };
            let most = if matches!(fault, Fault::Changed) { MOST_MEETINGS } else { MOST_TRIES };
            if tries >= most || !fault.is_worth_another_try() {
                return Err(self.place.error(fault));
            }
            if waited_for.is_none() && matches!(fault, Fault::Changed) {
                // Those before it are many where a family is stood before, and wait for just this one.
                waited_for = Some(timeout(LONGEST_LINE, self.line.lock()).await.ok());
            }
            self.pause(&fault, tries).await;
        }
        Err(StoreError::Closed)
    }

    async fn try_to_look<L: Look<Self>>(&self, look: &L) -> Result<L::Found, StoreError> {
        for tries in 1.. {
            self.admit()?;
            let fault = match look.look(self).await {
                Ok(found) => return Ok(found),
                Err(fault) => fault,
            };
            if tries >= MOST_TRIES || !fault.is_worth_another_try() {
                return Err(self.place.error(fault));
            }
            self.pause(&fault, tries).await;
        }
        Err(StoreError::Closed)
    }

    /// Those who met go on at different moments; whoever waits for the server gives it longer.
    async fn pause(&self, fault: &Fault, tries: u32) {
        match fault {
            Fault::Changed => {
                let part = self.versions.fetch_add(1, Ordering::Relaxed) % 7 + 1;
                sleep(Duration::from_micros(250) * (part as u32) * tries.min(8)).await;
            }
            _ => sleep(PAUSE * tries).await,
        }
    }

    /// Waits for something no longer than this node's patience goes.
    async fn within<T>(&self, doing: impl Future<Output = Result<T, Fault>>) -> Result<T, StoreError> {
        match timeout(self.node.patience, doing).await {
            Ok(done) => done.map_err(|fault| self.place.error(fault)),
            Err(late) => Err(self.place.unreachable(late)),
        }
    }

    /// The same of what asks several times: each of its questions has an answer in time; many of them may not.
    async fn in_time<T>(&self, doing: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        match timeout(self.node.patience * 4, doing).await {
            Ok(done) => done,
            Err(late) => Err(self.place.unreachable(late)),
        }
    }

    /// Another version than any row has had.
    fn next_version(&self) -> String {
        format!("{}.{:x}", self.node.id, self.versions.fetch_add(1, Ordering::Relaxed))
    }
}

/// How often an operation is tried that the server cannot be reached for.
const MOST_TRIES: u32 = 5;

/// How often an operation is tried that others are faster than.
const MOST_MEETINGS: u32 = 64;

/// How many of these tries insist on nothing.
const MOST_PATIENT: u32 = 4;

/// How long one waits in line.
const LONGEST_LINE: Duration = Duration::from_millis(500);

/// The pause before the second try; the later ones wait longer.
const PAUSE: Duration = Duration::from_millis(20);
