//! Rule: every crate takes the lints of the workspace, and only the workspace says versions.

use super::manifest_line;
use crate::tidy::Repository;
use crate::tidy::finding::{Finding, Report};

/// Examines the manifest of every package.
pub(super) fn check(repository: &Repository) -> Report {
    let mut report = Report::default();
    for package in repository.workspace.our_packages() {
        let path = format!("{}/Cargo.toml", repository.workspace.folder(package));
        let text = repository.tree.file(&path).and_then(|file| file.text.as_deref()).unwrap_or_default();
        let manifest: toml::Table = match toml::from_str(text) {
            Ok(manifest) => manifest,
            Err(e) => {
                let what = format!("cannot be read ({})", e.message());
                report.examined([Finding::new(&path, 1, what, "mend it")]);
                continue;
            }
        };
        let inherits = manifest.get("lints").and_then(|lints| lints.get("workspace"));
        let lints = (inherits.and_then(toml::Value::as_bool) != Some(true)).then(|| {
            let what = format!("{} does not take the workspace's lints", package.name);
            Finding::new(&path, 1, what, "add [lints] workspace = true")
        });
        report.examined(lints.into_iter().chain(own_versions(repository, &path, &manifest)));
    }
    report
}

/// Dependencies that say a version or a path of their own.
fn own_versions(repository: &Repository, path: &str, manifest: &toml::Table) -> Vec<Finding> {
    let mut found = Vec::new();
    for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let Some(dependencies) = manifest.get(section).and_then(toml::Value::as_table) else { continue };
        for (name, asked) in dependencies {
            let shared = asked.get("workspace").and_then(toml::Value::as_bool) == Some(true);
            if !shared {
                let line = manifest_line(&repository.tree, path, name);
                let what = format!("{name} is asked for apart from the workspace");
                found.push(Finding::new(
                    path,
                    line,
                    what,
                    "add it to [workspace.dependencies] and write workspace = true",
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::Tree;
    use crate::workspace::fixture::workspace;

    fn found(manifest: &str) -> Vec<String> {
        let tree = Tree::of(&[("crates/longhaul/Cargo.toml", manifest)]);
        let workspace = workspace(&[("crates/longhaul", &[])]);
        check(&Repository { workspace, tree, rustc: None }).findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_crate_with_lints_of_its_own_is_found() {
        assert_eq!(found("[lints]\nworkspace = true"), [""; 0]);
        assert!(found("[package]")[0].contains("does not take the workspace's lints"));
        assert!(found("[lints.rust]\nunsafe_code = \"warn\"")[0].contains("lints"));
    }

    #[test]
    fn a_version_of_its_own_is_found() {
        let found = found("[lints]\nworkspace = true\n[dependencies]\nserde.workspace = true\nbytes = \"1\"");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/longhaul/Cargo.toml:5: bytes is asked for"));
    }

    #[test]
    fn a_manifest_that_is_not_toml_is_found() {
        assert!(found("[lints")[0].contains("cannot be read"));
    }
}
