//! Rule: every row of the table of promises names what shows it, and leads to its file: a test that runs, or what `cargo xtask
//! test crash` plays.

use crate::chaos;
use crate::tidy::Repository;
use crate::tidy::finding::{Finding, Report};
use crate::tidy::function::Function;
use crate::tidy::tree::{File, Tree};

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
        report.examined(wrong(line, page, &repository.tree).into_iter().map(finding));
    }
    report
}

/// What is wrong with a row, and what to do.
fn wrong(row: &str, page: &File, tree: &Tree) -> Vec<(String, &'static str)> {
    let shown_by = row.trim_end().trim_end_matches('|').rsplit('|').next().unwrap_or_default();
    let names: Vec<&str> = shown_by.split('`').skip(1).step_by(2).collect();
    if names.is_empty() {
        return vec![(
            "nothing is named that shows it".to_owned(),
            "name a test that fails where it is broken",
        )];
    }
    names.into_iter().filter_map(|name| refused(name, tree).or_else(|| lost(name, row, page, tree))).collect()
}

/// Whether a name does not lead to the file that has what it names.
fn lost(name: &str, row: &str, page: &File, tree: &Tree) -> Option<(String, &'static str)> {
    let inline = row.split_once(&format!("[`{name}`](")).and_then(|(_, rest)| rest.split_once(')'));
    let below = format!("[`{name}`]: ");
    let target = match inline {
        Some((target, _)) => Some(target),
        None => page
            .lines()
            .find_map(|(_, line)| line.strip_prefix(&below))
            .filter(|_| row.contains(&below[..below.len() - 2])),
    };
    let Some(target) = target else {
        return Some((format!("{name} leads nowhere"), "link it to its file, from the folder of this page"));
    };
    let file = from(PAGE, target).and_then(|path| tree.file(&path));
    let holds =
        |file: &File| name.starts_with(PLAYED) || Function::find(tree, file, name).is_some_and(|f| f.is_test);
    (!file.is_some_and(holds))
        .then(|| (format!("{name} is not in {target}"), "link it to the file that has it"))
}

/// The path that is `target` from the folder of `page`.
fn from(page: &str, target: &str) -> Option<String> {
    let mut path: Vec<&str> = page.split('/').collect();
    path.pop();
    for part in target.split('/') {
        match part {
            ".." => {
                path.pop()?;
            }
            part => path.push(part),
        }
    }
    Some(path.join("/"))
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
        let page = format!(
            "Words.\n\n| when | what | shown by |\n|---|---|---|\n| a | b | {shown_by} |\n\n\
             [`it_holds`]: ../../../a/tests/t.rs\n[`kept`]: ../../../longhaul-store/src/conformance/a.rs\n\
             [`elsewhere`]: ../gone.rs\n[`crash power`]: ../../../../chaos/src/power.rs\n"
        );
        let tree = Tree::of(&[
            (PAGE, &page),
            ("crates/a/tests/t.rs", TESTS),
            ("crates/a/tests/u.rs", "#[test]\nfn elsewhere() {}\n"),
            ("chaos/src/power.rs", ""),
            ("crates/longhaul-store/src/conformance/a.rs", "pub(super) async fn kept() {}\nfn unlisted() {}"),
            ("crates/longhaul-store/src/conformance/mod.rs", "checks! { a::{kept} }"),
        ]);
        let findings = check(&Repository { tree, ..Repository::default() }).findings;
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_row_names_tests_that_run() {
        assert_eq!(found("[`it_holds`], [`kept`]"), [""; 0]);
        assert_eq!(
            found("[`it_holds`](../../../a/tests/t.rs), [`elsewhere`](../../../a/tests/u.rs)"),
            [""; 0]
        );
        for (shown_by, what) in [
            ("`it_holds`", "it_holds leads nowhere"),
            ("[`elsewhere`]", "elsewhere is not in ../gone.rs"),
            ("[`it_holds`](../../../a/tests/u.rs)", "it_holds is not in ../../../a/tests/u.rs"),
            ("[`it_holds`], `gone`", "there is no gone"),
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
        let kills = "[`crash kills --supervisors`](../../../../chaos/src/power.rs)";
        assert_eq!(found(&format!("[`crash power`], {kills}")), [""; 0]);
        for shown_by in ["`crash naps`", "`crash power --supervisors`"] {
            assert!(found(shown_by)[0].contains("does not play"), "{shown_by}");
        }
    }
}
