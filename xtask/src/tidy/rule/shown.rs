//! Rule: what is kept of long runs can be read. One whose code has changed since is warned of.

use crate::shown::{LIST, List, is_about};
use crate::stamp;
use crate::tidy::Repository;
use crate::tidy::finding::{Finding, Report};

/// Examines the list.
pub(super) fn check(repository: &Repository) -> Report {
    let mut report = Report::default();
    let Some(file) = repository.tree.file(LIST) else { return report };
    let list = match List::parse(file.text.as_deref().unwrap_or_default()) {
        Ok(list) => list,
        Err(error) => {
            report.examined([Finding::new(LIST, 1, format!("{error:#}"), "correct it")]);
            return report;
        }
    };
    report.examined([]);
    for run in &list.run {
        let about = repository.tree.files.iter().filter(|file| is_about(&run.what, &file.path));
        let now = stamp::of_files(
            about.map(|file| (&*file.path, file.text.as_deref().unwrap_or_default().as_bytes())),
        );
        if now != run.of {
            // It takes hours, and what a change breaks shorter runs of the same tell first.
            let begins = format!("what = \"{}\"", run.what);
            let line = file.lines().find(|(_, line)| *line == begins).map_or(1, |(number, _)| number);
            let what = format!("what {} is about has changed since it was run", run.what);
            let fix = format!("run `{} --keep` before a release", run.command);
            report.warnings.push(Finding::new(LIST, line, what, fix));
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::Tree;

    #[test]
    fn a_run_of_other_code_is_warned_of_and_fails_nothing() {
        const PART: &str = "chaos/explorer/src/lib.rs";
        let found = |of: &str, code: &str| {
            let list = format!(
                "[[run]]\nwhat = \"sim\"\ncommand = \"c\"\ndate = \"d\"\ncommit = \"c\"\nof = \"{of}\"\nsaid = []\n"
            );
            let tree = Tree::of(&[(LIST, &list), (PART, code), ("README.md", code)]);
            let report = check(&Repository { tree, ..Repository::default() });
            let warned: Vec<_> = report.warnings.iter().map(ToString::to_string).collect();
            (report.findings.len(), warned)
        };
        let of = stamp::of_files([(PART, &b"fn a() {}"[..])]);
        assert_eq!(found(&of, "fn a() {}"), (0, vec![]));
        let (findings, warned) = found(&of, "fn b() {}");
        assert_eq!((findings, warned.len()), (0, 1));
        assert!(
            warned[0].starts_with(&format!("{LIST}:2: what sim is about"))
                && warned[0].contains("`c --keep`")
        );
    }

    #[test]
    fn what_is_no_list_is_found() {
        let tree = Tree::of(&[(LIST, "run = 1")]);
        assert_eq!(check(&Repository { tree, ..Repository::default() }).findings.len(), 1);
    }
}
