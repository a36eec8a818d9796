//! What is read to be copied, and what is taken that was.

use rusqlite::{Connection, params};

use super::{
    Sqlite, WRITE, events, parts,
    read::record,
    sql, steps,
    tx::{Site, Tx},
};
use crate::{
    Event, NodeId, StoreError, StoreFuture, Time,
    page::LARGEST_PAGE,
    row::{self, Place, decode_owner, part, signed},
    transfer::{Miscount, Transfer, WholeEntry, WholeStream, WholeTask},
    transition::Noted,
};

impl Transfer for Sqlite {
    fn other_nodes(&self) -> StoreFuture<'_, Vec<NodeId>> {
        Box::pin(async move { self.presence.others() })
    }

    fn whole_tasks(&self, after: u64) -> StoreFuture<'_, Vec<(u64, WholeTask)>> {
        self.read_with(move |conn, site| tasks(conn, site, after))
    }

    fn take_tasks(&self, tasks: Vec<WholeTask>) -> StoreFuture<'_, ()> {
        self.write_with(&WRITE, move |tx| take(tx, &tasks))
    }

    fn miscounted(&self) -> StoreFuture<'_, Vec<Miscount>> {
        self.read_with(miscounted)
    }

    fn rows(&self) -> StoreFuture<'_, u64> {
        self.read_with(rows)
    }

    fn whole_entries(&self, after: u64) -> StoreFuture<'_, Vec<(u64, WholeEntry)>> {
        self.read_with(move |conn, site| entries(conn, site, after))
    }

    fn whole_streams(&self, after: u64) -> StoreFuture<'_, Vec<(u64, WholeStream)>> {
        self.read_with(move |conn, site| streams(conn, site, after))
    }

    fn take_events(&self, stream: WholeStream, events: Vec<Event>) -> StoreFuture<'_, ()> {
        self.write_with(&WRITE, move |tx| events::take(tx, &stream, &events))
    }
}

fn tasks(conn: &Connection, site: &Site, after: u64) -> Result<Vec<(u64, WholeTask)>, StoreError> {
    let failed = |error| site.error("reading whole tasks", error);
    let mut statement = conn.prepare_cached(sql::WHOLE_TASKS).map_err(failed)?;
    let mut of_task = conn.prepare_cached(sql::WHOLE_PARTS).map_err(failed)?;
    let mut rows = statement.query(params![signed(after), FEW]).map_err(failed)?;
    let (mut tasks, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next().map_err(failed)? {
        let place = Place::of(row, site.clock.now())?;
        let mut task = if place.is_tombstone() {
            row::tombstone(row)?
        } else {
            WholeTask::new(record(conn, site, row)?, Vec::new(), Vec::new())
        };
        if task.record.steps > 0 {
            task.steps = steps::all(conn, site, place.ord)?;
        }
        if task.record.parts > 0 {
            let mut parts = of_task.query(params![signed(place.ord)]).map_err(failed)?;
            while let Some(row) = parts.next().map_err(failed)? {
                task.parts.push(part::whole(row)?);
            }
        }
        bytes += task.size();
        tasks.push((place.ord, task));
        if bytes >= LARGEST_PAGE {
            break;
        }
    }
    Ok(tasks)
}

fn take(tx: &mut Tx<'_>, tasks: &[WholeTask]) -> Result<(), StoreError> {
    for WholeTask { record, .. } in tasks {
        if tx.is_taken(&record.id)? {
            return Err(StoreError::AlreadyExists { id: record.id.clone() });
        }
    }
    for task in tasks {
        let mut record = task.record.clone();
        let place = tx.insert(&mut record)?;
        let noted = Noted { forgotten: Vec::new(), steps: task.steps.clone(), parts: task.parts.clone() };
        steps::note(tx, place.ord, &record, &noted)?;
        parts::append(tx, place.ord, &record, &noted)?;
        // What a new task never has is put as what becomes of it.
        tx.update(place, &mut record, true)?;
        if record.is_terminal() {
            tx.update_ended(place, &record)?;
        }
        tx.update_orphan(place.ord, &record)?;
        if let Some(until) = task.removable_at {
            tx.erase(place, &record, until)?;
        }
    }
    Ok(())
}

fn miscounted(conn: &Connection, site: &Site) -> Result<Vec<Miscount>, StoreError> {
    let failed = |error| site.error("counting bytes of tasks", error);
    let mut statement = conn.prepare_cached(sql::MISCOUNTED).map_err(failed)?;
    let wrong = statement.query_map([], |row| {
        let number = |at| row.get::<_, i64>(at).map(|number| u64::try_from(number).unwrap_or(0));
        Ok(Miscount::new(row.get::<_, String>(0)?, number(1)?, number(2)?))
    });
    wrong.and_then(Iterator::collect).map_err(failed)
}

fn rows(conn: &Connection, site: &Site) -> Result<u64, StoreError> {
    let counted = conn.query_row("SELECT count(*) FROM tasks", [], |row| row.get::<_, i64>(0));
    counted.map(i64::unsigned_abs).map_err(|error| site.error("counting the rows of tasks", error))
}

fn entries(conn: &Connection, site: &Site, after: u64) -> Result<Vec<(u64, WholeEntry)>, StoreError> {
    let failed = |error| site.error("listing entries", error);
    let mut statement = conn.prepare_cached(sql::WHOLE_ENTRIES).map_err(failed)?;
    let mut rows = statement.query(params![signed(after), FEW]).map_err(failed)?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        let text = |at| row.get::<_, String>(at).map_err(failed);
        let is_own: bool = row.get(1).map_err(failed)?;
        let entry = WholeEntry {
            owner: if is_own { Some(decode_owner(&text(2)?)?) } else { None },
            kind: text(3)?,
            name: text(4)?,
            expires_at: row.get::<_, Option<i64>>(5).map_err(failed)?.map(Time::from_unix_ms),
            value: row.get::<_, Vec<u8>>(6).map_err(failed)?.into(),
        };
        entries.push((row.get::<_, i64>(0).map_err(failed)?.unsigned_abs(), entry));
    }
    Ok(entries)
}

fn streams(conn: &Connection, site: &Site, after: u64) -> Result<Vec<(u64, WholeStream)>, StoreError> {
    let failed = |error| site.error("listing streams", error);
    let mut statement = conn.prepare_cached(sql::WHOLE_STREAMS).map_err(failed)?;
    let mut rows = statement.query(params![signed(after), FEW]).map_err(failed)?;
    let mut streams = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        let text = |at| row.get::<_, String>(at).map_err(failed);
        let number = |at| row.get::<_, i64>(at).map(i64::unsigned_abs).map_err(failed);
        let last = number(4)?;
        let stream = WholeStream {
            owner: decode_owner(&text(1)?)?,
            session: text(2)?,
            name: text(3)?,
            begins_after: last.saturating_sub(number(5)?),
            last,
            expires_at: Time::from_unix_ms(row.get(6).map_err(failed)?),
        };
        streams.push((number(0)?, stream));
    }
    Ok(streams)
}

/// How many rows come at once.
const FEW: i64 = 64;
