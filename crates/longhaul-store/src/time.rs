//! The store's time: one line of milliseconds that never runs backwards.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

/// A point in the store's time, in milliseconds since 1970-01-01T00:00:00Z.
///
/// Every date a task shows and every deadline it obeys is one of these, taken from its store and from no node's
/// own clock.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Time(i64);

impl Time {
    /// The point `ms` milliseconds after 1970.
    #[must_use]
    pub const fn from_unix_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub const fn unix_ms(self) -> i64 {
        self.0
    }

    /// The point `later` after this one; the end of time if there is none.
    #[must_use]
    pub fn after(self, later: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(later.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long after `earlier` this is; zero if it is not.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_time_do_not_wrap() {
        assert_eq!(Time::from_unix_ms(i64::MAX).after(Duration::MAX).unix_ms(), i64::MAX);
        assert_eq!(Time::from_unix_ms(0).since(Time::from_unix_ms(5)), Duration::ZERO);
        assert_eq!(Time::from_unix_ms(i64::MIN).since(Time::from_unix_ms(i64::MAX)), Duration::ZERO);
    }
}
