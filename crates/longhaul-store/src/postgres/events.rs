//! Streams and their events.

use tokio_postgres::Row;

use super::{
    Postgres, SWEPT_AT_ONCE,
    fault::{Fault, damaged},
    read::Moment,
    sql,
    tx::{Tx, int, text},
    value::Value,
};
use crate::{
    Event, EventStore, Owner, StoreError, StoreFuture, Stream,
    event_store::{Kept, LARGEST_REPLAY, LONGEST_REPLAY, room},
    networked::{
        look::Look,
        transaction::{Operation, Transaction as _},
    },
    row::{decode_owner, encode_owner},
};

impl EventStore for Postgres {
    fn append<'a>(&'a self, stream: Stream<'a>, text: &'a str) -> StoreFuture<'a, u64> {
        if let Err(refusal) = stream.check() {
            return Box::pin(async { Err(refusal) });
        }
        let append = move || Append { stream: Named::of(stream), text: text.to_owned() };
        self.change_with_room(append, |this| this.sweep_streams(SWEPT_AT_ONCE))
    }

    fn replay<'a>(
        &'a self,
        stream: Stream<'a>,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Option<Vec<Event>>> {
        let limit = limit.clamp(1, LONGEST_REPLAY);
        self.0.look(move || Replay { stream: Named::of(stream), after, limit })
    }

    fn prolong<'a>(&'a self, stream: Stream<'a>) -> StoreFuture<'a, Option<u64>> {
        self.0.change(move || Prolong(Named::of(stream)))
    }

    fn trim<'a>(&'a self, owner: &'a Owner, session: &'a str) -> StoreFuture<'a, usize> {
        self.0.change(move || Trim { owner: owner.clone(), session: session.to_owned() })
    }

    fn sweep_streams(&self, limit: usize) -> StoreFuture<'_, usize> {
        Box::pin(async move {
            if !self.0.look(|| IsAnyDue(sql::HAS_DUE_STREAMS)).await? {
                return Ok(0);
            }
            self.0.change(move || SweepStreams(limit)).await
        })
    }
}

/// Whether anything is past its time, so that an idle node writes nothing.
pub(super) struct IsAnyDue(pub(super) &'static str);

impl Look<Moment> for IsAnyDue {
    type Found = bool;

    const SEVERAL: bool = false;

    async fn look(&self, Moment { session, site }: &Moment) -> Result<bool, Fault> {
        let now = Value::int(site.node.clock.now().unix_ms());
        Ok(!session.query("looking for what is past its time", self.0, &[now]).await?.is_empty())
    }
}

/// A stream's name that can be kept.
struct Named {
    owner: Owner,
    session: String,
    name: String,
}

impl Named {
    fn of(stream: Stream<'_>) -> Self {
        Self { owner: stream.owner.clone(), session: stream.session.to_owned(), name: stream.name.to_owned() }
    }

    fn values(&self) -> [Value<'_>; 3] {
        [Value::words(encode_owner(&self.owner)), Value::words(&self.session), Value::words(&self.name)]
    }
}

struct Append {
    stream: Named,
    text: String,
}

impl Operation<Tx> for Append {
    type Done = u64;

    async fn run(&self, tx: &mut Tx) -> Result<u64, Fault> {
        let (now, settings) = (tx.now(), tx.settings().clone());
        let held = tx.execute(sql::HOLD_STREAM, &self.stream.values()).await?;
        let held = held.first().ok_or_else(|| damaged("a stream that is held"))?;
        let (ord, taken) = (Value::int(int(held, 0)?), kept(held, 1)?.bytes);
        // One that is past its time is no more, swept or not: a new one takes its row.
        let lives = int(held, 4)? > now.unix_ms();
        let mut kept = if lives { kept(held, 1)? } else { Kept::default() };
        let takes = room(&self.text);
        let limits = &settings.limits;
        let is_full =
            kept.count >= limits.max_stream_events || kept.bytes + takes > limits.max_stream_bytes as u64;
        let rooms = if is_full { tx.query("reading events", sql::ROOMS, &[ord]).await? } else { Vec::new() };
        let mut rooms = rooms.iter().map(|row| number(row, 0));
        kept.push(takes, limits, || rooms.next().transpose())?;
        tx.charge_events(&self.stream.owner, taken, kept.bytes).await?;
        let first = if lives { Value::count(kept.first()) } else { Value::int(i64::MAX) };
        if is_full || !lives {
            tx.execute(sql::REMOVE_EVENTS, &[ord, first]).await?;
        }
        let until = Value::int(now.after(settings.event_retention).unix_ms());
        let [last, count, bytes] = [kept.last, kept.count, kept.bytes].map(Value::count);
        tx.execute(sql::UPDATE_STREAM, &[ord, last, count, bytes, until]).await?;
        tx.execute(sql::ADD_EVENT, &[ord, last, Value::count(takes), Value::words(&self.text)]).await?;
        Ok(kept.last)
    }
}

struct Prolong(Named);

impl Operation<Tx> for Prolong {
    type Done = Option<u64>;

    async fn run(&self, tx: &mut Tx) -> Result<Option<u64>, Fault> {
        let (now, [owner, session, name]) = (tx.now(), self.0.values());
        let until = Value::int(now.after(tx.settings().event_retention).unix_ms());
        let values = [owner, session, name, Value::int(now.unix_ms()), until];
        let prolonged = tx.execute(sql::PROLONG_STREAM, &values).await?;
        Ok(prolonged.first().map(|row| number(row, 0)).transpose()?)
    }
}

struct Replay {
    stream: Named,
    after: u64,
    limit: usize,
}

impl Look<Moment> for Replay {
    type Found = Option<Vec<Event>>;

    const SEVERAL: bool = false;

    async fn look(&self, Moment { session, site }: &Moment) -> Result<Self::Found, Fault> {
        let [owner, of, name] = self.stream.values();
        let now = Value::int(site.node.clock.now().unix_ms());
        let values = [owner, of, name, now, Value::count(self.after), Value::count(self.limit as u64)];
        let rows = session.query("reading events", sql::REPLAY, &values).await?;
        let Some(stream) = rows.first() else { return Ok(None) };
        if !kept(stream, 0)?.follows(self.after) {
            return Ok(None);
        }
        let (mut events, mut bytes) = (Vec::new(), 0);
        for row in &rows {
            // Without an event that follows, the stream comes alone.
            let nth: Option<i64> = row.try_get(3).map_err(damaged)?;
            let Some(nth) = nth.filter(|_| bytes < LARGEST_REPLAY) else { break };
            let text = text(row, 4)?;
            bytes += text.len();
            events.push(Event::new(u64::try_from(nth).unwrap_or(0), text));
        }
        Ok(Some(events))
    }
}

struct Trim {
    owner: Owner,
    session: String,
}

impl Operation<Tx> for Trim {
    type Done = usize;

    async fn run(&self, tx: &mut Tx) -> Result<usize, Fault> {
        let values = [Value::words(encode_owner(&self.owner)), Value::words(&self.session)];
        remove(tx, sql::STREAMS_OF_SESSION, &values).await
    }
}

struct SweepStreams(usize);

impl Operation<Tx> for SweepStreams {
    type Done = usize;

    async fn run(&self, tx: &mut Tx) -> Result<usize, Fault> {
        let values = [Value::int(tx.now().unix_ms()), Value::count(self.0 as u64)];
        remove(tx, sql::DUE_STREAMS, &values).await
    }
}

/// Removes the streams a statement finds.
async fn remove(tx: &mut Tx, sql: &'static str, values: &[Value<'_>]) -> Result<usize, Fault> {
    let found = tx.query("looking for streams", sql, values).await?;
    for row in &found {
        let (ord, owner, bytes) = (Value::int(int(row, 0)?), decode_owner(text(row, 1)?)?, number(row, 2)?);
        tx.charge_events(&owner, bytes, 0).await?;
        tx.execute(sql::REMOVE_EVENTS, &[ord, Value::int(i64::MAX)]).await?;
        tx.execute(sql::REMOVE_STREAM, &[ord]).await?;
    }
    Ok(found.len())
}

pub(super) fn kept(row: &Row, from: usize) -> Result<Kept, StoreError> {
    Ok(Kept { last: number(row, from)?, count: number(row, from + 1)?, bytes: number(row, from + 2)? })
}

fn number(row: &Row, at: usize) -> Result<u64, StoreError> {
    let number: i64 = row.try_get(at).map_err(crate::error::corrupt)?;
    Ok(u64::try_from(number).unwrap_or(0))
}
