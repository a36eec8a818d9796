//! Dialects of others: a revision that is not published yet can be tried out before it is written here.
//!
//! What this crate speaks itself is looked for first, so that a request pays nothing for what nobody has registered.

use std::sync::OnceLock;

use super::{Dialect, Era, Revision, Table};
use crate::method::{Method, Notice};

/// Those of others, newest first; settled as soon as anybody asks for them.
static REGISTERED: OnceLock<Vec<&'static Dialect>> = OnceLock::new();

/// What each side of a revision may say.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "what registers a dialect writes it out")]
pub struct Tables {
    /// What a client may ask.
    pub requests: Table<Method>,
    /// What a client may tell.
    pub notices: Table<Notice>,
    /// What a server may ask.
    pub server_requests: Table<Method>,
    /// What a server may tell.
    pub server_notices: Table<Notice>,
}

/// Dialects are registered once, and before any is spoken.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("dialects are registered once, before anything is served or asked")]
#[non_exhaustive]
pub struct TooLate;

impl Dialect {
    /// The revision of `date`, which is in the rules of its era what comes after all earlier revisions.
    pub const fn new(date: &'static str, era: Era, tables: Tables) -> Self {
        Self {
            revision: Revision::dated(date),
            date,
            era,
            requests: tables.requests,
            notices: tables.notices,
            server_requests: tables.server_requests,
            server_notices: tables.server_notices,
        }
    }

    /// Lets this process speak `dialects`, too.
    ///
    /// # Errors
    ///
    /// When some are registered already, or it could have been asked for one before.
    pub fn register(dialects: &[&'static Self]) -> Result<(), TooLate> {
        let mut dialects = dialects.to_vec();
        dialects.sort_by_key(|dialect| std::cmp::Reverse(dialect.revision));
        REGISTERED.set(dialects).map_err(|_| TooLate)
    }

    /// Every dialect that is spoken: those of others, then this crate's, each newest first.
    pub fn spoken() -> impl Iterator<Item = &'static Self> {
        others().iter().copied().chain(super::DIALECTS)
    }

    /// Its place among all that are spoken.
    pub fn place(&self) -> usize {
        Self::spoken().take_while(|dialect| dialect.revision != self.revision).count()
    }
}

/// Those of others.
pub(super) fn others() -> &'static [&'static Dialect] {
    REGISTERED.get_or_init(Vec::new)
}
