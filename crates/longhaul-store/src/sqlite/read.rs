//! Reads: in place, on a connection taken from a small stack, each one statement and so one moment.

use std::{
    ffi::OsString,
    fmt,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags, params};

use super::{fault::corrupt, operation::pass_over, sql, steps, tx::Site};
use crate::{
    CallKey, Counts, Epoch, HostId, NodeId, Owner, Record, Runnable, Scope, Step, StoreError, TaskId, Time,
    ToolVersion,
    row::{self, Place, encode_owner},
    transition,
};

/// Connections that only read: as many as threads read at once, of which a few are kept. The last used is used next.
pub(super) struct Readers {
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn new() -> Self {
        Self { idle: Mutex::default() }
    }

    /// Reads something on a connection that is this thread's alone meanwhile.
    pub(super) fn read<T>(
        &self,
        site: &Site,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let idle = self.lock().pop();
        let conn = match idle {
            Some(conn) => conn,
            None => {
                // Another file of that name is not this store.
                site.file.check()?;
                open(site).map_err(|error| site.error("opening the store for reading", error))?
            }
        };
        let result = read(&conn);
        let mut idle = self.lock();
        if idle.len() < MOST_IDLE {
            idle.push(conn);
        }
        result
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readers").finish_non_exhaustive()
    }
}

/// Opens a connection that can only read.
pub(super) fn open(site: &Site) -> rusqlite::Result<Connection> {
    open_at(&site.path, site.is_still)
}

/// Opens one on this file; `is_still` as in [`Site`].
pub(super) fn open_at(path: &Path, is_still: bool) -> rusqlite::Result<Connection> {
    let conn = if is_still {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        Connection::open_with_flags(still(path), flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?
    } else {
        // Even a reader of a write-ahead log writes to its shared index, so the file is opened for both.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Connection::open_with_flags(path, flags)?
    };
    conn.busy_timeout(READ_PATIENCE)?;
    sql::keep_plans(&conn)?;
    conn.pragma_update(None, "query_only", true)?;
    conn.pragma_update(None, "cache_size", -READ_CACHE_KIB)?;
    conn.set_prepared_statement_cache_capacity(32);
    Ok(conn)
}

/// The name by which SQLite reads a file without its log and its locks.
fn still(path: &Path) -> OsString {
    let mut uri = b"file:".to_vec();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'%' | b'?' | b'#' => uri.extend_from_slice(format!("%{byte:02x}").as_bytes()),
            byte => uri.push(*byte),
        }
    }
    uri.extend_from_slice(b"?immutable=1");
    // Rust and SQLite alike keep what is no UTF-8 as it is.
    #[cfg(unix)]
    let uri = std::os::unix::ffi::OsStringExt::from_vec(uri);
    #[cfg(not(unix))]
    let uri = String::from_utf8_lossy(&uri).into_owned().into();
    uri
}

pub(super) fn get(
    conn: &Connection,
    site: &Site,
    scope: Scope<'_>,
    id: &TaskId,
    now: Time,
) -> Result<Option<Record>, StoreError> {
    let failed = |error| site.error("reading a task", error);
    let mut statement = conn.prepare_cached(sql::GET).map_err(failed)?;
    let owner = match scope {
        Scope::Owner(owner) => Some(encode_owner(owner)),
        Scope::Operator => None,
    };
    let mut rows = statement.query(params![id.as_str(), owner]).map_err(failed)?;
    visible(conn, site, rows.next().map_err(failed)?, now)
}

pub(super) fn called(
    conn: &Connection,
    site: &Site,
    owner: &Owner,
    key: &CallKey,
    now: Time,
) -> Result<Option<Record>, StoreError> {
    let failed = |error| site.error("looking for a call by its key", error);
    let mut statement = conn.prepare_cached(sql::CALLED).map_err(failed)?;
    let mut rows = statement.query(params![encode_owner(owner), key.as_str()]).map_err(failed)?;
    visible(conn, site, rows.next().map_err(failed)?, now)
}

/// The record of a row that a reader may see.
fn visible(
    conn: &Connection,
    site: &Site,
    row: Option<&rusqlite::Row<'_>>,
    now: Time,
) -> Result<Option<Record>, StoreError> {
    match row {
        Some(row) if Place::of(row, now)?.is_visible() => record(conn, site, row).map(Some),
        _ => Ok(None),
    }
}

/// The record of a row that is no tombstone, with what its task asks. The row's statement is still under way, so both
/// are read of one moment.
pub(super) fn record(conn: &Connection, site: &Site, row: &rusqlite::Row<'_>) -> Result<Record, StoreError> {
    let mut record = row::decode(row)?;
    if row::asked(row)? > 0 {
        record.questions = steps::questions(conn, site, row::ord(row)?)?;
    }
    Ok(record)
}

/// The steps of a task that is held at this epoch.
pub(super) fn steps(
    conn: &Connection,
    site: &Site,
    id: &TaskId,
    epoch: Epoch,
) -> Result<Vec<Step>, StoreError> {
    let failed = |error| site.error("reading a task", error);
    let mut statement = conn.prepare_cached(sql::BY_ID).map_err(failed)?;
    let mut rows = statement.query(params![id.as_str()]).map_err(failed)?;
    match rows.next().map_err(failed)? {
        Some(row) if !row::is_tombstone(row)? => {
            transition::check_held(&row::decode(row)?, epoch)?;
            steps::all(conn, site, row::ord(row)?)
        }
        _ => Err(StoreError::Fenced { id: id.clone(), held: epoch }),
    }
}

pub(super) fn counts(conn: &Connection, site: &Site) -> Result<Counts, StoreError> {
    let number =
        |row: &rusqlite::Row<'_>, index| row.get::<_, i64>(index).map(|n| u64::try_from(n).unwrap_or(0));
    conn.prepare_cached("SELECT open, retained FROM store WHERE one = 1")
        .and_then(|mut statement| {
            statement.query_row([], |row| Ok(Counts::new(number(row, 0)?, number(row, 1)?)))
        })
        .map_err(|error| site.error("counting tasks", error))
}

/// The bytes of the file, and of what is written beside it until it is copied there.
pub(super) fn size(site: &Site) -> Result<u64, StoreError> {
    let mut beside = site.path.clone().into_os_string();
    beside.push("-wal");
    let failed =
        |error| StoreError::Backend { doing: "asking how large the file is", source: Arc::new(error) };
    let file = std::fs::metadata(&site.path).map_err(failed)?.len();
    match std::fs::metadata(beside) {
        Ok(beside) => Ok(file.saturating_add(beside.len())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(file),
        Err(error) => Err(failed(error)),
    }
}

/// Every node that holds a lease, each found by one step into the index of leases.
pub(super) fn lease_holders(conn: &Connection, site: &Site) -> Result<Vec<NodeId>, StoreError> {
    let failed = |error| site.error("reading who holds leases", error);
    let mut statement = conn.prepare_cached(sql::LEASE_HOLDER).map_err(failed)?;
    let (mut nodes, mut last) = (Vec::new(), String::new());
    loop {
        let mut rows = statement.query([&last]).map_err(failed)?;
        let Some(row) = rows.next().map_err(failed)? else { return Ok(nodes) };
        last = row.get(0).map_err(failed)?;
        match NodeId::new(last.as_str()) {
            Ok(node) => nodes.push(node),
            Err(error) => tracing::error!(name = last, %error, "a lease is damaged and is passed over"),
        }
    }
}

/// What is looked for to be claimed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// Of phases below this one.
    pub(super) below: i64,
    /// So many at most.
    pub(super) limit: usize,
    /// Of these tools, in these versions.
    pub(super) runs: Option<&'a [Runnable]>,
}

/// What could be claimed.
#[derive(Debug)]
pub(super) struct Claimable {
    pub(super) tasks: Vec<Candidate>,
    /// The nodes that are dead.
    pub(super) dead: Vec<NodeId>,
}

/// A task that a claim could take.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) ord: i64,
    pub(super) id: TaskId,
}

/// The tasks that a claim could take: due, or held by one of the `holders` who is dead or overdue.
pub(super) fn claimable(
    conn: &Connection,
    site: &Site,
    holders: &[NodeId],
    dead: &[NodeId],
    wanted: Wanted<'_>,
    now: Time,
) -> Result<Vec<Candidate>, StoreError> {
    let failed = |error| site.error("looking for tasks to claim", error);
    let (now, below, mut found) = (now.unix_ms(), wanted.below, Vec::new());
    let mut waiting = conn.prepare_cached(sql::WAITING).map_err(failed)?;
    collect(site, &mut waiting, params![now, below], wanted, &mut found)?;
    let mut overdue = conn.prepare_cached(sql::OVERDUE).map_err(failed)?;
    for node in holders {
        let until = if dead.contains(node) { i64::MAX } else { now };
        collect(site, &mut overdue, params![now, below, node.as_str(), until], wanted, &mut found)?;
    }
    Ok(found)
}

fn collect(
    site: &Site,
    statement: &mut rusqlite::Statement<'_>,
    values: &[&dyn rusqlite::ToSql],
    Wanted { limit, runs, .. }: Wanted<'_>,
    found: &mut Vec<Candidate>,
) -> Result<(), StoreError> {
    let failed = |error| site.error("looking for tasks to claim", error);
    let mut rows = statement.query(values).map_err(failed)?;
    while found.len() < limit
        && let Some(row) = rows.next().map_err(failed)?
    {
        let ord = row.get(4).map_err(failed)?;
        let id = row.get_ref(0).map_err(failed)?;
        let Some(id) = id.as_str().ok().and_then(|id| TaskId::new(id).ok()) else {
            tracing::error!(ord, "a task whose id is damaged is passed over");
            continue;
        };
        let Some(runs) = runs else {
            found.push(Candidate { ord, id });
            continue;
        };
        let (tool, version) = (row.get_ref(1).map_err(failed)?, row.get_ref(2).map_err(failed)?);
        let (Ok(tool), Ok(Ok(version))) = (tool.as_str(), version.as_str().map(ToolVersion::new)) else {
            pass_over(&id, corrupt("its tool or the version of that"))?;
            continue;
        };
        let host =
            row.get_ref(3).map_err(failed)?.as_str_or_null().map(|host| host.map(HostId::new).transpose());
        let Ok(Ok(host)) = host else {
            pass_over(&id, corrupt("the host that it is bound to"))?;
            continue;
        };
        if runs.iter().any(|run| run.admits(tool, &version, host.as_ref())) {
            found.push(Candidate { ord, id });
        }
    }
    Ok(())
}

/// Whether a sweep would find anything.
pub(super) fn has_due(conn: &Connection, site: &Site, now: Time) -> Result<bool, StoreError> {
    conn.prepare_cached(sql::HAS_DUE)
        .and_then(|mut statement| statement.exists([now.unix_ms()]))
        .map_err(|error| site.error("looking for expired tasks", error))
}

/// How long a read waits while another process recovers the log or holds everything; short, for it blocks a
/// thread of the runtime.
const READ_PATIENCE: Duration = Duration::from_millis(250);

/// The most connections kept while nobody reads.
const MOST_IDLE: usize = 8;

/// How much of the file each connection keeps in memory; the system keeps the rest.
const READ_CACHE_KIB: i64 = 1024;
