//! Rule: dependencies between our crates point down, never up or sideways.

use super::manifest_line;
use crate::tidy::Repository;
use crate::tidy::finding::{Finding, Report};
use crate::workspace::{Dependency, Package};

/// Each crate and the crates it may use. Skipping levels downward is fine.
const ARROWS: &[(&str, &[&str])] = &[
    ("longhaul-cli", &["longhaul-gateway", "longhaul", "longhaul-tasks", "longhaul-store", "longhaul-proto"]),
    ("longhaul-gateway", &["longhaul", "longhaul-tasks", "longhaul-store", "longhaul-proto"]),
    ("longhaul", &["longhaul-macros", "longhaul-tasks", "longhaul-store", "longhaul-proto"]),
    ("longhaul-macros", &[]),
    // The host builds what a macro's own tests need, and the target all of it again: so they are a crate apart.
    ("longhaul-macros-mistakes", &["longhaul"]),
    ("longhaul-tasks", &["longhaul-store", "longhaul-proto"]),
    ("longhaul-store", &["longhaul-proto"]),
    ("longhaul-proto", &[]),
    (
        TEST_CRATE,
        &[
            "longhaul-cli",
            "longhaul-gateway",
            "longhaul",
            "longhaul-macros",
            "longhaul-tasks",
            "longhaul-store",
            "longhaul-proto",
        ],
    ),
    ("xtask", &[]),
];

/// The crate that tests share.
const TEST_CRATE: &str = "longhaul-test";

/// Programs that are tests, and may use it as tests do.
const TESTS: &[&str] = &["longhaul-chaos"];

/// Examines every arrow between two packages of the workspace.
pub(super) fn check(repository: &Repository) -> Report {
    let mut report = Report::default();
    let ours: Vec<&Package> = repository.workspace.our_packages().collect();
    for package in &ours {
        let folder = repository.workspace.folder(package);
        let allowed = ARROWS.iter().find(|(name, _)| *name == package.name).map(|(_, allowed)| *allowed);
        if folder.starts_with("crates/") && allowed.is_none() {
            report.examined([Finding::new(
                format!("{folder}/Cargo.toml"),
                1,
                format!("the crate {} has no place among the arrows", package.name),
                "give it one in xtask/src/tidy/rule/arrows.rs",
            )]);
            continue;
        }
        report.examined([]);
        for dependency in &package.dependencies {
            let Some(target) = ours.iter().find(|other| other.name == dependency.name) else { continue };
            let is_crate = repository.workspace.folder(target).starts_with("crates/");
            let refused = refusal(package, dependency, allowed, is_crate);
            report.examined(refused.map(|fix| {
                let path = format!("{folder}/Cargo.toml");
                let line = manifest_line(&repository.tree, &path, &dependency.name);
                let kind = dependency.kind.as_deref().map(|kind| format!(" ({kind})")).unwrap_or_default();
                let what = format!("{} must not depend on {}{kind}", package.name, dependency.name);
                Finding::new(path, line, what, fix)
            }));
        }
    }
    report
}

/// What to do instead, when the arrow is not allowed. `allowed` is `None` for a package outside `crates/`.
fn refusal(
    package: &Package,
    dependency: &Dependency,
    allowed: Option<&[&str]>,
    to_crate: bool,
) -> Option<&'static str> {
    let target = dependency.name.as_str();
    let is_test = dependency.is_dev() || TESTS.contains(&package.name.as_str());
    if is_test && target == TEST_CRATE && package.name != "xtask" {
        return None;
    }
    if target == TEST_CRATE {
        return Some("make it a dev-dependency: only tests may use it");
    }
    match allowed {
        // An example, a bench or a conformance server is a user of the crates and is itself used by nobody.
        None => (!to_crate).then_some("move what they share into a crate"),
        Some(allowed) if allowed.contains(&target) => None,
        Some(_) => Some(
            "move the code down: the arrows are cli, gateway, longhaul (and its macros), tasks, store, proto",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::fixture::{Written, workspace};

    fn found(packages: &[Written<'_>]) -> Vec<String> {
        let repository = Repository { workspace: workspace(packages), ..Repository::default() };
        check(&repository).findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_arrow_up_is_refused() {
        let found =
            found(&[("crates/longhaul-proto", &[("longhaul-store", None)]), ("crates/longhaul-store", &[])]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(
            "crates/longhaul-proto/Cargo.toml:1: longhaul-proto must not depend on longhaul-store, "
        ));
    }

    #[test]
    fn an_arrow_up_is_refused_in_tests_and_build_scripts_too() {
        for kind in ["dev", "build"] {
            let found = found(&[
                ("crates/longhaul-store", &[("longhaul-tasks", Some(kind))]),
                ("crates/longhaul-tasks", &[]),
            ]);
            assert_eq!(found.len(), 1, "{kind}: {found:?}");
        }
    }

    #[test]
    fn arrows_down_may_skip_levels() {
        let found = found(&[
            ("crates/longhaul-cli", &[("longhaul-gateway", None), ("longhaul-store", None)]),
            ("crates/longhaul-gateway", &[("longhaul", None)]),
            ("crates/longhaul", &[("longhaul-macros", None), ("longhaul-proto", None)]),
            ("crates/longhaul-macros", &[]),
            ("crates/longhaul-store", &[("longhaul-proto", None), ("serde", None)]),
            ("crates/longhaul-proto", &[("longhaul-test", Some("dev"))]),
            ("crates/longhaul-test", &[("longhaul", None)]),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn shipped_code_may_not_use_the_test_crate() {
        let found = found(&[("crates/longhaul", &[("longhaul-test", None)]), ("crates/longhaul-test", &[])]);
        assert!(found[0].contains("make it a dev-dependency"), "{found:?}");
    }

    #[test]
    fn a_program_that_is_a_test_may_use_the_test_crate_and_an_example_may_not() {
        let crates = ("crates/longhaul-test", &[][..]);
        let used = |by| found(&[(by, &[("longhaul-test", None)]), crates]);
        assert_eq!(used("longhaul-chaos"), [""; 0]);
        assert_eq!(used("examples/echo").len(), 1);
    }

    #[test]
    fn the_macros_depend_on_nothing_of_ours() {
        let found =
            found(&[("crates/longhaul-macros", &[("longhaul-proto", None)]), ("crates/longhaul-proto", &[])]);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn an_unknown_crate_must_be_given_a_place() {
        let found = found(&[("crates/longhaul-extra", &[])]);
        assert!(found[0].contains("has no place among the arrows"), "{found:?}");
    }

    #[test]
    fn a_user_of_the_crates_is_used_by_nobody() {
        let found = found(&[
            ("conformance/everything-server", &[("longhaul", None)]),
            ("crates/longhaul", &[("everything-server", None)]),
            ("examples/echo", &[("everything-server", None)]),
            ("xtask", &[("longhaul", None)]),
        ]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found.iter().any(|line| line.starts_with("xtask/")));
    }
}
