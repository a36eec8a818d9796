//! A record as a row and back, for every backend that keeps rows.

pub(crate) mod entry;
pub(crate) mod part;
pub(crate) mod step;

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    CallKey, Children, Dialect, Digest, Epoch, HostId, Json, Lease, NodeId, OnOrphan, Once, Outcome, Owner,
    Parent, Phase, Progress, Record, Rerun, Retention, Share, Spell, StoreError, TaskId, Time, ToolVersion,
    Undo, UndoPhase, error::corrupt, transfer::WholeTask,
};

/// The columns of a record: `columns!()` to select them, and [`Column`] to read each where it then stands.
macro_rules! define_columns {
    ($first:ident $first_name:literal, $($column:ident $name:literal,)*) => {
        /// A column of a record, where `columns!()` puts it.
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum Column {
            $first,
            $($column,)*
        }

        impl Column {
            pub(crate) fn name(self) -> &'static str {
                match self {
                    Self::$first => $first_name,
                    $(Self::$column => $name,)*
                }
            }
        }

        macro_rules! columns {
            () => {
                concat!($first_name, $(", ", $name),*)
            };
        }
    };
}

// The short ones that every read looks at come first, what may be long last.
define_columns! {
    Ord "ord",
    Nth "nth",
    Phase "phase",
    Id "id",
    Owner "owner",
    Seq "seq",
    NotBefore "not_before",
    LeaseNode "lease_node",
    LeaseUntil "lease_until",
    Epoch "epoch",
    Attempt "attempt",
    Started "started",
    Rerun "rerun",
    Dialect "dialect",
    Retention "retention",
    RetentionMs "retention_ms",
    ExpiresAt "expires_at",
    CreatedAt "created_at",
    StatusChangedAt "status_changed_at",
    UpdatedAt "updated_at",
    TerminalAt "terminal_at",
    PollIntervalMs "poll_interval_ms",
    Progress "progress",
    ProgressTotal "progress_total",
    Outcome "outcome",
    OutcomeCode "outcome_code",
    JoinDigest "join_digest",
    OnceKey "once_key",
    OnceDigest "once_digest",
    Share "share",
    Asked "asked",
    Steps "steps",
    StepBytes "step_bytes",
    Parts "parts",
    PartBytes "part_bytes",
    Owed "owed",
    UndoAttempt "undo_attempt",
    UndoFailed "undo_failed",
    UndoUntil "undo_until",
    CancelGraceMs "cancel_grace_ms",
    OrphanAt "orphan_at",
    OnOrphan "on_orphan",
    CameBackAt "came_back_at",
    Depth "depth",
    Outlives "outlives",
    Essential "essential",
    Children "children",
    ChildrenEnded "children_ended",
    Below "below",
    Parent "parent",
    ParentStep "parent_step",
    ToolVersion "tool_version",
    Tool "tool",
    Host "host",
    CancelReason "cancel_reason",
    StatusMessage "status_message",
    ProgressMessage "progress_message",
    OutcomeText "outcome_text",
    Caller "caller",
    Arguments "arguments",
    Spells "spells",
    OutcomeJson "outcome_json",
}

/// Where a statement stands that a store selects behind these columns.
#[cfg(feature = "postgres")]
pub(crate) const BEHIND: usize = Column::OutcomeJson as usize + 1;

#[expect(clippy::single_component_path_imports, reason = "a macro has no path until it is given one")]
pub(crate) use columns;

/// A row of a backend, read by the places of its columns; `None` is null.
pub(crate) trait Cells {
    /// Why a value is not what it should be.
    type Error: fmt::Display;

    fn int(&self, at: usize) -> Result<Option<i64>, Self::Error>;
    fn real(&self, at: usize) -> Result<Option<f64>, Self::Error>;
    fn text(&self, at: usize) -> Result<Option<&str>, Self::Error>;
    fn bytes(&self, at: usize) -> Result<Option<&[u8]>, Self::Error>;
}

/// Phases as they are stored.
pub(crate) mod phase {
    pub(crate) const QUEUED: i64 = 0;
    pub(crate) const RUNNING: i64 = 1;
    pub(crate) const PARKED: i64 = 2;
    pub(crate) const DONE: i64 = 8;
    pub(crate) const TOMBSTONE: i64 = 9;
}

/// Where a row is in the lists, and what it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) ord: u64,
    pub(crate) nth: u64,
    phase: i64,
    /// Whether the task is done and past its time.
    forgotten: bool,
    /// What its owner is charged for it: what it weighs, once it is read to be changed.
    pub(crate) charged: u64,
}

impl Place {
    /// Reads the place of the row alone.
    pub(crate) fn of(row: &impl Cells, now: Time) -> Result<Self, StoreError> {
        let read = Reader { row };
        let phase = read.int(Column::Phase)?;
        let forgotten =
            phase >= phase::DONE && read.maybe_time(Column::ExpiresAt)?.is_some_and(|at| at <= now);
        let (ord, nth) = (read.count(Column::Ord)?, read.count(Column::Nth)?);
        Ok(Self { ord, nth, phase, forgotten, charged: 0 })
    }

    /// The place of a task that is new, its owner's `nth`.
    pub(crate) fn made(ord: u64, nth: u64, record: &Record) -> Self {
        Self { ord, nth, phase: Standing::of(record).phase, forgotten: false, charged: record.weight() }
    }

    /// The same, for which its owner is charged so many bytes.
    pub(crate) fn charged(self, charged: u64) -> Self {
        Self { charged, ..self }
    }

    /// Whether a reader may see the task.
    pub(crate) fn is_visible(self) -> bool {
        self.phase != phase::TOMBSTONE && !self.forgotten
    }

    /// Whether the task has ended.
    pub(crate) fn is_terminal(self) -> bool {
        self.phase >= phase::DONE
    }

    pub(crate) fn is_tombstone(self) -> bool {
        self.phase == phase::TOMBSTONE
    }
}

/// The tool of a row, without reading the rest.
pub(crate) fn tool(row: &impl Cells) -> Result<&str, StoreError> {
    Reader { row }.text(Column::Tool)
}

/// Reads the place, the id and the owner alone.
pub(crate) fn due(row: &impl Cells) -> Result<(Place, TaskId, Owner), StoreError> {
    let read = Reader { row };
    let place = Place {
        ord: read.count(Column::Ord)?,
        nth: read.count(Column::Nth)?,
        phase: read.int(Column::Phase)?,
        forgotten: false,
        charged: 0,
    };
    let id = TaskId::new(read.text(Column::Id)?).map_err(|error| damaged(Column::Id, error))?;
    Ok((place, id, decode_owner(read.text(Column::Owner)?)?))
}

/// What is left of a row's task that is a tombstone.
pub(crate) fn tombstone(row: &impl Cells) -> Result<WholeTask, StoreError> {
    let read = Reader { row };
    let ((_, id, owner), null) = (due(row)?, Json::null);
    let mut record =
        Record::new(id, owner, read.text(Column::Tool)?, null(), null(), read.time(Column::CreatedAt)?);
    record.phase = Phase::Done(Outcome::cancelled(None));
    record.once = decode_once(&read)?;
    let mut left = WholeTask::new(record, Vec::new(), Vec::new());
    left.removable_at = read.maybe_time(Column::ExpiresAt)?;
    Ok(left)
}

/// The number of a row's task.
pub(crate) fn ord(row: &impl Cells) -> Result<u64, StoreError> {
    Reader { row }.count(Column::Ord)
}

/// Whether nothing but its id is left of a row's task.
pub(crate) fn is_tombstone(row: &impl Cells) -> Result<bool, StoreError> {
    Ok(Reader { row }.int(Column::Phase)? == phase::TOMBSTONE)
}

/// How many questions of a row's task wait for an answer.
pub(crate) fn asked(row: &impl Cells) -> Result<u64, StoreError> {
    Reader { row }.count(Column::Asked)
}

/// How many steps a row's task has.
#[cfg(feature = "postgres")]
pub(crate) fn steps(row: &impl Cells) -> Result<u64, StoreError> {
    Reader { row }.count(Column::Steps)
}

/// How many parts the work of a row's task has given.
pub(crate) fn parts(row: &impl Cells) -> Result<u64, StoreError> {
    Reader { row }.count(Column::Parts)
}

/// Reads a row that is no tombstone; what its task asks lies elsewhere.
pub(crate) fn decode(row: &impl Cells) -> Result<Record, StoreError> {
    let read = Reader { row };
    let id = TaskId::new(read.text(Column::Id)?).map_err(|error| damaged(Column::Id, error))?;
    let mut record = Record::new(
        id,
        decode_owner(read.text(Column::Owner)?)?,
        read.text(Column::Tool)?,
        read.json(Column::Arguments)?,
        read.json(Column::Caller)?,
        read.time(Column::CreatedAt)?,
    );
    record.seq = read.count(Column::Seq)?;
    record.phase = decode_phase(&read)?;
    // A release that knows nothing of shares leaves that of what it ends.
    let share = read.maybe_int(Column::Share)?.filter(|_| !record.is_terminal());
    record.share = share.map(|stored| Share::new(stored.cast_unsigned()));
    record.epoch = Epoch::new(read.count(Column::Epoch)?);
    record.attempt =
        u32::try_from(read.int(Column::Attempt)?).map_err(|error| damaged(Column::Attempt, error))?;
    record.started = read.int(Column::Started)? != 0;
    record.version = ToolVersion::new(read.text(Column::ToolVersion)?)
        .map_err(|error| damaged(Column::ToolVersion, error))?;
    let host = read.maybe_text(Column::Host)?.map(HostId::new).transpose();
    record.host = host.map_err(|error| damaged(Column::Host, error))?;
    record.rerun = decode_rerun(read.int(Column::Rerun)?)?;
    record.dialect = decode_dialect(read.int(Column::Dialect)?)?;
    record.retention = decode_retention(read.int(Column::Retention)?, read.count(Column::RetentionMs)?)?;
    record.expires_at = read.maybe_time(Column::ExpiresAt)?;
    record.status_changed_at = read.time(Column::StatusChangedAt)?;
    record.updated_at = read.time(Column::UpdatedAt)?;
    record.terminal_at = read.maybe_time(Column::TerminalAt)?;
    record.poll_interval_ms = read.maybe_count(Column::PollIntervalMs)?;
    record.progress = match read.maybe_real(Column::Progress)? {
        Some(value) => Some(Progress {
            value,
            total: read.maybe_real(Column::ProgressTotal)?,
            message: read.maybe_text(Column::ProgressMessage)?,
        }),
        None => None,
    };
    record.join = read.maybe_digest(Column::JoinDigest)?;
    record.once = decode_once(&read)?;
    record.cancel_grace = read.maybe_count(Column::CancelGraceMs)?.map(Duration::from_millis);
    record.cancelling = read.maybe_text(Column::CancelReason)?;
    record.orphan_at = read.maybe_time(Column::OrphanAt)?;
    record.on_orphan = decode_on_orphan(read.int(Column::OnOrphan)?)?;
    record.came_back_at = read.maybe_time(Column::CameBackAt)?;
    record.status_message = read.maybe_text(Column::StatusMessage)?;
    record.steps = read.number(Column::Steps)?;
    record.step_bytes = read.count(Column::StepBytes)?;
    record.parts = read.number(Column::Parts)?;
    record.part_bytes = read.count(Column::PartBytes)?;
    record.owed = read.number(Column::Owed)?;
    record.undo = decode_undo(&read)?;
    record.parent = decode_parent(&read)?;
    record.children = decode_children(&read)?;
    record.spells = decode_spells(&read)?;
    Ok(record)
}

/// The columns that say where a task stands, as a statement takes them.
#[derive(Debug)]
pub(crate) struct Standing<'a> {
    pub(crate) phase: i64,
    pub(crate) not_before: Option<i64>,
    pub(crate) lease_node: Option<&'a str>,
    pub(crate) lease_until: Option<i64>,
    pub(crate) outcome: Option<i64>,
    pub(crate) outcome_code: Option<i64>,
    pub(crate) outcome_text: Option<&'a str>,
    pub(crate) outcome_json: Option<&'a str>,
}

impl<'a> Standing<'a> {
    pub(crate) fn of(record: &'a Record) -> Self {
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
            Phase::Parked { until } => {
                at.phase = phase::PARKED;
                at.not_before = until.map(Time::unix_ms);
            }
            Phase::Running { lease } => {
                at.phase = phase::RUNNING;
                at.hold(lease);
            }
            Phase::Done(outcome) => {
                at.phase = phase::DONE;
                match record.undo.as_ref().map(|undo| &undo.phase) {
                    Some(UndoPhase::Queued { not_before }) => at.not_before = Some(not_before.unix_ms()),
                    Some(UndoPhase::Running { lease }) => at.hold(lease),
                    Some(UndoPhase::Done) | None => {}
                }
                at.end(outcome);
            }
        }
        at
    }

    fn hold(&mut self, lease: &'a Lease) {
        self.lease_node = Some(lease.node.as_str());
        self.lease_until = Some(lease.until.unix_ms());
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

/// A number as a row holds it.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// An owner's column; the empty name belongs to no principal.
pub(crate) fn encode_owner(owner: &Owner) -> &str {
    match owner {
        Owner::Principal(principal) => principal.as_str(),
        Owner::Anonymous => "",
    }
}

pub(crate) fn decode_owner(text: &str) -> Result<Owner, StoreError> {
    match text {
        "" => Ok(Owner::Anonymous),
        name => Owner::principal(name).map_err(|error| damaged(Column::Owner, error)),
    }
}

fn decode_phase(read: &Reader<'_, impl Cells>) -> Result<Phase, StoreError> {
    match read.int(Column::Phase)? {
        phase::QUEUED => Ok(Phase::Queued { not_before: read.time(Column::NotBefore)? }),
        phase::PARKED => Ok(Phase::Parked { until: read.maybe_time(Column::NotBefore)? }),
        phase::RUNNING => match decode_lease(read)? {
            Some(lease) => Ok(Phase::Running { lease }),
            None => Err(damaged(Column::LeaseNode, "null")),
        },
        phase::DONE => Ok(Phase::Done(decode_outcome(read)?)),
        other => Err(damaged(Column::Phase, other)),
    }
}

fn decode_outcome(read: &Reader<'_, impl Cells>) -> Result<Outcome, StoreError> {
    match read.int(Column::Outcome)? {
        0 => Ok(Outcome::Result {
            value: read.json(Column::OutcomeJson)?,
            is_error: read.int(Column::OutcomeCode)? != 0,
        }),
        1 => Ok(Outcome::Error {
            code: read.int(Column::OutcomeCode)?,
            message: read.text(Column::OutcomeText)?.into(),
            data: read.maybe_json(Column::OutcomeJson)?,
        }),
        2 => Ok(Outcome::Cancelled { reason: read.maybe_text(Column::OutcomeText)? }),
        3 => Ok(Outcome::Lost { reason: read.text(Column::OutcomeText)?.into() }),
        other => Err(damaged(Column::Outcome, other)),
    }
}

pub(crate) fn encode_rerun(rerun: Rerun) -> i64 {
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
        other => Err(damaged(Column::Rerun, other)),
    }
}

pub(crate) fn encode_dialect(dialect: Dialect) -> i64 {
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
        other => Err(damaged(Column::Dialect, other)),
    }
}

pub(crate) fn encode_on_orphan(on_orphan: OnOrphan) -> i64 {
    match on_orphan {
        OnOrphan::Keep => 0,
        OnOrphan::Cancel => 1,
    }
}

fn decode_on_orphan(number: i64) -> Result<OnOrphan, StoreError> {
    match number {
        0 => Ok(OnOrphan::Keep),
        1 => Ok(OnOrphan::Cancel),
        other => Err(damaged(Column::OnOrphan, other)),
    }
}

fn decode_undo(read: &Reader<'_, impl Cells>) -> Result<Option<Undo>, StoreError> {
    let Some(attempt) = read.maybe_int(Column::UndoAttempt)? else { return Ok(None) };
    let attempt = u32::try_from(attempt).map_err(|error| damaged(Column::UndoAttempt, error))?;
    let failed =
        u32::try_from(read.int(Column::UndoFailed)?).map_err(|error| damaged(Column::UndoFailed, error))?;
    let phase = match (decode_lease(read)?, read.maybe_time(Column::NotBefore)?) {
        (Some(lease), _) => UndoPhase::Running { lease },
        (None, Some(not_before)) => UndoPhase::Queued { not_before },
        (None, None) => UndoPhase::Done,
    };
    Ok(Some(Undo { phase, until: read.maybe_time(Column::UndoUntil)?, attempt, failed }))
}

fn decode_lease(read: &Reader<'_, impl Cells>) -> Result<Option<Lease>, StoreError> {
    let Some(node) = read.maybe_text(Column::LeaseNode)? else { return Ok(None) };
    let node = NodeId::new(&*node).map_err(|error| damaged(Column::LeaseNode, error))?;
    Ok(Some(Lease::new(node, read.time(Column::LeaseUntil)?)))
}

fn decode_parent(read: &Reader<'_, impl Cells>) -> Result<Option<Parent>, StoreError> {
    let Some(task) = read.maybe_str(Column::Parent)? else { return Ok(None) };
    let task = TaskId::new(task).map_err(|error| damaged(Column::Parent, error))?;
    Ok(Some(Parent {
        task,
        step: read.text(Column::ParentStep)?.into(),
        depth: read.number(Column::Depth)?,
        outlives: read.int(Column::Outlives)? != 0,
        essential: read.int(Column::Essential)? != 0,
    }))
}

fn decode_children(read: &Reader<'_, impl Cells>) -> Result<Children, StoreError> {
    Ok(Children {
        open: read.number(Column::Children)?,
        ended: read.number(Column::ChildrenEnded)?,
        below: read.number(Column::Below)?,
    })
}

/// A share as a number, which may be less than none.
pub(crate) fn encode_share(share: Option<Share>) -> Option<i64> {
    share.map(|share| share.get().cast_signed())
}

/// That of a task, as it is kept: of one that has ended there is none.
pub(crate) fn share_of(record: &Record) -> Option<i64> {
    encode_share(record.share.filter(|_| !record.is_terminal()))
}

/// Spells as one text; nothing where there are none.
pub(crate) fn encode_spells(record: &Record) -> Option<String> {
    let spells = (!record.spells.is_empty()).then_some(&record.spells)?;
    Some(serde_json::to_string(spells).expect("names and times can be written"))
}

fn decode_spells(read: &Reader<'_, impl Cells>) -> Result<Vec<Spell>, StoreError> {
    let Some(text) = read.maybe_str(Column::Spells)? else { return Ok(Vec::new()) };
    serde_json::from_str(text).map_err(|error| damaged(Column::Spells, error))
}

fn decode_once(read: &Reader<'_, impl Cells>) -> Result<Option<Once>, StoreError> {
    let Some(key) = read.maybe_text(Column::OnceKey)? else { return Ok(None) };
    let key = CallKey::new(key).map_err(|error| damaged(Column::OnceKey, error))?;
    let of = read.maybe_digest(Column::OnceDigest)?.ok_or_else(|| damaged(Column::OnceDigest, "null"))?;
    Ok(Some(Once::new(key, of)))
}

/// A time as so many milliseconds, as a row holds them.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

pub(crate) fn encode_retention(retention: Retention) -> (i64, i64) {
    match retention {
        Retention::FromCreation(ttl) => (0, millis(ttl)),
        Retention::AfterTerminal(keep) => (1, millis(keep)),
        Retention::Unlimited => (2, 0),
    }
}

fn decode_retention(kind: i64, ms: u64) -> Result<Retention, StoreError> {
    match kind {
        0 => Ok(Retention::FromCreation(Duration::from_millis(ms))),
        1 => Ok(Retention::AfterTerminal(Duration::from_millis(ms))),
        2 => Ok(Retention::Unlimited),
        other => Err(damaged(Column::Retention, other)),
    }
}

/// Reads typed columns, each failure naming its column.
struct Reader<'row, R> {
    row: &'row R,
}

impl<'row, R: Cells> Reader<'row, R> {
    fn maybe_int(&self, column: Column) -> Result<Option<i64>, StoreError> {
        self.row.int(column as usize).map_err(|error| damaged(column, error))
    }

    fn int(&self, column: Column) -> Result<i64, StoreError> {
        self.maybe_int(column)?.ok_or_else(|| damaged(column, "null"))
    }

    fn maybe_count(&self, column: Column) -> Result<Option<u64>, StoreError> {
        self.maybe_int(column)?.map(u64::try_from).transpose().map_err(|error| damaged(column, error))
    }

    fn count(&self, column: Column) -> Result<u64, StoreError> {
        u64::try_from(self.int(column)?).map_err(|error| damaged(column, error))
    }

    fn number(&self, column: Column) -> Result<u32, StoreError> {
        u32::try_from(self.int(column)?).map_err(|error| damaged(column, error))
    }

    fn maybe_time(&self, column: Column) -> Result<Option<Time>, StoreError> {
        Ok(self.maybe_int(column)?.map(Time::from_unix_ms))
    }

    fn time(&self, column: Column) -> Result<Time, StoreError> {
        Ok(Time::from_unix_ms(self.int(column)?))
    }

    fn maybe_real(&self, column: Column) -> Result<Option<f64>, StoreError> {
        self.row.real(column as usize).map_err(|error| damaged(column, error))
    }

    fn maybe_str(&self, column: Column) -> Result<Option<&'row str>, StoreError> {
        self.row.text(column as usize).map_err(|error| damaged(column, error))
    }

    fn text(&self, column: Column) -> Result<&'row str, StoreError> {
        self.maybe_str(column)?.ok_or_else(|| damaged(column, "null"))
    }

    fn maybe_text(&self, column: Column) -> Result<Option<Arc<str>>, StoreError> {
        Ok(self.maybe_str(column)?.map(Arc::from))
    }

    fn maybe_json(&self, column: Column) -> Result<Option<Json>, StoreError> {
        self.maybe_str(column)?.map(Json::parse).transpose().map_err(|error| damaged(column, error))
    }

    fn json(&self, column: Column) -> Result<Json, StoreError> {
        self.maybe_json(column)?.ok_or_else(|| damaged(column, "null"))
    }

    fn maybe_digest(&self, column: Column) -> Result<Option<Digest>, StoreError> {
        let Some(bytes) = self.row.bytes(column as usize).map_err(|error| damaged(column, error))? else {
            return Ok(None);
        };
        let bytes = bytes.try_into().map_err(|error| damaged(column, error))?;
        Ok(Some(Digest::new(bytes)))
    }
}

fn damaged(column: Column, why: impl fmt::Display) -> StoreError {
    corrupt(format!("column {} of a task: {why}", column.name()))
}
