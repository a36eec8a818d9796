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

/// Why dialects cannot be registered.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// Some are registered already, or something has been asked of one before.
    #[error("dialects are registered once, before anything is served or asked")]
    TooLate,
    /// A revision is known by its date alone.
    #[error("a revision is named by a date, as 2099-01-01, and not {0:?}")]
    NoDate(&'static str),
    /// Another dialect is of that date.
    #[error("there is a dialect of {0} already")]
    Taken(&'static str),
}

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
    /// When a date is none or taken, some are registered already, or it could have been asked for one before.
    pub fn register(dialects: &[&'static Self]) -> Result<(), RegisterError> {
        for (nth, dialect) in dialects.iter().enumerate() {
            if !is_date(dialect.date) {
                return Err(RegisterError::NoDate(dialect.date));
            }
            if super::DIALECTS.iter().chain(&dialects[..nth]).any(|other| other.date == dialect.date) {
                return Err(RegisterError::Taken(dialect.date));
            }
        }
        let mut dialects = dialects.to_vec();
        dialects.sort_by_key(|dialect| std::cmp::Reverse(dialect.revision));
        REGISTERED.set(dialects).map_err(|_| RegisterError::TooLate)
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

/// Whether it has the form of a date, by which revisions are told apart and put in order.
fn is_date(text: &str) -> bool {
    let form =
        |(at, byte): (usize, u8)| if at == 4 || at == 7 { byte == b'-' } else { byte.is_ascii_digit() };
    text.len() == 10 && text.bytes().enumerate().all(form)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dates_that_nobody_has_are_registered() {
        static DRAFT: Dialect = Dialect::new("2026-07-28-rc", Era::Modern, NOTHING);
        static OURS: Dialect = Dialect::new("2025-11-25", Era::Legacy, NOTHING);
        static NEXT: Dialect = Dialect::new("2098-01-01", Era::Modern, NOTHING);
        const NOTHING: Tables =
            Tables { requests: &[], notices: &[], server_requests: &[], server_notices: &[] };
        assert_eq!(Dialect::register(&[&DRAFT]), Err(RegisterError::NoDate("2026-07-28-rc")));
        assert_eq!(Dialect::register(&[&NEXT, &OURS]), Err(RegisterError::Taken("2025-11-25")));
        assert_eq!(Dialect::register(&[&NEXT, &NEXT]), Err(RegisterError::Taken("2098-01-01")));
        assert!(!is_date("20990101") && !is_date("2099-01-0a") && !is_date("2099/01/01"));
    }
}
