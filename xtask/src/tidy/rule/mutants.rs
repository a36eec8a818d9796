//! Rule: of the mutants nine of ten were killed, and of the others it is said why not; and there is code wherever it is looked for. A
//! list of what the code was before is warned of.

use crate::mutants::{Broken, LIST, Lists, all};
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
    let mut report = of_lists(&repository.tree, text);
    report.merge(of_places(&repository.tree));
    report
}

fn of_places(tree: &Tree) -> Report {
    let mut report = Report::default();
    for (broken, place) in
        all().iter().flat_map(|broken| broken.places.iter().map(move |place| (broken, place)))
    {
        let is_there = tree.files.iter().any(|file| file.path.starts_with(place) && broken.has(&file.path));
        let what = || Finding::new(NAMES, 1, format!("no code is in {place}"), "say where it is now");
        report.examined((!is_there).then(what));
    }
    report
}

fn of_lists(tree: &Tree, text: &str) -> Report {
    let mut report = Report::default();
    match Lists::parse(text) {
        Ok(lists) => all().iter().for_each(|broken| of_package(tree, &lists, broken, &mut report)),
        Err(error) => {
            report.examined([Finding::new(LIST, 1, format!("{error:#}"), "run `cargo xtask mutants`")]);
        }
    }
    report
}

fn of_package(tree: &Tree, lists: &Lists, broken: &Broken, report: &mut Report) {
    let list = lists.of(broken.package);
    let fix = "make a test notice it, and run `cargo xtask mutants`";
    let fault = list.and_then(|list| list.fault());
    report.examined(fault.map(|fault| Finding::new(LIST, 1, format!("{}: {fault}", broken.package), fix)));
    let files = tree.files.iter().filter(|file| broken.has(&file.path));
    let now =
        stamp::of_files(files.map(|file| (&*file.path, file.text.as_deref().unwrap_or_default().as_bytes())));
    if !list.is_some_and(|list| list.is_of(&now)) {
        // It takes hours, and what a change breaks its own tests tell first.
        let what = format!("what is broken in {} has changed since, or was not all tried", broken.package);
        report.warnings.push(Finding::new(LIST, 1, what, "run `cargo xtask mutants` before a release"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: &str = "crates/longhaul-tasks/src/machine/mod.rs";

    #[test]
    fn a_list_of_too_many_survivors_is_found() {
        let found = |text: &str| of_lists(&Tree::default(), text).findings.len();
        let [tasks, store] = ["longhaul-tasks", "longhaul-store"]
            .map(|package| move |killed: u32| format!("[{package}]\ntried = 9\nkilled = {killed}\n"));
        assert_eq!(found(&(tasks(9) + &store(9))), 0);
        assert_eq!(found(&(tasks(9) + &store(8))), 1);
        assert_eq!(found(&(tasks(8) + &store(8))), 2);
        assert_eq!(found("[longhaul-tasks]\ntried = 9"), 1);
    }

    #[test]
    fn a_place_without_code_is_found() {
        let found = |files: &[&str]| {
            let files: Vec<_> = files.iter().map(|path| (*path, "")).chain([(LIST, "")]).collect();
            check(&Repository { tree: Tree::of(&files), ..Repository::default() }).findings
        };
        let mut files = vec![
            MACHINE,
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
        let warned = |of: &str, code: &str| {
            let list = format!("[longhaul-tasks]\n{of}tried = 9\nkilled = 9\n");
            let tests = ("crates/longhaul-tasks/src/machine/tests.rs", code);
            let report = of_lists(&Tree::of(&[(LIST, &list), (MACHINE, code), tests]), &list);
            assert_eq!(report.findings, []);
            let of_tasks = report.warnings.iter().filter(|warning| warning.what.contains("longhaul-tasks"));
            assert_eq!(report.warnings.len() - of_tasks.clone().count(), 1, "of the other nothing is kept");
            of_tasks.count()
        };
        let stamped = format!("of = \"{}\"\n", stamp::of_files([(MACHINE, &b"fn a() {}"[..])]));
        assert_eq!(warned(&stamped, "fn a() {}"), 0);
        assert_eq!(warned(&stamped, "fn b() {}"), 1);
        assert_eq!(warned("", "fn a() {}"), 1, "it does not say of what it is");
    }
}
