//! The one thread that notices what other processes write, while anyone waits for it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use rusqlite::{Connection, OptionalExtension as _};

use super::{read, row::signed, sql, tx::Site};

/// Looks for foreign changes until the hub is closed. Costs nothing while nobody waits.
pub(super) fn run(site: &Site) {
    let mut conn = None;
    let mut version = None;
    while site.hub.block_until_waited_for() {
        let pause = match look(site, &mut conn, &mut version) {
            Ok(()) => PACE,
            Err(error) => {
                tracing::warn!(%error, "cannot look for other processes' changes");
                // Whoever waits looks for itself and meets the same error.
                site.hub.wake_all();
                conn = None;
                PACE_WHEN_FAILING
            }
        };
        site.hub.block_until_closed(pause);
    }
}

fn look(site: &Site, conn: &mut Option<Connection>, version: &mut Option<i64>) -> rusqlite::Result<()> {
    let conn = match conn {
        Some(conn) => conn,
        None => {
            *version = None;
            conn.insert(read::open(site)?)
        }
    };
    let found: i64 = conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
    if version.replace(found) == Some(found) {
        return Ok(());
    }
    let seq: i64 =
        conn.prepare_cached("SELECT seq FROM store WHERE one = 1")?.query_row([], |row| row.get(0))?;
    let told = site.told.load(Ordering::Acquire);
    if seq <= signed(told) {
        return Ok(());
    }
    let mut statement = conn.prepare_cached(sql::SEQ)?;
    for task in site.hub.watched() {
        let seq = statement.query_row([task.as_str()], |row| row.get::<_, i64>(0)).optional()?;
        if let Some(seq) = seq.and_then(|seq| u64::try_from(seq).ok()) {
            site.hub.wake(&task, seq);
        }
    }
    site.told.fetch_max(u64::try_from(seq).unwrap_or(0), Ordering::AcqRel);
    Ok(())
}

/// Starts the thread.
pub(super) fn start(site: Arc<Site>) -> std::io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().name("longhaul-store-watch".to_owned()).spawn(move || run(&site))
}

/// The time between two looks while anyone waits.
const PACE: Duration = Duration::from_millis(25);

/// The time between two looks while they fail.
const PACE_WHEN_FAILING: Duration = Duration::from_secs(1);
