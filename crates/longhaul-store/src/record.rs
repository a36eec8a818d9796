//! The facts a store keeps of one task.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    Children, Epoch, HostId, Json, NodeId, OnOrphan, Once, Outcome, Owner, Parent, Question, Share, Spell,
    TaskId, Time, ToolVersion,
};

/// The facts of one task. Statuses are not among them: each revision derives its own from these.
///
/// What serde makes of it is how [`Memory::changes`](crate::Memory::changes) writes rows, for
/// [`Memory::restored`](crate::Memory::restored) to read in this release and in later ones. It is no format for anything
/// else: members come and change with any release.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Record {
    /// Its name.
    pub id: TaskId,
    /// To whom it belongs.
    pub owner: Owner,
    /// Among whose open tasks it is counted, if it is a stranger's and as long as it is open: whoever finishes or cancels it is told that
    /// for the last time. Of what is swept, or ends with its parent or for a child's sake, nobody is told. No caller sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
    /// The tool that does the work.
    pub tool: Arc<str>,
    /// The version of it that began the work: only a node that accepts it goes on.
    pub version: ToolVersion,
    /// Where its work is, if that is bound to a place: only a node there goes on. It stays what it was first. No caller sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostId>,
    /// What the tool was called with.
    pub arguments: Json,
    /// What may be done with it when its worker is gone.
    pub rerun: Rerun,
    /// The dialect it was created in.
    pub dialect: Dialect,
    /// What the layer above must remember of the caller (capabilities, progress token, session); not read here.
    pub caller: Json,
    /// Where it stands.
    pub phase: Phase,
    /// Whether it was ever claimed; never cleared, so a task that was seen at work is never seen waiting for its
    /// first start again.
    pub started: bool,
    /// How many attempts there were in a row, this one included, of which each but the last was lost: its node died, or
    /// let its lease run out. The count begins anew with each step that is learnt, and with work that got as far as to
    /// wait; a release takes its own attempt back, as a worker may that has yet to begin, and a node that claims back what it held goes
    /// on with its own.
    pub attempt: u32,
    /// The spells of work on it, in their order: the first, and the latest, 16 at most. None is written down of a task that
    /// was claimed as it was created and whose work has gone on since, or ended with it. No caller sees them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spells: Vec<Spell>,
    /// The fencing number; a worker's write must carry it.
    pub epoch: Epoch,
    /// How long it is kept.
    pub retention: Retention,
    /// When it ends if open, or is forgotten if done; `None` means never as things stand.
    pub expires_at: Option<Time>,
    /// When it was created.
    pub created_at: Time,
    /// When a caller could last see another status.
    pub status_changed_at: Time,
    /// When anything a caller can see last changed: no two changes of a task have the same date, if need be a millisecond ahead
    /// of the clock. Reading and renewing a lease change nothing.
    pub updated_at: Time,
    /// When it ended.
    pub terminal_at: Option<Time>,
    /// For how long its work may go on once it was [asked to end](crate::TaskStore::ask_to_cancel); `None` where a cancel ends
    /// it at once.
    #[serde(default)]
    pub cancel_grace: Option<Duration>,
    /// Its work is asked to end, for this reason; empty words if none was given. The time for that is up at
    /// [`expires_at`](Self::expires_at).
    #[serde(default)]
    pub cancelling: Option<Arc<str>>,
    /// When it is an orphan, unless its owner [comes back](crate::TaskStore::came_back) for it or it ends before; `None` once any
    /// of this has happened, or where nobody need come.
    #[serde(default)]
    pub orphan_at: Option<Time>,
    /// What becomes of it then.
    #[serde(default)]
    pub on_orphan: OnOrphan,
    /// When its owner was first noted to have come back for it. No caller sees it.
    #[serde(default)]
    pub came_back_at: Option<Time>,
    /// One line for a person to read.
    pub status_message: Option<Arc<str>>,
    /// How far it is.
    pub progress: Option<Progress>,
    /// How long a caller should wait between two looks, in milliseconds.
    pub poll_interval_ms: Option<u64>,
    /// What a second call must match to join this one while it is open.
    pub join: Option<Digest>,
    /// What its caller calls it, and the fingerprint of the call.
    pub once: Option<Once>,
    /// The questions that wait for an answer, in the order in which they were asked; none once it has ended.
    pub questions: Vec<Question>,
    /// How many steps its work has taken.
    pub steps: u32,
    /// Bytes that they take.
    pub step_bytes: u64,
    /// How many [parts](crate::Part) its work has given.
    pub parts: u32,
    /// Bytes that they take.
    pub part_bytes: u64,
    /// How many of its steps are [owed](crate::StepState::Owed).
    pub owed: u32,
    /// How far it is undone, if it ended without success while something was owed. No caller sees it.
    pub undo: Option<Undo>,
    /// What ties it to the task that made it; `None` for a call's own.
    pub parent: Option<Parent>,
    /// The tasks that it has made.
    pub children: Children,
    /// The store-wide number of its latest visible change; rises with every one. What becomes of a task while it is
    /// undone is none. It counts other owners' changes too, so it is not for callers' eyes.
    pub seq: u64,
}

impl Record {
    /// A record with the given identity, queued and due at once; a backend fills in the rest from what it keeps.
    #[must_use]
    pub fn new(
        id: TaskId,
        owner: Owner,
        tool: impl Into<Arc<str>>,
        arguments: Json,
        caller: Json,
        at: Time,
    ) -> Self {
        Self {
            id,
            owner,
            share: None,
            tool: tool.into(),
            version: ToolVersion::default(),
            host: None,
            arguments,
            rerun: Rerun::Never,
            dialect: Dialect::Held,
            caller,
            phase: Phase::Queued { not_before: at },
            started: false,
            attempt: 0,
            epoch: Epoch::default(),
            retention: Retention::Unlimited,
            expires_at: None,
            created_at: at,
            status_changed_at: at,
            updated_at: at,
            terminal_at: None,
            spells: Vec::new(),
            cancel_grace: None,
            cancelling: None,
            orphan_at: None,
            on_orphan: OnOrphan::Keep,
            came_back_at: None,
            status_message: None,
            progress: None,
            poll_interval_ms: None,
            join: None,
            once: None,
            questions: Vec::new(),
            steps: 0,
            step_bytes: 0,
            parts: 0,
            part_bytes: 0,
            owed: 0,
            undo: None,
            parent: None,
            children: Children::default(),
            seq: 0,
        }
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self.phase, Phase::Done(_))
    }

    /// How it ended, if it has.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.phase {
            Phase::Done(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// How many generations it is from a call's own task; 0 for that.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.parent.as_ref().map_or(0, |parent| parent.depth)
    }

    /// Bytes that it takes of what may be kept for its owner
    /// ([`Limits::max_task_bytes_per_owner`](crate::Limits::max_task_bytes_per_owner)): what it was made with, its steps and
    /// its parts; once it has ended, what it came to and its words as well. As long as it is open only whole 64 KiB count of
    /// its steps and parts together: few reports change what is counted of its owner then, for which others may wait.
    ///
    /// What is left of a task that is forgotten weighs nothing.
    #[must_use]
    pub fn weight(&self) -> u64 {
        let made_with = (self.arguments.as_str().len() + self.caller.as_str().len()) as u64;
        let work = self.step_bytes.saturating_add(self.part_bytes);
        let come_to = match &self.phase {
            Phase::Done(outcome) => {
                let said = self.progress.as_ref().and_then(|progress| progress.message.as_ref());
                let words = [self.status_message.as_ref(), said, self.cancelling.as_ref()];
                let words: usize = words.into_iter().flatten().map(|words| words.len()).sum();
                work.saturating_add((outcome.len() + words) as u64)
            }
            _ => work - work % GRAIN,
        };
        made_with.saturating_add(come_to)
    }

    /// The lease on it, if someone has one: to work on it, or to undo it.
    #[must_use]
    pub fn lease(&self) -> Option<&Lease> {
        match (&self.phase, &self.undo) {
            (Phase::Running { lease }, _) => Some(lease),
            (_, Some(Undo { phase: UndoPhase::Running { lease }, .. })) => Some(lease),
            _ => None,
        }
    }

    /// Whether it has ended and something is still to be undone.
    #[must_use]
    pub fn is_undoing(&self) -> bool {
        self.undo.as_ref().is_some_and(|undo| undo.phase != UndoPhase::Done)
    }

    /// From when on a sweep has something to do with it: when it is an orphan, which is before it expires; then when it
    /// expires, but not before it is undone, or has had its time for that.
    #[must_use]
    pub fn swept_at(&self) -> Option<Time> {
        let undone_until = self.undo.as_ref().and_then(|undo| undo.until);
        let ends_at = self.expires_at.map(|at| undone_until.map_or(at, |until| at.max(until)));
        self.orphan_at.or(ends_at)
    }

    /// Whether it has ended and its time is up: for every reader it no longer exists, swept or not.
    #[must_use]
    pub fn is_forgotten(&self, now: Time) -> bool {
        self.is_terminal() && self.expires_at.is_some_and(|at| at <= now)
    }
}

/// How much the steps and parts of an open task grow before that is counted.
const GRAIN: u64 = 64 << 10;

/// Where a task stands.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Phase {
    /// Nobody works on it; anyone may from `not_before` on.
    Queued {
        /// When it becomes due.
        not_before: Time,
    },
    /// It waits, and takes no node meanwhile: until one of its questions is answered or one of its children ends, or for
    /// its time.
    Parked {
        /// When it becomes due, answered or not.
        until: Option<Time>,
    },
    /// A node works on it.
    Running {
        /// Which, and until when it need not prove it.
        lease: Lease,
    },
    /// It ended; there is no way back.
    Done(Outcome),
}

/// How far a task is undone that has ended without success. Its outcome stays what it is.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Undo {
    /// Where that stands.
    pub phase: UndoPhase,
    /// By when it is to be undone ([`Settings::undo_retention`](crate::Settings)): until then it is kept for that, though
    /// for its callers it may be forgotten. `None` once nothing is owed.
    pub until: Option<Time>,
    /// How many claims in a row have been charged to it, this one included: it begins anew with each step of which it is
    /// recorded that it is undone, or will not be. A release takes its own back, and a node that claims back what it held
    /// goes on with its own.
    pub attempt: u32,
    /// How many of its steps could not be undone.
    pub failed: u32,
}

/// Where the undoing of a task stands.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub enum UndoPhase {
    /// Nobody is at it; anyone may from `not_before` on.
    Queued {
        /// When it becomes due.
        not_before: Time,
    },
    /// A node is at it; or still worked on the task when somebody else ended it, and may not have heard.
    Running {
        /// Which, and until when it need not prove it.
        lease: Lease,
    },
    /// Nothing is owed any more.
    Done,
}

/// A node's right to work on a task.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Lease {
    /// Who has it.
    pub node: NodeId,
    /// When anyone may take the task over. A node that is known to be dead loses it at once.
    pub until: Time,
}

impl Lease {
    /// A lease of `node`.
    #[must_use]
    pub fn new(node: NodeId, until: Time) -> Self {
        Self { node, until }
    }
}

/// What may be done with a task whose worker is gone.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Rerun {
    /// The work goes on without us: find it again.
    Reattach,
    /// Its steps are recorded: enter it again and it continues.
    Resumable,
    /// It may simply be run again.
    Restart,
    /// It must not run twice: it ends as lost.
    Never,
}

/// The dialect a task was created in, and which later requests may see it in.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Dialect {
    /// By a caller that cannot take tasks: its request is held open, then handed over.
    Held,
    /// SEP-1686 as drafted.
    D1,
    /// The core protocol of 2025-11-25.
    D2,
    /// The `io.modelcontextprotocol/tasks` extension.
    D3,
}

/// How long a task is kept.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Retention {
    /// For this long after it was created, open or not; but an outcome stays readable for at least
    /// [`Settings::min_result_retention`](crate::Settings).
    FromCreation(Duration),
    /// For this long after it ended; while open it never expires.
    AfterTerminal(Duration),
    /// For ever.
    Unlimited,
}

/// How far a task is.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Progress {
    /// How much is done; only ever rises.
    #[serde(with = "crate::stored::exactly")]
    pub value: f64,
    /// How much there is, if known.
    #[serde(with = "crate::stored::exactly_if_known")]
    pub total: Option<f64>,
    /// What is being done.
    pub message: Option<Arc<str>>,
}

impl Progress {
    /// Progress of `value` out of `total`.
    #[must_use]
    pub fn new(value: f64, total: Option<f64>, message: Option<Arc<str>>) -> Self {
        Self { value, total, message }
    }
}

/// A 256-bit fingerprint of a call, by which a second one finds the first.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The fingerprint with these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}
