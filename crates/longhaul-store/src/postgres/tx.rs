//! One operation's transaction: the rows that it holds, and what it adds to the figures beside them.

use std::collections::BTreeMap;

use tokio_postgres::Row;

use super::{
    Site,
    fault::{Fault, damaged},
    link::Session,
    read, sql,
    value::Value,
};
use crate::{
    Limits, Owner, Record, Settings, StoreError, TaskId, Time,
    row::{self, Cells as _, Place, Standing, encode_owner, signed},
};

/// Something that is done as a whole or not at all. It may be tried several times, so it keeps what it was given.
pub(super) trait Operation: Send + Sync + 'static {
    /// What it comes to.
    type Done: Send + 'static;

    /// What is held before anything else, so that it is asked for together with the transaction.
    fn first(&self) -> First<'_> {
        First::Nothing
    }

    fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> impl Future<Output = Result<Self::Done, Fault>> + Send + 'a;
}

/// What an operation holds first.
pub(super) enum First<'a> {
    Task(&'a TaskId),
    /// To make a task of this owner's.
    Account(&'a Owner),
    Nothing,
}

/// What was read together with the beginning of a transaction.
enum Ahead {
    Task(TaskId, Option<Row>),
    /// The owner's account, the totals, and the number of the next change.
    Account(Option<Row>, Row, i64),
    Nothing,
}

/// A transaction under way.
pub(super) struct Tx<'s> {
    session: Session,
    pub(super) site: &'s Site,
    /// What is held by it before anything else of the same family: its topmost task.
    family: Option<TaskId>,
    added: BTreeMap<Option<String>, Added>,
    changes: Vec<TaskId>,
    /// Whether anything was written.
    is_dirty: bool,
    ahead: Ahead,
}

/// What is added to the account of an owner, whose name is the key; the server has none.
#[derive(Clone, Copy, Debug, Default)]
struct Added {
    open: i64,
    retained: i64,
    last: i64,
    event_bytes: i64,
    entries: i64,
}

impl Added {
    fn takes(&self) -> bool {
        [self.retained, self.event_bytes, self.entries].iter().any(|number| *number < 0)
    }
}

impl<'s> Tx<'s> {
    /// Runs an operation once, and commits what it wrote; gives which tasks have changed.
    pub(super) async fn attempt<O: Operation>(
        site: &'s Site,
        operation: &O,
        family: Option<&TaskId>,
    ) -> Result<(O::Done, Vec<TaskId>), Fault> {
        let mut session = Session::take(&site.pool, site.is_pooled).await?;
        let first = if family.is_some() { First::Nothing } else { operation.first() };
        let ahead = begin(&mut session, &site.begin, first).await?;
        let mut tx = Tx {
            session,
            site,
            family: family.cloned(),
            added: BTreeMap::new(),
            changes: Vec::new(),
            is_dirty: false,
            ahead,
        };
        let done = async {
            tx.hold_family().await?;
            operation.run(&mut tx).await
        };
        match done.await {
            Ok(done) if tx.is_dirty => {
                tx.commit().await?;
                Ok((done, tx.changes))
            }
            Ok(done) => {
                tx.session.roll_back().await;
                Ok((done, Vec::new()))
            }
            Err(fault) => {
                tx.session.roll_back().await;
                Err(fault)
            }
        }
    }

    /// All who write to several tasks of a family hold its topmost one first, so that no two wait for each other.
    async fn hold_family(&self) -> Result<(), Fault> {
        let Some(member) = &self.family else { return Ok(()) };
        let doing = "holding a family of tasks";
        let found = self.query(doing, sql::ROOT, &[Value::text(member.as_str())]).await?;
        if let Some(root) = found.first() {
            let root = text(root, 0)?;
            self.query(doing, sql::HOLD, &[Value::text(root)]).await?;
        }
        Ok(())
    }

    /// Makes sure that what is above a task can be written to.
    pub(super) fn with_family(&self, record: &Record) -> Result<(), Fault> {
        match (&record.parent, &self.family) {
            (Some(_), None) => Err(Fault::Family(record.id.clone())),
            _ => Ok(()),
        }
    }

    pub(super) async fn query(
        &self,
        doing: &'static str,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, Fault> {
        self.session.query(doing, sql, values).await
    }

    /// Runs a statement that writes.
    pub(super) async fn execute(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, Fault> {
        self.is_dirty = true;
        self.session.query("writing", sql, values).await
    }

    /// Holds a task that is no tombstone, and reads it and its place.
    pub(super) async fn load(&mut self, id: &TaskId) -> Result<Option<(Place, Record)>, Fault> {
        let found = match std::mem::replace(&mut self.ahead, Ahead::Nothing) {
            Ahead::Task(first, found) if first == *id => found,
            _ => self.query("reading a task", sql::LOCK, &[Value::text(id.as_str())]).await?.pop(),
        };
        match &found {
            Some(row) => self.read(row).await,
            None => Ok(None),
        }
    }

    /// Reads a row that is held, unless it is a tombstone's.
    pub(super) async fn read(&self, row: &Row) -> Result<Option<(Place, Record)>, Fault> {
        let place = Place::of(row, self.now())?;
        if place.is_tombstone() {
            return Ok(None);
        }
        Ok(Some((place, read::record(&self.session, row).await?)))
    }

    /// The number and the owner of a tombstone whose time is up, once it is held.
    pub(super) async fn tombstone(&self, id: &TaskId, now: Time) -> Result<Option<(u64, Owner)>, Fault> {
        let found = self.query("reading a task", sql::LOCK, &[Value::text(id.as_str())]).await?;
        let Some(row) = found.first() else { return Ok(None) };
        let (place, _, owner) = row::due(row)?;
        let until = row.int(row::Column::ExpiresAt as usize).map_err(damaged)?;
        let is_due = place.is_tombstone() && until.is_some_and(|until| until <= now.unix_ms());
        Ok(is_due.then_some((place.ord, owner)))
    }

    /// Whether the id is taken, be it by a tombstone.
    pub(super) async fn is_taken(&self, id: &TaskId) -> Result<bool, Fault> {
        let found = self.query("reading a task", sql::IS_TAKEN, &[Value::text(id.as_str())]).await?;
        Ok(!found.is_empty())
    }

    /// The open task of this owner and digest.
    pub(super) async fn joinable(&self, new: &Record) -> Result<Option<Record>, Fault> {
        let Some(digest) = &new.join else { return Ok(None) };
        let values = [Value::words(encode_owner(&new.owner)), Value::Bytes(Some(digest.as_bytes()))];
        let found = self.query("looking for a task to join", sql::JOINABLE, &values).await?;
        let Some(row) = found.first() else { return Ok(None) };
        // It is not held: who ends it holds it, and waits for its owner's account, which this one holds.
        Ok(self.read(row).await?.map(|(_, record)| record))
    }

    /// The task that was created under the key of this new one before.
    pub(super) async fn again(&self, new: &Record) -> Result<Option<Record>, Fault> {
        let Some(once) = &new.once else { return Ok(None) };
        let values = [Value::words(encode_owner(&new.owner)), Value::text(once.key.as_str())];
        let found = self.query("looking for a call by its key", sql::CALLED, &values).await?;
        let Some(row) = found.first() else { return Ok(None) };
        let of = row.bytes(row::Column::OnceDigest as usize).map_err(damaged)?;
        if of != Some(once.of.as_bytes().as_slice()) {
            return Err(StoreError::KeyTaken.into());
        }
        let (_, id, _) = row::due(row)?;
        match self.read(row).await? {
            Some((place, record)) if place.is_visible() => Ok(Some(record)),
            _ => Err(StoreError::KeySpent { id }.into()),
        }
    }

    /// Refuses a task there is no room for. The owner's account is held from then on, and the number of its next task is
    /// given.
    pub(super) async fn admit(&mut self, owner: &Owner, limits: &Limits) -> Result<u64, Fault> {
        let (account, totals) = match &self.ahead {
            Ahead::Account(account, totals, _) => (account.clone(), totals.clone()),
            _ => {
                let doing = "reading an owner's account";
                let account =
                    self.query(doing, sql::HOLD_ACCOUNT, &[Value::words(encode_owner(owner))]).await?.pop();
                let totals = self.query(doing, sql::TOTALS, &[]).await?.pop();
                (account, totals.ok_or_else(|| damaged("the totals"))?)
            }
        };
        let account = match account {
            Some(account) => account,
            // The first of its owner.
            None => {
                let name = Value::words(encode_owner(owner));
                let made = self.query("making an owner's account", sql::MAKE_ACCOUNT, &[name]).await?;
                made.into_iter().next().ok_or(Fault::Again)?
            }
        };
        let mine = *self.added(owner);
        let counted = |row: &Row, at, mine: i64| -> Result<u64, Fault> {
            Ok(u64::try_from(int(row, at)? + mine).unwrap_or(0))
        };
        let (open, retained) = (counted(&totals, 0, mine.open)?, counted(&totals, 1, mine.retained)?);
        let (own_open, own_retained) =
            (counted(&account, 0, mine.open)?, counted(&account, 1, mine.retained)?);
        limits.admit(owner, open, retained, own_open, own_retained)?;
        Ok(counted(&account, 2, mine.last)? + 1)
    }

    /// Adds a new record as its owner's `nth` and numbers its creation; `false` if its id is taken, be it by a tombstone.
    pub(super) async fn insert(&mut self, record: &mut Record, nth: u64) -> Result<bool, Fault> {
        let next = match std::mem::replace(&mut self.ahead, Ahead::Nothing) {
            Ahead::Account(_, _, next) => next,
            _ => {
                let next = self.query("numbering a change", sql::NEXT_SEQ, &[]).await?;
                int(next.first().ok_or_else(|| damaged("the numbers of changes"))?, 0)?
            }
        };
        record.seq = u64::try_from(next).map_err(damaged)?;
        let at = Standing::of(record);
        let (retention, retention_ms) = row::encode_retention(record.retention);
        let (version, parent) = (record.version.to_string(), record.parent.as_ref());
        let values = [
            Value::count(record.seq),
            Value::text(record.id.as_str()),
            Value::words(encode_owner(&record.owner)),
            Value::count(nth),
            Value::int(at.phase),
            Value::Int(at.not_before),
            Value::Text(at.lease_node),
            Value::Int(at.lease_until),
            Value::count(record.epoch.get()),
            Value::int(record.attempt),
            Value::int(record.started),
            Value::int(row::encode_rerun(record.rerun)),
            Value::int(row::encode_dialect(record.dialect)),
            Value::int(retention),
            Value::int(retention_ms),
            time(record.expires_at),
            Value::int(record.created_at.unix_ms()),
            Value::Int(record.poll_interval_ms.map(signed)),
            Value::Bytes(record.join.as_ref().map(|digest| digest.as_bytes().as_slice())),
            Value::words(&record.tool),
            Value::maybe_words(record.status_message.as_deref()),
            Value::text(record.caller.as_str()),
            Value::text(record.arguments.as_str()),
            Value::Text(record.once.as_ref().map(|once| once.key.as_str())),
            Value::Bytes(record.once.as_ref().map(|once| once.of.as_bytes().as_slice())),
            Value::count(record.questions.len() as u64),
            Value::int(record.steps),
            Value::count(record.step_bytes),
            Value::text(&version),
            Value::int(record.owed),
            Value::Text(parent.map(|parent| parent.task.as_str())),
            Value::maybe_words(parent.map(|parent| &*parent.step)),
            Value::int(record.depth()),
            Value::int(parent.is_some_and(|parent| parent.outlives)),
            Value::int(parent.is_some_and(|parent| parent.essential)),
            Value::Int(record.cancel_grace.map(row::millis)),
            time(record.orphan_at),
            Value::int(row::encode_on_orphan(record.on_orphan)),
        ];
        if self.execute(sql::INSERT, &values).await?.is_empty() {
            return Ok(false);
        }
        let added = self.added(&record.owner);
        added.open += 1;
        added.retained += 1;
        added.last += 1;
        self.changes.push(record.id.clone());
        Ok(true)
    }

    /// Writes what a transition may have changed and numbers the change. `was_open` is how it was before.
    pub(super) async fn update(
        &mut self,
        ord: u64,
        record: &mut Record,
        was_open: bool,
    ) -> Result<(), Fault> {
        if was_open && record.is_terminal() {
            self.added(&record.owner).open -= 1;
        }
        let at = Standing::of(record);
        let (progress, undo) = (record.progress.as_ref(), record.undo.as_ref());
        let values = [
            Value::count(ord),
            Value::int(at.phase),
            Value::Int(at.not_before),
            Value::Text(at.lease_node),
            Value::Int(at.lease_until),
            Value::count(record.epoch.get()),
            Value::int(record.attempt),
            Value::int(record.started),
            time(record.expires_at),
            Value::int(record.status_changed_at.unix_ms()),
            Value::int(record.updated_at.unix_ms()),
            time(record.terminal_at),
            Value::Real(progress.map(|progress| progress.value)),
            Value::Real(progress.and_then(|progress| progress.total)),
            Value::maybe_words(progress.and_then(|progress| progress.message.as_deref())),
            Value::Int(at.outcome),
            Value::Int(at.outcome_code),
            Value::maybe_words(at.outcome_text),
            Value::Text(at.outcome_json),
            Value::maybe_words(record.status_message.as_deref()),
            Value::count(record.questions.len() as u64),
            Value::int(record.steps),
            Value::count(record.step_bytes),
            Value::int(record.owed),
            Value::Int(undo.map(|undo| undo.attempt.into())),
            time(undo.and_then(|undo| undo.until)),
            Value::int(record.parts),
            Value::count(record.part_bytes),
            Value::int(record.children.open),
            Value::int(record.children.ended),
            Value::int(record.children.below),
            Value::maybe_words(record.cancelling.as_deref()),
            time(record.orphan_at),
        ];
        let numbered = self.execute(sql::UPDATE, &values).await?;
        self.number(&numbered, record)
    }

    /// Writes what a report may have changed and numbers the change; no index is touched.
    pub(super) async fn update_report(&mut self, ord: u64, record: &mut Record) -> Result<(), Fault> {
        let progress = record.progress.as_ref();
        let values = [
            Value::count(ord),
            Value::int(record.updated_at.unix_ms()),
            Value::Real(progress.map(|progress| progress.value)),
            Value::Real(progress.and_then(|progress| progress.total)),
            Value::maybe_words(progress.and_then(|progress| progress.message.as_deref())),
            Value::maybe_words(record.status_message.as_deref()),
            Value::int(record.status_changed_at.unix_ms()),
            Value::count(record.questions.len() as u64),
            Value::int(record.steps),
            Value::count(record.step_bytes),
            Value::int(record.owed),
            Value::int(record.parts),
            Value::count(record.part_bytes),
        ];
        let numbered = self.execute(sql::UPDATE_REPORT, &values).await?;
        self.number(&numbered, record)
    }

    fn number(&mut self, numbered: &[Row], record: &mut Record) -> Result<(), Fault> {
        let row = numbered.first().ok_or_else(|| damaged("a task that was held is gone"))?;
        record.seq = u64::try_from(int(row, 0)?).map_err(damaged)?;
        self.changes.push(record.id.clone());
        Ok(())
    }

    /// Writes how many tasks were made below one, which nobody can see.
    pub(super) async fn update_below(&mut self, ord: u64, record: &Record) -> Result<(), Fault> {
        let values = [Value::count(ord), Value::int(record.children.below)];
        self.execute(sql::COUNT_BELOW, &values).await.map(drop)
    }

    /// Writes what may have changed of a task that had ended: nobody can see it, and it has no number.
    pub(super) async fn update_ended(&mut self, ord: u64, record: &Record) -> Result<(), Fault> {
        let (at, undo) = (Standing::of(record), record.undo.as_ref());
        let values = [
            Value::count(ord),
            Value::Int(at.not_before),
            Value::Text(at.lease_node),
            Value::Int(at.lease_until),
            Value::count(record.epoch.get()),
            time(record.expires_at),
            Value::int(record.steps),
            Value::count(record.step_bytes),
            Value::int(record.owed),
            Value::Int(undo.map(|undo| undo.attempt.into())),
            Value::int(undo.map_or(0, |undo| undo.failed)),
            time(undo.and_then(|undo| undo.until)),
        ];
        self.execute(sql::UPDATE_ENDED, &values).await.map(drop)
    }

    /// Writes whether somebody came back for a task, which nobody can see.
    pub(super) async fn update_orphan(&mut self, ord: u64, record: &Record) -> Result<(), Fault> {
        let values = [Value::count(ord), time(record.orphan_at), time(record.came_back_at)];
        self.execute(sql::UPDATE_ORPHAN, &values).await.map(drop)
    }

    /// Writes a prolonged lease, which nobody can see and which therefore has no number.
    pub(super) async fn update_lease(&mut self, ord: u64, until: Time) -> Result<(), Fault> {
        self.execute(sql::RENEW, &[Value::count(ord), Value::int(until.unix_ms())]).await.map(drop)
    }

    /// Takes a finished task's payloads away; its id stays until `until`.
    pub(super) async fn erase(&mut self, ord: u64, record: &Record, until: Time) -> Result<(), Fault> {
        let task = Value::count(ord);
        if record.steps > 0 {
            self.execute(sql::REMOVE_STEPS, &[task]).await?;
        }
        if record.parts > 0 {
            self.execute(sql::REMOVE_PARTS, &[task]).await?;
        }
        self.execute(sql::ERASE, &[task, Value::int(until.unix_ms())]).await.map(drop)
    }

    /// Removes a tombstone.
    pub(super) async fn remove(&mut self, ord: u64, owner: &Owner) -> Result<(), Fault> {
        self.added(owner).retained -= 1;
        self.execute(sql::REMOVE, &[Value::count(ord)]).await.map(drop)
    }

    /// Charges an owner for events that take `taken` in the place of some that took `freed`, if there is room.
    pub(super) async fn charge_events(&mut self, owner: &Owner, freed: u64, taken: u64) -> Result<(), Fault> {
        if taken > freed {
            let (own, all) = self.taken(owner, 0, 2).await?;
            let after = |bytes: u64| bytes.saturating_sub(freed) + taken;
            self.settings().limits.admit_events(after(own), after(all))?;
        }
        self.added(owner).event_bytes += signed(taken) - signed(freed);
        Ok(())
    }

    /// Charges a holder for one more entry, if there is room.
    pub(super) async fn charge_entry(&mut self, owner: Option<&Owner>) -> Result<(), Fault> {
        let (own, all) = self.taken(owner.unwrap_or(&Owner::Anonymous), 1, 3).await?;
        self.settings().limits.admit_entry(owner.map(|_| own), all)?;
        self.count_entry(owner, 1);
        Ok(())
    }

    /// Gives back what an entry was charged.
    pub(super) fn credit_entry(&mut self, owner: Option<&Owner>) {
        self.count_entry(owner, -1);
    }

    fn count_entry(&mut self, owner: Option<&Owner>, by: i64) {
        let name = owner.map(|owner| encode_owner(owner).to_owned());
        self.added.entry(name).or_default().entries += by;
    }

    /// What there is of an owner and in all: numbers of these columns.
    async fn taken(&self, owner: &Owner, own: usize, all: usize) -> Result<(u64, u64), Fault> {
        let doing = "reading an owner's account";
        let account = self.query(doing, sql::ACCOUNT, &[Value::words(encode_owner(owner))]).await?;
        let totals = self.query(doing, sql::TOTALS, &[]).await?;
        let number = |row: Option<&Row>, at| -> Result<u64, Fault> {
            row.map_or(Ok(0), |row| Ok(u64::try_from(int(row, at)?).unwrap_or(0)))
        };
        Ok((number(account.first(), own)?, number(totals.first(), all)?))
    }

    /// The number of the next change of an entry.
    pub(super) async fn next_version(&self) -> Result<u64, Fault> {
        let next = self.query("numbering a change", sql::NEXT_VERSION, &[]).await?;
        let next = next.first().ok_or_else(|| damaged("the numbers of changes"))?;
        u64::try_from(int(next, 0)?).map_err(damaged)
    }

    pub(super) fn now(&self) -> Time {
        self.site.clock.now()
    }

    pub(super) fn settings(&self) -> &'s Settings {
        &self.site.settings
    }

    fn added(&mut self, owner: &Owner) -> &mut Added {
        self.added.entry(Some(encode_owner(owner).to_owned())).or_default()
    }

    /// Commits, with the figures last, for others wait for them until then.
    async fn commit(&mut self) -> Result<(), Fault> {
        let number = |number| Value::Int(Some(number));
        let (mut last, mut all) = (Vec::new(), Added::default());
        for (owner, added) in &self.added {
            all.open += added.open;
            all.retained += added.retained;
            all.event_bytes += added.event_bytes;
            all.entries += added.entries;
            let Some(owner) = owner else { continue };
            let numbers = [added.open, added.retained, added.last, added.event_bytes, added.entries];
            if numbers != [0; 5] {
                let values = [Value::words(owner)].into_iter().chain(numbers.map(number));
                last.push((sql::ADD_TO_ACCOUNT, values.collect()));
            }
            if added.takes() {
                last.push((sql::REMOVE_EMPTY_ACCOUNT, vec![Value::words(owner)]));
            }
        }
        let numbers = [all.open, all.retained, all.event_bytes, all.entries];
        if numbers != [0; 4] {
            let values = [Value::int(self.site.next_shard())].into_iter().chain(numbers.map(number));
            last.push((sql::ADD_TO_TOTALS, values.collect()));
        }
        self.session.commit_with(&last).await
    }
}

/// Begins a transaction together with what it holds first.
async fn begin(session: &mut Session, how: &str, first: First<'_>) -> Result<Ahead, Fault> {
    match first {
        First::Nothing => session.begin(how).await.map(|()| Ahead::Nothing),
        First::Task(id) => {
            let mut rows = session.begin_with(how, &[(sql::LOCK, vec![Value::text(id.as_str())])]).await?;
            Ok(Ahead::Task(id.clone(), rows.pop().and_then(|mut rows| rows.pop())))
        }
        First::Account(owner) => {
            let account = (sql::HOLD_ACCOUNT, vec![Value::words(encode_owner(owner))]);
            let asked = [account, (sql::TOTALS, Vec::new()), (sql::NEXT_SEQ, Vec::new())];
            let mut rows = session.begin_with(how, &asked).await?.into_iter().map(|mut rows| rows.pop());
            let mut next = || rows.next().flatten();
            let account = next();
            let (Some(totals), Some(number)) = (next(), next()) else { return Err(damaged("the totals")) };
            Ok(Ahead::Account(account, totals, int(&number, 0)?))
        }
    }
}

pub(super) fn time(at: Option<Time>) -> Value<'static> {
    Value::Int(at.map(Time::unix_ms))
}

pub(super) fn int(row: &Row, at: usize) -> Result<i64, Fault> {
    row.int(at).map_err(damaged)?.ok_or_else(|| damaged("a number that is not there"))
}

pub(super) fn text(row: &Row, at: usize) -> Result<&str, Fault> {
    row.text(at).map_err(damaged)?.ok_or_else(|| damaged("a text that is not there"))
}
