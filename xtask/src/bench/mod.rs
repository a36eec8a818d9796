//! `cargo xtask bench`: our speed as ratios to our peers', all measured in one run, and the goals they bind us to.
//!
//! The server has one processor to itself and the load another. What is compared runs in turn, round after round, and
//! a ratio is taken within a round, so that a machine whose speed drifts changes figures and not ratios.

mod bars;
mod build;
pub(crate) mod check;
mod client;
mod creates;
mod docket;
mod figures;
pub(crate) mod flame;
mod goal;
mod http;
mod http2;
mod load;
mod machine;
mod page;
mod programs;
mod report;
mod requests;
mod row;
mod scale;
mod server;
mod sessions;
mod start;
mod stdio;
mod streams;
mod tasks;

use std::num::NonZeroUsize;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::site::Site;
use crate::tally::Tally;
use crate::tools::system;
use programs::Programs;
use report::{Report, capitalized};

/// The most time a run may take, a first build of everything included.
pub(crate) const BUDGET: Duration = Duration::from_secs(100 * 60);

/// A bench: its name, what it measures, and how.
type Bench = (&'static str, &'static str, Measures);

/// How something is measured, in so many rounds.
enum Measures {
    /// Beside the programs of others.
    Compared(fn(&Site, &Programs, usize, &mut Report) -> Result<()>),
    /// By itself.
    Alone(fn(&Site, usize, &mut Report) -> Result<()>),
    /// By itself, and only when it is named, for it takes long.
    Asked(fn(&Site, usize, &mut Report) -> Result<()>),
}

const BENCHES: &[Bench] = &[
    (
        "http",
        "CPU per tools/call over stateless HTTP, beside a bare axum handler's and our peers'",
        Measures::Compared(http::run),
    ),
    (
        "requests",
        "CPU per request of other kinds and sizes over HTTP, beside a bare axum handler's, rmcp's and tower-mcp's",
        Measures::Compared(requests::run),
    ),
    (
        "stdio",
        "pipelined tools/call over stdio, beside a bare loop's and our peers'; and the memory that takes",
        Measures::Compared(stdio::run),
    ),
    (
        "streams",
        "8,000 open streams: memory for each, of a bare hyper server's; all hear of a change",
        Measures::Compared(streams::run),
    ),
    (
        "http2",
        "50,000 open streams over 200 connections of HTTP/2: memory for each, beside a bare hyper server's; all hear of a change",
        Measures::Compared(http2::run),
    ),
    (
        "sessions",
        "50,000 sessions of 2025-11-25 in which nothing is open: memory for each, beside rmcp's",
        Measures::Compared(sessions::run),
    ),
    (
        "client",
        "calls a second and CPU per call of our client over HTTP, of rmcp's",
        Measures::Compared(client::run),
    ),
    (
        "creates",
        "durable tasks over HTTP, of what SQLite alone does with the same rows",
        Measures::Compared(creates::run),
    ),
    (
        "tasks",
        "tasks/get beside a plain call, and steps beside rows of SQLite alone",
        Measures::Compared(tasks::run),
    ),
    (
        "page",
        "how long the list of tasks takes on the program's page, among 100,000, and whether a page that follows much stays quick",
        Measures::Alone(page::run),
    ),
    (
        "start",
        "how soon the program answers, how large it is, and its memory while nobody calls",
        Measures::Alone(start::run),
    ),
    (
        "build",
        "how long the smallest server takes to build, of how many crates, beside rmcp's",
        Measures::Alone(build::run),
    ),
    (
        "scale",
        "what stores take that hold a thousand tasks and up to a million; only when it is named",
        Measures::Asked(scale::run),
    ),
    (
        "docket",
        "tasks in Redis, beside FastMCP's with Docket in the same one; only when it is named",
        Measures::Asked(docket::run),
    ),
];

/// Runs the benches named, or all, so many rounds each; each goal is a part that passes or fails. What they find can be
/// kept as a page.
///
/// # Errors
///
/// When a name is no bench, something cannot be built, or a server answers wrongly.
pub(crate) fn run(site: &Site, names: &[String], rounds: NonZeroUsize, keep: bool) -> Result<Tally> {
    if let Some(unknown) = names.iter().find(|name| BENCHES.iter().all(|(bench, _, _)| bench != name)) {
        let known: Vec<&str> = BENCHES.iter().map(|(name, _, _)| *name).collect();
        bail!("there is no bench {unknown:?}; name any of {}", known.join(", "));
    }
    if std::thread::available_parallelism()?.get() < 2 {
        bail!("a bench needs two processors: one for the server, one for the load");
    }
    system::require(site, &system::TASKSET)?;
    let is_chosen = |(bench, _, how): &&Bench| match names {
        [] => !matches!(how, Measures::Asked(_)),
        names => names.iter().any(|name| name == bench),
    };
    let chosen: Vec<&Bench> = BENCHES.iter().filter(is_chosen).collect();
    // Those of others take long, and not every bench needs them.
    let is_compared = |(_, _, how): &&&Bench| matches!(how, Measures::Compared(_));
    let programs = chosen.iter().find(is_compared).map(|_| Programs::build(site)).transpose()?;
    println!("\n{}", machine::describe());
    let mut report = Report::default();
    let mut measured = Ok(());
    for (name, what, how) in &chosen {
        report.begin(name, what, rounds.get());
        report.remark(&machine::busy());
        measured = match (how, &programs) {
            (Measures::Compared(measure), Some(programs)) => {
                measure(site, programs, rounds.get(), &mut report)
            }
            (Measures::Compared(_), None) => bail!("what {name} is compared with was not built"),
            (Measures::Alone(measure) | Measures::Asked(measure), _) => {
                measure(site, rounds.get(), &mut report)
            }
        };
        // What others have found in an hour is not lost for it.
        if let Err(error) = &measured {
            report.remark(&format!("it was not measured to its end: {error:#}"));
            break;
        }
    }
    println!("\nafterwards {}", machine::busy());
    if keep {
        let folder = site.root.join("benches");
        let of = provenance(site)?;
        for (page, benches) in pages() {
            if report.keep(&folder, &page, &head(&benches), &benches, &of)? {
                println!("kept in benches/{page}");
            }
        }
    }
    measured.map(|()| report.tally())
}

/// The pages on which results are kept, and which benches' are on each: what only runs when it is named has one to itself.
fn pages() -> Vec<(String, Vec<&'static str>)> {
    let is_asked = |(_, _, how): &&Bench| matches!(how, Measures::Asked(_));
    let (asked, others): (Vec<&Bench>, Vec<&Bench>) = BENCHES.iter().partition(is_asked);
    let all = ("RESULTS.md".to_owned(), others.iter().map(|(name, _, _)| *name).collect());
    let alone = asked.iter().map(|(name, _, _)| (format!("{}.md", name.to_uppercase()), vec![*name]));
    std::iter::once(all).chain(alone).collect()
}

/// What stands above the results of these benches: what they are, and how to have them again.
fn head(benches: &[&str]) -> String {
    let (command, alone) = match benches {
        [name] => (format!("cargo xtask bench --keep {name}"), ""),
        _ => (
            "cargo xtask bench compare".to_owned(),
            "; `cargo xtask bench --keep NAME` writes one part of it anew",
        ),
    };
    format!(
        "# Results\n\nWhat `{command}` found; it writes this page{alone}. [README.md](README.md) says what is \
         compared and how. Figures are the median of all rounds and, in brackets, the least and the greatest; a ratio \
         is taken within a round. The server has one processor and the load another.\n\n\
         To repeat it: `{command}`, on a machine that does nothing else.\n"
    )
}

/// What was measured, and on what: a list.
fn provenance(site: &Site) -> Result<String> {
    let rustc = Command::new("rustc").arg("-V").output().context("cannot run rustc")?;
    let commit = Command::new("git").args(["rev-parse", "--short", "HEAD"]).current_dir(&site.root).output();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
    Ok(format!(
        "- {}\n- {}\n- commit {}\n",
        capitalized(&machine::describe()),
        text(rustc.stdout),
        text(commit.context("cannot run git")?.stdout),
    ))
}

/// The benches, a line each, for the help text.
pub(crate) fn benches() -> String {
    BENCHES.iter().map(|(name, what, _)| format!("  {name:<8} {what}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn an_unknown_bench_is_refused_with_the_known_ones() {
        let site = Site::new(".".into(), ".".into(), Instant::now());
        let error = run(&site, &["htp".to_owned()], NonZeroUsize::MIN, false).unwrap_err().to_string();
        assert!(
            error.contains("\"htp\"")
                && error
                    .contains("http, requests, stdio, streams, http2, sessions, client, creates, tasks, page, start, build, scale, docket"),
            "{error}"
        );
    }
}
