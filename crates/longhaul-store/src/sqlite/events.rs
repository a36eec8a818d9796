//! Streams and their events.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    SWEPT_AT_ONCE, Sqlite, WRITE, sql,
    tx::{Site, Tx},
};
use crate::{
    Event, EventStore, Owner, StoreError, StoreFuture, Stream, Time,
    event_store::{Kept, LARGEST_REPLAY, LONGEST_REPLAY, room},
    row::{decode_owner, encode_owner, signed},
    transfer::WholeStream,
};

impl EventStore for Sqlite {
    fn append<'a>(&'a self, stream: Stream<'a>, text: &'a str) -> StoreFuture<'a, u64> {
        if let Err(refusal) = stream.check() {
            return Box::pin(async { Err(refusal) });
        }
        let (owner, session, name) =
            (stream.owner.clone(), stream.session.to_owned(), stream.name.to_owned());
        let text: Arc<str> = text.into();
        let append = move |tx: &mut Tx<'_>| append(tx, Stream::new(&owner, &session, &name), &text);
        self.write_with_room(append, |this| this.sweep_streams(SWEPT_AT_ONCE))
    }

    fn replay<'a>(
        &'a self,
        stream: Stream<'a>,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Option<Vec<Event>>> {
        let limit = limit.clamp(1, LONGEST_REPLAY);
        self.read_with(move |conn, site| {
            replay(conn, stream, after, limit, site.clock.now())
                .map_err(|error| site.error("reading events", error))
        })
    }

    fn prolong<'a>(&'a self, stream: Stream<'a>) -> StoreFuture<'a, Option<u64>> {
        let (owner, session, name) =
            (stream.owner.clone(), stream.session.to_owned(), stream.name.to_owned());
        self.write_with(&WRITE, move |tx| prolong(tx, Stream::new(&owner, &session, &name)))
    }

    fn trim<'a>(&'a self, owner: &'a Owner, session: &'a str) -> StoreFuture<'a, usize> {
        let (owner, session) = (owner.clone(), session.to_owned());
        self.write_with(&WRITE, move |tx| {
            remove(tx, sql::STREAMS_OF_SESSION, params![encode_owner(&owner), session])
        })
    }

    fn sweep_streams(&self, limit: usize) -> StoreFuture<'_, usize> {
        Box::pin(async move {
            let any = |conn: &Connection, site: &Site| is_any_due(conn, site, sql::HAS_DUE_STREAMS);
            if !self.read_with(any).await? {
                return Ok(0);
            }
            self.write_with(&WRITE, move |tx| {
                remove(tx, sql::DUE_STREAMS, params![tx.now().unix_ms(), signed(limit as u64)])
            })
            .await
        })
    }
}

/// Whether anything is past its time, so that an idle node takes no lock.
pub(super) fn is_any_due(conn: &Connection, site: &Site, sql: &str) -> Result<bool, StoreError> {
    conn.prepare_cached(sql)
        .and_then(|mut statement| statement.exists([site.clock.now().unix_ms()]))
        .map_err(|error| site.error("looking for what is past its time", error))
}

fn append(tx: &mut Tx<'_>, stream: Stream<'_>, text: &str) -> Result<u64, StoreError> {
    let (now, settings) = (tx.now(), tx.settings());
    let found = find(tx, stream)?;
    let taken = found.map_or(0, |found| found.kept.bytes);
    // One that is past its time is no more, swept or not: a new one takes its row.
    let live = found.filter(|found| found.expires_at > now);
    let mut kept = live.map(|live| live.kept).unwrap_or_default();
    {
        let failed = |error| tx.site.error("reading events", error);
        let mut statement = tx.prepare(sql::ROOMS)?;
        let mut rows = statement.query([live.map(|live| live.ord)]).map_err(failed)?;
        kept.push(room(text), &settings.limits, || {
            let row = rows.next().map_err(failed)?;
            row.map(|row| number(row, 0)).transpose().map_err(failed)
        })?;
    }
    tx.charge_events(stream.owner, taken, kept.bytes)?;
    let [last, count, bytes] = [kept.last, kept.count, kept.bytes].map(signed);
    let until = now.after(settings.event_retention).unix_ms();
    let ord = match found {
        Some(found) => {
            let first = if live.is_some() { signed(kept.first()) } else { i64::MAX };
            tx.execute(sql::REMOVE_EVENTS, params![found.ord, first])?;
            tx.execute(sql::UPDATE_STREAM, params![found.ord, last, count, bytes, until])?;
            found.ord
        }
        None => {
            let (owner, session, name) = (encode_owner(stream.owner), stream.session, stream.name);
            tx.execute(sql::ADD_STREAM, params![owner, session, name, last, count, bytes, until])?;
            tx.conn.last_insert_rowid()
        }
    };
    tx.execute(sql::ADD_EVENT, params![ord, last, signed(room(text)), text])?;
    Ok(kept.last)
}

fn prolong(tx: &mut Tx<'_>, stream: Stream<'_>) -> Result<Option<u64>, StoreError> {
    let now = tx.now();
    let until = now.after(tx.settings().event_retention).unix_ms();
    let live = find(tx, stream)?.filter(|found| found.expires_at > now);
    if let Some(live) = &live {
        tx.execute(sql::PROLONG_STREAM, params![live.ord, until])?;
    }
    Ok(live.map(|live| live.kept.last))
}

/// Adds events as they were in another store.
pub(super) fn take(tx: &mut Tx<'_>, stream: &WholeStream, events: &[Event]) -> Result<(), StoreError> {
    if stream.expires_at <= tx.now() {
        return Ok(());
    }
    let (ord, taken, mut kept) = match find(tx, stream.stream())? {
        Some(found) => (found.ord, found.kept.bytes, found.kept),
        None => {
            let kept = Kept::behind(stream.begins_after);
            let WholeStream { session, name, .. } = stream;
            let values = params![encode_owner(&stream.owner), session, name, signed(kept.last), 0, 0, 0];
            tx.execute(sql::ADD_STREAM, values)?;
            (tx.conn.last_insert_rowid(), 0, kept)
        }
    };
    for event in events {
        let takes = signed(kept.take(event)?);
        tx.execute(sql::ADD_EVENT, params![ord, signed(event.number), takes, event.text])?;
    }
    tx.charge_events(&stream.owner, taken, kept.bytes)?;
    let [last, count, bytes] = [kept.last, kept.count, kept.bytes].map(signed);
    let until = stream.expires_at.unix_ms();
    tx.execute(sql::UPDATE_STREAM, params![ord, last, count, bytes, until]).map(drop)
}

/// A stream's row.
#[derive(Clone, Copy, Debug)]
struct Found {
    ord: i64,
    kept: Kept,
    expires_at: Time,
}

fn find(tx: &Tx<'_>, stream: Stream<'_>) -> Result<Option<Found>, StoreError> {
    let values = params![encode_owner(stream.owner), stream.session, stream.name];
    tx.prepare(sql::STREAM)?
        .query_row(values, |row| {
            let expires_at = Time::from_unix_ms(row.get(4)?);
            Ok(Found { ord: row.get(0)?, kept: kept(row, 1)?, expires_at })
        })
        .optional()
        .map_err(|error| tx.site.error("reading a stream", error))
}

fn replay(
    conn: &Connection,
    stream: Stream<'_>,
    after: u64,
    limit: usize,
    now: Time,
) -> rusqlite::Result<Option<Vec<Event>>> {
    let mut statement = conn.prepare_cached(sql::REPLAY)?;
    let mut rows = statement.query(params![
        encode_owner(stream.owner),
        stream.session,
        stream.name,
        now.unix_ms(),
        signed(after),
        signed(limit as u64),
    ])?;
    let (mut events, mut bytes, mut known) = (Vec::new(), 0, false);
    while bytes < LARGEST_REPLAY
        && let Some(row) = rows.next()?
    {
        if !known && !kept(row, 0)?.follows(after) {
            return Ok(None);
        }
        known = true;
        // Without an event that follows, the stream comes alone.
        if let Some(nth) = row.get::<_, Option<i64>>(3)? {
            let text: String = row.get(4)?;
            bytes += text.len();
            events.push(Event::new(u64::try_from(nth).unwrap_or(0), text));
        }
    }
    Ok(known.then_some(events))
}

/// Removes the streams a statement finds.
fn remove(tx: &mut Tx<'_>, sql: &str, values: &[&dyn rusqlite::ToSql]) -> Result<usize, StoreError> {
    let found: Vec<(i64, String, u64)> = tx
        .prepare(sql)?
        .query_map(values, |row| Ok((row.get(0)?, row.get(1)?, number(row, 2)?)))
        .and_then(Iterator::collect)
        .map_err(|error| tx.site.error("looking for streams", error))?;
    for (ord, owner, bytes) in &found {
        tx.charge_events(&decode_owner(owner)?, *bytes, 0)?;
        tx.execute(sql::REMOVE_EVENTS, params![ord, i64::MAX])?;
        tx.execute(sql::REMOVE_STREAM, params![ord])?;
    }
    Ok(found.len())
}

fn kept(row: &rusqlite::Row<'_>, from: usize) -> rusqlite::Result<Kept> {
    Ok(Kept { last: number(row, from)?, count: number(row, from + 1)?, bytes: number(row, from + 2)? })
}

fn number(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(|number| u64::try_from(number).unwrap_or(0))
}
