//! Rule: every Rust file begins by saying what lives in it.

use crate::tidy::Repository;
use crate::tidy::finding::{Finding, Report};

/// Folders of inputs to tests, which show users' code rather than ours.
const INPUTS: &[&str] = &["/tests/pass/", "/tests/fail/", "/fixtures/"];

/// Examines the first line of every Rust file, and that the file can be read at all.
pub(super) fn check(repository: &Repository) -> Report {
    let mut report = Report::default();
    for file in repository.tree.rust().filter(|f| !INPUTS.iter().any(|input| f.path.contains(input))) {
        let first = file.lines().next().map(|(_, line)| line).unwrap_or_default();
        let said = first.strip_prefix("//!").is_some_and(|rest| !rest.trim().is_empty());
        let missing = (!said).then(|| {
            Finding::new(
                &file.path,
                1,
                "the file does not say what lives in it",
                "begin it with a `//!` line that does",
            )
        });
        let unread = file.source.as_ref().and_then(|source| source.as_ref().err());
        let unread = unread.map(|e| Finding::new(&file.path, 1, format!("cannot be read ({e})"), "mend it"));
        report.examined(missing.into_iter().chain(unread));
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::Tree;

    fn found(text: &str) -> usize {
        let tree =
            Tree::of(&[("crates/a/src/lib.rs", text), ("crates/a/tests/fail/no_doc.rs", "fn main() {}")]);
        check(&Repository { tree, ..Repository::default() }).findings.len()
    }

    #[test]
    fn a_file_without_a_first_line_is_found() {
        assert_eq!(found("//! What lives here.\nuse a;"), 0);
        assert_eq!(found("use a;\n//! Too late."), 1);
        assert_eq!(found("//!\n"), 1);
        assert_eq!(found(""), 1);
    }

    #[test]
    fn a_file_that_is_not_rust_is_found() {
        assert_eq!(found("//! What lives here.\nfn f( {"), 1);
    }
}
