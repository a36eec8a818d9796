//! What is known of what a server offers, and whether it is connected.

use std::sync::Arc;
use std::time::Instant;

use super::connection::Upstream;

/// What is known of what a server offers.
#[derive(Clone, Debug, Default)]
#[expect(clippy::exhaustive_enums, reason = "whoever shows it shows each")]
pub enum Seen {
    /// It has not answered yet.
    #[default]
    Nothing,
    /// It could not be reached, and is tried again.
    Failed {
        /// Why, as its operator is told: the last words of a program may be in it.
        why: Arc<str>,
    },
    /// It has said what it has.
    Listed {
        /// The names of its tools here.
        tools: Vec<String>,
        /// How many prompts of it are served.
        prompts: usize,
        /// How many resources, without those that only templates tell of.
        resources: usize,
        /// How many templates of resources.
        templates: usize,
        /// The revision that it speaks.
        revision: &'static str,
        /// What its operator should know of them.
        notes: Vec<String>,
        /// It is not connected any more. What it has is offered all the same, until it says that it is something else.
        away: Option<Away>,
    },
}

/// Since when a server is not connected, and why.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Away {
    /// When that was found out.
    pub since: Instant,
    /// What was heard of it last, as its operator is told.
    pub why: Arc<str>,
}

impl Seen {
    /// It is not connected, for that reason.
    fn lose(&mut self, why: Arc<str>) {
        match self {
            Self::Listed { away, .. } => {
                let since = away.as_ref().map_or_else(Instant::now, |away| away.since);
                *away = Some(Away { since, why });
            }
            Self::Nothing | Self::Failed { .. } => *self = Self::Failed { why },
        }
    }
}

impl Away {
    /// From now on.
    fn now(why: &str) -> Self {
        Self { since: Instant::now(), why: why.into() }
    }
}

impl Upstream {
    /// Why it is not connected where what it had before is offered: what is known already, or that nothing has needed it yet.
    pub(super) fn rests(&self) -> Away {
        match &*self.seen.borrow() {
            Seen::Listed { away: Some(away), .. } => away.clone(),
            Seen::Listed { away: None, .. } | Seen::Nothing | Seen::Failed { .. } => Away::now(RESTS),
        }
    }

    /// It is not connected, for that reason.
    pub(super) fn miss(&self, why: Arc<str>) {
        self.seen.send_modify(|seen| seen.lose(why));
    }

    /// Its connection has ended: why, is known better if it is known already.
    pub(super) fn miss_ended(&self) {
        let is_known = matches!(&*self.seen.borrow(), Seen::Listed { away: Some(_), .. });
        if !is_known {
            self.miss("its connection has ended, and the next call opens another".into());
        }
    }
}

const RESTS: &str = "nothing has needed it yet, and the first call starts it";
