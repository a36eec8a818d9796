//! One group of writes: its transaction, and the numbers it keeps beside the rows.

use std::{
    collections::{HashMap, hash_map::Entry},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use foldhash::fast::RandomState;
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, params};

use super::{
    anchor::Anchor,
    fault::{corrupt, sqlite_error},
    recent::{Changing, Recent},
    sql,
};
use crate::{
    HostId, Owner, Record, Settings, Share, StoreError, TaskId, Time, WatchHub,
    aside::Aside,
    clock::{self, StoreClock},
    room::Room,
    row::{self, Standing, encode_owner, signed},
};

/// What all parts of one store handle share.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) path: PathBuf,
    /// Nothing beside the file can be made, and nothing has to be read there: it is read as it is.
    pub(super) is_still: bool,
    pub(super) file: Anchor,
    pub(super) settings: Settings,
    pub(super) clock: StoreClock,
    pub(super) hub: Arc<WatchHub>,
    /// What sweeps can do nothing to, by its place.
    pub(super) aside: Aside<u64>,
    /// Whoever watches has been told of every change up to this one. The writer holds it while it commits, so that
    /// its own changes never look like another process's.
    pub(super) told: Mutex<u64>,
    pub(super) recent: Recent,
    /// Why the last write failed, until one succeeds.
    pub(super) failing: Mutex<Option<StoreError>>,
}

impl Site {
    pub(super) fn told(&self) -> MutexGuard<'_, u64> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn failing(&self) -> MutexGuard<'_, Option<StoreError>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn error(&self, doing: &'static str, error: rusqlite::Error) -> StoreError {
        sqlite_error(&self.path, doing, error)
    }
}

/// A transaction under way.
pub(super) struct Tx<'a> {
    pub(super) conn: &'a Connection,
    pub(super) site: &'a Site,
    ledger: Ledger,
    /// The statement that inserts a task, once one was: most groups insert many.
    inserting: Option<CachedStatement<'a>>,
    /// The tasks changed so far, and each change's number.
    changes: Vec<(TaskId, u64)>,
    /// The tasks whose rows are others than before, whoever can see that; those that are new aside.
    touched: Vec<TaskId>,
    /// How many statements have written something, so that there is anything to commit.
    writes: u64,
}

/// The store's totals, read when the transaction begins and written when it ends.
#[derive(Clone, Copy, Debug)]
struct Totals {
    seq: u64,
    open: u64,
    retained: u64,
    version: u64,
    event_bytes: u64,
    entries: u64,
}

#[derive(Debug)]
struct Ledger {
    totals: Totals,
    accounts: HashMap<Owner, Account, RandomState>,
    /// How many open tasks the shares have that were counted, until one of any of them ends.
    shares: HashMap<Share, u64, RandomState>,
    /// How the accounts that the present operation changed were before it.
    undo: Vec<(Owner, Account)>,
}

/// What there is of one owner.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    open: u64,
    retained: u64,
    last: u64,
    event_bytes: u64,
    entries: u64,
    task_bytes: u64,
    changed: bool,
}

impl Account {
    fn is_empty(&self) -> bool {
        self.retained == 0 && self.event_bytes == 0 && self.entries == 0
    }
}

/// Where a transaction stood before one of its operations.
#[derive(Debug)]
pub(super) struct Mark {
    totals: Totals,
    changes: usize,
    writes: u64,
}

/// What becomes of an operation that fails after it has written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Care {
    /// Nothing can be taken back. Few operations can fail so late, and a savepoint for each costs a copy of every page
    /// it changes.
    Trusting,
    /// Its own writes are taken back.
    Savepoints,
}

impl<'a> Tx<'a> {
    /// Begins, once it is this process's turn.
    pub(super) fn begin(conn: &'a Connection, site: &'a Site) -> rusqlite::Result<Self> {
        conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let (totals, time) = conn
            .prepare_cached(
                "SELECT seq, open, retained, version, event_bytes, entries, time FROM store WHERE one = 1",
            )?
            .query_row([], |row| {
                let number = |index| row.get::<_, i64>(index).map(|n| u64::try_from(n).unwrap_or(0));
                let totals = Totals {
                    seq: number(0)?,
                    open: number(1)?,
                    retained: number(2)?,
                    version: number(3)?,
                    event_bytes: number(4)?,
                    entries: number(5)?,
                };
                Ok((totals, row.get(6)?))
            })?;
        site.clock.observe(Time::from_unix_ms(time));
        let (accounts, shares) = (HashMap::default(), HashMap::default());
        let ledger = Ledger { totals, accounts, shares, undo: Vec::new() };
        Ok(Self { conn, site, ledger, inserting: None, changes: Vec::new(), touched: Vec::new(), writes: 0 })
    }

    /// The latest change so far.
    pub(super) fn seq(&self) -> u64 {
        self.ledger.totals.seq
    }

    /// Has something written, though nothing else is.
    pub(super) fn touch(&mut self) {
        self.writes += 1;
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.writes > 0
    }

    /// Begins an operation.
    pub(super) fn mark(&mut self, care: Care) -> rusqlite::Result<Mark> {
        if care == Care::Savepoints {
            self.conn.prepare_cached("SAVEPOINT operation")?.execute([])?;
        }
        self.ledger.undo.clear();
        Ok(Mark { totals: self.ledger.totals, changes: self.changes.len(), writes: self.writes })
    }

    /// Ends an operation that succeeded.
    pub(super) fn keep(&self, care: Care) -> rusqlite::Result<()> {
        match care {
            Care::Trusting => Ok(()),
            Care::Savepoints => self.conn.prepare_cached("RELEASE operation")?.execute([]).map(drop),
        }
    }

    /// Ends an operation that failed, taking back what it did; `false` if it cannot be taken back.
    pub(super) fn take_back(&mut self, mark: &Mark, care: Care) -> rusqlite::Result<bool> {
        match care {
            Care::Trusting if self.writes > mark.writes => return Ok(false),
            Care::Trusting => {}
            Care::Savepoints => self.conn.prepare_cached("ROLLBACK TO operation")?.execute([]).map(drop)?,
        }
        self.ledger.totals = mark.totals;
        self.changes.truncate(mark.changes);
        self.writes = mark.writes;
        for (owner, account) in self.ledger.undo.drain(..).rev() {
            self.ledger.accounts.insert(owner, account);
        }
        self.ledger.shares.clear();
        self.keep(care)?;
        Ok(true)
    }

    /// Ends where nothing was written.
    pub(super) fn end(self) -> rusqlite::Result<()> {
        self.conn.prepare_cached("COMMIT")?.execute([]).map(drop)
    }

    /// Writes the totals and commits; returns what changed, and what is not to be found changed until it is known how far the log
    /// goes now.
    pub(super) fn commit(mut self) -> rusqlite::Result<(Vec<(TaskId, u64)>, Changing<'a>)> {
        self.flush()?;
        let changing = self.site.recent.change(std::mem::take(&mut self.touched));
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        Ok((std::mem::take(&mut self.changes), changing))
    }

    /// Reads a task that is no tombstone, and its place.
    pub(super) fn load(&self, id: &TaskId) -> Result<Option<(row::Place, Record)>, StoreError> {
        let mut statement = self.prepare(sql::BY_ID)?;
        let found = statement.query(params![id.as_str()]).and_then(|mut rows| {
            let Some(row) = rows.next()? else { return Ok(None) };
            let place = row::Place::of(row, self.now());
            Ok(Some(place.and_then(|place| {
                if place.is_tombstone() {
                    return Ok(None);
                }
                let record = super::read::record(self.conn, self.site, row)?;
                Ok(Some((place.charged(record.weight()), record)))
            })))
        });
        match found.map_err(|error| self.site.error("reading a task", error))? {
            Some(result) => result,
            None => Ok(None),
        }
    }

    /// Whether the id is taken, be it by a tombstone.
    pub(super) fn is_taken(&self, id: &TaskId) -> Result<bool, StoreError> {
        self.prepare(sql::IS_TAKEN)?
            .exists([id.as_str()])
            .map_err(|error| self.site.error("reading a task", error))
    }

    /// The open task of this owner and digest.
    pub(super) fn joinable(&self, new: &Record) -> Result<Option<Record>, StoreError> {
        let Some(digest) = &new.join else { return Ok(None) };
        let id = self
            .prepare(sql::JOINABLE)?
            .query_row(params![encode_owner(&new.owner), digest.as_bytes()], |row| row.get::<_, String>(0))
            .optional()
            .map_err(|error| self.site.error("looking for a task to join", error))?;
        let Some(id) = id else { return Ok(None) };
        let id = TaskId::new(id).map_err(corrupt)?;
        Ok(self.load(&id)?.map(|(_, record)| record))
    }

    /// The task that was created under the key of this new one before.
    pub(super) fn again(&self, new: &Record) -> Result<Option<Record>, StoreError> {
        let Some(once) = &new.once else { return Ok(None) };
        let found = self
            .prepare(sql::AGAIN)?
            .query_row(params![encode_owner(&new.owner), once.key.as_str()], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?))
            })
            .optional()
            .map_err(|error| self.site.error("looking for a call by its key", error))?;
        let Some((id, of)) = found else { return Ok(None) };
        if of != once.of.as_bytes() {
            return Err(StoreError::KeyTaken);
        }
        let id = TaskId::new(id).map_err(corrupt)?;
        match self.load(&id)? {
            Some((place, record)) if place.is_visible() => Ok(Some(record)),
            _ => Err(StoreError::KeySpent { id }),
        }
    }

    /// Refuses a task there is no room for.
    pub(super) fn admit(&mut self, new: &Record) -> Result<(), StoreError> {
        let Totals { open, retained, .. } = self.ledger.totals;
        let Account { open: own_open, retained: own_retained, task_bytes: own_bytes, .. } =
            *self.account(&new.owner)?;
        let of_share = match new.share {
            // None of its owner's shares can be full.
            Some(_) if own_open < self.settings().limits.max_open_per_stranger => 0,
            Some(share) => self.of_share(share)?,
            None => 0,
        };
        let room = Room { open, retained, own_open, own_retained, own_bytes, of_share };
        self.settings().limits.admit(new, room)
    }

    /// How many open tasks there are of a share.
    fn of_share(&mut self, share: Share) -> Result<u64, StoreError> {
        if let Some(known) = self.ledger.shares.get(&share) {
            return Ok(*known);
        }
        let found = self
            .prepare(sql::OF_SHARE)?
            .query_row([row::encode_share(Some(share))], |row| row.get::<_, i64>(0))
            .map_err(|error| self.site.error("counting a stranger's tasks", error))?;
        let found = found.unsigned_abs();
        self.ledger.shares.insert(share, found);
        Ok(found)
    }

    /// Adds a new record and numbers its creation, which is its place.
    ///
    /// # Errors
    ///
    /// [`StoreError::AlreadyExists`] if its id is taken, be it by a tombstone; nothing is written then.
    pub(super) fn insert(&mut self, record: &mut Record) -> Result<row::Place, StoreError> {
        record.seq = self.next_seq();
        let account = self.change_account(&record.owner)?;
        account.open += 1;
        account.retained += 1;
        account.last += 1;
        let place = row::Place::made(record.seq, account.last, record);
        account.task_bytes = account.task_bytes.saturating_add(place.charged);
        self.ledger.totals.open += 1;
        self.ledger.totals.retained += 1;
        if let Some(known) = record.share.and_then(|share| self.ledger.shares.get_mut(&share)) {
            *known += 1;
        }
        let at = Standing::of(record);
        let (retention, retention_ms) = row::encode_retention(record.retention);
        let failed = |error| self.site.error("writing", error);
        let inserting = match &mut self.inserting {
            Some(prepared) => prepared,
            none => none.insert(self.conn.prepare_cached(sql::INSERT).map_err(failed)?),
        };
        let rows = inserting
            .execute(params![
                signed(record.seq),
                record.id.as_str(),
                encode_owner(&record.owner),
                signed(place.nth),
                at.phase,
                at.not_before,
                at.lease_node,
                at.lease_until,
                signed(record.epoch.get()),
                record.attempt,
                record.started,
                row::encode_rerun(record.rerun),
                row::encode_dialect(record.dialect),
                retention,
                retention_ms,
                record.expires_at.map(Time::unix_ms),
                record.created_at.unix_ms(),
                record.poll_interval_ms.map(signed),
                record.join.as_ref().map(|digest| digest.as_bytes().as_slice()),
                &*record.tool,
                record.status_message.as_deref(),
                record.caller.as_str(),
                record.arguments.as_str(),
                record.once.as_ref().map(|once| once.key.as_str()),
                record.once.as_ref().map(|once| once.of.as_bytes().as_slice()),
                signed(record.questions.len() as u64),
                record.steps,
                signed(record.step_bytes),
                record.version.text(),
                record.owed,
                record.parent.as_ref().map(|parent| parent.task.as_str()),
                record.parent.as_ref().map(|parent| &*parent.step),
                record.depth(),
                record.parent.as_ref().is_some_and(|parent| parent.outlives),
                record.parent.as_ref().is_some_and(|parent| parent.essential),
                record.cancel_grace.map(row::millis),
                record.orphan_at.map(Time::unix_ms),
                row::encode_on_orphan(record.on_orphan),
                row::share_of(record),
                record.host.as_ref().map(HostId::as_str),
            ])
            .map_err(failed)?;
        if rows == 0 {
            return Err(StoreError::AlreadyExists { id: record.id.clone() });
        }
        self.writes += 1;
        self.changes.push((record.id.clone(), record.seq));
        Ok(place)
    }

    /// Brings an owner's account up to date with what becomes of its task in this place. `ends`: it was open until now.
    fn charge(&mut self, place: row::Place, record: &Record, ends: bool) -> Result<(), StoreError> {
        let weight = record.weight();
        if ends || weight != place.charged {
            let account = self.change_account(&record.owner)?;
            account.open -= u64::from(ends);
            account.task_bytes = account.task_bytes.saturating_sub(place.charged).saturating_add(weight);
        }
        Ok(())
    }

    /// Writes what a transition may have changed and numbers the change. `was_open` is how it was before.
    pub(super) fn update(
        &mut self,
        place: row::Place,
        record: &mut Record,
        was_open: bool,
    ) -> Result<(), StoreError> {
        record.seq = self.next_seq();
        self.touched.push(record.id.clone());
        let ends = was_open && record.is_terminal();
        self.charge(place, record, ends)?;
        if ends {
            self.ledger.totals.open -= 1;
            self.ledger.shares.clear();
        }
        let at = Standing::of(record);
        let progress = record.progress.as_ref();
        self.execute(
            sql::UPDATE,
            params![
                signed(place.ord),
                signed(record.seq),
                at.phase,
                at.not_before,
                at.lease_node,
                at.lease_until,
                signed(record.epoch.get()),
                record.attempt,
                record.started,
                record.expires_at.map(Time::unix_ms),
                record.status_changed_at.unix_ms(),
                record.updated_at.unix_ms(),
                record.terminal_at.map(Time::unix_ms),
                progress.map(|progress| progress.value),
                progress.and_then(|progress| progress.total),
                progress.and_then(|progress| progress.message.as_deref()),
                at.outcome,
                at.outcome_code,
                at.outcome_text,
                at.outcome_json,
                record.status_message.as_deref(),
                signed(record.questions.len() as u64),
                record.steps,
                signed(record.step_bytes),
                record.owed,
                record.undo.as_ref().map(|undo| undo.attempt),
                record.undo.as_ref().and_then(|undo| undo.until).map(Time::unix_ms),
                record.parts,
                signed(record.part_bytes),
                record.children.open,
                record.children.ended,
                record.children.below,
                record.cancelling.as_deref(),
                record.orphan_at.map(Time::unix_ms),
                row::encode_spells(record),
                row::share_of(record),
                record.host.as_ref().map(HostId::as_str),
            ],
        )?;
        self.changes.push((record.id.clone(), record.seq));
        Ok(())
    }

    /// Writes what a report may have changed and numbers the change; no index is touched.
    pub(super) fn update_report(&mut self, place: row::Place, record: &mut Record) -> Result<(), StoreError> {
        record.seq = self.next_seq();
        self.touched.push(record.id.clone());
        self.charge(place, record, false)?;
        let progress = record.progress.as_ref();
        self.execute(
            sql::UPDATE_REPORT,
            params![
                signed(place.ord),
                signed(record.seq),
                record.updated_at.unix_ms(),
                progress.map(|progress| progress.value),
                progress.and_then(|progress| progress.total),
                progress.and_then(|progress| progress.message.as_deref()),
                record.status_message.as_deref(),
                record.status_changed_at.unix_ms(),
                signed(record.questions.len() as u64),
                record.steps,
                signed(record.step_bytes),
                record.owed,
                record.parts,
                signed(record.part_bytes),
                record.attempt,
            ],
        )?;
        self.changes.push((record.id.clone(), record.seq));
        Ok(())
    }

    /// Writes how many tasks were made below one, which nobody can see.
    pub(super) fn update_below(&mut self, ord: u64, record: &Record) -> Result<(), StoreError> {
        self.touched.push(record.id.clone());
        self.execute(sql::COUNT_BELOW, params![signed(ord), record.children.below]).map(drop)
    }

    /// Writes what may have changed of a task that had ended: nobody can see it, and it has no number.
    pub(super) fn update_ended(&mut self, place: row::Place, record: &Record) -> Result<(), StoreError> {
        self.touched.push(record.id.clone());
        self.charge(place, record, false)?;
        let (at, undo) = (Standing::of(record), record.undo.as_ref());
        let values = params![
            signed(place.ord),
            at.not_before,
            at.lease_node,
            at.lease_until,
            signed(record.epoch.get()),
            record.expires_at.map(Time::unix_ms),
            record.steps,
            signed(record.step_bytes),
            record.owed,
            undo.map(|undo| undo.attempt),
            undo.map_or(0, |undo| undo.failed),
            undo.and_then(|undo| undo.until).map(Time::unix_ms),
        ];
        self.execute(sql::UPDATE_ENDED, values).map(drop)
    }

    /// Writes whether somebody came back for a task, which nobody can see.
    pub(super) fn update_orphan(&mut self, ord: u64, record: &Record) -> Result<(), StoreError> {
        self.touched.push(record.id.clone());
        let dates = [record.orphan_at, record.came_back_at].map(|at| at.map(Time::unix_ms));
        self.execute(sql::UPDATE_ORPHAN, params![signed(ord), dates[0], dates[1]]).map(drop)
    }

    /// Writes a prolonged lease, which nobody can see and which therefore has no number.
    pub(super) fn update_lease(&mut self, ord: u64, id: &TaskId, until: Time) -> Result<(), StoreError> {
        self.touched.push(id.clone());
        self.execute(sql::RENEW, params![signed(ord), until.unix_ms()]).map(drop)
    }

    /// Takes a finished task's payloads away; its id stays until `until`.
    pub(super) fn erase(
        &mut self,
        place: row::Place,
        record: &Record,
        until: Time,
    ) -> Result<(), StoreError> {
        self.touched.push(record.id.clone());
        if record.steps > 0 {
            super::steps::remove(self, place.ord)?;
        }
        if record.parts > 0 {
            super::parts::remove(self, place.ord)?;
        }
        let account = self.change_account(&record.owner)?;
        account.task_bytes = account.task_bytes.saturating_sub(place.charged);
        self.execute(sql::ERASE, params![signed(place.ord), until.unix_ms()]).map(drop)
    }

    /// Removes a tombstone.
    pub(super) fn remove(&mut self, ord: u64, owner: &Owner) -> Result<(), StoreError> {
        self.change_account(owner)?.retained -= 1;
        self.ledger.totals.retained -= 1;
        self.execute(sql::REMOVE, params![signed(ord)]).map(drop)
    }

    /// Charges an owner for events that take `taken` in the place of some that took `freed`, if there is room.
    pub(super) fn charge_events(&mut self, owner: &Owner, freed: u64, taken: u64) -> Result<(), StoreError> {
        let after = |bytes: u64| bytes.saturating_sub(freed) + taken;
        let (own, all) = (after(self.account(owner)?.event_bytes), after(self.ledger.totals.event_bytes));
        if taken > freed {
            self.settings().limits.admit_events(own, all)?;
        }
        self.change_account(owner)?.event_bytes = own;
        self.ledger.totals.event_bytes = all;
        Ok(())
    }

    /// Charges a holder for one more entry, if there is room.
    pub(super) fn charge_entry(&mut self, owner: Option<&Owner>) -> Result<(), StoreError> {
        let own = owner.map(|owner| self.account(owner).map(|account| account.entries)).transpose()?;
        self.settings().limits.admit_entry(owner, own.unwrap_or(0), self.ledger.totals.entries)?;
        if let Some(owner) = owner {
            self.change_account(owner)?.entries += 1;
        }
        self.ledger.totals.entries += 1;
        Ok(())
    }

    /// Gives back what an entry was charged.
    pub(super) fn credit_entry(&mut self, owner: Option<&Owner>) -> Result<(), StoreError> {
        if let Some(owner) = owner {
            let account = self.change_account(owner)?;
            account.entries = account.entries.saturating_sub(1);
        }
        self.ledger.totals.entries = self.ledger.totals.entries.saturating_sub(1);
        Ok(())
    }

    /// The number of the next change of an entry.
    pub(super) fn next_version(&mut self) -> u64 {
        self.ledger.totals.version += 1;
        self.ledger.totals.version
    }

    pub(super) fn now(&self) -> Time {
        self.site.clock.now()
    }

    pub(super) fn settings(&self) -> &'a Settings {
        &self.site.settings
    }

    pub(super) fn prepare(&self, sql: &str) -> Result<CachedStatement<'a>, StoreError> {
        self.conn.prepare_cached(sql).map_err(|error| self.site.error("preparing a statement", error))
    }

    pub(super) fn execute(
        &mut self,
        sql: &str,
        values: &[&dyn rusqlite::ToSql],
    ) -> Result<usize, StoreError> {
        let rows = self.prepare(sql)?.execute(values).map_err(|error| self.site.error("writing", error))?;
        self.writes += u64::from(rows > 0);
        Ok(rows)
    }

    fn next_seq(&mut self) -> u64 {
        self.ledger.totals.seq += 1;
        self.ledger.totals.seq
    }

    fn account(&mut self, owner: &Owner) -> Result<&mut Account, StoreError> {
        match self.ledger.accounts.entry(owner.clone()) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let read = |row: &rusqlite::Row<'_>| {
                    let number = |index| row.get::<_, i64>(index).map(|n| u64::try_from(n).unwrap_or(0));
                    Ok(Account {
                        open: number(0)?,
                        retained: number(1)?,
                        last: number(2)?,
                        event_bytes: number(3)?,
                        entries: number(4)?,
                        task_bytes: number(5)?,
                        changed: false,
                    })
                };
                let found = self
                    .conn
                    .prepare_cached(sql::ACCOUNT)
                    .and_then(|mut statement| statement.query_row([encode_owner(owner)], read).optional());
                let account = found.map_err(|error| self.site.error("reading an owner's account", error))?;
                Ok(entry.insert(account.unwrap_or_default()))
            }
        }
    }

    fn change_account(&mut self, owner: &Owner) -> Result<&mut Account, StoreError> {
        let before = *self.account(owner)?;
        self.ledger.undo.push((owner.clone(), before));
        let account = self.account(owner)?;
        account.changed = true;
        Ok(account)
    }

    fn flush(&self) -> rusqlite::Result<()> {
        for (owner, account) in self.ledger.accounts.iter().filter(|(_, account)| account.changed) {
            let owner = encode_owner(owner);
            if account.is_empty() {
                self.conn.prepare_cached("DELETE FROM accounts WHERE owner = ?1")?.execute([owner])?;
            } else {
                let Account { open, retained, last, event_bytes, entries, task_bytes, .. } = *account;
                let [open, retained, last, event_bytes, entries, task_bytes] =
                    [open, retained, last, event_bytes, entries, task_bytes].map(signed);
                let values = params![owner, open, retained, last, event_bytes, entries, task_bytes];
                self.conn.prepare_cached(sql::PUT_ACCOUNT)?.execute(values)?;
            }
        }
        let Totals { seq, open, retained, version, event_bytes, entries } = self.ledger.totals;
        let [seq, open, retained, version, event_bytes, entries] =
            [seq, open, retained, version, event_bytes, entries].map(signed);
        let clock::Mark { time, steady, boot } = self.site.clock.mark();
        let steady = i64::try_from(steady.as_millis()).unwrap_or(i64::MAX);
        let values =
            params![seq, open, retained, version, event_bytes, entries, time.unix_ms(), steady, boot];
        self.conn.prepare_cached(sql::PUT_TOTALS)?.execute(values).map(drop)
    }
}
