//! How many checks passed and failed, and the one line that says so.

use std::fmt;
use std::ops::AddAssign;

/// The outcome of a check: its parts that passed and its parts that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Parts that passed.
    pub(crate) passed: usize,
    /// Parts that failed.
    pub(crate) failed: usize,
}

impl Tally {
    /// One part, passed or failed.
    pub(crate) fn one(passed: bool) -> Self {
        Self { passed: usize::from(passed), failed: usize::from(!passed) }
    }

    /// Whether something was checked and nothing failed: a check of nothing proves nothing.
    pub(crate) fn is_success(self) -> bool {
        self.failed == 0 && self.passed > 0
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_of_nothing_is_no_success() {
        assert!(!Tally::default().is_success());
        assert!(Tally::one(true).is_success());
    }

    #[test]
    fn one_failure_among_many_is_no_success() {
        let mut tally = Tally { passed: 10, failed: 0 };
        tally += Tally::one(false);
        assert!(!tally.is_success());
        assert_eq!(tally.to_string(), "10 passed, 1 failed");
    }
}
