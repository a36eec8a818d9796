//! Rule: every patch of the sabotage says what it takes away and what fails then, and still applies.

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
            Ok(patch) => patch.outdated(|path| tree.file(path)?.text.as_deref()).map(|path| {
                let fix = "make it anew from the code as it is, and run `cargo xtask sabotage` with its name; or remove \
                           it if its guard is no more";
                (format!("{path} is not what it changes any more"), fix)
            }),
        };
        report.examined(wrong.map(|(what, fix)| Finding::new(&file.path, 1, what, fix)));
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::Tree;

    #[test]
    fn a_patch_that_does_not_apply_is_found() {
        let patch = "# Why: a\n# Red: cargo test -p a\n--- a/a.rs\n+++ b/a.rs\n@@ -1 +0,0 @@\n-fn a() {}\n";
        let of = |code: &str, patch: &str| {
            let tree = Tree::of(&[("a.rs", code), ("chaos/sabotage/a.patch", patch)]);
            let findings = check(&Repository { tree, ..Repository::default() }).findings;
            findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(of("fn a() {}", patch), "");
        assert!(of("fn b() {}", patch).contains("a.rs is not what it changes any more"));
        assert!(of("fn a() {}", "").contains("no line `# Why: `"));
    }
}
