//! `cargo xtask bench`: our speed as ratios to our peers', all measured in one run, and the goals they bind us to.
//!
//! The server has one processor to itself and the load another. What is compared runs in turn, round after round, and
//! a ratio is taken within a round, so that a machine whose speed drifts changes figures and not ratios.

mod client;
mod creates;
mod figures;
mod goal;
mod http;
mod load;
mod machine;
mod programs;
mod server;
mod stdio;
mod streams;

use std::num::NonZeroUsize;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::site::Site;
use crate::tally::Tally;
use crate::tools::system;
use programs::Programs;

/// The most time a run may take, a first build of the peers included.
pub(crate) const BUDGET: Duration = Duration::from_secs(40 * 60);

/// A bench: its name, what it measures, and how.
type Bench = (&'static str, &'static str, fn(&Site, &Programs, usize) -> Result<Tally>);

const BENCHES: &[Bench] = &[
    ("http", "CPU per tools/call over stateless HTTP, of a bare axum handler's and of rmcp's", http::run),
    ("stdio", "pipelined tools/call over stdio, of rmcp's; and the memory that takes", stdio::run),
    (
        "streams",
        "8,000 open streams: memory for each, of a bare hyper server's; all hear of a change",
        streams::run,
    ),
    ("client", "calls a second and CPU per call of our client over HTTP, of rmcp's", client::run),
    ("creates", "durable tasks over HTTP, of what SQLite alone does with the same rows", creates::run),
];

/// Runs the benches named, or all, so many rounds each; each goal is a part that passes or fails.
///
/// # Errors
///
/// When a name is no bench, something cannot be built, or a server answers wrongly.
pub(crate) fn run(site: &Site, names: &[String], rounds: NonZeroUsize) -> Result<Tally> {
    if let Some(unknown) = names.iter().find(|name| BENCHES.iter().all(|(bench, _, _)| bench != name)) {
        let known: Vec<&str> = BENCHES.iter().map(|(name, _, _)| *name).collect();
        bail!("there is no bench {unknown:?}; name any of {}", known.join(", "));
    }
    if std::thread::available_parallelism()?.get() < 2 {
        bail!("a bench needs two processors: one for the server, one for the load");
    }
    system::require(site, &system::TASKSET)?;
    let programs = Programs::build(site)?;
    println!("\n{}", machine::describe());
    let mut sum = Tally::default();
    for (name, what, bench) in
        BENCHES.iter().filter(|(bench, _, _)| names.is_empty() || names.iter().any(|name| name == bench))
    {
        println!("\n== {name}: {what} ({rounds} rounds)");
        println!("{}", machine::busy());
        sum += bench(site, &programs, rounds.get())?;
    }
    println!("\nafterwards {}", machine::busy());
    Ok(sum)
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
        let error = run(&site, &["htp".to_owned()], NonZeroUsize::MIN).unwrap_err().to_string();
        assert!(
            error.contains("\"htp\"") && error.contains("http, stdio, streams, client, creates"),
            "{error}"
        );
    }
}
