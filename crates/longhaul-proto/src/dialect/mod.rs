//! The only place that knows revisions: which methods each has, and how each writes what we mean.
//!
//! Everything outside asks a [`Dialect`]. A method that is not in a revision's table does not exist in
//! it, and is answered so by absence. `rules.rs` turns every other version question into a name.

mod ask;
mod asked;
mod capability;
mod content;
mod drafted;
mod legacy;
mod lifecycle;
mod listing;
mod refusal;
mod registered;
mod request;
mod result;
mod rules;
mod stored_question;
mod task;
mod v2024_11_05;
mod v2025_03_26;
mod v2025_06_18;
mod v2025_11_25;
mod v2026_07_28;
mod welcome;

use std::fmt;

use crate::jsonrpc::{Code, ErrorObject, ObjectWriter, write_notification};
use crate::method::{Method, Notice};
pub use asked::{Asked, TaskWanted};
pub use drafted::{DRAFTED_TASK, DraftedTask, Keep, write_drafted_relation};
pub use lifecycle::InitializeParams;
pub use registered::{RegisterError, Tables};
pub use request::{Declaration, RequestWriter};
pub use result::{ResultWriter, write_related_task, write_subscription_id, write_task_subscription};
pub use stored_question::StoredQuestion;
pub use task::Called;
pub use welcome::{Unsupported, Welcome, Words};

/// A dated protocol revision; later ones are greater.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Revision(u32);

impl Revision {
    /// 2024-11-05.
    pub const V2024_11_05: Self = Self::dated("2024-11-05");
    /// 2025-03-26.
    pub const V2025_03_26: Self = Self::dated("2025-03-26");
    /// 2025-06-18.
    pub const V2025_06_18: Self = Self::dated("2025-06-18");
    /// 2025-11-25.
    pub const V2025_11_25: Self = Self::dated("2025-11-25");
    /// 2026-07-28.
    pub const V2026_07_28: Self = Self::dated("2026-07-28");

    /// Every revision this crate speaks, newest first.
    pub const ALL: [Self; 5] =
        [Self::V2026_07_28, Self::V2025_11_25, Self::V2025_06_18, Self::V2025_03_26, Self::V2024_11_05];

    /// The digits of the date as one number, so that comparing revisions is comparing numbers.
    const fn dated(date: &str) -> Self {
        let (bytes, mut at, mut number) = (date.as_bytes(), 0, 0_u32);
        while at < bytes.len() {
            if bytes[at].is_ascii_digit() {
                number = number.wrapping_mul(10).wrapping_add((bytes[at] - b'0') as u32);
            }
            at += 1;
        }
        Self(number)
    }

    /// Its date, as it stands on the wire.
    pub fn as_str(self) -> &'static str {
        Dialect::of(self).date
    }

    /// The revision of that date, if it is spoken.
    pub fn from_date(date: &str) -> Option<Self> {
        let is = |dialect: &&Dialect| dialect.date == date;
        let own = DIALECTS.into_iter().find(is);
        own.or_else(|| registered::others().iter().copied().find(is)).map(Dialect::revision)
    }
}

/// Those of [`Revision::ALL`].
static DIALECTS: [&Dialect; Revision::ALL.len()] = [
    &v2026_07_28::DIALECT,
    &v2025_11_25::DIALECT,
    &v2025_06_18::DIALECT,
    &v2025_03_26::DIALECT,
    &v2024_11_05::DIALECT,
];

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a revision's requests relate to one another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the specification's two eras")]
pub enum Era {
    /// A session opened by `initialize`.
    Legacy,
    /// Every request describes itself; there is no session.
    Modern,
}

/// One revision: its methods and its way of writing.
#[derive(Debug)]
pub struct Dialect {
    revision: Revision,
    /// As it stands on the wire.
    date: &'static str,
    era: Era,
    /// What a client may ask and tell: in groups, those called most often first.
    requests: Table<Method>,
    notices: Table<Notice>,
    /// What a server may.
    server_requests: Table<Method>,
    server_notices: Table<Notice>,
}

/// Names on the wire and what they stand for.
pub type Table<T> = &'static [&'static [(&'static str, T)]];

impl Dialect {
    /// The dialect of a revision.
    pub fn of(revision: Revision) -> &'static Self {
        let is = |dialect: &&'static Self| dialect.revision == revision;
        let own = DIALECTS.into_iter().find(is);
        // Nobody has a revision that is not spoken.
        own.or_else(|| registered::others().iter().copied().find(is)).unwrap_or_else(Self::newest_modern)
    }

    /// The dates of all that is spoken.
    pub fn dates() -> impl Iterator<Item = &'static str> {
        Self::spoken().map(|dialect| dialect.date)
    }

    /// The newest revision with an `initialize` handshake.
    pub const fn newest_legacy() -> &'static Self {
        &v2025_11_25::DIALECT
    }

    /// The newest revision without one.
    pub const fn newest_modern() -> &'static Self {
        &v2026_07_28::DIALECT
    }

    /// The modern dialect that a request claims to be in, or else the newest: for what must be known of its method
    /// before its claim is checked.
    pub fn claimed(date: Option<&str>) -> &'static Self {
        date.and_then(|date| Self::named_by_request(date).ok()).unwrap_or_else(Self::newest_modern)
    }

    /// The modern dialect a request's `_meta` names.
    ///
    /// # Errors
    ///
    /// `-32022` with the supported list, when it is unknown or has a handshake instead.
    pub fn named_by_request(date: &str) -> Result<&'static Self, ErrorObject> {
        Revision::from_date(date)
            .map(Self::of)
            .filter(|dialect| dialect.era == Era::Modern)
            .ok_or_else(|| unsupported_version(date))
    }

    /// The legacy dialect to answer an `initialize` with: the one asked for, else the newest.
    pub fn negotiated(date: &str) -> &'static Self {
        Revision::from_date(date)
            .map(Self::of)
            .filter(|dialect| dialect.era == Era::Legacy)
            .unwrap_or_else(Self::newest_legacy)
    }

    /// The legacy dialect of a request over HTTP that has no session: the one its version header names. Before there
    /// was that header, there was 2025-03-26.
    pub fn of_header(version: Option<&str>) -> &'static Self {
        match version {
            Some(date) => Self::negotiated(date),
            None => &v2025_03_26::DIALECT,
        }
    }

    /// Which revision this is.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Which era it belongs to.
    pub fn era(&self) -> Era {
        self.era
    }

    /// What a client's request of that name means here; `None` is "method not found".
    pub fn request(&self, name: &str) -> Option<Method> {
        find(self.requests, name)
    }

    /// The name of a client's request here; `None` where the revision lacks it.
    pub fn name_of(&self, method: Method) -> Option<&'static str> {
        name(self.requests, method)
    }

    /// What a client's notification of that name means here; `None` is ignored.
    pub fn notice(&self, name: &str) -> Option<Notice> {
        find(self.notices, name)
    }

    /// What a server's request of that name means, in whichever revision has it: a server may ask before a
    /// revision is agreed on. `None` is "method not found".
    pub fn server_request(name: &str) -> Option<Method> {
        Self::spoken().find_map(|dialect| find(dialect.server_requests, name))
    }

    /// What a server's notification of that name means, in whichever revision has it; `None` is ignored.
    pub fn server_notice(name: &str) -> Option<Notice> {
        Self::spoken().find_map(|dialect| find(dialect.server_notices, name))
    }

    /// A whole notification, its parameters written by `params`; `None` where the revision lacks it.
    pub fn notification(
        &self,
        notice: Notice,
        params: impl FnOnce(&mut ObjectWriter<'_>),
    ) -> Option<Vec<u8>> {
        let name = name(self.notices, notice)
            .or_else(|| name(self.server_notices, notice))
            .or_else(|| self.drafted_notice(notice))?;
        let mut message = Vec::with_capacity(160);
        write_notification(&mut message, name, params);
        Some(message)
    }
}

/// What a name stands for in a table.
fn find<T: Copy>(table: Table<T>, name: &str) -> Option<T> {
    table.iter().copied().flatten().find(|(known, _)| *known == name).map(|(_, meaning)| *meaning)
}

/// The name of something in a table.
fn name<T: Copy + PartialEq>(table: Table<T>, meaning: T) -> Option<&'static str> {
    table.iter().copied().flatten().find(|(_, known)| *known == meaning).map(|(name, _)| *name)
}

fn unsupported_version(requested: &str) -> ErrorObject {
    #[derive(serde::Serialize)]
    struct Data<'a> {
        supported: Vec<&'static str>,
        requested: &'a str,
    }
    let data = Data { supported: Dialect::dates().collect(), requested };
    ErrorObject::new(Code::UNSUPPORTED_VERSION, "unsupported protocol version").with_data(&data)
}
