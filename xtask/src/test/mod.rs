//! `cargo xtask test`: everything that must hold before a commit, set-up included, in one command.

mod cargo;
pub(crate) mod libtest;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::site::Site;
use crate::tally::Tally;
use crate::tools::system;
use crate::{chaos, conformance, interop, tidy};
pub(crate) use cargo::program;

/// The most time everything may take together.
pub(crate) const BUDGET: Duration = Duration::from_secs(28 * 60);

/// A stage's name, what it checks, and its check.
type Stage = (&'static str, &'static str, fn(&Site) -> Result<Tally>);

/// Every stage, in the order they run.
const STAGES: &[Stage] = &[
    ("fmt", "every file is formatted", cargo::fmt),
    ("clippy", "no warning, under any feature", cargo::clippy),
    ("tidy", "the shape of the tree (cargo xtask tidy --help)", shape),
    ("tests", "unit, integration and documentation tests of every crate", cargo::tests),
    ("docs", "the documentation builds without a warning", cargo::docs),
    ("crash", "the program is killed at every moment, and nothing acknowledged is lost", chaos::stage),
    ("interop", "clients in other languages work with our server", interop::stage),
    ("browser", "a page in Chromium uses our server, and one of a foreign origin cannot", interop::browser),
    (
        "conformance",
        "the official conformance suite finds nothing wrong with our server",
        conformance::server,
    ),
];

/// Runs the stages named, or all, and prints what each came to, and last the sum.
///
/// A stage that fails does not keep the others from running. Over [`BUDGET`] the run fails, and what still runs is
/// killed.
///
/// # Errors
///
/// When a name is no stage.
pub(crate) fn run(site: &Site, names: &[String]) -> Result<Tally> {
    if let Some(unknown) = names.iter().find(|name| STAGES.iter().all(|(stage, _, _)| stage != name)) {
        let known: Vec<&str> = STAGES.iter().map(|(name, _, _)| *name).collect();
        bail!("there is no stage {unknown:?}; name any of {}", known.join(", "));
    }
    let start = Instant::now();
    let mut sum = Tally::default();
    let mut summary = Vec::new();
    for (name, what, check) in
        STAGES.iter().filter(|(stage, _, _)| names.is_empty() || names.iter().any(|n| n == stage))
    {
        println!("\n== {name}: {what}");
        let begun = Instant::now();
        let tally = outcome(name, check(site));
        summary.push(format!("{:>8} min  {name}: {tally}", minutes(begun.elapsed())));
        println!("{name}: {tally}");
        sum += tally;
        // Again where whoever looks at the end of it all finds them.
        summary.extend(site.complaints().into_iter().map(|line| format!("              {line}")));
    }
    println!("\n== sum");
    for line in summary {
        println!("{line}");
    }
    let took = start.elapsed();
    println!("{:>8} min in all, of {}", minutes(took), minutes(BUDGET));
    if Instant::now() > site.deadline {
        println!("this took too long: make the slowest stage faster");
        sum += Tally::one(false);
    }
    println!("test: {sum}");
    Ok(sum)
}

/// The stages, a line each, for the help text.
pub(crate) fn stages() -> String {
    STAGES.iter().map(|(name, what, _)| format!("  {name:<12} {what}\n")).collect()
}

/// The stage `tidy`.
fn shape(site: &Site) -> Result<Tally> {
    system::require(site, &system::GIT)?;
    tidy::run(&site.root)
}

/// A stage that could not be carried out, or that checked nothing, is one failure.
fn outcome(name: &str, checked: Result<Tally>) -> Tally {
    match checked {
        Ok(tally) if tally == Tally::default() => {
            println!("{name} checked nothing");
            Tally::one(false)
        }
        Ok(tally) => tally,
        Err(e) => {
            println!("{name} could not be carried out: {e:#}");
            Tally::one(false)
        }
    }
}

fn minutes(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() / 60.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_that_checks_nothing_or_cannot_run_fails() {
        assert_eq!(outcome("x", Ok(Tally::default())), Tally::one(false));
        assert_eq!(outcome("x", Err(anyhow::anyhow!("no node"))), Tally::one(false));
        assert_eq!(outcome("x", Ok(Tally::one(true))), Tally::one(true));
    }

    #[test]
    fn an_unknown_stage_is_refused_with_the_known_ones() {
        let site = Site::new(".".into(), ".".into(), Instant::now());
        let error = run(&site, &["lints".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("\"lints\"") && error.contains("fmt, clippy, tidy, tests"), "{error}");
    }
}
