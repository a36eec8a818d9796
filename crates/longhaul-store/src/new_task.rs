//! What is said of a task when it is created.

use std::sync::Arc;
use std::time::Duration;

use crate::{
    Dialect, Digest, HostId, Json, Once, OrphanRule, Owner, Rerun, Retention, Share, Step, TaskId, Time,
    ToolVersion,
};

/// A task that does not exist yet.
///
/// ```
/// use longhaul_store::{Json, NewTask, Owner, Rerun, Start, TaskId};
/// let mut task = NewTask::new(TaskId::new("t1")?, Owner::principal("ann")?, "build", Json::parse("{}")?);
/// task.rerun = Rerun::Reattach;
/// task.start = Start::Claimed;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NewTask {
    /// Its name, which no other task may have had within the tombstone time.
    pub id: TaskId,
    /// To whom it belongs.
    pub owner: Owner,
    /// Among whose open tasks it is counted. Without effect but for [`Owner::Anonymous`]: a principal's are counted by its name.
    /// Default `None`: among those of all strangers alone.
    pub share: Option<Share>,
    /// The tool that does the work.
    pub tool: Arc<str>,
    /// The version of it. Default 0.0.0, which says none.
    pub version: ToolVersion,
    /// Where its work has begun, if that is bound to a place. Default `None`: any node may begin it.
    pub host: Option<HostId>,
    /// What the tool is called with.
    pub arguments: Json,
    /// What the layer above must remember of the caller. Default `null`.
    pub caller: Json,
    /// What may be done with it when its worker is gone. Default [`Rerun::Never`].
    pub rerun: Rerun,
    /// The dialect it is created in. Default [`Dialect::Held`].
    pub dialect: Dialect,
    /// How long it is kept. Default [`Retention::Unlimited`].
    pub retention: Retention,
    /// Who starts it. Default [`Start::Claimed`].
    pub start: Start,
    /// For how long its work may go on once it was [asked to end](crate::TaskStore::ask_to_cancel), to decide how; a part of a
    /// millisecond is none. Default `None`: a cancel ends it at once.
    pub cancel_grace: Option<Duration>,
    /// When nobody has come back for it for so long that nobody may know of it, and what becomes of it then. Default `None`:
    /// nobody need come, for its caller waits for its end.
    pub orphan: Option<OrphanRule>,
    /// Joins an open task of the same owner that has the same digest, instead of being created. Without effect for
    /// [`Owner::Anonymous`]: one stranger must not be handed another's task.
    pub join: Option<Digest>,
    /// Is created once, whatever its owner: under this key the same call finds this task again, as long as there is
    /// anything of it.
    pub once: Option<Once>,
    /// One line for a person to read.
    pub status_message: Option<Arc<str>>,
    /// How long a caller should wait between two looks, in milliseconds.
    pub poll_interval_ms: Option<u64>,
    /// The steps its work has taken before it became a task.
    pub steps: Vec<Step>,
}

impl NewTask {
    /// A task with the defaults above.
    ///
    /// # Panics
    ///
    /// Never: `null` is JSON.
    #[must_use]
    pub fn new(id: TaskId, owner: Owner, tool: impl Into<Arc<str>>, arguments: Json) -> Self {
        Self {
            id,
            owner,
            share: None,
            tool: tool.into(),
            version: ToolVersion::default(),
            host: None,
            arguments,
            caller: Json::parse("null").expect("null is JSON"),
            rerun: Rerun::Never,
            dialect: Dialect::Held,
            retention: Retention::Unlimited,
            start: Start::Claimed,
            cancel_grace: None,
            orphan: None,
            join: None,
            once: None,
            status_message: None,
            poll_interval_ms: None,
            steps: Vec::new(),
        }
    }

    /// The share that it takes a place of.
    #[must_use]
    pub fn counted_share(&self) -> Option<Share> {
        match self.owner {
            Owner::Principal(_) => None,
            Owner::Anonymous => self.share,
        }
    }

    /// The digest by which it joins and is joined.
    #[must_use]
    pub fn join_digest(&self) -> Option<&Digest> {
        match self.owner {
            Owner::Principal(_) => self.join.as_ref(),
            Owner::Anonymous => None,
        }
    }
}

/// Who starts a new task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Start {
    /// The node that creates it: it is born with that node's lease.
    Claimed,
    /// Whoever claims it from this time on.
    Queued {
        /// When it becomes due.
        not_before: Time,
    },
}
