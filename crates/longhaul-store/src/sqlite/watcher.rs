//! The one thread that notices what other processes write, while anyone waits for it.

use std::{sync::Arc, time::Duration};

use rusqlite::{Connection, OptionalExtension as _};

use super::{read, sql, tx::Site};
use crate::{StoreError, row::signed};

/// Looks for foreign changes until the hub is closed. Costs nothing while nobody waits.
pub(super) fn run(site: &Site) {
    let mut conn = None;
    let mut version = None;
    while site.hub.block_until_waited_for() {
        let looked = match site.file.check() {
            Ok(()) => {
                look(site, &mut conn, &mut version).map_err(|error| site.error("looking for changes", error))
            }
            Err(error) => Err(error),
        };
        let pause = match looked {
            Ok(_) => PACE,
            Err(error) => {
                // That its file is gone has been said, louder, and once.
                if !matches!(error, StoreError::Gone { .. }) {
                    tracing::warn!(%error, "cannot look for other processes' changes");
                }
                // Whoever waits looks for itself and meets the same error.
                site.hub.wake_all();
                conn = None;
                PACE_WHEN_FAILING
            }
        };
        site.hub.block_until_closed(pause);
    }
}

/// Tells of what other processes have written since the last look; says whether that is anything.
fn look(site: &Site, conn: &mut Option<Connection>, version: &mut Option<i64>) -> rusqlite::Result<bool> {
    let conn = match conn {
        Some(conn) => conn,
        None => {
            *version = None;
            conn.insert(read::open(site)?)
        }
    };
    let found: i64 = conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
    if version.replace(found) == Some(found) || !is_foreign(site, conn)? {
        return Ok(false);
    }
    let mut statement = conn.prepare_cached(sql::SEQ)?;
    for task in site.hub.watched() {
        let seq = statement.query_row([task.as_str()], |row| row.get::<_, i64>(0)).optional()?;
        if let Some(seq) = seq.and_then(|seq| u64::try_from(seq).ok()) {
            site.hub.wake(&task, seq);
        }
    }
    Ok(true)
}

/// Whether there is a change that nobody was told of. The writer holds `told` over its commits, as this does over its
/// look: so no change of this process is ever taken for one.
fn is_foreign(site: &Site, conn: &Connection) -> rusqlite::Result<bool> {
    let mut statement = conn.prepare_cached("SELECT seq FROM store WHERE one = 1")?;
    let mut told = site.told();
    let seq = statement.query_row([], |row| row.get::<_, i64>(0))?;
    let is_foreign = seq > signed(*told);
    *told = u64::try_from(seq).unwrap_or(0).max(*told);
    Ok(is_foreign)
}

/// Starts the thread.
pub(super) fn start(site: Arc<Site>) -> std::io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().name("longhaul-store-watch".to_owned()).spawn(move || run(&site))
}

/// The time between two looks while anyone waits.
const PACE: Duration = Duration::from_millis(25);

/// The time between two looks while they fail.
const PACE_WHEN_FAILING: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Json, NewTask, Owner, Sqlite, TaskId, TaskStore as _};

    fn task(number: u32) -> NewTask {
        let id = TaskId::new(format!("t{number}")).unwrap();
        NewTask::new(id, Owner::Anonymous, "build", Json::parse("{}").unwrap())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn only_what_another_process_wrote_is_looked_for() {
        let dir = tempfile::tempdir().unwrap();
        let store = Sqlite::open(dir.path().join("tasks.db")).unwrap();
        let (mut conn, mut version) = (None, None);
        assert!(!look(&store.site, &mut conn, &mut version).unwrap());
        let site = store.site.clone();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let looking = std::thread::spawn(move || {
            let mut foreign = 0;
            while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                foreign += u32::from(look(&site, &mut conn, &mut version).unwrap());
            }
            (foreign, conn, version)
        });
        for number in 0..200 {
            store.create(task(number)).await.unwrap();
        }
        drop(stop);
        let (foreign, mut conn, mut version) = looking.join().unwrap();
        assert_eq!(foreign, 0, "this handle's own writes are no news to it");

        // Another handle stands for another process.
        let other = Sqlite::open(store.path()).unwrap();
        other.create(task(1_000)).await.unwrap();
        assert!(look(&store.site, &mut conn, &mut version).unwrap());
        assert!(!look(&store.site, &mut conn, &mut version).unwrap());
    }
}
