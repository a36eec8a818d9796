//! Rule: the protocol core does no I/O, reads no clock, spawns nothing, and depends on next to nothing.

use super::forbidden::{Forbidden, scan};
use super::manifest_line;
use crate::tidy::Repository;
use crate::tidy::finding::{Finding, Report};

/// The crate this is about.
const CORE: &str = "longhaul-proto";

/// What it may ask for in its manifest.
const DEPENDENCIES: &[&str] = &["base64", "bytes", "itoa", "memchr", "serde", "serde_json", "thiserror"];

/// What nothing it builds with may bring in.
const RUNTIMES: &[&str] = &[
    "async-std",
    "axum",
    "curl",
    "h2",
    "hyper",
    "hyper-util",
    "mio",
    "polling",
    "reqwest",
    "rusqlite",
    "smol",
    "socket2",
    "tokio",
    "ureq",
];

const PURE: &[Forbidden] = &[
    Forbidden::path(&["Instant", "now"], "reads the clock"),
    Forbidden::path(&["SystemTime"], "reads the clock"),
    Forbidden::method("elapsed", "reads the clock"),
    Forbidden::root(&["std", "time", "*"], "hides a use of the clock"),
    Forbidden::root(&["std", "env"], "reads the environment"),
    Forbidden::root(&["std", "fs"], "does I/O"),
    Forbidden::root(&["std", "net"], "does I/O"),
    Forbidden::root(&["std", "os"], "does I/O"),
    Forbidden::root(&["std", "process"], "does I/O"),
    Forbidden::root(&["std", "thread"], "spawns"),
    Forbidden::root(&["std", "io", "*"], "hides a use of I/O"),
    Forbidden::path(&["io", "stdin"], "does I/O"),
    Forbidden::path(&["io", "stdout"], "does I/O"),
    Forbidden::path(&["io", "stderr"], "does I/O"),
    Forbidden::path(&["io", "BufReader"], "does I/O"),
    Forbidden::path(&["io", "BufWriter"], "does I/O"),
    Forbidden::root(&["tokio"], "uses a runtime"),
    Forbidden::root(&["async_std"], "uses a runtime"),
    Forbidden::root(&["smol"], "uses a runtime"),
    Forbidden::root(&["hyper"], "uses an HTTP library"),
    Forbidden::root(&["reqwest"], "uses an HTTP library"),
    Forbidden::root(&["axum"], "uses an HTTP library"),
];

/// Examines the core's sources, its manifest and what it builds with.
pub(super) fn check(repository: &Repository) -> Report {
    let fix = "keep it out of the core: take it as an argument, or move it up to longhaul";
    let mut report = Report::default();
    for file in
        repository.tree.rust().filter(|f| f.path.starts_with("crates/longhaul-proto/src/") && !f.is_test)
    {
        let Some(source) = file.tokens() else { continue };
        report.examined(
            scan(source, PURE).into_iter().map(|(line, what)| Finding::new(&file.path, line, what, fix)),
        );
    }
    let Some(core) = repository.workspace.our_packages().find(|package| package.name == CORE) else {
        return report;
    };
    let path = format!("{}/Cargo.toml", repository.workspace.folder(core));
    for name in core.normal_dependencies() {
        let refused = !DEPENDENCIES.contains(&name);
        report.examined(refused.then(|| {
            Finding::new(
                &path,
                manifest_line(&repository.tree, &path, name),
                format!("the core must not depend on {name}"),
                format!("do without it; the core may use {}", DEPENDENCIES.join(", ")),
            )
        }));
    }
    for (name, asker) in repository.workspace.reachable(CORE) {
        let refused = RUNTIMES.contains(&name) && asker != CORE;
        report.examined(refused.then(|| {
            Finding::new(
                &path,
                manifest_line(&repository.tree, &path, asker),
                format!("the core is built with {name}, which {asker} brings in"),
                format!("turn off the feature of {asker} that needs it"),
            )
        }));
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::Tree;
    use crate::workspace::fixture::{foreign, workspace};

    fn found_in(text: &str) -> Vec<String> {
        let tree = Tree::of(&[("crates/longhaul-proto/src/connection/mod.rs", text)]);
        check(&Repository { tree, ..Repository::default() })
            .findings
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_clock_in_the_core_is_found() {
        for text in [
            "fn f() { let now = std::time::Instant::now(); }",
            "use std::time::Instant; fn f() { Instant::now(); }",
            "use std::time::{Duration, SystemTime};",
            "use std::time::*;",
            "fn f(start: std::time::Instant) -> Duration { start.elapsed() }",
        ] {
            let found = found_in(text);
            assert!(found.iter().any(|line| line.contains("clock")), "{text}: {found:?}");
        }
    }

    #[test]
    fn io_threads_and_runtimes_in_the_core_are_found() {
        for text in [
            "use std::{fs, fmt};",
            "fn f() { std::net::TcpStream::connect(a); }",
            "use std::thread;",
            "use std::io; fn f() { io::stdout(); }",
            "use std::io::{Write, BufReader};",
            "fn f() { ::tokio::spawn(g()); }",
            "use tokio::sync::mpsc;",
            "use hyper::Request;",
        ] {
            assert!(!found_in(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn time_passed_in_and_writers_of_bytes_are_fine() {
        let text = "use std::time::{Duration, Instant}; use std::io::Write;\n\
            fn handle_timeout(now: Instant) { now + Duration::from_secs(1); self::fs::x(); }\n\
            #[cfg(test)] mod tests { fn f() { std::time::Instant::now(); } }";
        assert_eq!(found_in(text), [""; 0]);
    }

    #[test]
    fn a_dependency_beyond_the_list_is_found() {
        let workspace = workspace(&[(
            "crates/longhaul-proto",
            &[("serde", None), ("http", None), ("tokio", Some("dev"))],
        )]);
        let manifest = "[package]\nname = \"longhaul-proto\"\n[dependencies]\nhttp.workspace = true\n";
        let tree = Tree::of(&[("crates/longhaul-proto/Cargo.toml", manifest)]);
        let found = check(&Repository { workspace, tree, rustc: None }).findings;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].line, found[0].what.as_str()), (4, "the core must not depend on http"));
    }

    #[test]
    fn a_runtime_brought_in_by_a_dependency_is_found() {
        let mut workspace = workspace(&[
            ("crates/longhaul-proto", &[("bytes", None)]),
            ("bytes", &[("tokio", None)]),
            ("tokio", &[]),
        ]);
        foreign(&mut workspace, "bytes");
        foreign(&mut workspace, "tokio");
        let found = check(&Repository { workspace, tree: Tree::default(), rustc: None }).findings;
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].what.contains("built with tokio, which bytes brings in"));
    }
}
