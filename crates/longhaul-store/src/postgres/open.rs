//! Opening a store: the database, its format, this node's place in it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::{Mutex, mpsc};

use super::{
    Postgres, Site,
    address::Address,
    fault::Fault,
    keeper::hold,
    link::{Connection, Direct},
    migrations, sql,
    upgrade::prepare,
};
use crate::{
    Clock, Format, Settings, StoreError, Time,
    networked::{Handle, POLL, ended, node::Node, password::Password, threads},
    transfer::without_limits,
};

/// How to open a store in a PostgreSQL database.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PostgresOptions {
    /// How it behaves.
    pub settings: Settings,
    /// Where its time comes from; `None`: from the database's clock, whatever the nodes' own clocks say.
    pub clock: Option<Arc<dyn Clock>>,
    /// How many operations run at once, each on a connection; those beyond wait. Default 16.
    pub connections: usize,
    /// How long one statement may take, and how long a connection is waited for, before an operation fails
    /// ([`StoreError::Busy`], [`StoreError::Unreachable`]). Default 10 s.
    pub patience: Duration,
    /// For how long nobody takes the tasks of a node that has lost its session and not said that it goes: it may make
    /// another, for the database was started again, or the way to it was cut for a moment. Default 1 s. It is
    /// the same on every node: each goes by its own to know until when others cannot take it for dead.
    pub session_grace: Duration,
    /// How often a node looks, while anybody waits, for changes that other nodes' hints have not told it of.
    /// Behind a pooler, where there are no hints, it looks each 200 ms at least. Default 2 s.
    pub poll: Duration,
    /// Whether there is a pooler before the database that gives each transaction another connection (PgBouncer with
    /// `pool_mode = transaction`). Then nothing is prepared, other nodes' changes are noticed by looking (each 200 ms, while
    /// anybody waits), and the tasks of a node that died without a word wait until their leases have run out. The format
    /// of the store is brought up to date over a direct connection alone. Default `false`.
    pub pooler: bool,
    /// How long whoever brings the store's format up to date waits for others, such as a transaction that holds its tables or
    /// was open before, until the opening fails ([`StoreError::Busy`]). Default 10 minutes.
    pub format_patience: Duration,
    password: Option<Password>,
}

impl PostgresOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self {
            settings: Settings::default(),
            clock: None,
            connections: 16,
            patience: Duration::from_secs(10),
            session_grace: Duration::from_secs(1),
            poll: POLL,
            pooler: false,
            format_patience: Duration::from_secs(10 * 60),
            password: None,
        }
    }

    /// With these settings.
    #[must_use]
    pub fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// On this clock, in the place of the database's.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// With so many connections for operations.
    #[must_use]
    pub fn with_connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Waiting this long.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// With this time in which a node may come back.
    #[must_use]
    pub fn with_session_grace(mut self, grace: Duration) -> Self {
        self.session_grace = grace;
        self
    }

    /// Looking this often for changes that no hint has told of.
    #[must_use]
    pub fn with_poll(mut self, every: Duration) -> Self {
        self.poll = every;
        self
    }

    /// Waiting this long for others while the format is brought up to date.
    #[must_use]
    pub fn with_format_patience(mut self, patience: Duration) -> Self {
        self.format_patience = patience;
        self
    }

    /// Behind a pooler.
    #[must_use]
    pub fn with_pooler(mut self, pooler: bool) -> Self {
        self.pooler = pooler;
        self
    }

    /// With this password, where the URL has none.
    #[must_use]
    pub fn with_password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(Password(password.into()));
        self
    }

    /// Opens the store in this database, creating it if there is none, in the schema `longhaul`.
    ///
    /// The URL is `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. `sslmode` is `verify-full` unless the database is on this
    /// machine, and else `disable` or `prefer`; `sslrootcert` names a file of authorities in the place of the system's. `pooler=true` is
    /// [`pooler`](Self::pooler). Of several hosts, separated by commas, the one is taken that can be written to.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unreachable`], [`StoreError::Busy`]; [`StoreError::Newer`] for a store of a newer release that this one
    /// cannot work beside, [`StoreError::Foreign`] for a schema that holds something else, [`StoreError::OutOfService`] for one
    /// that was copied into another, [`StoreError::Backend`] for a URL that is none and for whatever else the database says. None
    /// of them tells the password.
    pub async fn open(self, url: &str) -> Result<Postgres, StoreError> {
        self.open_as(url, true).await
    }

    /// As [`open`](Self::open), to [copy](crate::transfer) all of it or to copy into it: also one that is out of service, and
    /// whatever is in it is within its limits.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open), but for [`StoreError::OutOfService`].
    pub async fn open_to_copy(mut self, url: &str) -> Result<Postgres, StoreError> {
        self.settings = without_limits(self.settings);
        self.open_as(url, false).await
    }

    async fn open_as(mut self, url: &str, serves: bool) -> Result<Postgres, StoreError> {
        let mut address = Address::parse(url)?;
        self.pooler |= address.is_pooled;
        if let (Some(Password(password)), None) = (&self.password, address.config.get_password()) {
            address.config.password(password);
        }
        Ok(Postgres(Handle::open(self.enter(address, serves)).await?))
    }

    /// In which format the store in this database is. Nothing is changed, and this process is no node of it.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub async fn format(mut self, url: &str) -> Result<Format, StoreError> {
        let mut address = Address::parse(url)?;
        self.pooler |= address.is_pooled;
        if let (Some(Password(password)), None) = (&self.password, address.config.get_password()) {
            address.config.password(password);
        }
        let runtime = threads()?;
        let (pooler, patience) = (self.pooler, self.patience);
        let looked =
            runtime.spawn(async move { migrations::format(&Direct::new(address, pooler, patience)).await });
        let format = ended(looked.await);
        runtime.shutdown_background();
        format
    }

    /// Makes this node's session.
    async fn enter(self, address: Address, serves: bool) -> Result<(Arc<Site>, Connection), StoreError> {
        let direct = Direct::new(address, self.pooler, self.patience);
        prepare(&direct, self.format_patience).await?;
        let pool = direct.pool(self.connections)?;
        let connection = direct.connect().await?;
        let said = said_time(&direct, &connection).await?;
        let node = Node::new(self.settings, self.clock, said, self.patience, self.session_grace)?;
        let node = if serves { node } else { node.copying() };
        let (hints, told) = mpsc::channel(MOST_HINTS);
        let patience = self.patience.as_millis();
        let site = Arc::new(Site {
            pool,
            place: direct.place.clone(),
            direct,
            hints: (hints, Mutex::new(told)),
            is_pooled: self.pooler,
            poll: self.poll,
            begin: if self.pooler {
                format!("{}; SET LOCAL statement_timeout = {patience}", sql::BEGIN)
            } else {
                sql::BEGIN.to_owned()
            },
            // Nodes begin at different ones.
            shards: AtomicU64::new(node.id.as_str().bytes().map(u64::from).sum()),
            node,
        });
        hold(&site, &connection).await?;
        Ok((site, connection))
    }
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// What the database's clock says.
async fn said_time(direct: &Direct, connection: &Connection) -> Result<Time, StoreError> {
    let doing = "reading the time";
    let failed = |error| direct.place.error(Fault::database(doing, error));
    let look = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let row = direct.within(doing, connection.client.query_typed_one(look, &[])).await?;
    row.try_get(0).map(Time::from_unix_ms).map_err(failed)
}

impl Site {
    /// The figures that the next transaction adds to.
    pub(super) fn next_shard(&self) -> i64 {
        (self.shards.fetch_add(1, Ordering::Relaxed) % SHARDS) as i64
    }
}

/// How many of its own changes a node remembers to tell others of. What is beyond they notice by looking.
const MOST_HINTS: usize = 4_096;

/// The rows of the totals.
const SHARDS: u64 = 16;
