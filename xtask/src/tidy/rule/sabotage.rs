//! Rule: every patch of the sabotage says what it takes away and what fails then, which cargo can run, and still applies.

use crate::sabotage::{FOLDER, Patch};
use crate::tidy::Repository;
use crate::tidy::finding::{Finding, Report};

/// Examines every patch.
pub(super) fn check(repository: &Repository) -> Report {
    let mut report = Report::default();
    let tree = &repository.tree;
    let patches = tree.files.iter().filter(|file| file.path.starts_with(FOLDER));
    for file in patches.filter(|file| file.path.ends_with(".patch")) {
        let wrong = match Patch::parse(file.text.as_deref().unwrap_or_default()) {
            Err(error) => Some((format!("{error:#}"), "see the others")),
            Ok(patch) => match patch.outdated(|path| tree.file(path)?.text.as_deref()) {
                Some(path) => {
                    let fix = "make it anew from the code as it is, and run `cargo xtask sabotage` with its name; or \
                               remove it if its guard is no more";
                    Some((format!("{path} is not what it changes any more"), fix))
                }
                None => repository
                    .workspace
                    .refuses(patch.red)
                    .map(|why| (why, "write its `# Red: ` so that it runs")),
            },
        };
        report.examined(wrong.map(|(what, fix)| Finding::new(&file.path, 1, what, fix)));
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::Tree;
    use crate::workspace::Workspace;

    #[test]
    fn a_patch_that_does_not_apply_is_found() {
        let patch = "# Why: a\n# Red: cargo test -p a\n--- a/a.rs\n+++ b/a.rs\n@@ -1 +0,0 @@\n-fn a() {}\n";
        assert_eq!(found("fn a() {}", patch), "");
        assert!(found("fn b() {}", patch).contains("a.rs is not what it changes any more"));
        assert!(found("fn a() {}", "").contains("no line `# Why: `"));
    }

    #[test]
    fn a_patch_whose_test_cargo_would_not_run_is_found() {
        let of = |red: &str| {
            found(
                "fn a() {}",
                &format!("# Why: a\n# Red: {red}\n--- a/a.rs\n+++ b/a.rs\n@@ -1 +0,0 @@\n-fn a() {{}}\n"),
            )
        };
        for runs in [
            "cargo test -p a --lib x::",
            "cargo test -p a --test plain",
            "cargo test -p a --features w --test web y",
        ] {
            assert_eq!(of(runs), "", "{runs}");
        }
        assert!(of("cargo test -p a --test web").contains("test web of a needs the feature net"));
        assert!(of("cargo test -p a --test gone").contains("a has no test gone"));
        assert!(of("cargo test -p b").contains("there is no package b"));
    }

    fn found(code: &str, patch: &str) -> String {
        let tree = Tree::of(&[("a.rs", code), ("chaos/sabotage/a.patch", patch)]);
        let workspace = r#"{"packages":[{"name":"a","dependencies":[],"manifest_path":"/a/Cargo.toml","id":"a",
            "features":{"default":[],"w":["net"],"net":[]},"targets":[{"name":"plain","kind":["test"]},
            {"name":"web","kind":["test"],"required-features":["net"]}]}],
            "workspace_root":"/","target_directory":"/t","workspace_members":["a"]}"#;
        let workspace = Workspace::parse(workspace).unwrap();
        let findings = check(&Repository { tree, workspace, rustc: None }).findings;
        findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }
}
