//! Who has worked on a task, from when on, and how that was over.

use serde::{Deserialize, Serialize};

use crate::{NodeId, Time};

/// A spell of work on a task, by one node: from a claim to when that was over.
///
/// What serde makes of it is a part of a row, as that of a [`Record`](crate::Record), and no format for anything else.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Spell {
    /// Its number among those of its task, from 1 on.
    pub nth: u32,
    /// Whose it was.
    pub node: NodeId,
    /// When it began.
    pub from: Time,
    /// How it was over; `None` while it goes on, and of one with which the task ended.
    pub over: Option<SpellOver>,
}

/// How a spell of work was over, and when.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub enum SpellOver {
    /// The work waits, and has put the task aside.
    Aside(Time),
    /// The node gave it back.
    Back(Time),
    /// The node was gone, or had let its lease run out.
    Lost(Time),
}

impl SpellOver {
    /// When that was. Nobody saw it of one that was lost: the end of its lease, or when somebody else took the task if that
    /// was before.
    #[must_use]
    pub fn at(self) -> Time {
        match self {
            Self::Aside(at) | Self::Back(at) | Self::Lost(at) => at,
        }
    }
}
