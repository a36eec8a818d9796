//! Rule: no path of the machine that a file was written on.

use crate::tidy::Repository;
use crate::tidy::finding::{Finding, Report};

/// Folders that exist on one machine only. Written in halves, or this file would be a finding.
const FOLDERS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// Examines every text file.
pub(super) fn check(repository: &Repository) -> Report {
    let mut report = Report::default();
    for file in repository.tree.files.iter().filter(|file| file.text.is_some()) {
        let mut found = Vec::new();
        for (number, line) in file.lines() {
            found.extend(FOLDERS.iter().filter(|folder| names(line, folder)).map(|folder| {
                let what = format!("a path under {folder} is one machine's");
                Finding::new(
                    &file.path,
                    number,
                    what,
                    "write it from the repository's root, or take it from the environment",
                )
            }));
        }
        report.examined(found);
    }
    report
}

/// Whether the line names an absolute path in the folder: what stands before is no part of a longer path, and a
/// name follows.
fn names(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + folder.len()..].chars().next();
        !before.is_some_and(|c| {
            c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '~' | '}' | ')' | '>' | '*')
        }) && after.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '_'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::Tree;

    fn found(line: &str) -> usize {
        let tree = Tree::of(&[("README.md", line)]);
        check(&Repository { tree, ..Repository::default() }).findings.len()
    }

    #[test]
    fn a_path_of_the_building_machine_is_found() {
        for folder in FOLDERS {
            for line in [format!("see {folder}x/y"), format!("\"{folder}.z\""), format!("file://{folder}a")] {
                assert_eq!(found(&line), 1, "{line}");
            }
        }
    }

    #[test]
    fn the_same_words_within_a_path_are_fine() {
        for folder in FOLDERS {
            for line in [format!("src{folder}x"), format!("${{HOME}}{folder}x"), format!("{folder} alone")] {
                assert_eq!(found(&line), 0, "{line}");
            }
        }
    }
}
