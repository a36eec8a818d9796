//! Rule: of the mutants nine of ten were killed, and of the others it is said why not. A list of what the code was before is warned of.

use crate::mutants::{LIST, List, is_broken};
use crate::stamp;
use crate::tidy::Repository;
use crate::tidy::finding::{Finding, Report};

/// Examines the list.
pub(super) fn check(repository: &Repository) -> Report {
    let mut report = Report::default();
    let Some(text) = repository.tree.file(LIST).and_then(|file| file.text.as_deref()) else { return report };
    let list = match List::parse(text) {
        Ok(list) => list,
        Err(error) => {
            report.examined([Finding::new(LIST, 1, format!("{error:#}"), "run `cargo xtask mutants`")]);
            return report;
        }
    };
    let fix = "make a test notice it, and run `cargo xtask mutants`";
    report.examined(list.fault().map(|fault| Finding::new(LIST, 1, fault, fix)));
    let broken = repository.tree.files.iter().filter(|file| is_broken(&file.path));
    let now = stamp::of_files(
        broken.map(|file| (&*file.path, file.text.as_deref().unwrap_or_default().as_bytes())),
    );
    if !list.is_of(&now) {
        // It takes hours, and what a change breaks its own tests tell first.
        let what = "what is broken in it has changed since".to_owned();
        report.warnings.push(Finding::new(LIST, 1, what, "run `cargo xtask mutants` before a release"));
    }
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

    #[test]
    fn a_list_of_other_code_is_warned_of_and_fails_nothing() {
        const MACHINE: &str = "crates/longhaul-tasks/src/machine/mod.rs";
        let of = |code: &str| stamp::of_files([(MACHINE, code.as_bytes())]);
        let found = |of: &str, code: &str| {
            let list = format!("{of}tried = 9\nkilled = 9\n");
            let tree = Tree::of(&[
                (LIST, &list),
                (MACHINE, code),
                ("crates/longhaul-tasks/src/machine/tests.rs", code),
            ]);
            let report = check(&Repository { tree, ..Repository::default() });
            (report.findings.len(), report.warnings.len())
        };
        let stamped = format!("of = \"{}\"\n", of("fn a() {}"));
        assert_eq!(found(&stamped, "fn a() {}"), (0, 0));
        assert_eq!(found(&stamped, "fn b() {}"), (0, 1));
        assert_eq!(found("", "fn a() {}"), (0, 1), "it does not say of what it is");
    }
}
