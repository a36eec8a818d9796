//! The parts that the work of tasks has given, each a row, numbered within its task.

use rusqlite::{Connection, params};

use super::{
    sql, steps,
    tx::{Site, Tx},
};
use crate::{
    Parts, Record, Scope, Step, StoreError, TaskId, Time,
    part::{LARGEST_STRETCH, LONGEST_STRETCH},
    row::{self, Place, part, signed},
    transition::{Kept, Noted},
};

/// What is kept of a task beside its row.
pub(super) struct Beside<'t, 'c> {
    pub(super) tx: &'t Tx<'c>,
    pub(super) task: u64,
}

impl Kept for Beside<'_, '_> {
    fn step(&mut self, key: &str) -> Result<Option<Step>, StoreError> {
        steps::find(self.tx, self.task, key)
    }

    fn has_part(&mut self, key: &str) -> Result<bool, StoreError> {
        self.tx
            .prepare(sql::HAS_PART)?
            .exists(params![signed(self.task), key])
            .map_err(|error| self.tx.site.error("reading the parts of a task", error))
    }
}

/// Puts new parts behind the others; the record counts them already.
pub(super) fn append(tx: &mut Tx<'_>, task: u64, record: &Record, noted: &Noted) -> Result<(), StoreError> {
    let before = u64::from(record.parts) - noted.parts.len() as u64;
    for (nth, part) in (before + 1..).zip(&noted.parts) {
        let kind = part::kind(&part.content);
        let values = params![signed(task), signed(nth), &*part.key, kind, part.content.as_str()];
        tx.execute(sql::ADD_PART, values)?;
    }
    Ok(())
}

/// Removes all of a task's.
pub(super) fn remove(tx: &mut Tx<'_>, task: u64) -> Result<(), StoreError> {
    tx.execute(sql::REMOVE_PARTS, params![signed(task)]).map(drop)
}

/// Those of a task behind the first `after`.
pub(super) fn read(
    conn: &Connection,
    site: &Site,
    scope: Scope<'_>,
    id: &TaskId,
    after: u64,
    limit: usize,
    now: Time,
) -> Result<Option<Parts>, StoreError> {
    let failed = |error| site.error("reading the parts of a task", error);
    let owner = match scope {
        Scope::Owner(owner) => Some(row::encode_owner(owner)),
        Scope::Operator => None,
    };
    let mut of_task = conn.prepare_cached(sql::GET).map_err(failed)?;
    let mut found = of_task.query(params![id.as_str(), owner]).map_err(failed)?;
    // It stays under way, so that the parts are those of the same moment.
    let Some(task) = found.next().map_err(failed)? else { return Ok(None) };
    let place = Place::of(task, now)?;
    if !place.is_visible() {
        return Ok(None);
    }
    let total = row::parts(task)?;
    let start = after.min(total);
    let mut statement = conn.prepare_cached(sql::PARTS).map_err(failed)?;
    let limit = signed(limit.clamp(1, LONGEST_STRETCH) as u64);
    let mut rows = statement.query(params![signed(place.ord), signed(start), limit]).map_err(failed)?;
    let (mut parts, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next().map_err(failed)? {
        let part = part::decode(row)?;
        bytes += part.as_str().len();
        if bytes > LARGEST_STRETCH && !parts.is_empty() {
            break;
        }
        parts.push(part);
    }
    Ok(Some(Parts::new(start, parts, total, place.is_terminal())))
}
