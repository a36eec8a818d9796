//! A task as it is kept: a hash, and its places in the sorted sets by which it is found.

use std::collections::BTreeMap;

use super::{
    fault::{Fault, damaged},
    keys::Keys,
};
use crate::{HostId, Json, NodeId, Phase, Record, Time, Undo, UndoPhase};

/// A task with what only the store knows of it.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// Another one after each change.
    pub(super) version: String,
    pub(super) record: Record,
    /// How many steps it has ever had.
    pub(super) begun: u64,
    /// Of a tombstone: when it goes.
    pub(super) removable_at: Option<Time>,
    /// What its owner is charged for it, as it is kept: nothing, where an earlier release has made it.
    pub(super) charged: u64,
}

/// The fields of a row, as [`Row::of`] reads them. What a task is called with never changes and lies by itself, and so does what
/// is renewed without a look at the rest: the end of the lease. What its owner is charged for it is what a release that knows
/// of that has written last.
pub(super) const FIELDS: [&str; 10] = [VERSION, SEQ, "b", "g", "l", CLAIMED_BY[3], RECORD, "a", "c", CHARGED];

/// The record, but for what lies by itself.
pub(super) const RECORD: &str = "r";

/// What its owner is charged for it.
pub(super) const CHARGED: &str = "k";

/// The field that is another after each change.
pub(super) const VERSION: &str = "v";

/// The number of the latest visible change.
pub(super) const SEQ: &str = "s";

/// What a claim looks at before it looks at a task: its tool, the version of that, until when there is any use in it, and to
/// which host it is bound, if it is.
pub(super) const CLAIMED_BY: [&str; 4] = ["t", "w", "x", "o"];

impl Row {
    /// A new row, which has no numbers yet.
    pub(super) fn new(record: Record) -> Self {
        Self { version: String::new(), record, begun: 0, removable_at: None, charged: 0 }
    }

    /// Reads a row, if there is one.
    pub(super) fn of(fields: &[Option<Vec<u8>>]) -> Result<Option<Self>, Fault> {
        let [version, seq, begun, gone, until, host, record, arguments, caller, charged] = fields else {
            return Err(damaged("a task without its fields"));
        };
        let Some(version) = text(version)? else { return Ok(None) };
        let number = |field| Ok::<u64, Fault>(int(field)?.and_then(|n| u64::try_from(n).ok()).unwrap_or(0));
        let record = text(record)?.ok_or_else(|| damaged("a task without a record"))?;
        let mut record: Record = serde_json::from_str(record).map_err(damaged)?;
        record.seq = number(seq)?;
        // A release that knows of no hosts leaves it out of the record.
        record.host = text(host)?.map(HostId::new).transpose().map_err(damaged)?;
        record.arguments = json(arguments)?;
        record.caller = json(caller)?;
        if let (Some(until), Some(lease)) = (int(until)?, lease_of(&mut record)) {
            *lease = Time::from_unix_ms(until);
        }
        Ok(Some(Self {
            version: version.to_owned(),
            record,
            begun: number(begun)?,
            removable_at: int(gone)?.map(Time::from_unix_ms),
            charged: number(charged)?,
        }))
    }

    /// Whether nothing but its id is left.
    pub(super) fn is_tombstone(&self) -> bool {
        self.removable_at.is_some()
    }

    /// Whether a reader may see it.
    pub(super) fn is_visible(&self, now: Time) -> bool {
        !self.is_tombstone() && !self.record.is_forgotten(now)
    }

    /// What it weighs.
    pub(super) fn weight(&self) -> u64 {
        if self.is_tombstone() { 0 } else { self.record.weight() }
    }

    /// What may change of it, as fields and their values.
    pub(super) fn fields(&self, version: &str) -> Vec<Vec<u8>> {
        let maybe = |at: Option<i64>| at.map_or_else(String::new, |at| at.to_string());
        let lease = self.lease_until();
        // Only who holds it renews it, and shows this.
        let held = lease.map_or_else(String::new, |_| self.record.epoch.get().to_string());
        let fields = [
            (VERSION, version.to_owned()),
            ("b", self.begun.to_string()),
            ("g", maybe(self.removable_at.map(Time::unix_ms))),
            ("l", maybe(lease)),
            ("h", held),
            (CLAIMED_BY[2], maybe(self.claimable_until())),
            (RECORD, self.text()),
            (CHARGED, self.weight().to_string()),
        ];
        // Once it is bound it stays so.
        let host = self.record.host.as_ref().map(|host| (CLAIMED_BY[3], host.to_string()));
        let fields = fields.into_iter().chain(host);
        fields.flat_map(|(name, value)| [name.as_bytes().to_vec(), value.into_bytes()]).collect()
    }

    /// What never changes of it.
    pub(super) fn lasting(&self) -> Vec<Vec<u8>> {
        let record = &self.record;
        let version = record.version.text();
        let fields = [
            (CLAIMED_BY[0], &*record.tool),
            (CLAIMED_BY[1], &*version),
            ("a", record.arguments.as_str()),
            ("c", record.caller.as_str()),
        ];
        fields
            .into_iter()
            .flat_map(|(name, value)| [name.as_bytes().to_vec(), value.as_bytes().to_vec()])
            .collect()
    }

    /// The record without what lies by itself.
    fn text(&self) -> String {
        let mut record = self.record.clone();
        (record.arguments, record.caller) = (Json::null(), Json::null());
        record.share = record.share.filter(|_| !self.record.is_terminal());
        super::keys::word(&record)
    }

    fn claimable_until(&self) -> Option<i64> {
        let record = &self.record;
        let until = match &record.undo {
            Some(undo) => undo.until,
            None => record.expires_at,
        };
        until.map(Time::unix_ms)
    }

    fn lease_until(&self) -> Option<i64> {
        self.record.lease().filter(|_| !self.is_tombstone()).map(|lease| lease.until.unix_ms())
    }

    /// Who has a lease on it.
    pub(super) fn holder(&self) -> Option<&NodeId> {
        self.record.lease().filter(|_| !self.is_tombstone()).map(|lease| &lease.node)
    }

    /// The sorted sets by which it is found, and its score in each.
    pub(super) fn places(&self, keys: &Keys) -> BTreeMap<String, i64> {
        let (record, mut places) = (&self.record, BTreeMap::new());
        if let Some(at) = self.removable_at.or_else(|| record.swept_at()) {
            places.insert(keys.one(DUE), at.unix_ms());
        }
        if self.is_tombstone() {
            return places;
        }
        if let Some(at) = waits_until(record) {
            places.insert(keys.one(WAITING), at.unix_ms());
        }
        if let (Some(until), Some(node)) = (self.lease_until(), self.holder()) {
            places.insert(keys.one(LEASES), until);
            places.insert(keys.held(node), record.created_at.unix_ms());
        }
        if let (Some(parent), false) = (&record.parent, record.is_terminal()) {
            places.insert(keys.children(&parent.task), record.created_at.unix_ms());
        }
        if let (Some(share), false) = (record.share, record.is_terminal()) {
            places.insert(keys.open_of_share(share), record.created_at.unix_ms());
        }
        places
    }
}

/// When a task is due that nobody works on.
fn waits_until(record: &Record) -> Option<Time> {
    match (&record.phase, &record.undo) {
        (Phase::Queued { not_before }, _) => Some(*not_before),
        (Phase::Parked { until }, _) => *until,
        (Phase::Done(_), Some(Undo { phase: UndoPhase::Queued { not_before }, .. })) => Some(*not_before),
        _ => None,
    }
}

fn lease_of(record: &mut Record) -> Option<&mut Time> {
    match (&mut record.phase, &mut record.undo) {
        (Phase::Running { lease }, _) => Some(&mut lease.until),
        (_, Some(Undo { phase: UndoPhase::Running { lease }, .. })) => Some(&mut lease.until),
        _ => None,
    }
}

pub(super) fn text(field: &Option<Vec<u8>>) -> Result<Option<&str>, Fault> {
    field.as_deref().map(std::str::from_utf8).transpose().map_err(damaged)
}

/// A number, where an empty text is none.
pub(super) fn int(field: &Option<Vec<u8>>) -> Result<Option<i64>, Fault> {
    match text(field)? {
        None | Some("") => Ok(None),
        Some(digits) => digits.parse().map(Some).map_err(damaged),
    }
}

fn json(field: &Option<Vec<u8>>) -> Result<Json, Fault> {
    text(field)?.map_or_else(|| Ok(Json::null()), |json| Json::parse(json).map_err(damaged))
}

/// The numbers of changes.
pub(super) const CHANGES: &str = "seq";

/// All tasks by their numbers.
pub(super) const TASKS: &str = "tasks";

/// Those that are open.
pub(super) const OPEN: &str = "open";

/// Those that nobody works on, by when they are due.
pub(super) const WAITING: &str = "waiting";

/// Those that somebody works on, by the ends of the leases.
pub(super) const LEASES: &str = "leases";

/// Of how many tasks each node has a lease.
pub(super) const HOLDERS: &str = "holders";

/// What owners are charged for their tasks: a hash.
pub(super) const CHARGES: &str = "task-bytes-of";

/// When time next demands something of a task.
pub(super) const DUE: &str = "due";

/// Where changes are told.
pub(super) const HINTS: &str = "hints";
