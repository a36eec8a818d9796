//! The stores in one PostgreSQL database, shared by the nodes of a fleet.

mod account;
mod address;
mod entries;
mod events;
mod fault;
mod keeper;
mod link;
mod migrations;
mod open;
mod read;
mod renew;
mod sql;
mod steps;
mod transfer;
mod tx;
mod upgrade;
mod value;

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use deadpool_postgres::Pool;
use tokio::{
    sync::{Mutex, mpsc},
    time::{sleep, timeout},
};

pub use self::open::PostgresOptions;
use self::{
    address::Place,
    fault::Fault,
    link::Direct,
    read::{Moment, Plain},
    tx::Tx,
};
#[cfg(doc)]
use crate::Limits;
use crate::{
    Epoch, Overlay, Record, Scope, StoreError, StoreFuture, TaskId, TaskStore,
    networked::{
        Handle,
        look::{Get, Look},
        node::Node,
        server::Server,
        transaction::Operation,
    },
};

/// Tasks, events and entries in one PostgreSQL database (14 or later), in a schema of their own, `longhaul`.
///
/// Each operation is one transaction: it holds the rows it is about, applies the rules that every backend has, and
/// writes back. Transactions that meet give way and are tried again, a few times. Operations run on threads of the
/// store's own, so that one whose caller goes away still happens as a whole; any runtime may wait for them.
///
/// **Time** is the database's: each node asks for it and measures what has passed since, so that what the nodes' own
/// clocks say does not matter. The clock of the database's machine does: set forward by less than an hour it is followed,
/// and leases, time limits and retentions run out by as much earlier; by more, it is followed by nodes that are opened
/// after that, and then by all. Set back, it is passed over. Two nodes differ by as much as one question to the database
/// and back takes.
///
/// **Alive** is who has a session with the database. A node whose session ends without a word, and that does not make
/// another within [`session_grace`](PostgresOptions::session_grace), loses its leases.
///
/// **When the database goes away** operations fail with [`StoreError::Unreachable`] until it is back; what was
/// acknowledged is there then, as far as [`durability`](TaskStore::durability) goes.
///
/// **Bounds in all** ([`Limits::max_open`], [`Limits::max_retained`]), and those of events and entries, are counted without
/// one operation waiting for another: as many may come beyond as are under way at the same moment. An owner's own tasks are
/// counted exactly.
///
/// Dropping the handle gives up its leases; it blocks for that, for at most two seconds.
///
/// ```no_run
/// # async fn f() -> Result<(), longhaul_store::StoreError> {
/// let store = longhaul_store::Postgres::open("postgres://longhaul@localhost/tasks").await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Postgres(Handle<Site>);

/// What all parts of one store handle share.
struct Site {
    node: Node,
    pool: Pool,
    place: Place,
    direct: Direct,
    /// What the keeper of the session is to tell others of, and where it hears that.
    hints: (mpsc::Sender<TaskId>, Mutex<mpsc::Receiver<TaskId>>),
    is_pooled: bool,
    /// How often changes are looked for that no hint has told of.
    poll: Duration,
    /// How a transaction begins.
    begin: String,
    shards: AtomicU64,
}

impl Postgres {
    /// Opens the store in this database with default [`PostgresOptions`], creating it if there is none.
    ///
    /// # Errors
    ///
    /// As [`PostgresOptions::open`].
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        PostgresOptions::new().open(url).await
    }

    /// Where the database is: its hosts and its name, and nothing else that its URL says.
    #[must_use]
    pub fn place(&self) -> String {
        self.0.site.place.to_string()
    }

    /// The settings of the database that its [`durability`](TaskStore::durability) follows from, such as
    /// `synchronous_commit = on`.
    #[must_use]
    pub fn commits(&self) -> String {
        self.0.site.node.commits()
    }

    /// Does something that takes room. Before it is refused for want of that, what is past its time makes some, by
    /// `sweep`.
    fn change_with_room<'a, O: Operation<Tx>>(
        &'a self,
        make: impl Fn() -> O + Send + Sync + 'a,
        sweep: impl Fn(&'a Self) -> StoreFuture<'a, usize> + Send + 'a,
    ) -> StoreFuture<'a, O::Done> {
        Box::pin(async move {
            loop {
                match self.0.change(&make).await {
                    Err(StoreError::Overloaded { .. }) if sweep(self).await? > 0 => {}
                    written => return written,
                }
            }
        })
    }
}

impl Overlay for Postgres {
    type Below = dyn TaskStore;

    fn below(&self) -> &(dyn TaskStore + 'static) {
        &self.0
    }

    /// A task that asks nothing, which is nearly every one, in one statement.
    fn get<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        let owner = match scope {
            Scope::Owner(owner) => Some(owner.clone()),
            Scope::Operator => None,
        };
        let wanted = Plain(Get { owner, id: id.clone() });
        Box::pin(async move {
            match self.0.look(move || wanted).await? {
                Some(found) => Ok(found),
                None => TaskStore::get(&self.0, scope, id).await,
            }
        })
    }
}

impl Server for Site {
    type Tx = Tx;
    type Moment = Moment;

    fn node(&self) -> &Node {
        &self.node
    }

    fn place(&self) -> String {
        self.place.to_string()
    }

    async fn change<O: Operation<Tx>>(self: Arc<Self>, operation: O) -> Result<O::Done, StoreError> {
        let (mut tries, mut family) = (0, None);
        loop {
            self.admit()?;
            let attempt = timeout(self.node.patience * 2, Tx::attempt(&self, &operation, family.as_ref()));
            let fault = match attempt.await {
                Ok(Ok((done, changes))) => {
                    for id in changes {
                        self.node.wake(&id);
                        // A hint that finds no room is none: others look for themselves.
                        let _told_or_not = self.hints.0.try_send(id);
                    }
                    return Ok(done);
                }
                Ok(Err(Fault::Family(id))) => {
                    family = Some(id);
                    continue;
                }
                Ok(Err(fault)) => fault,
                Err(late) => return Err(self.place.unreachable(late)),
            };
            tries += 1;
            if tries == MOST_TRIES || !fault.is_worth_another_try() {
                return Err(self.place.error(fault));
            }
            sleep(PAUSE * tries).await;
        }
    }

    async fn look<L: Look<Moment>>(self: Arc<Self>, look: L) -> Result<L::Found, StoreError> {
        let mut tries = 0;
        loop {
            self.admit()?;
            let looking = read::attempt(&self, &look);
            let found = if L::LASTS { looking.await } else { self.in_time(looking).await };
            let Err(fault) = found else { return found.map_err(|fault| self.place.error(fault)) };
            tries += 1;
            if tries == MOST_TRIES || !fault.is_worth_another_try() {
                return Err(self.place.error(fault));
            }
            sleep(PAUSE * tries).await;
        }
    }

    async fn renew(self: Arc<Self>, held: Vec<(TaskId, Epoch)>) -> Result<Vec<TaskId>, StoreError> {
        renew::renew(&self, &held).await
    }
}

impl Site {
    /// Waits for an answer for as long as it may take.
    async fn in_time<T>(&self, asked: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        match timeout(self.node.patience * 2, asked).await {
            Ok(answer) => answer,
            Err(late) => Err(Fault::Refused(self.place.unreachable(late))),
        }
    }
}

/// How often an operation is tried that others stand in the way of.
const MOST_TRIES: u32 = 5;

/// The pause before the second try; the later ones wait longer.
const PAUSE: Duration = Duration::from_millis(20);

/// How much that is past its time goes at once to make room.
const SWEPT_AT_ONCE: usize = 256;
