//! How many tasks a store takes: keys of `[store]`.

use longhaul::store::{Limits, Settings};

use super::reader::{Reader, Section};

/// How many tasks a store takes, as [`Limits`] has them. Every server on one store should say the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quotas {
    /// Open ones in all.
    pub max_open: u32,
    /// Open ones of one principal.
    pub max_open_per_owner: u32,
    /// Open ones of all callers without a principal.
    pub max_open_anonymous: u32,
    /// Open ones of one of them.
    pub max_open_per_stranger: u32,
    /// Those that one of them makes within a day.
    pub max_made_per_stranger: u32,
    /// Kept ones in all.
    pub max_retained: u32,
    /// Kept ones of one principal, or of all callers without one.
    pub max_retained_per_owner: u32,
    /// Bytes of these.
    pub max_task_bytes_per_owner: u64,
}

impl Default for Quotas {
    fn default() -> Self {
        let limits = Limits::default();
        let count = |limit: u64| u32::try_from(limit).unwrap_or(u32::MAX);
        Self {
            max_open: count(limits.max_open),
            max_open_per_owner: count(limits.max_open_per_owner),
            max_open_anonymous: count(limits.max_open_anonymous),
            max_open_per_stranger: count(limits.max_open_per_stranger),
            max_made_per_stranger: count(limits.max_made_per_stranger),
            max_retained: count(limits.max_retained),
            max_retained_per_owner: count(limits.max_retained_per_owner),
            max_task_bytes_per_owner: limits.max_task_bytes_per_owner,
        }
    }
}

impl Quotas {
    /// The keys of the section that are read here.
    pub(super) const KEYS: [&str; 8] = [
        "max_open",
        "max_open_per_owner",
        "max_open_anonymous",
        "max_open_per_stranger",
        "max_made_per_stranger",
        "max_retained",
        "max_retained_per_owner",
        BYTES,
    ];

    pub(super) fn read(reader: &mut Reader<'_>, section: &Section<'_>) -> Self {
        let default = Self::default();
        let bytes = reader.size(section, BYTES, (LEAST_BYTES, u64::MAX));
        let mut count = |key, default| reader.count_of(section, key, 1).map_or(default, |count| count.value);
        Self {
            max_open: count("max_open", default.max_open),
            max_open_per_owner: count("max_open_per_owner", default.max_open_per_owner),
            max_open_anonymous: count("max_open_anonymous", default.max_open_anonymous),
            max_open_per_stranger: count("max_open_per_stranger", default.max_open_per_stranger),
            max_made_per_stranger: count("max_made_per_stranger", default.max_made_per_stranger),
            max_retained: count("max_retained", default.max_retained),
            max_retained_per_owner: count("max_retained_per_owner", default.max_retained_per_owner),
            max_task_bytes_per_owner: bytes.unwrap_or(default.max_task_bytes_per_owner),
        }
    }

    /// The same, as a store takes it: all else by default.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        let limits = &mut settings.limits;
        limits.max_open = self.max_open.into();
        limits.max_open_per_owner = self.max_open_per_owner.into();
        limits.max_open_anonymous = self.max_open_anonymous.into();
        limits.max_open_per_stranger = self.max_open_per_stranger.into();
        limits.max_made_per_stranger = self.max_made_per_stranger.into();
        limits.max_retained = self.max_retained.into();
        limits.max_retained_per_owner = self.max_retained_per_owner.into();
        limits.max_task_bytes_per_owner = self.max_task_bytes_per_owner;
        settings
    }
}

/// The key that is no count.
const BYTES: &str = "max_task_bytes_per_owner";

/// Less would be too little for a single call.
const LEAST_BYTES: u64 = 1 << 20;
