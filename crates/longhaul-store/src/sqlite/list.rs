//! Lists, in pages.

use std::cmp::Reverse;

use rusqlite::{Connection, Row, params};

use super::{
    read::{self, Claimable},
    sql,
    tx::Site,
};
use crate::{
    Cursor, Filter, NodeId, Outcome, Owner, Page, Record, Scope, StoreError, Time,
    page::{LARGEST_PAGE, LONGEST_SCAN},
    row::{self, Place, encode_owner, signed},
    transition,
};

/// Which page of which list.
pub(super) struct List<'a> {
    pub(super) scope: Scope<'a>,
    pub(super) filter: &'a Filter,
    /// Where only what can be claimed is listed, what that is, or `None` if nothing can: all of it for an operator, if it is less than
    /// [`LONGEST_SCAN`].
    pub(super) claimable: Option<Option<Claimable>>,
    pub(super) after: Option<&'a Cursor>,
    pub(super) limit: usize,
    pub(super) now: Time,
}

/// A page of tasks.
pub(super) fn list(conn: &Connection, site: &Site, list: &List<'_>) -> Result<Page, StoreError> {
    let failed = |error| site.error("listing tasks", error);
    let before = signed(list.after.map_or(Ok(u64::MAX), |cursor| cursor.number(list.scope))?);
    let (sql, owner) = match (list.scope, list.filter.open_only) {
        (Scope::Owner(Owner::Anonymous), _) => return Err(StoreError::Unlistable),
        (Scope::Owner(owner), false) => (sql::LIST_OWN, Some(encode_owner(owner))),
        (Scope::Owner(owner), true) => (sql::LIST_OWN_OPEN, Some(encode_owner(owner))),
        (Scope::Operator, false) => (sql::LIST_ALL, None),
        (Scope::Operator, true) => (sql::LIST_ALL_OPEN, None),
    };
    let dead = match &list.claimable {
        None => None,
        Some(None) => return Ok(Page::default()),
        Some(Some(claimable)) => Some(&*claimable.dead),
    };
    let mut listing = Listing { conn, site, list, dead, page: Page::default(), scanned: 0, bytes: 0 };
    let all = list.claimable.as_ref().and_then(Option::as_ref).filter(|_| owner.is_none());
    if let Some(all) = all.filter(|all| all.tasks.len() < LONGEST_SCAN) {
        let mut ords: Vec<i64> = all.tasks.iter().map(|task| task.ord).filter(|ord| *ord < before).collect();
        ords.sort_unstable_by_key(|ord| Reverse(*ord));
        ords.dedup();
        let mut statement = conn.prepare_cached(sql::LIST_ONE).map_err(failed)?;
        for ord in ords {
            let mut rows = statement.query([ord]).map_err(failed)?;
            if let Some(row) = rows.next().map_err(failed)?
                && listing.take(row)?
            {
                break;
            }
        }
        return Ok(listing.page);
    }
    let mut statement = conn.prepare_cached(sql).map_err(failed)?;
    let mut rows = statement.query(params![before, signed(LONGEST_SCAN as u64), owner]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        if listing.take(row)? {
            break;
        }
    }
    Ok(listing.page)
}

/// A page that is made.
struct Listing<'a> {
    conn: &'a Connection,
    site: &'a Site,
    list: &'a List<'a>,
    /// Who is dead, where only what can be claimed is listed.
    dead: Option<&'a [NodeId]>,
    page: Page,
    scanned: usize,
    bytes: usize,
}

impl Listing<'_> {
    /// Takes the next row; whether the page ends with it.
    fn take(&mut self, row: &Row<'_>) -> Result<bool, StoreError> {
        let List { scope, filter, limit, now, .. } = self.list;
        let place = Place::of(row, *now)?;
        self.scanned += 1;
        let wanted = match &filter.tool {
            Some(tool) => row::tool(row)? == &**tool,
            None => true,
        };
        if wanted && place.is_visible() {
            match read::record(self.conn, self.site, row) {
                Ok(record) if !self.can_be_claimed(&record) => {}
                Ok(record) => {
                    self.bytes += record.arguments.as_str().len() + record.outcome().map_or(0, Outcome::len);
                    self.page.tasks.push(record);
                }
                // It must not hide its neighbours; whoever asks for it by id is told.
                Err(error) => {
                    tracing::error!(ord = place.ord, %error, "a damaged task is left out of a list")
                }
            }
        }
        let is_full =
            self.page.tasks.len() == *limit || self.scanned == LONGEST_SCAN || self.bytes >= LARGEST_PAGE;
        if is_full {
            let number = if matches!(scope, Scope::Owner(_)) { place.nth } else { place.ord };
            self.page.next = Some(Cursor::behind(*scope, number));
        }
        Ok(is_full)
    }

    fn can_be_claimed(&self, record: &Record) -> bool {
        self.dead
            .is_none_or(|dead| transition::is_claimable(record, self.list.now, &|node| dead.contains(node)))
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;
    use crate::{Batch, Epoch, Json, NewTask, Sqlite, TaskId, TaskStore as _};

    fn new(name: &str, owner: &Owner) -> NewTask {
        NewTask::new(TaskId::new(name).unwrap(), owner.clone(), "build", Json::parse("{}").unwrap())
    }

    /// Copies of the task `ended`, so that there are so many in all.
    fn crowd(store: &Sqlite, many: u64) {
        let conn = Connection::open(store.path()).unwrap();
        conn.execute_batch(&format!(
            "WITH RECURSIVE n(x) AS (SELECT max(ord) + 1 FROM tasks UNION ALL SELECT x + 1 FROM n WHERE x < {many}) \
             INSERT INTO tasks (ord, id, owner, nth, seq, phase, epoch, attempt, started, rerun, dialect, retention, \
             retention_ms, expires_at, created_at, status_changed_at, updated_at, terminal_at, tool, caller, arguments, \
             outcome, outcome_code, outcome_text, outcome_json) \
             SELECT x, 'c' || x, owner, x, x, phase, epoch, attempt, started, rerun, dialect, retention, \
             retention_ms, expires_at, created_at, status_changed_at, updated_at, terminal_at, tool, caller, arguments, \
             outcome, outcome_code, outcome_text, outcome_json FROM n, tasks WHERE id = 'ended'"
        ))
        .unwrap();
    }

    /// How many steps of its own machine SQLite takes for the page of each list that begins before this number.
    fn steps(store: &Sqlite, owner: &Owner, before: u64) -> Vec<(&'static str, i32)> {
        let lists = [
            (sql::LIST_ALL, Scope::Operator, Filter::all()),
            (sql::LIST_ALL_OPEN, Scope::Operator, Filter::open()),
            (sql::LIST_OWN, Scope::Owner(owner), Filter::all()),
            (sql::LIST_OWN_OPEN, Scope::Owner(owner), Filter::open()),
        ];
        let took = lists.into_iter().map(|(sql, scope, filter)| {
            let after = Cursor::behind(scope, before);
            let list = List {
                scope,
                filter: &filter,
                claimable: None,
                after: Some(&after),
                limit: 100,
                now: store.now(),
            };
            let took = store.readers.read(&store.site, |conn| {
                // The counters of a statement go on with it while it is kept.
                let so_far = || conn.prepare_cached(sql).unwrap().get_status(StatementStatus::VmStep);
                let before = so_far();
                super::list(conn, &store.site, &list)?;
                Ok(so_far() - before)
            });
            (sql, took.unwrap())
        });
        took.collect()
    }

    #[tokio::test]
    async fn a_page_takes_the_same_work_wherever_it_is_and_however_many_tasks_there_are() {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::open(folder.path().join("tasks.db")).unwrap();
        let owner = Owner::principal("ann").unwrap();
        for name in ["open-1", "open-2", "ended"] {
            store.create(new(name, &owner)).await.unwrap();
        }
        let outcome = Outcome::result(Json::parse("{}").unwrap(), false);
        store.finish(&TaskId::new("ended").unwrap(), Epoch::FIRST, outcome, Batch::new()).await.unwrap();
        crowd(&store, 1_000);
        let few = steps(&store, &owner, 1_001);
        crowd(&store, 20_000);
        for place in [20_001, 10_000, 1_000] {
            for ((sql, few), (_, many)) in few.iter().zip(steps(&store, &owner, place)) {
                assert!(few > &0, "{sql} was not run");
                assert!(many <= few + few / 10, "{many} steps, not {few}, before {place}: {sql}");
            }
        }
    }
}
