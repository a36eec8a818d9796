//! In which format a store is kept.

/// The format of a store, as it was found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Format {
    /// Its number; `None` where nothing is kept yet. One above [`newest`](Self::newest) is of a later release that this one can
    /// work beside.
    pub found: Option<u32>,
    /// The one that this release writes.
    pub newest: u32,
}

impl Format {
    #[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
    pub(crate) fn new(found: Option<u32>, newest: u32) -> Self {
        Self { found, newest }
    }

    /// Whether whoever opens the store makes it anew, or changes it.
    #[must_use]
    pub fn is_old(self) -> bool {
        self.found.is_none_or(|found| found < self.newest)
    }
}
