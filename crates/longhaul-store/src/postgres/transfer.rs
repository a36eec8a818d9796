//! What is read to be copied.

use std::collections::VecDeque;

use tokio_postgres::Row;

use super::{
    Postgres, Site,
    events::kept,
    fault::{Fault, damaged},
    link::Session,
    read::{Moment, record},
    sql, steps,
    tx::{Tx, int, text},
    value::Value,
};
use crate::{
    Event, NodeId, StoreFuture, Time,
    event_store::Kept,
    networked::{
        look::{FEW, Look},
        transaction::{Operation, Transaction as _},
        transfer::{LATELY, Miscounts, Others, Rows, Take, WholeEntries, WholeStreams, WholeTasks},
    },
    page::LARGEST_PAGE,
    row::{self, Cells as _, Place, decode_owner, encode_owner, part},
    transfer::{Miscount, Transfer, WholeEntry, WholeStream, WholeTask},
};

impl Transfer for Postgres {
    fn other_nodes(&self) -> StoreFuture<'_, Vec<NodeId>> {
        self.0.look(|| Others)
    }

    fn whole_tasks(&self, after: u64) -> StoreFuture<'_, Vec<(u64, WholeTask)>> {
        self.0.look(move || WholeTasks(after))
    }

    fn take_tasks(&self, tasks: Vec<WholeTask>) -> StoreFuture<'_, ()> {
        self.0.change(move || Take(tasks))
    }

    fn miscounted(&self) -> StoreFuture<'_, Vec<Miscount>> {
        self.0.look(|| Miscounts)
    }

    fn rows(&self) -> StoreFuture<'_, u64> {
        self.0.look(|| Rows)
    }

    fn whole_entries(&self, after: u64) -> StoreFuture<'_, Vec<(u64, WholeEntry)>> {
        self.0.look(move || WholeEntries(after))
    }

    fn whole_streams(&self, after: u64) -> StoreFuture<'_, Vec<(u64, WholeStream)>> {
        self.0.look(move || WholeStreams(after))
    }

    fn take_events(&self, stream: WholeStream, events: Vec<Event>) -> StoreFuture<'_, ()> {
        self.0.change(move || TakeEvents { stream, events })
    }
}

impl Look<Moment> for Others {
    type Found = Vec<NodeId>;

    async fn look(&self, Moment { session, site }: &Moment) -> Result<Vec<NodeId>, Fault> {
        let lately = site.node.clock.now().unix_ms() - LATELY.as_millis() as i64;
        let values = [Value::text(site.node.id.as_str()), Value::int(lately)];
        let found = session.query("looking for other nodes", sql::OTHERS, &values).await?;
        found.iter().map(|row| NodeId::new(text(row, 0)?).map_err(damaged)).collect()
    }
}

impl Look<Moment> for Miscounts {
    type Found = Vec<Miscount>;

    const LASTS: bool = true;

    async fn look(&self, Moment { session, site }: &Moment) -> Result<Vec<Miscount>, Fault> {
        let mut tasks = ChargedTasks::all(session, site);
        let (mut wrong, mut after) = (Vec::new(), Vec::new());
        loop {
            let values = [Value::Bytes(Some(&after)), Value::count(MANY)];
            let accounts = site
                .in_time(session.query("reading what owners are charged", sql::ACCOUNTS, &values))
                .await?;
            let Some(last) = accounts.last() else { return Ok(wrong) };
            after = digest(last)?.to_vec();
            for account in &accounts {
                let (who, charged) = (digest(account)?, int(account, 1)?);
                let has = tasks.of(who).await?;
                if charged != has {
                    let [charged, has] = [charged, has].map(|bytes| u64::try_from(bytes).unwrap_or(0));
                    wrong.push(Miscount::new(text(account, 2)?, charged, has));
                }
            }
        }
    }
}

impl Look<Moment> for Rows {
    type Found = u64;

    const LASTS: bool = true;

    async fn look(&self, Moment { session, site }: &Moment) -> Result<u64, Fault> {
        let (mut all, mut after) = (0, 0);
        loop {
            let values = [Value::int(after), Value::count(MANY_COUNTED)];
            let some = site.in_time(session.query("counting the rows of tasks", sql::ROWS, &values)).await?;
            let some = some.first().ok_or_else(|| damaged("a count"))?;
            let (many, last) = (int(some, 0)?, int(some, 1)?);
            if many == 0 {
                return Ok(all);
            }
            (all, after) = (all + many.unsigned_abs(), last);
        }
    }
}

/// For how many bytes tasks are charged, by their owners' digests.
struct ChargedTasks<'m> {
    session: &'m Session,
    site: &'m Site,
    /// The owner of the task that was read last, and that one's places among its owner's and among all.
    after: (Vec<u8>, i64, i64),
    /// What was read and not counted yet.
    read: VecDeque<(Vec<u8>, i64)>,
    is_over: bool,
}

impl<'m> ChargedTasks<'m> {
    fn all(session: &'m Session, site: &'m Site) -> Self {
        Self { session, site, after: (Vec::new(), 0, 0), read: VecDeque::new(), is_over: false }
    }

    /// For how many all those of one owner are charged. Whoever is asked for next is behind that one.
    async fn of(&mut self, who: &[u8]) -> Result<i64, Fault> {
        let mut has = 0;
        loop {
            match self.read.front() {
                Some((owner, charged)) if owner.as_slice() <= who => {
                    if owner == who {
                        has += charged;
                    }
                    self.read.pop_front();
                }
                None if !self.is_over => self.read_on().await?,
                _ => return Ok(has),
            }
        }
    }

    async fn read_on(&mut self) -> Result<(), Fault> {
        let (owner, nth, ord) = &self.after;
        let values = [Value::Bytes(Some(owner)), Value::int(*nth), Value::int(*ord), Value::count(MANY)];
        let query = self.session.query("counting bytes of tasks", sql::CHARGED_TASKS, &values);
        let tasks = self.site.in_time(query).await?;
        let Some(last) = tasks.last() else {
            self.is_over = true;
            return Ok(());
        };
        self.after = (digest(last)?.to_vec(), int(last, 2)?, int(last, 3)?);
        for task in &tasks {
            self.read.push_back((digest(task)?.to_vec(), int(task, 1)?));
        }
        Ok(())
    }
}

/// The digest of an owner's name, which is first in such a row.
fn digest(row: &Row) -> Result<&[u8], Fault> {
    row.bytes(0).map_err(damaged)?.ok_or_else(|| damaged("an owner without a name"))
}

/// How many rows are counted at once.
const MANY_COUNTED: u64 = 100_000;

/// How many rows are read at once that are short.
const MANY: u64 = 1_000;

impl Look<Moment> for WholeTasks {
    type Found = Vec<(u64, WholeTask)>;

    async fn look(&self, Moment { session, site }: &Moment) -> Result<Self::Found, Fault> {
        let values = [Value::count(self.0), Value::count(FEW as u64)];
        let (mut tasks, mut bytes) = (Vec::new(), 0);
        for row in session.query("reading whole tasks", sql::WHOLE_TASKS, &values).await? {
            let place = Place::of(&row, site.node.clock.now())?;
            let mut task = if place.is_tombstone() {
                row::tombstone(&row)?
            } else {
                WholeTask::new(record(session, &row).await?, Vec::new(), Vec::new())
            };
            if task.record.steps > 0 {
                task.steps = steps::all(session, place.ord).await?;
            }
            if task.record.parts > 0 {
                let of = [Value::count(place.ord)];
                let parts = session.query("reading the parts of a task", sql::WHOLE_PARTS, &of).await?;
                task.parts = parts.iter().map(part::whole).collect::<Result<_, _>>()?;
            }
            bytes += task.size();
            tasks.push((place.ord, task));
            if bytes >= LARGEST_PAGE {
                break;
            }
        }
        Ok(tasks)
    }
}

impl Look<Moment> for WholeEntries {
    type Found = Vec<(u64, WholeEntry)>;

    const SEVERAL: bool = false;

    async fn look(&self, Moment { session, .. }: &Moment) -> Result<Self::Found, Fault> {
        let values = [Value::count(self.0), Value::count(FEW as u64)];
        let rows = session.query("listing entries", sql::WHOLE_ENTRIES, &values).await?;
        let whole = |row: &Row| {
            let entry = WholeEntry {
                owner: if int(row, 1)? == 0 { None } else { Some(decode_owner(text(row, 2)?)?) },
                kind: text(row, 3)?.to_owned(),
                name: text(row, 4)?.to_owned(),
                expires_at: row.int(5).map_err(damaged)?.map(Time::from_unix_ms),
                value: row.bytes(6).map_err(damaged)?.unwrap_or_default().into(),
            };
            Ok((u64::try_from(int(row, 0)?).map_err(damaged)?, entry))
        };
        rows.iter().map(whole).collect()
    }
}

impl Look<Moment> for WholeStreams {
    type Found = Vec<(u64, WholeStream)>;

    const SEVERAL: bool = false;

    async fn look(&self, Moment { session, .. }: &Moment) -> Result<Self::Found, Fault> {
        let values = [Value::count(self.0), Value::count(FEW as u64)];
        let rows = session.query("listing streams", sql::WHOLE_STREAMS, &values).await?;
        let whole = |row: &Row| {
            let number = |at| u64::try_from(int(row, at)?).map_err(damaged);
            let last = number(4)?;
            let stream = WholeStream {
                owner: decode_owner(text(row, 1)?)?,
                session: text(row, 2)?.to_owned(),
                name: text(row, 3)?.to_owned(),
                begins_after: last.saturating_sub(number(5)?),
                last,
                expires_at: Time::from_unix_ms(int(row, 6)?),
            };
            Ok((number(0)?, stream))
        };
        rows.iter().map(whole).collect()
    }
}

struct TakeEvents {
    stream: WholeStream,
    events: Vec<Event>,
}

impl Operation<Tx> for TakeEvents {
    type Done = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), Fault> {
        let WholeStream { owner, session, name, begins_after, expires_at, .. } = &self.stream;
        if *expires_at <= tx.now() {
            return Ok(());
        }
        let values = [Value::words(encode_owner(owner)), Value::words(session), Value::words(name)];
        let held = tx.execute(sql::HOLD_STREAM, &values).await?;
        let held = held.first().ok_or_else(|| damaged("a stream that is held"))?;
        let (ord, found) = (Value::int(int(held, 0)?), kept(held, 1)?);
        let mut kept = if found.last == 0 { Kept::behind(*begins_after) } else { found };
        for event in &self.events {
            let takes = Value::count(kept.take(event)?);
            tx.execute(sql::ADD_EVENT, &[ord, Value::count(event.number), takes, Value::words(&event.text)])
                .await?;
        }
        tx.charge_events(owner, found.bytes, kept.bytes).await?;
        let [last, count, bytes] = [kept.last, kept.count, kept.bytes].map(Value::count);
        tx.execute(sql::UPDATE_STREAM, &[ord, last, count, bytes, Value::int(expires_at.unix_ms())])
            .await
            .map(drop)
    }
}
