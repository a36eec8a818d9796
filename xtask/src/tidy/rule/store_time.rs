//! Rule: how old a job or a command's task is goes by the time of its store, whatever the clock of a node says.
//!
//! Nodes disagree about the date, and a clock that only counts begins anew with each process. So where the gateway follows what
//! runs elsewhere, or keeps tasks tidy, clocks are for waiting and for the log alone, in the files that are named here.

use super::forbidden::{Forbidden, scan};
use crate::tidy::Repository;
use crate::tidy::finding::{Finding, Report};

/// Where the store's time is what counts.
const WHERE: &[&str] = &["crates/longhaul-gateway/src/http_job/", "crates/longhaul-gateway/src/tool/"];

const CLOCKS: &[Forbidden] = &[
    Forbidden::path(&["SystemTime", "now"], "reads the clock of this node"),
    Forbidden::path(&["Timestamp", "now"], "reads the clock of this node"),
    Forbidden::path(&["Zoned", "now"], "reads the clock of this node"),
    Forbidden::path(&["UNIX_EPOCH"], "counts by the clock of this node"),
    Forbidden::path(&["Instant", "now"], "counts from when this process came by"),
    Forbidden::method("elapsed", "counts by the clock of this node"),
];

/// A clock that a file may read, by what is found of it, and what it reads it for.
type Exception = (&'static str, &'static [&'static str], &'static str);

const EXCEPTIONS: &[Exception] = &[
    (
        "crates/longhaul-gateway/src/http_job/client.rs",
        &["Instant::now", ".elapsed()", "Timestamp::now"],
        "how long an answer took, for the log; a `Retry-After` that is a date",
    ),
    ("crates/longhaul-gateway/src/http_job/start.rs", &["Instant::now"], "how long this process has tried"),
    ("crates/longhaul-gateway/src/http_job/follow.rs", &["Instant::now"], "a wait of this process"),
    ("crates/longhaul-gateway/src/http_job/job.rs", &["Instant::now"], "what is left of that wait"),
    (
        "crates/longhaul-gateway/src/http_job/end.rs",
        &["Instant::now", ".elapsed()"],
        "how long this process has tried",
    ),
    ("crates/longhaul-gateway/src/tool/janitor.rs", &[".elapsed()"], "files have the times of their host"),
    (
        "crates/longhaul-gateway/src/tool/copies/writer.rs",
        &["Instant::now", ".elapsed()"],
        "when this process is to write again",
    ),
];

/// Examines what follows jobs and makes tools of commands.
pub(super) fn check(repository: &Repository) -> Report {
    check_but(repository, EXCEPTIONS)
}

fn check_but(repository: &Repository, exceptions: &[Exception]) -> Report {
    let fix = "take the store's time (`TaskStore::now`); or, if it is no time of a task, name it in the rule";
    let mut report = Report::default();
    let (mut needed, mut is_anything_there) = (Vec::new(), false);
    for file in repository.tree.rust() {
        let is_there = WHERE.iter().any(|folder| file.path.starts_with(folder));
        let Some(source) = file.tokens().filter(|_| is_there && !file.is_test) else { continue };
        is_anything_there = true;
        let mut found = Vec::new();
        for (line, what) in scan(source, CLOCKS) {
            let allowed = exceptions
                .iter()
                .filter(|(path, ..)| *path == file.path)
                .flat_map(|(path, clocks, _)| clocks.iter().map(move |clock| (*path, *clock)))
                .find(|(_, clock)| what.contains(clock));
            match allowed {
                Some(allowed) => needed.push(allowed),
                None => found.push(Finding::new(&file.path, line, what, fix)),
            }
        }
        report.examined(found);
    }
    // Of a tree without a gateway nothing is asked.
    for (path, clocks, _) in exceptions.iter().filter(|_| is_anything_there) {
        let stale = clocks.iter().filter(|clock| !needed.contains(&(*path, **clock)));
        report.examined(stale.map(|clock| {
            Finding::new(*path, 1, format!("it no longer uses {clock}"), "take that out of the rule")
        }));
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::Tree;

    const FILE: &str = "crates/longhaul-gateway/src/http_job/ledger.rs";

    fn found(path: &str, text: &str, exceptions: &[Exception]) -> Vec<String> {
        let repository = Repository { tree: Tree::of(&[(path, text)]), ..Repository::default() };
        check_but(&repository, exceptions).findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_clock_of_the_node_is_found_where_the_stores_time_counts() {
        for text in [
            "fn f() { std::time::SystemTime::now(); }",
            "use std::time::Instant; fn f() { Instant::now(); }",
            "fn f() { jiff::Timestamp::now(); }",
            "use std::time::UNIX_EPOCH;",
            "fn f(file: File) { file.modified()?.elapsed()?; }",
        ] {
            assert_eq!(found(FILE, text, &[]).len(), 1, "{text}");
            let tool = "crates/longhaul-gateway/src/tool/job.rs";
            assert_eq!(found(tool, text, &[]).len(), 1, "{text}");
            assert_eq!(found("crates/longhaul-gateway/src/admin/keys.rs", text, &[]), [""; 0], "{text}");
        }
        let tested = "fn f(now: Instant) { self.ledger.now(); }\n#[cfg(test)] mod tests { fn f() { SystemTime::now(); } }";
        assert_eq!(found(FILE, tested, &[]), [""; 0]);
    }

    #[test]
    fn a_file_that_is_named_may_read_the_clock_that_is_named() {
        let waits: &[Exception] = &[(FILE, &["Instant::now"], "a wait")];
        assert_eq!(found(FILE, "fn f() { Instant::now(); }", waits), [""; 0]);
        let dated = found(FILE, "fn f() { Instant::now(); SystemTime::now(); }", waits);
        assert!(dated.len() == 1 && dated[0].contains("SystemTime::now"), "{dated:?}");
        let stale = found(FILE, "fn f() {}", waits);
        assert!(stale.len() == 1 && stale[0].contains("no longer uses Instant::now"), "{stale:?}");
    }
}
