//! One entry of the trail, as it stands in a file: a line of JSON.

use longhaul_tasks::store::Time;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{End, Event, Forged, What};
use crate::hex::hex;

/// One entry of a trail that is kept in files.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Entry {
    /// Its number in the chain of its node, from 1.
    pub seq: u64,
    /// When (RFC 3339, in UTC, to the millisecond).
    pub at: String,
    /// On which node.
    pub node: String,
    /// What happened: `created`, `claimed`, `attempt_lost`, `asked`, `answered`, `fetched`, `asked_to_end`, `cancelled`, `ended`,
    /// `late_outcome`, `orphaned`, `deleted`, `forgotten`, `asked_in_vain`, `refused`, `stray_answer`, `forged_state`, `forged_callback`,
    /// `date_refused`; of the trail itself `began`, `missed` and `removed`.
    pub what: String,
    /// To which task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Which tool does its work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Who did it; nobody but the node or its operator if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// How it ended: `result`, `tool_error`, `error`, `lost`, `expired`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The code of the error it ended with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i64>,
    /// Why the engine ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The node that had its work and is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// The date of the machine that is not followed (as `at` is written).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// How many questions were asked or answered, tasks asked after in vain, or events missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The last entries of the other chains when this one began, or of files that were removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heads: Vec<Head>,
    /// The digest of the entry before.
    pub prev: String,
}

/// An entry of some chain, by its digest.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Head {
    /// Whose chain.
    pub node: String,
    /// Its number.
    pub seq: u64,
    /// Its digest.
    pub hash: String,
}

/// What stands for the digest of the entry before the first.
pub(super) const NOTHING_BEFORE: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// What an entry of the trail itself says: events were missed, files were removed.
pub(super) const MISSED: &str = "missed";
pub(super) const REMOVED: &str = "removed";

/// The digest of an entry: SHA-256 of its line, in hexadecimal.
pub(super) fn digest(line: &[u8]) -> String {
    hex(&Sha256::digest(line))
}

impl Entry {
    /// An entry of the trail itself.
    pub(super) fn of_trail(node: &str, what: &str) -> Self {
        Self {
            seq: 0,
            at: now().rfc3339(),
            node: node.to_owned(),
            what: what.to_owned(),
            task: None,
            tool: None,
            owner: None,
            by: None,
            outcome: None,
            code: None,
            reason: None,
            lost: None,
            date: None,
            count: None,
            heads: Vec::new(),
            prev: String::new(),
        }
    }

    /// What happened to a task, in the chain of `node`.
    pub(super) fn of(event: &Event, node: &str) -> Self {
        let mut entry = Self::of_trail(node, event.what.name());
        // A time that no calendar has is of a clock that is broken: ours stays.
        if let Some(at) = written(event.at) {
            entry.at = at;
        }
        entry.task = event.task.as_ref().map(|task| task.as_str().to_owned());
        entry.tool = event.tool.as_deref().map(str::to_owned);
        entry.owner = event.owner.as_ref().map(|owner| owner.as_str().to_owned());
        entry.by = event.by.as_ref().map(|by| by.as_str().to_owned());
        match &event.what {
            What::Asked(count) | What::Answered(count) | What::AskedInVain(count) => {
                entry.count = u64::try_from(*count).ok()
            }
            What::AttemptLost(node) => entry.lost = Some(node.as_str().to_owned()),
            What::DateRefused(date) => entry.date = written(*date),
            What::Ended(end) => {
                entry.outcome = Some(end.name().to_owned());
                if let End::Error { code, reason } = end {
                    entry.code = Some(*code);
                    entry.reason = reason.map(str::to_owned);
                }
            }
            _ => {}
        }
        entry
    }
}

/// A time as a calendar has it, if any does.
fn written(time: Time) -> Option<String> {
    (Time::FIRST_WRITTEN..=Time::LAST_WRITTEN).contains(&time).then(|| time.rfc3339())
}

fn now() -> Time {
    Time::default().after(crate::seal::now())
}

impl What {
    fn name(&self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Claimed => "claimed",
            Self::AttemptLost(_) => "attempt_lost",
            Self::Asked(_) => "asked",
            Self::Fetched => "fetched",
            Self::Answered(_) => "answered",
            Self::AskedToEnd => "asked_to_end",
            Self::Cancelled => "cancelled",
            Self::Ended(_) => "ended",
            Self::LateOutcome => "late_outcome",
            Self::Orphaned => "orphaned",
            Self::Deleted => "deleted",
            Self::Forgotten => "forgotten",
            Self::AskedInVain(_) => "asked_in_vain",
            Self::Refused => "refused",
            Self::StrayAnswer => "stray_answer",
            Self::Forged(Forged::State) => "forged_state",
            Self::Forged(Forged::Callback) => "forged_callback",
            Self::DateRefused(_) => "date_refused",
        }
    }
}

impl End {
    fn name(&self) -> &'static str {
        match self {
            Self::Result => "result",
            Self::ToolError => "tool_error",
            Self::Error { .. } => "error",
            Self::Lost => "lost",
            Self::Expired => "expired",
        }
    }
}
