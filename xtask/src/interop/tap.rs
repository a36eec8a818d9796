//! What a rig says of its checks: the Test Anything Protocol, of which it uses three kinds of line.

use crate::tally::Tally;

/// The lines `1..N`, `ok …` and `not ok …` of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tap {
    planned: Option<usize>,
    passed: usize,
    failed: usize,
}

impl Tap {
    /// Reads the output of a rig; lines of other kinds are its own business.
    pub(super) fn read(lines: &[String]) -> Self {
        let mut tap = Self::default();
        for line in lines {
            if let Some(planned) = line.strip_prefix("1..") {
                tap.planned = planned.trim().parse().ok();
            } else if line.starts_with("ok ") {
                tap.passed += 1;
            } else if line.starts_with("not ok ") {
                tap.failed += 1;
            }
        }
        tap
    }

    /// The checks by outcome. One failure more for a rig that ended before its plan was carried out, or that failed
    /// without saying which check did.
    pub(super) fn tally(&self, success: bool) -> Tally {
        let mut tally = Tally { passed: self.passed, failed: self.failed };
        let unfinished =
            self.planned.is_none_or(|planned| planned == 0 || planned != self.passed + self.failed);
        if unfinished || (!success && self.failed == 0) {
            println!("the rig did not carry out its plan ({:?} planned, {tally})", self.planned);
            tally += Tally::one(false);
        }
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(text: &str, success: bool) -> Tally {
        Tap::read(&text.lines().map(str::to_owned).collect::<Vec<_>>()).tally(success)
    }

    #[test]
    fn checks_are_counted_by_outcome() {
        assert_eq!(tally("1..2\nok 1 - a\nok 2 - b", true), Tally { passed: 2, failed: 0 });
        assert_eq!(tally("1..2\nok 1 - a\nnot ok 2 - b\n# why", false), Tally { passed: 1, failed: 1 });
    }

    #[test]
    fn a_rig_that_ends_early_fails() {
        assert_eq!(tally("1..2\nok 1 - a", true), Tally { passed: 1, failed: 1 });
        assert_eq!(tally("1..2\nok 1 - a\nok 2 - b", false), Tally { passed: 2, failed: 1 });
        assert_eq!(tally("", true), Tally { passed: 0, failed: 1 });
        assert_eq!(tally("1..0", true), Tally { passed: 0, failed: 1 });
    }
}
