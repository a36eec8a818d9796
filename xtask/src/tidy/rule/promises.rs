//! Rule: every row of the table of promises names what shows it: a test that runs, or what `cargo xtask test crash` plays.

use crate::chaos;
use crate::tidy::Repository;
use crate::tidy::finding::{Finding, Report};
use crate::tidy::function::Function;
use crate::tidy::tree::Tree;

const PAGE: &str = "crates/longhaul/src/manual/promises.md";

/// What a name begins with that is none of a test.
const PLAYED: &str = "crash ";

/// Examines every row of the page.
pub(super) fn check(repository: &Repository) -> Report {
    let mut report = Report::default();
    let Some(page) = repository.tree.file(PAGE) else { return report };
    let is_row = |line: &str| line.starts_with("| ");
    // The first row is the head of the table.
    for (number, line) in page.lines().filter(|(_, line)| is_row(line)).skip(1) {
        let finding = |(what, fix): (String, &str)| Finding::new(PAGE, number, what, fix);
        report.examined(wrong(line, &repository.tree).into_iter().map(finding));
    }
    report
}

/// What is wrong with a row, and what to do.
fn wrong(row: &str, tree: &Tree) -> Vec<(String, &'static str)> {
    let shown_by = row.trim_end().trim_end_matches('|').rsplit('|').next().unwrap_or_default();
    let names: Vec<&str> = shown_by.split('`').skip(1).step_by(2).collect();
    if names.is_empty() {
        return vec![(
            "nothing is named that shows it".to_owned(),
            "name a test that fails where it is broken",
        )];
    }
    names.into_iter().filter_map(|name| refused(name, tree)).collect()
}

fn refused(name: &str, tree: &Tree) -> Option<(String, &'static str)> {
    if let Some(played) = name.strip_prefix(PLAYED) {
        return (!chaos::plays(played)).then(|| {
            (
                format!("`cargo xtask test crash` does not play {played}"),
                "name one of `PLAYED` in xtask/src/chaos.rs",
            )
        });
    }
    // Most files need not be looked through.
    let files = tree.rust().filter(|file| file.text.as_deref().is_some_and(|text| text.contains(name)));
    let found: Vec<Function> = files.filter_map(|file| Function::find(tree, file, name)).collect();
    if found.is_empty() {
        return Some((format!("there is no {name}"), "correct its name"));
    }
    let runs = found.iter().any(|function| function.is_test && !function.is_ignored);
    (!runs).then(|| (format!("{name} is no test that runs"), "name one that does"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTS: &str =
        "#[test]\nfn it_holds() {}\n#[test]\n#[ignore = \"x\"]\nfn left_out() {}\nfn helper() {}\n";

    fn found(shown_by: &str) -> Vec<String> {
        let page = format!("Words.\n\n| when | what | shown by |\n|---|---|---|\n| a | b | {shown_by} |\n");
        let tree = Tree::of(&[
            (PAGE, &page),
            ("crates/a/tests/t.rs", TESTS),
            ("crates/longhaul-store/src/conformance/a.rs", "pub(super) async fn kept() {}\nfn unlisted() {}"),
            ("crates/longhaul-store/src/conformance/mod.rs", "checks! { a::{kept} }"),
        ]);
        let findings = check(&Repository { tree, ..Repository::default() }).findings;
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_row_names_tests_that_run() {
        assert_eq!(found("`it_holds`, `kept`"), [""; 0]);
        for (shown_by, what) in [
            ("`it_holds`, `gone`", "there is no gone"),
            ("`left_out`", "left_out is no test that runs"),
            ("`helper`", "helper is no test that runs"),
            ("`unlisted`", "unlisted is no test that runs"),
            ("the same", "nothing is named that shows it"),
        ] {
            let found = found(shown_by);
            assert_eq!(found.len(), 1, "{shown_by}: {found:?}");
            assert!(found[0].starts_with(&format!("{PAGE}:5: {what}, ")), "{found:?}");
        }
    }

    #[test]
    fn a_row_may_name_what_the_stage_plays() {
        assert_eq!(found("`crash power`, `crash kills --supervisors`"), [""; 0]);
        for shown_by in ["`crash naps`", "`crash power --supervisors`"] {
            assert!(found(shown_by)[0].contains("does not play"), "{shown_by}");
        }
    }
}
