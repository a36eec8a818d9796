//! Which open tasks of strangers are counted together.

use serde::{Deserialize, Serialize};

/// What tells the open tasks of one stranger from those of all others, so that none takes the room of all: a digest of what is known
/// of who it is, as a network.
///
/// It lets nobody do anything, and no caller is told of it. Whoever reads the store can guess what was digested, of a network as of any
/// that is not long, so it says to them where a task was asked for as long as that is open.
///
/// ```
/// use longhaul_store::{Json, NewTask, Owner, Share, TaskId};
/// let mut task = NewTask::new(TaskId::new("t1")?, Owner::Anonymous, "build", Json::parse("{}")?);
/// task.share = Some(Share::new(7));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// What serde makes of it is a part of a row, as that of a [`Record`](crate::Record), and no format for anything else.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Share(u64);

impl Share {
    /// The share of this digest.
    #[must_use]
    pub const fn new(digest: u64) -> Self {
        Self(digest)
    }

    /// The digest.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}
