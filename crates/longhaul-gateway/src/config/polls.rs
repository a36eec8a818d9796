//! `[polls]`: how much callers may ask about tasks.

use longhaul::server::PollOptions;

use super::reader::{Reader, Section};

/// How much callers may ask about tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Polls {
    /// How many requests a second each caller may make.
    pub each: u32,
    /// How many all principals together, and all other callers together.
    pub in_all: u32,
    /// After how many tasks that are not there for it each caller may ask in ten minutes.
    pub in_vain: u32,
}

impl Default for Polls {
    fn default() -> Self {
        let PollOptions { each, in_all, in_vain, .. } = PollOptions::default();
        Self { each, in_all, in_vain }
    }
}

impl Polls {
    pub(super) fn read(reader: &mut Reader<'_>, section: &Section<'_>) -> Self {
        reader.reject_unknown(section, &["each", "in_all", "in_vain"]);
        let default = Self::default();
        let mut count = |key, default| reader.count_of(section, key, 1).map_or(default, |count| count.value);
        Self {
            each: count("each", default.each),
            in_all: count("in_all", default.in_all),
            in_vain: count("in_vain", default.in_vain),
        }
    }

    /// The same, as a server takes it.
    #[must_use]
    pub fn options(&self) -> PollOptions {
        PollOptions::default().each(self.each).in_all(self.in_all).in_vain(self.in_vain)
    }
}
