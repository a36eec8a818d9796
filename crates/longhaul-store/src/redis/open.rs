//! Opening a store: the server, its settings, the format, this node's place in it.

use std::{
    sync::{Arc, LazyLock, atomic::AtomicU64},
    time::Duration,
};

use ::redis::Script;
use tokio::time::timeout;

use super::{
    Redis, Site,
    address::{Address, Place},
    fault::Fault,
    here::Here,
    keeper::Session,
    keys::Keys,
    link::{Link, reading, script_in_want},
    recent::Recent,
    settings,
};
use crate::{
    Clock, Format, Settings, StoreError, Time,
    error::said,
    networked::{Handle, POLL, ended, keeper::Keeps as _, node::Node, password::Password, threads},
    transfer::without_limits,
};

/// How to open a store on a Redis or Valkey server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RedisOptions {
    /// How it behaves.
    pub settings: Settings,
    /// Where its time comes from; `None`: from the server's clock, whatever the nodes' own clocks say.
    pub clock: Option<Arc<dyn Clock>>,
    /// How many writes wait at once for replicas to have them (`replicas` of the URL), each on a connection; those beyond
    /// wait for these. Default 16.
    pub waiting: usize,
    /// How long the server may take to answer before an operation fails ([`StoreError::Unreachable`]). Default 10 s.
    pub patience: Duration,
    /// For how long nobody takes the tasks of a node that has lost its session and not said that it goes: it may make
    /// another, for the server was started again, or the way to it was cut for a moment. Default 1 s. It is
    /// the same on every node: each goes by its own to know until when others cannot take it for dead.
    pub session_grace: Duration,
    /// How often a node looks, while anybody waits, for changes that other nodes' hints have not told it of. Default 2 s.
    pub poll: Duration,
    password: Option<Password>,
}

impl RedisOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self {
            settings: Settings::default(),
            clock: None,
            waiting: 16,
            patience: Duration::from_secs(10),
            session_grace: Duration::from_secs(1),
            poll: POLL,
            password: None,
        }
    }

    /// With these settings.
    #[must_use]
    pub fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// On this clock, in the place of the server's.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// With so many writes that wait for replicas at once.
    #[must_use]
    pub fn with_waiting(mut self, writes: usize) -> Self {
        self.waiting = writes;
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

    /// With this password, where the URL has none.
    #[must_use]
    pub fn with_password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(Password(password.into()));
        self
    }

    /// Opens the store on this server, creating it if there is none.
    ///
    /// The URL is `redis://USER:PASSWORD@HOST:PORT/NUMBER`, `rediss://…` with TLS, or `redis+unix:///SOCKET`. With TLS the
    /// certificate is held against the host's name and the system's authorities, or those in the file that `sslrootcert`
    /// names. `name` is what the store is called (`longhaul`): a server has room for several. `replicas` is how many
    /// of them must have a write before it is acknowledged (`WAIT`; 0).
    ///
    /// # Errors
    ///
    /// [`StoreError::Unreachable`]; [`StoreError::Newer`] for a store of a newer release that this one cannot work beside,
    /// [`StoreError::Foreign`] for keys that hold something else, [`StoreError::OutOfService`] for a store that was copied into
    /// another; [`StoreError::Backend`] for a URL that is none, for a server
    /// before version 7, one that is a replica, or one that may throw away what it keeps (`maxmemory-policy` other than
    /// `noeviction`), and for whatever else the server says. None of them tells the password.
    pub async fn open(self, url: &str) -> Result<Redis, StoreError> {
        self.open_as(url, true).await
    }

    /// As [`open`](Self::open), to [copy](crate::transfer) all of it or to copy into it: also one that is out of service, and
    /// whatever is in it is within its limits.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open), but for [`StoreError::OutOfService`].
    pub async fn open_to_copy(mut self, url: &str) -> Result<Redis, StoreError> {
        self.settings = without_limits(self.settings);
        self.open_as(url, false).await
    }

    async fn open_as(self, url: &str, serves: bool) -> Result<Redis, StoreError> {
        let (address, patience) = (self.address(url)?, self.patience);
        let client = address.client.clone();
        let handle = Handle::open(self.enter(address, serves)).await?;
        let here = handle.threads().and_then(|own| Here::new(own.clone(), client, patience));
        handle.site.link.is_opened_from(here);
        Ok(Redis { handle })
    }

    /// In which format the store on this server is. Nothing is changed, and this process is no node of it.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub async fn format(self, url: &str) -> Result<Format, StoreError> {
        let (address, patience, waiting, runtime) =
            (self.address(url)?, self.patience, self.waiting, threads()?);
        let looked = runtime.spawn(async move {
            let Address { client, place, name, replicas } = address;
            let (link, keys) = (Link::new(client, patience, replicas, waiting), Keys::new(&name));
            in_time(patience, &place, found(&link, &keys)).await
        });
        let found = ended(looked.await);
        runtime.shutdown_background();
        Ok(Format::new(found?, FORMAT))
    }

    fn address(&self, url: &str) -> Result<Address, StoreError> {
        Address::parse(url, self.password.as_ref().map(|Password(password)| password.as_str()))
    }

    /// Makes this node's session.
    async fn enter(self, address: Address, serves: bool) -> Result<(Arc<Site>, Session), StoreError> {
        let Address { client, place, name, replicas } = address;
        let link = Link::new(client, self.patience, replicas, self.waiting);
        let keys = Keys::new(&name);
        in_time(self.patience, &place, prepare(&link, &keys)).await?;
        let said = said_time(&link).await.map_err(|fault| place.error(fault))?;
        let node = Node::new(self.settings, self.clock, said, self.patience, self.session_grace)?;
        let site = Arc::new(Site {
            node: if serves { node } else { node.copying() },
            link,
            place,
            keys,
            replicas,
            poll: self.poll,
            versions: AtomicU64::new(0),
            recent: Recent::default(),
            line: tokio::sync::Mutex::new(()),
        });
        let session = site.enter().await?;
        Ok((site, session))
    }
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Waits for what is found out before there is a node.
async fn in_time<T>(
    patience: Duration,
    place: &Place,
    doing: impl Future<Output = Result<T, Fault>>,
) -> Result<T, StoreError> {
    match timeout(patience, doing).await {
        Ok(Err(Fault::Refused(StoreError::Foreign { why, .. }))) => {
            Err(StoreError::Foreign { place: place.to_string().into(), why })
        }
        Ok(done) => done.map_err(|fault| place.error(fault)),
        Err(late) => Err(place.unreachable(late)),
    }
}

/// Makes sure that the server is one to keep a store, and that the store has a format that this release works with.
async fn prepare(link: &Link, keys: &Keys) -> Result<(), Fault> {
    check(link).await?;
    let args = [FORMAT.to_string().into_bytes()];
    let kept = link.write("preparing the store", &PREPARE, &[keys.one("format")], &args).await?;
    readable(kept).map(drop)
}

/// The format of the store, if there is one, on a server that could keep it.
async fn found(link: &Link, keys: &Keys) -> Result<Option<u32>, Fault> {
    check(link).await?;
    let kept: Option<(u32, u32)> =
        link.read("looking for the store", &FOUND, &[keys.one("format")], &[]).await?;
    kept.map(readable).transpose()
}

/// Makes sure that the server is one to keep a store.
async fn check(link: &Link) -> Result<(), Fault> {
    let found = settings::look(link).await?;
    let refused = |why: String| {
        Err(Fault::Refused(StoreError::Backend { doing: "looking at the server", source: said(why) }))
    };
    if !found.is_new_enough() {
        return refused(format!("it is of version {}, and 7 is the oldest that can be used", found.version));
    }
    if found.role != "master" {
        return refused("it is a replica, which takes no writes; name the one that it follows".to_owned());
    }
    found.throws_away().map_or(Ok(()), refused)
}

/// The format of a store that this release can work with.
fn readable(kept: (u32, u32)) -> Result<u32, Fault> {
    match kept {
        (0, _) => Err(Fault::Refused(StoreError::Foreign {
            place: String::new().into(),
            why: "its keys hold something else; give the store another name: ?name=…".to_owned(),
        })),
        (found, readable_by) if readable_by > FORMAT => {
            Err(Fault::Refused(StoreError::Newer { found, supported: FORMAT }))
        }
        (found, _) => Ok(found),
    }
}

async fn said_time(link: &Link) -> Result<Time, Fault> {
    let mut asked = ::redis::pipe();
    asked.cmd("TIME");
    let ((seconds, micros),): ((i64, i64),) = link.ask("reading the time", &asked).await?;
    Ok(Time::from_unix_ms(seconds.saturating_mul(1000).saturating_add(micros / 1000)))
}

/// The format of a store, and the oldest release's that can work with it; a new one has this release's.
static PREPARE: LazyLock<Script> = LazyLock::new(|| {
    script_in_want(
        "local kind = redis.call('TYPE', KEYS[1])['ok'] \
         if kind == 'none' then redis.call('HSET', KEYS[1], 'format', ARGV[1], 'readable_by', ARGV[1]) \
         elseif kind ~= 'hash' then return {0, 0} end \
         local found = redis.call('HMGET', KEYS[1], 'format', 'readable_by') \
         return {tonumber(found[1] or '0'), tonumber(found[2] or '0')}",
    )
});

/// The same of one that may not be there, which is left so.
static FOUND: LazyLock<Script> = LazyLock::new(|| {
    reading(
        "local kind = redis.call('TYPE', KEYS[1])['ok'] \
         if kind == 'none' then return nil elseif kind ~= 'hash' then return {0, 0} end \
         local found = redis.call('HMGET', KEYS[1], 'format', 'readable_by') \
         return {tonumber(found[1] or '0'), tonumber(found[2] or '0')}",
    )
});

/// The format that this release writes.
const FORMAT: u32 = 1;
