//! Rule: of the mutants nine of ten were killed, and of the others it is said why not.

use crate::mutants::{LIST, List};
use crate::tidy::Repository;
use crate::tidy::finding::{Finding, Report};

/// Examines the list.
pub(super) fn check(repository: &Repository) -> Report {
    let mut report = Report::default();
    let Some(text) = repository.tree.file(LIST).and_then(|file| file.text.as_deref()) else { return report };
    report.examined(match List::parse(text).map(|list| list.fault()) {
        Ok(None) => None,
        Ok(Some(fault)) => {
            Some(Finding::new(LIST, 1, fault, "make a test notice it, and run `cargo xtask mutants`"))
        }
        Err(error) => Some(Finding::new(LIST, 1, format!("{error:#}"), "run `cargo xtask mutants`")),
    });
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::Tree;

    #[test]
    fn a_list_of_too_many_survivors_is_found() {
        let found = |text: &str| {
            let repository = Repository { tree: Tree::of(&[(LIST, text)]), ..Repository::default() };
            check(&repository).findings.len()
        };
        assert_eq!(
            (found("tried = 9\nkilled = 9\n"), found("tried = 9\nkilled = 8\n"), found("tried = 9")),
            (0, 1, 1)
        );
    }
}
