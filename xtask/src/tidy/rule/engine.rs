//! Rule: the durable engine takes time and spawning from its caller, and its pure machine knows no store.

use super::forbidden::{Forbidden, scan};
use crate::tidy::Repository;
use crate::tidy::exception::Exceptions;
use crate::tidy::finding::{Finding, Report};

const ENGINE: &str = "crates/longhaul-tasks/src/";

const TAKEN_FROM_THE_CALLER: &[Forbidden] = &[
    Forbidden::path(&["Instant", "now"], "reads the clock"),
    Forbidden::path(&["SystemTime", "now"], "reads the clock"),
    Forbidden::root(&["tokio", "time"], "reads the clock"),
    Forbidden::path(&["thread", "sleep"], "waits on the clock"),
    Forbidden::root(&["tokio", "spawn"], "spawns"),
    Forbidden::path(&["task", "spawn_blocking"], "spawns"),
    Forbidden::path(&["task", "spawn"], "spawns"),
    Forbidden::path(&["thread", "spawn"], "spawns"),
    Forbidden::root(&["tokio", "*"], "hides what it uses of the runtime"),
];

const OF_THE_STORE: &[Forbidden] = &[
    // The facts of a task are the machine's vocabulary; whatever keeps them is not.
    Forbidden::root(&["longhaul_store", "TaskStore"], "is the store's"),
    Forbidden::root(&["longhaul_store", "Memory"], "is the store's"),
    Forbidden::root(&["longhaul_store", "Sqlite"], "is the store's"),
    Forbidden::root(&["longhaul_store", "*"], "hides what it uses of the store"),
    Forbidden::root(&["tokio"], "is the runtime's"),
];

/// Examines the engine's sources.
pub(super) fn check(repository: &Repository, exceptions: &Exceptions) -> Report {
    let mut report = Report::default();
    for file in repository.tree.rust().filter(|file| file.path.starts_with(ENGINE) && !file.is_test) {
        let Some(source) = file.tokens() else { continue };
        let listed = exceptions.engine_clock.as_deref() == Some(&file.path);
        let clock = if listed { Vec::new() } else { scan(source, TAKEN_FROM_THE_CALLER) };
        let in_machine = file.path.starts_with("crates/longhaul-tasks/src/machine");
        let store = if in_machine { scan(source, OF_THE_STORE) } else { Vec::new() };
        let clock =
            clock.into_iter().map(|hit| (hit, "take it from the caller, so that a simulator can step it"));
        let store =
            store.into_iter().map(|hit| (hit, "keep the machine pure: state and event in, effects out"));
        report.examined(
            clock.chain(store).map(|((line, what), fix)| Finding::new(&file.path, line, what, fix)),
        );
    }
    if let Some(path) = exceptions.engine_clock.as_deref().filter(|path| !repository.tree.holds(path)) {
        report.examined([Exceptions::stale(path, "no longer exists")]);
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::Tree;

    fn found(path: &str, text: &str, listed: Option<&str>) -> Vec<String> {
        let tree = Tree::of(&[(path, text)]);
        let exceptions = Exceptions { engine_clock: listed.map(str::to_owned), ..Exceptions::default() };
        let report = check(&Repository { tree, ..Repository::default() }, &exceptions);
        report.findings.iter().map(ToString::to_string).collect()
    }

    const RUNNER: &str = "crates/longhaul-tasks/src/runner/lease.rs";

    #[test]
    fn clocks_and_spawns_in_the_engine_are_found() {
        for text in [
            "fn f() { Instant::now(); }",
            "use tokio::time::sleep;",
            "use tokio::{sync, time};",
            "fn f() { tokio::spawn(g()); }",
            "fn f() { tokio::task::spawn_blocking(g); }",
            "fn f() { std::thread::spawn(g); }",
            "use tokio::*;",
        ] {
            assert!(!found(RUNNER, text, None).is_empty(), "{text}");
        }
    }

    #[test]
    fn the_listed_file_and_tests_may_use_them() {
        let text = "fn f() { tokio::spawn(g()); }";
        assert_eq!(found(RUNNER, text, Some(RUNNER)), [""; 0]);
        assert_eq!(found("crates/longhaul-tasks/tests/runner.rs", text, None), [""; 0]);
        assert_eq!(found(RUNNER, "use tokio::sync::watch; fn f(now: Instant) {}", None), [""; 0]);
    }

    #[test]
    fn a_listed_file_that_is_gone_is_found() {
        let found = found(RUNNER, "", Some("crates/longhaul-tasks/src/gone.rs"));
        assert!(found[0].contains("no longer exists"), "{found:?}");
    }

    #[test]
    fn the_machine_knows_no_store() {
        let path = "crates/longhaul-tasks/src/machine/transition.rs";
        assert!(!found(path, "use longhaul_store::TaskStore;", None).is_empty());
        assert_eq!(found(RUNNER, "use longhaul_store::TaskStore;", None), [""; 0]);
    }
}
