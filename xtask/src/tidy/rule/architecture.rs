//! Rule: `ARCHITECTURE.md` names every crate and top-level folder, and names nothing that is not there.

use std::collections::BTreeSet;

use crate::tidy::Repository;
use crate::tidy::finding::{Finding, Report};
use crate::tidy::tree::Tree;

const PATH: &str = "ARCHITECTURE.md";
const SECTION: &str = "## Code map";

/// A path as the document names it.
#[derive(Debug, PartialEq, Eq)]
struct Named<'a> {
    line: usize,
    path: &'a str,
    /// The path that begins the bullet it stands in, against which it may be written.
    bullet: Option<&'a str>,
}

/// Examines every path the code map names, and every crate and folder it should.
pub(super) fn check(repository: &Repository) -> Report {
    let mut report = Report::default();
    let tree = &repository.tree;
    let Some(text) = tree.file(PATH).and_then(|file| file.text.as_deref()) else {
        report.examined([Finding::new(
            PATH,
            1,
            "there is no such file",
            format!("write it with a section {SECTION:?}"),
        )]);
        return report;
    };
    if !text.lines().any(|line| line.trim_end() == SECTION) {
        report.examined([Finding::new(PATH, 1, format!("there is no section {SECTION:?}"), "write it")]);
        return report;
    }
    let named = named_paths(text, &tree.top_folders());
    for name in &named {
        report.examined((!exists(tree, name)).then(|| {
            let what = format!("`{}` does not exist", name.path);
            Finding::new(PATH, name.line, what, "correct or remove it")
        }));
    }
    let bullets: BTreeSet<&str> =
        named.iter().filter(|n| n.bullet == Some(n.path)).map(|n| n.path.trim_end_matches('/')).collect();
    let line = text.lines().position(|line| line.trim_end() == SECTION).map_or(1, |at| at + 1);
    for folder in wanted(repository) {
        let is_named = bullets.contains(folder.as_str());
        let covers_crates = folder == "crates" && bullets.iter().any(|bullet| bullet.starts_with("crates/"));
        report.examined((!is_named && !covers_crates).then(|| {
            Finding::new(PATH, line, format!("`{folder}/` is not named"), "add a bullet that begins with it")
        }));
    }
    report
}

/// The folders that must have a bullet: those at the root, and those of packages. An example is covered by its folder.
fn wanted(repository: &Repository) -> BTreeSet<String> {
    let packages = repository.workspace.our_packages().map(|package| repository.workspace.folder(package));
    let packages = packages.filter(|folder| !folder.is_empty() && !folder.starts_with("examples/"));
    packages.chain(repository.tree.top_folders()).map(str::to_owned).collect()
}

/// Reads the bullets' first paths, and every other word in backticks that is meant as a path of this tree.
fn named_paths<'a>(text: &'a str, top: &BTreeSet<&str>) -> Vec<Named<'a>> {
    let mut found = Vec::new();
    let mut in_section = false;
    let mut in_fence = false;
    let mut bullet = None;
    for (at, line) in text.lines().enumerate() {
        in_fence ^= line.trim_start().starts_with("```");
        if in_fence {
            continue;
        }
        if line.starts_with('#') {
            in_section = if line.starts_with("## ") { line.trim_end() == SECTION } else { in_section };
            bullet = None;
        }
        let start = line.trim_start();
        let begins = in_section && (start.starts_with("- `") || start.starts_with("* `"));
        for (nth, path) in line.split('`').skip(1).step_by(2).enumerate() {
            let leads = begins && nth == 0;
            if leads && !line.starts_with(' ') {
                bullet = Some(path);
            }
            let first = path.split('/').next().unwrap_or_default();
            let is_path = path.contains('/') && top.contains(first);
            let is_local = bullet.is_some() && in_section && (path.ends_with('/') || path.ends_with(".rs"));
            if leads || (is_plain(path) && (is_path || is_local)) {
                found.push(Named { line: at + 1, path, bullet: bullet.filter(|_| in_section) });
            }
        }
    }
    found
}

/// Whether the word can be a path and is no pattern, code or address.
fn is_plain(word: &str) -> bool {
    word.len() > 1
        && !word.starts_with('/')
        && word.chars().all(|c| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-'))
}

/// Whether the path stands at the root, or in the folder of its bullet, or in that folder's sources.
fn exists(tree: &Tree, named: &Named<'_>) -> bool {
    let bases = named.bullet.iter().flat_map(|bullet| {
        let bullet = bullet.trim_end_matches('/');
        [format!("{bullet}/"), format!("{bullet}/src/")]
    });
    std::iter::once(String::new()).chain(bases).any(|base| tree.holds(&format!("{base}{}", named.path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::fixture::workspace;

    fn found(map: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("ARCHITECTURE.md", map),
            ("crates/longhaul-proto/src/dialect/rules.rs", ""),
            ("crates/longhaul/src/lib.rs", ""),
            ("xtask/src/main.rs", ""),
        ]);
        let workspace =
            workspace(&[("crates/longhaul-proto", &[]), ("crates/longhaul", &[]), ("xtask", &[])]);
        check(&Repository { workspace, tree, rustc: None }).findings.iter().map(ToString::to_string).collect()
    }

    const WHOLE: &str = "# A\n## Code map\n- `crates/longhaul-proto/` is `dialect/` and `rules.rs` of it.\n\
        - `crates/longhaul/` answers `tasks/get`.\n- `xtask/` checks.\n";

    #[test]
    fn a_whole_map_passes() {
        let whole = WHOLE.replace("`rules.rs`", "`dialect/rules.rs`");
        assert_eq!(found(&whole), [""; 0]);
    }

    #[test]
    fn a_path_that_does_not_exist_is_found() {
        assert_eq!(found(WHOLE), ["ARCHITECTURE.md:3: `rules.rs` does not exist, correct or remove it"]);
        let whole = WHOLE.replace("`rules.rs`", "`dialect/rules.rs`");
        for (line, wrong) in [
            ("bullet", "- `bench/` measures.\n"),
            ("nested bullet", "  - `nothing.rs` is one.\n"),
            ("prose", "\n## Else\nSee `crates/longhaul/src/gone.rs`.\n"),
        ] {
            assert_eq!(found(&format!("{whole}{wrong}")).len(), 1, "{line}");
        }
    }

    #[test]
    fn code_patterns_and_fences_are_no_paths() {
        let whole = WHOLE.replace("`rules.rs`", "`dialect/rules.rs`");
        let more =
            "## Else\n`crates/*/src`, `a::b/`, `runs/<id>/lock`, `tasks/get`\n```text\n`crates/gone/`\n```\n";
        assert_eq!(found(&format!("{whole}{more}")), [""; 0]);
    }

    #[test]
    fn a_crate_or_folder_without_a_bullet_is_found() {
        let map = "## Code map\n- `crates/longhaul-proto/` is one; `crates/longhaul/` is only mentioned.\n";
        let found = found(map);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("`crates/longhaul/` is not named") && found[1].contains("`xtask/`"));
    }

    #[test]
    fn a_missing_document_or_section_is_found() {
        assert!(found("# A\n")[0].contains("there is no section"));
        assert!(check(&Repository::default()).findings[0].what.contains("there is no such file"));
    }
}
