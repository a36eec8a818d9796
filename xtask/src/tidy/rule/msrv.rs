//! Rule: the oldest Rust that is supported is one number wherever it is named, and the one that the checks run with.

use crate::tidy::Repository;
use crate::tidy::finding::{Finding, Report};
use crate::tidy::tree::File;

const MANIFEST: &str = "Cargo.toml";

/// What stands before a number that is this one, and in which files.
const NAMED: [(&str, &str); 3] =
    [("README.md", "Rust "), ("CONTRIBUTING.md", "Rust "), ("packaging/container/Containerfile", "rust:")];

/// What stands before it in a manifest.
const KEY: &str = "rust-version = \"";

/// Examines every place that names it.
pub(super) fn check(repository: &Repository) -> Report {
    let mut report = Report::default();
    let tree = &repository.tree;
    let Some((line, oldest)) = tree.file(MANIFEST).and_then(|manifest| named(manifest, KEY).next()) else {
        return report;
    };
    let manifests = tree.files.iter().filter(|file| file.path.ends_with(MANIFEST)).map(|file| (file, KEY));
    let named_in = NAMED.iter().filter_map(|(path, before)| Some((tree.file(path)?, *before)));
    for (file, before) in manifests.chain(named_in) {
        let others = named(file, before).filter(|(_, version)| *version != oldest);
        report.examined(others.map(|(line, version)| {
            let what = format!("it names Rust {version}, and {MANIFEST} {oldest}");
            Finding::new(&file.path, line, what, "name the same")
        }));
    }
    if let Some(rustc) = &repository.rustc {
        let is_it = rustc.strip_prefix(oldest).is_some_and(|rest| rest.starts_with('.'));
        report.examined((!is_it).then(|| {
            let what = format!("it promises Rust {oldest}, and the checks run with {rustc}");
            let fix = format!("run `cargo +{oldest} xtask`, or name what is then the oldest");
            Finding::new(MANIFEST, line, what, fix)
        }));
    }
    report
}

/// Each `1.N` that stands in a file behind these characters, and its line.
fn named<'f>(file: &'f File, before: &'f str) -> impl Iterator<Item = (usize, &'f str)> {
    file.lines().flat_map(move |(number, line)| {
        line.match_indices(before).filter_map(move |(at, _)| {
            let rest = &line[at + before.len()..];
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let version = rest[..end].trim_end_matches('.');
            version.starts_with("1.").then_some((number, version))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::Tree;

    fn found(rustc: &str, files: &[(&str, &str)]) -> Vec<String> {
        let manifest = "[workspace.package]\nrust-version = \"1.95\"\n";
        let files = [&[(MANIFEST, manifest)], files].concat();
        let repository =
            Repository { tree: Tree::of(&files), rustc: Some(rustc.to_owned()), ..Repository::default() };
        check(&repository).findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_oldest_rust_is_the_one_that_checks_run_with() {
        assert_eq!(found("1.95.0", &[]), [""; 0]);
        for other in ["1.94.1", "1.96.0", "1.950.0"] {
            let found = found(other, &[]);
            assert!(
                found[0].starts_with("Cargo.toml:2: it promises Rust 1.95, and the checks run with"),
                "{found:?}"
            );
        }
    }

    #[test]
    fn whoever_names_it_names_the_same() {
        let said = "Words.\nWith Rust 1.95. And Rust edition 2024.\n";
        let (image, other) = ("FROM rust:1.95-slim\n", "[package]\nrust-version = \"1.95\"\n");
        let file = "packaging/container/Containerfile";
        assert_eq!(found("1.95.0", &[("README.md", said), (file, image), ("a/Cargo.toml", other)]), [""; 0]);
        for (path, text, line) in [
            ("README.md", said, 2),
            (file, image, 1),
            ("a/Cargo.toml", other, 2),
            ("CONTRIBUTING.md", said, 2),
        ] {
            let found = found("1.95.0", &[(path, &text.replace("1.95", "1.94"))]);
            assert_eq!(found.len(), 1, "{path}");
            assert!(found[0].starts_with(&format!("{path}:{line}: it names Rust 1.94, ")), "{found:?}");
        }
    }
}
