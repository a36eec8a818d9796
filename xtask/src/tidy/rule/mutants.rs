//! Rule: of the mutants nine of ten were killed, and of the others it is said why not; and there is code wherever it is looked for. A
//! list of what the code was before is warned of.

use crate::mutants::{LIST, List, is_broken, places};
use crate::stamp;
use crate::tidy::Repository;
use crate::tidy::finding::{Finding, Report};
use crate::tidy::tree::Tree;

/// Where the places are named.
const NAMES: &str = "xtask/src/mutants.rs";

/// Examines the list, and the places.
pub(super) fn check(repository: &Repository) -> Report {
    let Some(text) = repository.tree.file(LIST).and_then(|file| file.text.as_deref()) else {
        return Report::default();
    };
    let mut report = of_list(repository, text);
    report.merge(of_places(&repository.tree));
    report
}

fn of_places(tree: &Tree) -> Report {
    let mut report = Report::default();
    for place in places() {
        let is_there = tree.files.iter().any(|file| file.path.starts_with(place) && is_broken(&file.path));
        let what = || Finding::new(NAMES, 1, format!("no code is in {place}"), "say where it is now");
        report.examined((!is_there).then(what));
    }
    report
}

fn of_list(repository: &Repository, text: &str) -> Report {
    let mut report = Report::default();
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
    #[test]
    fn a_list_of_too_many_survivors_is_found() {
        let found = |text: &str| {
            let repository = Repository { tree: Tree::of(&[(LIST, text)]), ..Repository::default() };
            of_list(&repository, text).findings.len()
        };
        assert_eq!(
            (found("tried = 9\nkilled = 9\n"), found("tried = 9\nkilled = 8\n"), found("tried = 9")),
            (0, 1, 1)
        );
    }

    #[test]
    fn a_place_without_code_is_found() {
        let found = |files: &[&str]| {
            let list = [(LIST, "tried = 9\nkilled = 9\n")];
            let files: Vec<_> = files.iter().map(|path| (*path, "")).chain(list).collect();
            check(&Repository { tree: Tree::of(&files), ..Repository::default() }).findings
        };
        let mut files = vec![
            "crates/longhaul-tasks/src/machine/mod.rs",
            "crates/longhaul-tasks/src/project/mod.rs",
            "crates/longhaul-store/src/transition/undo.rs",
            "crates/longhaul-store/src/transition.rs",
        ];
        assert_eq!(found(&files), []);
        files.pop();
        let findings = found(&files);
        assert!(findings.len() == 1 && findings[0].what.contains("transition.rs"), "{findings:?}");
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
            let report = of_list(&Repository { tree, ..Repository::default() }, &list);
            (report.findings.len(), report.warnings.len())
        };
        let stamped = format!("of = \"{}\"\n", of("fn a() {}"));
        assert_eq!(found(&stamped, "fn a() {}"), (0, 0));
        assert_eq!(found(&stamped, "fn b() {}"), (0, 1));
        assert_eq!(found("", "fn a() {}"), (0, 1), "it does not say of what it is");
    }
}
