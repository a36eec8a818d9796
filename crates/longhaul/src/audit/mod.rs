//! An audit trail: what became of tasks, and who did it.
//!
//! An [`Event`] says who did what to which task, when and on which node, and nothing of what the task was called with or came
//! to. Callers stand in it as a digest ([`Party`]), never by name, and without their tokens. [`Server::audit`] hands a server
//! its [`Audit`]; [`AuditFolder`] is one that keeps files, each entry of which holds the digest of the one before, so that
//! [`verify`] finds what was changed or taken out.
//!
//! An event is noted once it has happened: a task is never kept from ending because it cannot be noted. What a process had
//! noted a moment before it was killed may be missing.
//!
//! [`Server::audit`]: crate::Server::audit
//!
//! # Examples
//!
//! ```
//! use longhaul::Server;
//! use longhaul::audit::{AuditFolder, AuditOptions, verify};
//! use longhaul::store::NodeId;
//!
//! # fn run(folder: &std::path::Path) -> std::io::Result<()> {
//! let node = NodeId::new("front-1").map_err(std::io::Error::other)?;
//! let audit = AuditFolder::open(folder, &node, AuditOptions::default())?;
//! let server = Server::new("builds", "1.0.0").audit(audit);
//! # drop(server);
//! assert!(verify(folder, &[])?.problems.is_empty());
//! # Ok(()) }
//! ```

mod entry;
mod folder;
mod guesses;
mod store;
mod trail;
mod verify;

use std::fmt;
use std::sync::Arc;

use longhaul_tasks::store::{NodeId, Outcome, Owner, TaskId, Time};
use sha2::{Digest as _, Sha256};

use crate::hex::hex;

pub use entry::{Entry, Head};
pub use folder::{AuditFolder, AuditOptions};
pub(crate) use guesses::TOLD_FROM;
pub(crate) use store::Audited;
pub(crate) use trail::Trail;
pub use verify::{Verdict, entries, verify};

/// Where events go.
///
/// ```
/// use std::sync::Mutex;
///
/// use longhaul::audit::{Audit, Event};
///
/// #[derive(Debug, Default)]
/// struct Kept(Mutex<Vec<Event>>);
///
/// impl Audit for Kept {
///     fn note(&self, event: Event) {
///         self.0.lock().expect("nothing panics while it is held").push(event);
///     }
/// }
/// ```
pub trait Audit: fmt::Debug + Send + Sync {
    /// This has happened. It must not wait for long: calls wait for it. What cannot be kept is for it to tell.
    fn note(&self, event: Event);
}

/// Something that happened to a task, or to who asked after one.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// What.
    pub what: What,
    /// When, by the store's clock.
    pub at: Time,
    /// On which node.
    pub node: NodeId,
    /// To which task.
    pub task: Option<TaskId>,
    /// Which tool does its work, where that is known.
    pub tool: Option<Arc<str>>,
    /// Whose it is, where that is known.
    pub owner: Option<Party>,
    /// Who did it; `None` when the node or its operator did.
    pub by: Option<Party>,
}

/// What happened.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum What {
    /// A task was created.
    Created,
    /// A node took up its work that did not have it before; not of one that had it since it was created.
    Claimed,
    /// This node had its work, and is gone or let its lease run out.
    AttemptLost(NodeId),
    /// So many questions were put to its owner.
    Asked(usize),
    /// What it came to was given to its owner.
    Fetched,
    /// So many of its questions were answered.
    Answered(usize),
    /// It was cancelled.
    Cancelled,
    /// Its work is asked to end it, and decides how.
    AskedToEnd,
    /// It ended.
    Ended(End),
    /// Its work came to an end when the task had ended otherwise, or was another node's: that end is nowhere.
    LateOutcome,
    /// Its owner has not come back for it, and it is an orphan. What then becomes of it is another event.
    Orphaned,
    /// It was deleted at its owner's wish.
    Deleted,
    /// Its time was up: what it was called with and came to is forgotten.
    Forgotten,
    /// So many tasks were asked after that are not there, or are somebody else's, since this was last noted of who asked: it may
    /// guess ids. Noted once they are 20 in ten minutes, and not again within ten, at whose end the rest is.
    AskedInVain(usize),
    /// Whoever asked after tasks in vain too often is refused from now on.
    Refused,
    /// An answer came in a session to what was asked in another, and counts for nothing. It is forged, or, where a
    /// session is a connection (stdio), was asked before a restart. Noted once a session.
    StrayAnswer,
    /// A caller brought what only this server could have given, and it had not: it was made up or changed, or given to somebody
    /// else or for something else. Or it was given before a restart, where the key does not outlive the process. Noted of each
    /// caller once in ten minutes; all who have not signed in count as one.
    Forged(Forged),
    /// The date of the machine is this, an hour or more ahead of the store's time, and is not followed.
    DateRefused(Time),
}

/// What is sealed here, given away, and brought back.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Forged {
    /// The state of a call in rounds (`requestState`).
    State,
    /// The token of an address at which what runs elsewhere calls back.
    Callback,
}

/// How a task ended, without what it came to.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum End {
    /// With a result.
    Result,
    /// With a result by which the tool says that it failed.
    ToolError,
    /// With an error.
    Error {
        /// Its code.
        code: i64,
        /// Why, where the engine itself ended it: `nondeterminism`, `step_changed`, `attempts_exhausted`.
        reason: Option<&'static str>,
    },
    /// Whoever did the work is gone.
    Lost,
    /// It was open and its time was up.
    Expired,
}

impl End {
    /// How a task ended whose outcome this is; `None` for one that was cancelled, of which its own event tells.
    pub(crate) fn of(outcome: &Outcome) -> Option<Self> {
        Some(match outcome {
            Outcome::Result { is_error: false, .. } => Self::Result,
            Outcome::Result { .. } => Self::ToolError,
            Outcome::Error { code, data, .. } => {
                let reason = data.as_ref().and_then(|data| reason(data.as_str()));
                Self::Error { code: *code, reason }
            }
            Outcome::Lost { .. } => Self::Lost,
            _ => return None,
        })
    }
}

/// The engine's own reason in the data of an error. A tool's may say anything, so that no other is told.
fn reason(data: &str) -> Option<&'static str> {
    #[derive(serde::Deserialize)]
    struct Data<'a> {
        #[serde(borrow)]
        reason: std::borrow::Cow<'a, str>,
    }
    let Data { reason } = serde_json::from_str(data).ok()?;
    REASONS.into_iter().find(|known| *known == reason)
}

const REASONS: [&str; 3] = ["nondeterminism", "step_changed", "attempts_exhausted"];

/// A caller, as the trail names it: the digest of a principal, or `anonymous`.
///
/// A digest hides a name from who looks over a shoulder, and not from who has a list of names to try.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Party(Arc<str>);

impl Party {
    /// The caller of this name: 128 bits of SHA-256, in hexadecimal.
    ///
    /// ```
    /// use longhaul::audit::Party;
    /// use longhaul::store::Owner;
    ///
    /// let ann = Party::of(&Owner::principal("ann")?);
    /// assert_eq!(ann.as_str().len(), 32);
    /// assert_eq!(Party::of(&Owner::Anonymous).as_str(), "anonymous");
    /// # Ok::<_, longhaul::store::InvalidPrincipal>(())
    /// ```
    pub fn of(owner: &Owner) -> Self {
        match owner {
            Owner::Principal(principal) => {
                let digest = Sha256::digest(principal.as_str().as_bytes());
                Self(hex(&digest[..16]).into())
            }
            Owner::Anonymous => Self("anonymous".into()),
        }
    }

    /// As it stands in the trail.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests;
