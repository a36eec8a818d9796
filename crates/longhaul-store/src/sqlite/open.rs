//! Opening a store: the file, its format, this node's place in it.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use rusqlite::{Connection, OpenFlags};
use tokio::sync::mpsc;

use super::{
    Sqlite,
    anchor::Anchor,
    entries,
    fault::{io_error, said, sqlite_error},
    flushed::Flushed,
    job::Jobs,
    log,
    presence::Presence,
    read::{self, Readers},
    recent::Recent,
    schema::{self, Found},
    sql,
    tx::Site,
    watcher,
    writer::{LONGEST_GROUP, Writer},
    writer_lock::{WriterLock, beside},
};
use crate::{
    Clock, Settings, StoreError, SystemClock, Time, WatchHub,
    aside::Aside,
    clock::{Mark, StoreClock},
    crash_point::crash_point,
    transfer::{self, Mark as TransferMark},
};

/// How to open a store in a file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SqliteOptions {
    /// How it behaves.
    pub settings: Settings,
    /// Where its time comes from.
    pub clock: Arc<dyn Clock>,
    /// How long a write waits for another process to finish its own before it is [`StoreError::Busy`]. Default 5 s.
    pub patience: Duration,
    /// How many writes may wait in line; those beyond wait for a place. Default 1,024.
    pub queue: usize,
}

impl SqliteOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self {
            settings: Settings::default(),
            clock: Arc::new(SystemClock::new()),
            patience: Duration::from_secs(5),
            queue: 1024,
        }
    }

    /// With these settings.
    #[must_use]
    pub fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// On this clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Waiting this long for other processes.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Opens the store in this file, creating it if there is none. Blocks for as long as the disk takes.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`], [`StoreError::Full`], [`StoreError::Busy`]; [`StoreError::Newer`] for a file of a newer
    /// release, [`StoreError::Foreign`] for a file that is something else, [`StoreError::Corrupt`] for one whose log was
    /// damaged after it had reached the disk, [`StoreError::OutOfService`] for one that was copied into another.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Sqlite, StoreError> {
        self.enter(path.as_ref())?.heeding_its_mark()
    }

    /// As [`open`](Self::open), to [copy](crate::transfer) all of it or to copy into it: also one that is out of service, and
    /// whatever is in it is within its limits.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open) but the last.
    pub fn open_to_copy(mut self, path: impl AsRef<Path>) -> Result<Sqlite, StoreError> {
        self.settings = transfer::without_limits(self.settings);
        self.enter(path.as_ref())
    }

    fn enter(self, path: &Path) -> Result<Sqlite, StoreError> {
        let path = create_private(path)?;
        refuse_scrap(&path)?;
        let presence = Presence::enter(beside(&path, ".nodes"), schema::MIGRATIONS.len())?;
        let turn = WriterLock::open(beside(&path, ".writer"))?;
        let (conn, last) = {
            let turn = turn.acquire(self.patience)?;
            log::check(&path, turn.flushed()?)?;
            let conn = connect(&path, self.patience)?;
            let last = prepare(&conn, &path, &presence)?;
            (conn, last)
        };
        // Only now it is known to be a store.
        warn_if_shared(&path);
        let (seq, mark) = last;
        let clock = StoreClock::resume(self.clock, mark);
        let site = Arc::new(Site {
            file: Anchor::of(&path)?,
            recent: Recent::new(&path),
            path,
            is_still: false,
            settings: self.settings,
            clock,
            hub: WatchHub::new(),
            aside: Aside::default(),
            told: Mutex::new(seq),
            failing: Mutex::default(),
        });
        let (jobs, queue) = mpsc::channel(self.queue.max(1));
        let (patience, longest_group) = (self.patience, LONGEST_GROUP);
        let writer = Writer { site: site.clone(), conn, turn, patience, longest_group };
        let started = |error| io_error(&site.path, "starting a thread", error);
        let writer = thread::Builder::new()
            .name("longhaul-store-write".to_owned())
            .spawn(move || writer.run(queue))
            .map_err(started)?;
        let watcher = watcher::start(site.clone()).map_err(started)?;
        Ok(Sqlite {
            jobs: Some(Jobs(jobs)),
            refusal: None,
            writer: Some(writer),
            watcher: Some(watcher),
            readers: Readers::new(),
            site,
            presence,
        })
    }

    /// As [`open`](Self::open), for who mostly looks: where the place has no room or may not be written, what the store has
    /// can still be read. Such a handle is no node; it can write nothing, and each write is refused as opening was.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), where it cannot be read either.
    pub fn open_or_read(self, path: impl AsRef<Path>) -> Result<Sqlite, StoreError> {
        match self.clone().open(path.as_ref()) {
            Err(refusal @ (StoreError::Full { .. } | StoreError::ReadOnly { .. })) => {
                self.read(path.as_ref(), refusal)?.heeding_its_mark()
            }
            opened => opened,
        }
    }

    /// Opens the store in this file to look at it: the handle is no node, refuses every write, and changes nothing, not even
    /// the format. Servers may run.
    ///
    /// # Errors
    ///
    /// As [`Sqlite::format`], and [`StoreError::Backend`] for an older format, which [`open`](Self::open) makes the newest.
    pub fn open_to_read(self, path: impl AsRef<Path>) -> Result<Sqlite, StoreError> {
        let path = path.as_ref();
        if Sqlite::format(path)?.is_old() {
            let source =
                said("its format is older than this release's; whoever opens it to write changes that");
            return Err(StoreError::Backend { doing: "looking at a store", source });
        }
        let source = said("it was opened to be read");
        self.read(path, StoreError::ReadOnly { place: path.to_owned(), source })
    }

    /// A handle that only reads the store, which is not to be written for that reason.
    fn read(self, path: &Path, refusal: StoreError) -> Result<Sqlite, StoreError> {
        let Ok(path) = fs::canonicalize(path) else { return Err(refusal) };
        let length = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
        // SQLite would throw away what is beside an empty file.
        if length(&path) == 0 {
            return Err(refusal);
        }
        // And what is behind a damage in the log.
        let note = beside(&path, ".writer");
        let lock = WriterLock::open(note.clone());
        let turn = lock.as_ref().ok().map(|lock| lock.acquire(self.patience)).transpose()?;
        let flushed = match (&turn, &lock) {
            (Some(turn), _) => turn.flushed()?,
            // Where nobody can have the turn to write, none is at it.
            (None, Err(StoreError::ReadOnly { source, .. })) if is_of_read_only_disk(&**source) => {
                noted(&note)?
            }
            // Somebody may be, who is none of ours.
            (None, _) => None,
        };
        log::check(&path, flushed)?;
        let (is_still, (seq, mark)) = match look(&path, false) {
            Some(last) => (false, last),
            // Without a log all is in the file, and no process is at work that could not make one.
            None if length(&beside(&path, "-wal")) == 0 => {
                (true, look(&path, true).ok_or_else(|| refusal.clone())?)
            }
            None => return Err(refusal),
        };
        let presence = Presence::of_reader(beside(&path, ".nodes"))?;
        let site = Arc::new(Site {
            file: Anchor::of(&path)?,
            recent: Recent::new(&path),
            path,
            is_still,
            settings: self.settings,
            clock: StoreClock::resume(self.clock, mark),
            hub: WatchHub::new(),
            aside: Aside::default(),
            told: Mutex::new(seq),
            failing: Mutex::default(),
        });
        let started = |error| io_error(&site.path, "starting a thread", error);
        let watcher = watcher::start(site.clone()).map_err(started)?;
        Ok(Sqlite {
            jobs: None,
            refusal: Some(refusal),
            writer: None,
            watcher: Some(watcher),
            readers: Readers::new(),
            site,
            presence,
        })
    }
}

impl Sqlite {
    /// Refuses a store that is out of service. Whoever copies it enters first and then marks it, and whoever comes to serve it
    /// enters first and then looks for the mark: of the two one sees the other.
    fn heeding_its_mark(self) -> Result<Self, StoreError> {
        let read = |conn: &Connection| entries::read(conn, &self.site, TransferMark::KEY);
        let kept = self.readers.read(&self.site, read)?;
        transfer::heed(kept.as_ref().map(|entry| &*entry.value))?;
        Ok(self)
    }
}

/// Whether that was refused because nothing can be written to the disk, whoever comes.
fn is_of_read_only_disk(refusal: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    let error = refusal.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::ReadOnlyFilesystem)
}

/// What is noted of the log, without a turn to write.
fn noted(note: &Path) -> Result<Option<Flushed>, StoreError> {
    let read = match fs::File::open(note) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.and_then(|file| Flushed::read(&file)),
    };
    read.map_err(|error| io_error(note, "reading the writers' lock file", error))
}

/// The latest change and the newest time of a store of this release's format, if it can be read.
fn look(path: &Path, is_still: bool) -> Option<(u64, Option<Mark>)> {
    let conn = read::open_at(path, is_still).ok()?;
    match schema::look(&conn, path, schema::MIGRATIONS) {
        Ok(Found::Current) => last(&conn).ok(),
        _ => None,
    }
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Makes sure the file exists, readable by its owner only, without ever opening it: closing a file drops all locks
/// this process has on it, SQLite's included. Returns its one true name.
fn create_private(path: &Path) -> Result<PathBuf, StoreError> {
    let failed = |error| io_error(path, "creating the store's file", error);
    match fs::canonicalize(path) {
        Ok(path) => return Ok(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    match create_unopened(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    fs::canonicalize(path).map_err(failed)
}

/// SQLite takes a file too short for its header for an empty database, and would write over what is in it.
pub(super) fn refuse_scrap(path: &Path) -> Result<(), StoreError> {
    let found = fs::metadata(path).map_err(|error| io_error(path, "looking at the store's file", error))?;
    if (1..SMALLEST_DATABASE).contains(&found.len()) {
        let why = format!("it has {} bytes, too few for a SQLite database", found.len());
        return Err(StoreError::Foreign { place: path.to_owned(), why });
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn create_unopened(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    Ok(mknodat(CWD, path, FileType::RegularFile, Mode::RUSR | Mode::WUSR, 0)?)
}

/// Elsewhere a file is made under a name nobody else has and then given its own, so that the one that is closed
/// here is not yet anyone's database.
#[cfg(not(target_os = "linux"))]
fn create_unopened(path: &Path) -> io::Result<()> {
    let mut bits = [0; 10];
    getrandom::fill(&mut bits).map_err(io::Error::other)?;
    let unnamed = beside(path, &format!(".new-{}", crate::NodeId::from_entropy(bits)));
    drop(super::writer_lock::private(fs::OpenOptions::new().create_new(true).write(true)).open(&unnamed)?);
    let named = fs::hard_link(&unnamed, path);
    fs::remove_file(&unnamed)?;
    named
}

fn warn_if_shared(path: &Path) {
    #[cfg(unix)]
    if let Ok(found) = fs::metadata(path) {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = found.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            tracing::warn!(path = %path.display(), mode = format!("{mode:o}"),
                "others on this machine may read the store; `chmod 600` it unless that is meant");
        }
    }
    #[cfg(not(unix))]
    let _ = path;
}

/// Opens the connection that writes, at the durability we promise.
fn connect(path: &Path, patience: Duration) -> Result<Connection, StoreError> {
    let failed = |error| sqlite_error(path, "opening the store", error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(failed)?;
    conn.busy_timeout(patience).map_err(failed)?;
    sql::keep_plans(&conn).map_err(failed)?;
    conn.set_prepared_statement_cache_capacity(64);
    // Looked at before anything is set: the log mode alone would change a file that is not ours.
    schema::look(&conn, path, schema::MIGRATIONS)?;
    if conn.is_readonly(rusqlite::MAIN_DB).map_err(failed)? {
        let source = said("SQLite could open it for reading only");
        return Err(StoreError::ReadOnly { place: path.to_owned(), source });
    }
    let mode: String =
        conn.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0)).map_err(failed)?;
    if !mode.eq_ignore_ascii_case("wal") {
        let source = said(format!("journal mode is {mode}; put the file on a local disk"));
        return Err(StoreError::Backend { doing: "turning on the write-ahead log", source });
    }
    let set = || {
        conn.pragma_update(None, "synchronous", "full")?;
        // Apple's fsync stops at the drive's cache.
        conn.pragma_update(None, "fullfsync", true)?;
        conn.pragma_update(None, "checkpoint_fullfsync", true)?;
        // What is erased shall be gone from the file, too.
        conn.pragma_update(None, "secure_delete", true)?;
        conn.pragma_update(None, "temp_store", "memory")?;
        conn.pragma_update(None, "journal_size_limit", LARGEST_IDLE_LOG)?;
        conn.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0))
    };
    let level = set().map_err(failed)?;
    if level < SYNCHRONOUS_FULL {
        let source = said(format!("synchronous is {level}"));
        return Err(StoreError::Backend { doing: "making every commit reach the disk", source });
    }
    Ok(conn)
}

/// Brings the format up to date; returns the latest change and the newest time stored.
fn prepare(conn: &Connection, path: &Path, presence: &Presence) -> Result<(u64, Option<Mark>), StoreError> {
    let failed = |error| sqlite_error(path, "preparing the store", error);
    let from = match schema::look(conn, path, schema::MIGRATIONS)? {
        Found::Current => return last(conn).map_err(failed),
        Found::Empty => 0,
        Found::Older(version) => {
            let strangers = presence.strangers_to(schema::MIGRATIONS.len())?;
            if strangers > 0 {
                let by = format!("{strangers} running process(es) of an older release; stop them first");
                return Err(StoreError::Busy {
                    by,
                    source: said("the store's format must be brought up to date"),
                });
            }
            version
        }
    };
    crash_point("store.open.before");
    let build = || {
        conn.execute_batch("BEGIN IMMEDIATE")?;
        schema::migrate(conn, from, schema::MIGRATIONS)?;
        conn.execute_batch("COMMIT")?;
        last(conn)
    };
    let built = build();
    if built.is_err()
        && !conn.is_autocommit()
        && let Err(error) = conn.execute_batch("ROLLBACK")
    {
        tracing::error!(%error, "a failed transaction cannot be rolled back");
    }
    crash_point("store.open.after");
    built.map_err(failed)
}

fn last(conn: &Connection) -> rusqlite::Result<(u64, Option<Mark>)> {
    conn.query_row("SELECT seq, time, steady_ms, boot FROM store WHERE one = 1", [], |row| {
        let unsigned = |index| row.get::<_, i64>(index).map(|n| u64::try_from(n).unwrap_or(0));
        let mark = Mark {
            time: Time::from_unix_ms(row.get(1)?),
            steady: Duration::from_millis(unsigned(2)?),
            boot: row.get(3)?,
        };
        // Without the name of a boot nothing has ever been written, so no time has been stored.
        Ok((unsigned(0)?, (!mark.boot.is_empty()).then_some(mark)))
    })
}

/// One page of the smallest size there is.
const SMALLEST_DATABASE: u64 = 512;

/// `PRAGMA synchronous`: every commit is synced before it is reported.
const SYNCHRONOUS_FULL: i64 = 2;

/// The size to which an emptied log is cut.
const LARGEST_IDLE_LOG: i64 = 64 << 20;
