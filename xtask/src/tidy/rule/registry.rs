//! Rule: packages come from the public registries, and lock files name no other host.

use crate::tidy::Repository;
use crate::tidy::finding::{Finding, Report};
use crate::tidy::tree::File;

/// Kinds of file that can name a registry, and what each may name.
const KINDS: &[(&str, &[&str])] = &[
    ("Cargo.lock", &["https://github.com/rust-lang/crates.io-index"]),
    (".cargo/config.toml", &[]),
    ("package-lock.json", &["https://registry.npmjs.org/"]),
    ("package.json", &["https://registry.npmjs.org/"]),
    (".npmrc", &["https://registry.npmjs.org/"]),
    ("requirements.txt", &["https://pypi.org/", "https://files.pythonhosted.org/"]),
    ("requirements.in", &[]),
    ("pip.conf", &[]),
];

/// Lines of a lock file that say where something is about, not where it is fetched from.
const ABOUT: &[&str] =
    &["\"url\":", "\"homepage\":", "\"funding\":", "\"bugs\":", "\"repository\":", "\"license\":"];

/// Examines every lock file and every configuration of a package manager.
pub(super) fn check(repository: &Repository) -> Report {
    let mut report = Report::default();
    for file in &repository.tree.files {
        let kind =
            KINDS.iter().find(|(name, _)| file.path == *name || file.path.ends_with(&format!("/{name}")));
        if let Some((_, allowed)) = kind {
            report.examined(found(file, allowed));
        }
    }
    report
}

fn found(file: &File, allowed: &[&str]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (number, line) in file.lines() {
        let is_note =
            line.trim_start().starts_with('#') || ABOUT.iter().any(|key| line.trim_start().starts_with(key));
        for (at, _) in line.match_indices("://").filter(|_| !is_note) {
            let start = line[..at].rfind(|c: char| !c.is_ascii_alphanumeric()).map_or(0, |before| before + 1);
            let address = &line[start..];
            if !allowed.iter().any(|public| address.starts_with(public)) {
                let address = address.split(['"', '\'', ' ', '#', '?']).next().unwrap_or(address);
                found.push(Finding::new(
                    &file.path,
                    number,
                    format!("{address} is not the public registry"),
                    "lock against the public registry (npm: omit-lockfile-registry-resolved=true)",
                ));
            }
        }
        if ["--find-links", "--index-url", "--extra-index-url", "replace-with"]
            .iter()
            .any(|o| line.contains(o))
        {
            let what = "the place that packages come from is overridden";
            found.push(Finding::new(&file.path, number, what, "remove the line"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::Tree;

    fn found_in(path: &str, text: &str) -> Vec<String> {
        let repository = Repository { tree: Tree::of(&[(path, text)]), ..Repository::default() };
        check(&repository).findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_private_registry_in_a_lock_file_is_found() {
        for (path, line) in [
            ("Cargo.lock", "source = \"sparse+https://crates.example.test/index/\""),
            ("x/package-lock.json", "  \"resolved\": \"http://npm.example.test/a/-/a-1.0.0.tgz\","),
            ("x/package-lock.json", "  \"resolved\": \"https://registry.npmjs.org.example.test/a.tgz\","),
            ("x/.npmrc", "registry=http://localhost:4873/"),
            ("x/requirements.txt", "--index-url https://pypi.example.test/simple"),
            ("x/requirements.txt", "--find-links wheels"),
            ("x/requirements.txt", "mcp @ https://example.test/mcp.whl"),
            (".cargo/config.toml", "replace-with = \"mirror\""),
        ] {
            assert!(!found_in(path, line).is_empty(), "{path}: {line}");
        }
    }

    #[test]
    fn the_public_registries_are_fine() {
        for (path, line) in [
            ("Cargo.lock", "source = \"registry+https://github.com/rust-lang/crates.io-index\""),
            ("x/package-lock.json", "  \"resolved\": \"https://registry.npmjs.org/a/-/a-1.0.0.tgz\","),
            ("x/package-lock.json", "        \"url\": \"https://opencollective.com/express\""),
            ("x/requirements.txt", "anyio==4.16.0 --hash=sha256:00"),
            ("docs/page.md", "http://npm.example.test/"),
        ] {
            assert_eq!(found_in(path, line), [""; 0], "{path}");
        }
    }
}
