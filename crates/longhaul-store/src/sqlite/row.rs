//! A record as a row and back.

use std::{sync::Arc, time::Duration};

use rusqlite::{Row, types::ValueRef};

use super::fault::corrupt;
use crate::{
    Dialect, Digest, Epoch, Json, Lease, NodeId, Outcome, Owner, Phase, Progress, Record, Rerun, Retention,
    StoreError, TaskId, Time,
};

/// Phases as they are stored.
pub(super) mod phase {
    pub(crate) const QUEUED: i64 = 0;
    pub(crate) const RUNNING: i64 = 1;
    pub(crate) const DONE: i64 = 8;
    pub(crate) const TOMBSTONE: i64 = 9;
}

/// Where a row is in the lists, and what it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) ord: u64,
    pub(super) nth: u64,
    phase: i64,
    /// Whether the task is done and past its time.
    forgotten: bool,
}

impl Place {
    /// Reads the place of the row alone.
    pub(super) fn of(row: &Row<'_>, now: Time) -> Result<Self, StoreError> {
        let read = Reader { row };
        let phase = read.int(2)?;
        let forgotten = phase >= phase::DONE && read.maybe_time(16)?.is_some_and(|at| at <= now);
        Ok(Self { ord: read.count(0)?, nth: read.count(1)?, phase, forgotten })
    }

    /// Whether a reader may see the task.
    pub(super) fn is_visible(self) -> bool {
        self.phase != phase::TOMBSTONE && !self.forgotten
    }

    pub(super) fn is_tombstone(self) -> bool {
        self.phase == phase::TOMBSTONE
    }
}

/// The tool of a row, without reading the rest.
pub(super) fn tool<'row>(row: &'row Row<'_>) -> Result<&'row str, StoreError> {
    Reader { row }.text(27)
}

/// Reads the first columns alone: the place, the id and the owner. The row need not have the others.
pub(super) fn due(row: &Row<'_>) -> Result<(Place, TaskId, Owner), StoreError> {
    let read = Reader { row };
    let place = Place { ord: read.count(0)?, nth: read.count(1)?, phase: read.int(2)?, forgotten: false };
    let id = TaskId::new(read.text(3)?).map_err(|error| damaged("id", error))?;
    Ok((place, id, decode_owner(read.text(4)?)?))
}

/// Reads a row of those columns that is no tombstone.
pub(super) fn decode(row: &Row<'_>) -> Result<Record, StoreError> {
    let read = Reader { row };
    let id = TaskId::new(read.text(3)?).map_err(|error| damaged("id", error))?;
    let mut record = Record::new(
        id,
        decode_owner(read.text(4)?)?,
        read.text(27)?,
        read.json(32)?,
        read.json(31)?,
        read.time(17)?,
    );
    record.seq = read.count(5)?;
    record.phase = decode_phase(&read)?;
    record.epoch = Epoch::new(read.count(9)?);
    record.attempt = u32::try_from(read.int(10)?).map_err(|error| damaged("attempt", error))?;
    record.started = read.int(11)? != 0;
    record.rerun = decode_rerun(read.int(12)?)?;
    record.dialect = decode_dialect(read.int(13)?)?;
    record.retention = decode_retention(read.int(14)?, read.count(15)?)?;
    record.expires_at = read.maybe_time(16)?;
    record.status_changed_at = read.time(18)?;
    record.updated_at = read.time(19)?;
    record.terminal_at = read.maybe_time(20)?;
    record.poll_interval_ms = read.maybe_count(21)?;
    record.progress = match read.maybe_real(22)? {
        Some(value) => Some(Progress { value, total: read.maybe_real(23)?, message: read.maybe_text(29)? }),
        None => None,
    };
    record.join = read.digest(26)?;
    record.status_message = read.maybe_text(28)?;
    Ok(record)
}

/// The columns that say where a task stands, as a statement takes them.
#[derive(Debug)]
pub(super) struct Standing<'a> {
    pub(super) phase: i64,
    pub(super) not_before: Option<i64>,
    pub(super) lease_node: Option<&'a str>,
    pub(super) lease_until: Option<i64>,
    pub(super) outcome: Option<i64>,
    pub(super) outcome_code: Option<i64>,
    pub(super) outcome_text: Option<&'a str>,
    pub(super) outcome_json: Option<&'a str>,
}

impl<'a> Standing<'a> {
    pub(super) fn of(record: &'a Record) -> Self {
        let mut at = Standing {
            phase: phase::QUEUED,
            not_before: None,
            lease_node: None,
            lease_until: None,
            outcome: None,
            outcome_code: None,
            outcome_text: None,
            outcome_json: None,
        };
        match &record.phase {
            Phase::Queued { not_before } => at.not_before = Some(not_before.unix_ms()),
            Phase::Running { lease } => {
                at.phase = phase::RUNNING;
                at.lease_node = Some(lease.node.as_str());
                at.lease_until = Some(lease.until.unix_ms());
            }
            Phase::Done(outcome) => {
                at.phase = phase::DONE;
                at.end(outcome);
            }
        }
        at
    }

    fn end(&mut self, outcome: &'a Outcome) {
        match outcome {
            Outcome::Result { value, is_error } => {
                self.outcome = Some(0);
                self.outcome_code = Some(i64::from(*is_error));
                self.outcome_json = Some(value.as_str());
            }
            Outcome::Error { code, message, data } => {
                self.outcome = Some(1);
                self.outcome_code = Some(*code);
                self.outcome_text = Some(message);
                self.outcome_json = data.as_ref().map(Json::as_str);
            }
            Outcome::Cancelled { reason } => {
                self.outcome = Some(2);
                self.outcome_text = reason.as_deref();
            }
            Outcome::Lost { reason } => {
                self.outcome = Some(3);
                self.outcome_text = Some(reason);
            }
        }
    }
}

/// A number as SQLite holds it.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// An owner's column; the empty name belongs to no principal.
pub(super) fn encode_owner(owner: &Owner) -> &str {
    match owner {
        Owner::Principal(principal) => principal.as_str(),
        Owner::Anonymous => "",
    }
}

fn decode_owner(text: &str) -> Result<Owner, StoreError> {
    match text {
        "" => Ok(Owner::Anonymous),
        name => Owner::principal(name).map_err(|error| damaged("owner", error)),
    }
}

fn decode_phase(read: &Reader<'_, '_>) -> Result<Phase, StoreError> {
    match read.int(2)? {
        phase::QUEUED => Ok(Phase::Queued { not_before: read.time(6)? }),
        phase::RUNNING => {
            let node = NodeId::new(read.text(7)?).map_err(|error| damaged("lease_node", error))?;
            Ok(Phase::Running { lease: Lease::new(node, read.time(8)?) })
        }
        phase::DONE => Ok(Phase::Done(decode_outcome(read)?)),
        other => Err(damaged("phase", other)),
    }
}

fn decode_outcome(read: &Reader<'_, '_>) -> Result<Outcome, StoreError> {
    match read.int(24)? {
        0 => Ok(Outcome::Result { value: read.json(33)?, is_error: read.int(25)? != 0 }),
        1 => Ok(Outcome::Error {
            code: read.int(25)?,
            message: read.text(30)?.into(),
            data: read.maybe_json(33)?,
        }),
        2 => Ok(Outcome::Cancelled { reason: read.maybe_text(30)? }),
        3 => Ok(Outcome::Lost { reason: read.text(30)?.into() }),
        other => Err(damaged("outcome", other)),
    }
}

pub(super) fn encode_rerun(rerun: Rerun) -> i64 {
    match rerun {
        Rerun::Reattach => 0,
        Rerun::Resumable => 1,
        Rerun::Restart => 2,
        Rerun::Never => 3,
    }
}

fn decode_rerun(number: i64) -> Result<Rerun, StoreError> {
    match number {
        0 => Ok(Rerun::Reattach),
        1 => Ok(Rerun::Resumable),
        2 => Ok(Rerun::Restart),
        3 => Ok(Rerun::Never),
        other => Err(damaged("rerun", other)),
    }
}

pub(super) fn encode_dialect(dialect: Dialect) -> i64 {
    match dialect {
        Dialect::Held => 0,
        Dialect::D1 => 1,
        Dialect::D2 => 2,
        Dialect::D3 => 3,
    }
}

fn decode_dialect(number: i64) -> Result<Dialect, StoreError> {
    match number {
        0 => Ok(Dialect::Held),
        1 => Ok(Dialect::D1),
        2 => Ok(Dialect::D2),
        3 => Ok(Dialect::D3),
        other => Err(damaged("dialect", other)),
    }
}

pub(super) fn encode_retention(retention: Retention) -> (i64, i64) {
    let ms = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    match retention {
        Retention::FromCreation(ttl) => (0, ms(ttl)),
        Retention::AfterTerminal(keep) => (1, ms(keep)),
        Retention::Unlimited => (2, 0),
    }
}

fn decode_retention(kind: i64, ms: u64) -> Result<Retention, StoreError> {
    match kind {
        0 => Ok(Retention::FromCreation(Duration::from_millis(ms))),
        1 => Ok(Retention::AfterTerminal(Duration::from_millis(ms))),
        2 => Ok(Retention::Unlimited),
        other => Err(damaged("retention", other)),
    }
}

/// Reads typed columns, each failure naming its column.
struct Reader<'row, 'stmt> {
    row: &'row Row<'stmt>,
}

impl<'row> Reader<'row, '_> {
    fn value(&self, index: usize) -> Result<ValueRef<'row>, StoreError> {
        self.row.get_ref(index).map_err(|error| damaged(name(index), error))
    }

    fn maybe_int(&self, index: usize) -> Result<Option<i64>, StoreError> {
        self.value(index)?.as_i64_or_null().map_err(|error| damaged(name(index), error))
    }

    fn int(&self, index: usize) -> Result<i64, StoreError> {
        self.maybe_int(index)?.ok_or_else(|| damaged(name(index), "null"))
    }

    fn maybe_count(&self, index: usize) -> Result<Option<u64>, StoreError> {
        self.maybe_int(index)?.map(u64::try_from).transpose().map_err(|error| damaged(name(index), error))
    }

    fn count(&self, index: usize) -> Result<u64, StoreError> {
        u64::try_from(self.int(index)?).map_err(|error| damaged(name(index), error))
    }

    fn maybe_time(&self, index: usize) -> Result<Option<Time>, StoreError> {
        Ok(self.maybe_int(index)?.map(Time::from_unix_ms))
    }

    fn time(&self, index: usize) -> Result<Time, StoreError> {
        Ok(Time::from_unix_ms(self.int(index)?))
    }

    fn maybe_real(&self, index: usize) -> Result<Option<f64>, StoreError> {
        self.value(index)?.as_f64_or_null().map_err(|error| damaged(name(index), error))
    }

    fn maybe_str(&self, index: usize) -> Result<Option<&'row str>, StoreError> {
        self.value(index)?.as_str_or_null().map_err(|error| damaged(name(index), error))
    }

    fn text(&self, index: usize) -> Result<&'row str, StoreError> {
        self.maybe_str(index)?.ok_or_else(|| damaged(name(index), "null"))
    }

    fn maybe_text(&self, index: usize) -> Result<Option<Arc<str>>, StoreError> {
        Ok(self.maybe_str(index)?.map(Arc::from))
    }

    fn maybe_json(&self, index: usize) -> Result<Option<Json>, StoreError> {
        self.maybe_str(index)?.map(Json::parse).transpose().map_err(|error| damaged(name(index), error))
    }

    fn json(&self, index: usize) -> Result<Json, StoreError> {
        self.maybe_json(index)?.ok_or_else(|| damaged(name(index), "null"))
    }

    fn digest(&self, index: usize) -> Result<Option<Digest>, StoreError> {
        let Some(bytes) =
            self.value(index)?.as_blob_or_null().map_err(|error| damaged(name(index), error))?
        else {
            return Ok(None);
        };
        let bytes = bytes.try_into().map_err(|error| damaged(name(index), error))?;
        Ok(Some(Digest::new(bytes)))
    }
}

fn name(index: usize) -> &'static str {
    super::sql::columns!().split(", ").nth(index).unwrap_or("a column").trim()
}

fn damaged(column: &str, why: impl std::fmt::Display) -> StoreError {
    corrupt(format!("column {column} of a task: {why}"))
}
