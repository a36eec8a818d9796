//! `[calls]`: how many calls callers may make.

use longhaul::server::CallOptions;

use super::reader::{Reader, Section};

/// How many calls callers may make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Calls {
    /// How many a minute each caller may make; any number when `None`.
    pub each: Option<u32>,
    /// How many all principals together, and all other callers together; any number when `None`.
    pub in_all: Option<u32>,
}

impl Calls {
    pub(super) fn read(reader: &mut Reader<'_>, section: &Section<'_>) -> Self {
        reader.reject_unknown(section, &["each", "in_all"]);
        let mut count = |key| reader.count_of(section, key, 1).map(|count| count.value);
        Self { each: count("each"), in_all: count("in_all") }
    }

    /// The same, as a server takes it.
    #[must_use]
    pub fn options(&self) -> CallOptions {
        let mut options = CallOptions::default();
        (options.each, options.in_all) = (self.each, self.in_all);
        options
    }
}
