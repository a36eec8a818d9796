//! What a rule found, where, and what to do about it.

use std::fmt;

use crate::tally::Tally;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Path from the root of the repository, with forward slashes.
    pub(crate) path: String,
    /// Line in that file, from 1.
    pub(crate) line: usize,
    /// What is wrong.
    pub(crate) what: String,
    /// What to do.
    pub(crate) fix: String,
}

impl Finding {
    /// A finding at a line of a file.
    pub(crate) fn new(
        path: impl Into<String>,
        line: usize,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { path: path.into(), line, what: what.into(), fix: fix.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}, {}", self.path, self.line, self.what, self.fix)
    }
}

/// What one rule examined: a file, an arrow or a path at a time.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Everything found, in the order examined.
    pub(crate) findings: Vec<Finding>,
    /// What should be looked at, and fails nothing.
    pub(crate) warnings: Vec<Finding>,
    tally: Tally,
}

impl Report {
    /// Records one examined thing and what is wrong with it (nothing: it passed).
    pub(crate) fn examined(&mut self, findings: impl IntoIterator<Item = Finding>) {
        let before = self.findings.len();
        self.findings.extend(findings);
        self.tally += Tally::one(self.findings.len() == before);
    }

    /// The things examined, by outcome.
    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    /// Adds another report's findings and counts.
    pub(crate) fn merge(&mut self, other: Self) {
        self.findings.extend(other.findings);
        self.warnings.extend(other.warnings);
        self.tally += other.tally;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_with_two_findings_fails_once() {
        let mut report = Report::default();
        report.examined([]);
        report.examined([
            Finding::new("a.rs", 1, "it is wrong", "mend it"),
            Finding::new("a.rs", 2, "it is wrong", "mend it"),
        ]);
        assert_eq!(report.tally(), Tally { passed: 1, failed: 1 });
        assert_eq!(report.findings[1].to_string(), "a.rs:2: it is wrong, mend it");
    }
}
