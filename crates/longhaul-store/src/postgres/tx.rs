//! One operation's transaction, and the rows that it holds.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use tokio_postgres::Row;

use super::{
    Site,
    account::Added,
    fault::{Fault, damaged},
    link::Session,
    read, sql, steps,
    value::Value,
};
use crate::{
    Batch, Created, HostId, Owner, Record, Step, StoreError, TaskId, Time,
    networked::{
        beside::Beside,
        fault::pass_over,
        look::FEW,
        node::Node,
        transaction::{Aged, Change, First, Operation, Transaction, Written},
    },
    row::{self, Cells as _, Place, Standing, encode_owner, signed},
    transition::Noted,
};

/// What was read together with the beginning of a transaction.
pub(super) enum Ahead {
    Task(TaskId, Option<Row>),
    /// The owner's account, the totals, the number of the next change, and how many open tasks are of the share.
    Account(Option<Row>, Row, i64, u64),
    Nothing,
}

/// A transaction under way.
pub(super) struct Tx {
    pub(super) session: Session,
    pub(super) site: Arc<Site>,
    /// What is held by it before anything else of the same family: its topmost task.
    family: Option<TaskId>,
    /// The places of the rows that were read to be changed, or made.
    places: HashMap<TaskId, Place>,
    /// Whether there is room for the task that is to be made, and the how manieth of its owner it is.
    admitted: Option<Result<u64, StoreError>>,
    pub(super) added: BTreeMap<Option<String>, Added>,
    written: Written,
    /// Whether anything was written.
    is_dirty: bool,
    pub(super) ahead: Ahead,
}

impl Tx {
    /// Runs an operation once, and commits what it wrote; gives which tasks have changed.
    pub(super) async fn attempt<O: Operation<Self>>(
        site: &Arc<Site>,
        operation: &O,
        family: Option<&TaskId>,
    ) -> Result<(O::Done, Vec<TaskId>), Fault> {
        let mut session = Session::take(&site.pool, site.is_pooled).await?;
        let first = if family.is_some() { First::Nothing } else { operation.first() };
        let ahead = begin(&mut session, &site.begin, first).await?;
        let mut tx = Self {
            session,
            site: Arc::clone(site),
            family: family.cloned(),
            places: HashMap::new(),
            admitted: None,
            added: BTreeMap::new(),
            written: Written::default(),
            is_dirty: false,
            ahead,
        };
        let done = async {
            tx.hold_family().await?;
            operation.run(&mut tx).await
        };
        match done.await {
            Ok(mut done) if tx.is_dirty => {
                tx.commit().await?;
                O::settle(&mut done, &tx.written);
                Ok((done, tx.written.seqs.into_keys().collect()))
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

    /// Reads a row that is held, unless it is a tombstone's.
    async fn read(&mut self, row: &Row) -> Result<Option<Record>, Fault> {
        let place = held(row, self.now())?;
        if place.is_tombstone() {
            return Ok(None);
        }
        let record = read::record(&self.session, row).await?;
        self.places.insert(record.id.clone(), place);
        Ok(Some(record))
    }

    /// Reads a row that is not held, unless it is a tombstone's.
    async fn glance(&self, row: &Row) -> Result<Option<Record>, Fault> {
        if row::is_tombstone(row)? {
            return Ok(None);
        }
        read::record(&self.session, row).await.map(Some)
    }

    /// The place of a task, which was read.
    fn place(&self, id: &TaskId) -> Result<Place, Fault> {
        self.places.get(id).copied().ok_or_else(|| damaged("a task that was never read"))
    }

    /// Whether the id is taken, be it by a tombstone.
    async fn is_taken(&self, id: &TaskId) -> Result<bool, Fault> {
        let found = self.query("reading a task", sql::IS_TAKEN, &[Value::text(id.as_str())]).await?;
        Ok(!found.is_empty())
    }

    /// The open task of this owner and digest.
    async fn joinable(&self, new: &Record) -> Result<Option<Record>, Fault> {
        let Some(digest) = &new.join else { return Ok(None) };
        let values = [Value::words(encode_owner(&new.owner)), Value::Bytes(Some(digest.as_bytes()))];
        let found = self.query("looking for a task to join", sql::JOINABLE, &values).await?;
        let Some(row) = found.first() else { return Ok(None) };
        // It is not held: who ends it holds it, and waits for its owner's account, which this one holds.
        self.glance(row).await
    }

    /// The task that was created under the key of this new one before.
    async fn again(&self, new: &Record) -> Result<Option<Record>, Fault> {
        let Some(once) = &new.once else { return Ok(None) };
        let values = [Value::words(encode_owner(&new.owner)), Value::text(once.key.as_str())];
        let found = self.query("looking for a call by its key", sql::CALLED, &values).await?;
        let Some(row) = found.first() else { return Ok(None) };
        let of = row.bytes(row::Column::OnceDigest as usize).map_err(damaged)?;
        if of != Some(once.of.as_bytes().as_slice()) {
            return Err(StoreError::KeyTaken.into());
        }
        let (_, id, _) = row::due(row)?;
        match self.glance(row).await? {
            Some(record) if !record.is_forgotten(self.now()) => Ok(Some(record)),
            _ => Err(StoreError::KeySpent { id }.into()),
        }
    }

    /// Adds a new record as its owner's `nth` and numbers its creation; `false` if its id is taken, be it by a tombstone.
    async fn add(&mut self, record: &Record, nth: u64) -> Result<bool, Fault> {
        let next = match std::mem::replace(&mut self.ahead, Ahead::Nothing) {
            Ahead::Account(_, _, next, _) => next,
            _ => {
                let next = self.query("numbering a change", sql::NEXT_SEQ, &[]).await?;
                int(next.first().ok_or_else(|| damaged("the numbers of changes"))?, 0)?
            }
        };
        // A task's place is the number of its creation.
        let seq = u64::try_from(next).map_err(damaged)?;
        let place = Place::made(seq, nth, record);
        let at = Standing::of(record);
        let (retention, retention_ms) = row::encode_retention(record.retention);
        let (version, parent) = (record.version.text(), record.parent.as_ref());
        let values = [
            Value::count(seq),
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
            Value::Int(row::share_of(record)),
            Value::Text(record.host.as_ref().map(HostId::as_str)),
            Value::count(place.charged),
        ];
        if self.execute(sql::INSERT, &values).await?.is_empty() {
            return Ok(false);
        }
        let added = self.added(&record.owner);
        added.open += 1;
        added.retained += 1;
        added.last += 1;
        added.task_bytes += signed(place.charged);
        self.places.insert(record.id.clone(), place);
        self.written.seqs.insert(record.id.clone(), seq);
        Ok(true)
    }

    /// Charges the owner of a task for what it weighs by now, in the place of what it was charged.
    fn charge(&mut self, place: Place, owner: &Owner, id: &TaskId, weight: u64) {
        if place.charged != weight {
            self.added(owner).task_bytes += signed(weight) - signed(place.charged);
            self.places.insert(id.clone(), place.charged(weight));
        }
    }

    /// Writes what a transition may have changed of a task that was open, and numbers the change.
    async fn update(&mut self, ord: u64, record: &Record) -> Result<(), Fault> {
        if record.is_terminal() {
            self.added(&record.owner).open -= 1;
        }
        let at = Standing::of(record);
        let (progress, undo) = (record.progress.as_ref(), record.undo.as_ref());
        let spells = row::encode_spells(record);
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
            Value::Text(spells.as_deref()),
            Value::Int(row::share_of(record)),
            Value::Text(record.host.as_ref().map(HostId::as_str)),
            Value::count(record.weight()),
        ];
        let numbered = self.execute(sql::UPDATE, &values).await?;
        self.number(&numbered, record)
    }

    /// Writes what a report may have changed and numbers the change; no index is touched.
    async fn update_report(&mut self, ord: u64, record: &Record) -> Result<(), Fault> {
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
            Value::int(record.attempt),
            Value::count(record.weight()),
        ];
        let numbered = self.execute(sql::UPDATE_REPORT, &values).await?;
        self.number(&numbered, record)
    }

    fn number(&mut self, numbered: &[Row], record: &Record) -> Result<(), Fault> {
        let row = numbered.first().ok_or_else(|| damaged("a task that was held is gone"))?;
        self.written.seqs.insert(record.id.clone(), u64::try_from(int(row, 0)?).map_err(damaged)?);
        Ok(())
    }

    /// Writes how many tasks were made below one, which nobody can see.
    async fn update_below(&mut self, ord: u64, record: &Record) -> Result<(), Fault> {
        let values = [Value::count(ord), Value::int(record.children.below)];
        self.execute(sql::COUNT_BELOW, &values).await.map(drop)
    }

    /// Writes what may have changed of a task that had ended: nobody can see it, and it has no number.
    async fn update_ended(&mut self, ord: u64, record: &Record) -> Result<(), Fault> {
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
            Value::count(record.weight()),
        ];
        self.execute(sql::UPDATE_ENDED, &values).await.map(drop)
    }

    /// Writes whether somebody came back for a task, which nobody can see.
    async fn update_orphan(&mut self, ord: u64, record: &Record) -> Result<(), Fault> {
        let values = [Value::count(ord), time(record.orphan_at), time(record.came_back_at)];
        self.execute(sql::UPDATE_ORPHAN, &values).await.map(drop)
    }

    /// The number of the next change of an entry.
    pub(super) async fn next_version(&self) -> Result<u64, Fault> {
        let next = self.query("numbering a change", sql::NEXT_VERSION, &[]).await?;
        let next = next.first().ok_or_else(|| damaged("the numbers of changes"))?;
        u64::try_from(int(next, 0)?).map_err(damaged)
    }
}

impl Transaction for Tx {
    type Fault = Fault;
    /// The number of its row.
    type Row = i64;

    fn node(&self) -> &Node {
        &self.site.node
    }

    fn now(&self) -> Time {
        self.site.node.clock.now()
    }

    /// Whoever is refused may still find what there is. What is admitted holds the account of its owner, so that nobody else
    /// makes the same call meanwhile.
    async fn known(&mut self, new: &Record) -> Result<Option<Created>, Fault> {
        self.admitted = match self.admit(new).await {
            Err(Fault::Refused(refusal)) => Some(Err(refusal)),
            admitted => Some(Ok(admitted?)),
        };
        match self.again(new).await? {
            Some(found) => Ok(Some(Created::Again(found))),
            None => Ok(self.joinable(new).await?.map(Created::Joined)),
        }
    }

    async fn insert(&mut self, record: &Record) -> Result<(), Fault> {
        let admitted = match self.admitted.take() {
            Some(admitted) => admitted.map_err(Fault::Refused),
            None => self.admit(record).await,
        };
        match admitted {
            Ok(nth) if self.add(record, nth).await? => Ok(()),
            Err(Fault::Refused(refusal)) if !self.is_taken(&record.id).await? => Err(refusal.into()),
            Ok(_) | Err(Fault::Refused(_)) => Err(StoreError::AlreadyExists { id: record.id.clone() }.into()),
            Err(fault) => Err(fault),
        }
    }

    /// It is held from then on.
    async fn load(&mut self, id: &TaskId) -> Result<Option<Record>, Fault> {
        let found = match std::mem::replace(&mut self.ahead, Ahead::Nothing) {
            Ahead::Task(first, found) if first == *id => found,
            _ => self.query("reading a task", sql::LOCK, &[Value::text(id.as_str())]).await?.pop(),
        };
        match &found {
            Some(row) => self.read(row).await,
            None => Ok(None),
        }
    }

    async fn load_with(&mut self, id: &TaskId, batch: &Batch) -> Result<Option<(Record, Beside)>, Fault> {
        let Some(record) = self.load(id).await? else { return Ok(None) };
        let beside = steps::beside(self, self.place(&record.id)?.ord, batch).await?;
        Ok(Some((record, beside)))
    }

    async fn load_many(&mut self, ids: &[TaskId]) -> Result<Vec<Record>, Fault> {
        let mut ids: Vec<&str> = ids.iter().map(TaskId::as_str).collect();
        ids.sort_unstable();
        let mut found = Vec::new();
        // What a task carries may be large, so they come a few at a time.
        for some in ids.chunks(FEW) {
            for row in self.query("reading tasks", sql::LOCK_MANY, &[Value::Texts(some)]).await? {
                match self.read(&row).await {
                    Ok(record) => found.extend(record),
                    Err(fault) => pass_over(&row::due(&row)?.1, fault)?,
                }
            }
        }
        Ok(found)
    }

    async fn load_free(&mut self, rows: &[i64], limit: usize) -> Result<Vec<Record>, Fault> {
        let values = [Value::Ints(rows), Value::count(limit as u64)];
        let mut free = Vec::new();
        for row in self.query("claiming tasks", sql::LOCK_FREE, &values).await? {
            match self.read(&row).await {
                Ok(record) => free.extend(record),
                Err(fault) => pass_over(&row::due(&row)?.1, fault)?,
            }
        }
        Ok(free)
    }

    async fn step(&mut self, record: &Record, key: &str) -> Result<Option<Step>, Fault> {
        steps::find_one(self, self.place(&record.id)?.ord, key).await
    }

    async fn children(&mut self, of: &Record) -> Result<Vec<TaskId>, Fault> {
        let of = [Value::text(of.id.as_str())];
        let found = self.query("looking for the children of a task", sql::CHILDREN, &of).await?;
        found.iter().map(|row| TaskId::new(text(row, 0)?).map_err(damaged)).collect()
    }

    fn reach_above(&self, record: &Record) -> Result<(), Fault> {
        match (&record.parent, &self.family) {
            (Some(_), None) => Err(Fault::Family(record.id.clone())),
            _ => Ok(()),
        }
    }

    async fn put(&mut self, record: &Record, change: Change) -> Result<(), Fault> {
        let place = self.place(&record.id)?;
        if matches!(change, Change::Any | Change::Report | Change::Ended) {
            self.charge(place, &record.owner, &record.id, record.weight());
        }
        let ord = place.ord;
        match change {
            Change::Any => self.update(ord, record).await,
            Change::Report => self.update_report(ord, record).await,
            Change::Ended => self.update_ended(ord, record).await,
            Change::Orphan => self.update_orphan(ord, record).await,
            Change::Below => self.update_below(ord, record).await,
        }
    }

    async fn note(&mut self, record: &Record, noted: Noted) -> Result<(), Fault> {
        steps::note(self, self.place(&record.id)?.ord, record, &noted).await
    }

    async fn load_aged(&mut self, ids: &[TaskId]) -> Result<Aged, Fault> {
        let ids: Vec<&str> = ids.iter().map(TaskId::as_str).collect();
        let mut aged = Aged::default();
        for row in self.query("sweeping tasks", sql::LOCK_AGED, &[Value::Texts(&ids)]).await? {
            let (place, id, owner) = match row::due(&row) {
                Ok(due) => due,
                Err(error) => {
                    tracing::error!(%error, "a task whose owner cannot be read is passed over");
                    aged.damaged.push(TaskId::new(text(&row, row::Column::Id as usize)?).map_err(damaged)?);
                    continue;
                }
            };
            if !place.is_tombstone() {
                match self.read(&row).await {
                    Ok(record) => aged.living.extend(record),
                    Err(fault) => {
                        pass_over(&id, fault)?;
                        aged.damaged.push(id);
                    }
                }
                continue;
            }
            let until = row.int(row::Column::ExpiresAt as usize).map_err(damaged)?;
            if until.is_some_and(|until| until <= self.now().unix_ms()) {
                self.places.insert(id.clone(), held(&row, self.now())?);
                aged.tombstones.push((id, owner));
            }
        }
        Ok(aged)
    }

    async fn erase(&mut self, records: &[Record], until: Time) -> Result<(), Fault> {
        let having = |has: fn(&Record) -> bool| {
            let places = records.iter().filter(|record| has(record)).map(|record| self.place(&record.id));
            places.map(|place| place.map(|place| signed(place.ord))).collect::<Result<Vec<_>, _>>()
        };
        let (with_steps, with_parts) =
            (having(|record| record.steps > 0)?, having(|record| record.parts > 0)?);
        let all = having(|_| true)?;
        for (sql, places) in [(sql::REMOVE_STEPS, with_steps), (sql::REMOVE_PARTS, with_parts)] {
            if !places.is_empty() {
                self.execute(sql, &[Value::Ints(&places)]).await?;
            }
        }
        for record in records {
            self.charge(self.place(&record.id)?, &record.owner, &record.id, 0);
        }
        self.execute(sql::ERASE, &[Value::Ints(&all), Value::int(until.unix_ms())]).await.map(drop)
    }

    async fn remove(&mut self, tombstones: &[(TaskId, Owner)]) -> Result<(), Fault> {
        let mut places = Vec::new();
        for (id, owner) in tombstones {
            let place = self.place(id)?;
            places.push(signed(place.ord));
            // One that an earlier release has made a tombstone is charged for still.
            self.charge(place, owner, id, 0);
            self.added(owner).retained -= 1;
        }
        self.execute(sql::REMOVE, &[Value::Ints(&places)]).await.map(drop)
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
        First::Account(owner, share) => {
            let account = (sql::HOLD_ACCOUNT, vec![Value::words(encode_owner(owner))]);
            let mut asked = vec![account, (sql::TOTALS, Vec::new()), (sql::NEXT_SEQ, Vec::new())];
            asked
                .extend(share.map(|share| (sql::OF_SHARE, vec![Value::Int(row::encode_share(Some(share)))])));
            let mut rows = session.begin_with(how, &asked).await?.into_iter().map(|mut rows| rows.pop());
            let mut next = || rows.next().flatten();
            let account = next();
            let (Some(totals), Some(number)) = (next(), next()) else { return Err(damaged("the totals")) };
            let of_share = next().map_or(Ok(0), |row| int(&row, 0))?;
            Ok(Ahead::Account(account, totals, int(&number, 0)?, of_share.unsigned_abs()))
        }
    }
}

/// The place of a row that is held, with what its owner is charged for it: nothing, where an earlier release has made it.
fn held(row: &Row, now: Time) -> Result<Place, Fault> {
    let charged = row.int(row::BEHIND).map_err(damaged)?.and_then(|charged| u64::try_from(charged).ok());
    Ok(Place::of(row, now)?.charged(charged.unwrap_or(0)))
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
