//! `cargo xtask test`: everything that must hold before a commit, set-up included, in one command.

mod cargo;
pub(crate) mod libtest;
mod room;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::site::Site;
use crate::tally::Tally;
use crate::tools::system;
use crate::{bench, chaos, conformance, interop, package, tidy};
pub(crate) use cargo::{any_two_features, program};
use room::Room;

/// The most time everything may take together, after which what still runs is killed: what two quick cores do in 19 minutes,
/// two that others share have taken 45 for, whatever the code is like.
pub(crate) const BUDGET: Duration = Duration::from_secs(55 * 60);

/// How long everything is to take. What takes longer is told, and fails nothing.
const GOAL: Duration = Duration::from_secs(29 * 60 + 30);

/// One part of it all.
struct Stage {
    name: &'static str,
    /// What it checks.
    what: &'static str,
    check: fn(&Site) -> Result<Tally>,
}

/// Stages of which each begins when the one before it has ended.
type Lane = &'static [Stage];

impl Stage {
    const fn new(name: &'static str, what: &'static str, check: fn(&Site) -> Result<Tally>) -> Self {
        Self { name, what, check }
    }

    /// Carries it out and gives its lines of the summary.
    fn run(&self, site: &Site) -> (Tally, Vec<String>) {
        let site = site.apart();
        println!("\n== {}: {}", self.name, self.what);
        let begun = Instant::now();
        let tally = outcome(&site, self.name, (self.check)(&site));
        println!("{}: {tally}", self.name);
        let mut summary = vec![format!("{:>8} min  {}: {tally}", minutes(begun.elapsed()), self.name)];
        // Again where whoever looks at the end of it all finds them.
        summary.extend(site.complaints().into_iter().map(|line| format!("              {line}")));
        (tally, summary)
    }
}

/// Every stage: lanes that run beside one another, until all have come to their ends and those of the next row begin.
const ROWS: &[&[Lane]] = &[
    &[
        &[
            Stage::new("fmt", "every file is formatted", cargo::fmt),
            Stage::new("clippy", "no warning, with all features", cargo::clippy),
            Stage::new("tidy", "the shape of the tree (cargo xtask tidy --help)", shape),
            Stage::new(
                "archives",
                "the archives of the published crates have all that these are built and shown with (cargo xtask package: each builds)",
                package::archives,
            ),
            Stage::new("docs", "the documentation builds without a warning", cargo::docs),
            Stage::new("build", "every test and every program builds", cargo::build),
        ],
        // It mostly waits for the network, while the others compile.
        &[Stage::new("tools", "what tests need beside Rust is installed", tools)],
    ],
    // The first two lanes build next to nothing, and mostly wait: for processes and for times.
    &[
        &[
            Stage::new("tests", "unit, integration and documentation tests of every crate", cargo::tests),
            Stage::new(
                "explorer",
                "servers end at every operation of their store, fleets live through a month, and no promise is broken",
                chaos::explorer_stage,
            ),
        ],
        &[
            Stage::new(
                "crash",
                "the program is killed at every moment, and nothing acknowledged is lost",
                chaos::stage,
            ),
            Stage::new(
                "interop",
                "clients in other languages work with our server, and our client with servers of others",
                interop::stage,
            ),
            Stage::new(
                "browser",
                "a page in Chromium uses our server, one of a foreign origin cannot, and a person signs in with it",
                interop::browser,
            ),
            Stage::new(
                "conformance",
                "the official conformance suite finds nothing wrong with our client, nor with our server, also after it was killed",
                conformance::stage,
            ),
        ],
        // It compiles with what of the processors those leave.
        &[
            Stage::new(
                "features",
                "no warning in a library with none of its features (cargo xtask features: with one of any two)",
                cargo::features,
            ),
            Stage::new(
                "count",
                "no hot operation takes more instructions than it did (cargo xtask bench check)",
                |site| bench::check::run(site, false),
            ),
        ],
    ],
];

/// Every stage, row by row.
fn all() -> impl Iterator<Item = &'static Stage> {
    ROWS.iter().copied().flatten().copied().flatten()
}

/// Runs the stages named, or all, and prints what each came to, and last the sum.
///
/// A stage that fails does not keep the others from running. Over [`BUDGET`] the run fails, and what still runs is
/// killed.
///
/// # Errors
///
/// When a name is no stage, or the disk cannot be looked at.
pub(crate) fn run(site: &Site, names: &[String]) -> Result<Tally> {
    if let Some(unknown) = names.iter().find(|name| all().all(|stage| stage.name != **name)) {
        let known: Vec<&str> = all().map(|stage| stage.name).collect();
        bail!("there is no stage {unknown:?}; name any of {}", known.join(", "));
    }
    let start = Instant::now();
    let room = Room::of(site)?;
    println!("{room}");
    let is_chosen = |stage: &&Stage| names.is_empty() || names.iter().any(|name| name == stage.name);
    let lane = |lane: Lane| lane.iter().filter(is_chosen).map(|stage| stage.run(site)).collect::<Vec<_>>();
    let row = |lanes: &[Lane]| {
        thread::scope(|scope| {
            let ran: Vec<_> = lanes.iter().map(|stages| scope.spawn(|| lane(stages))).collect();
            let panicked = |_| vec![(Tally::one(false), vec!["a stage panicked".to_owned()])];
            ran.into_iter().flat_map(|ran| ran.join().unwrap_or_else(panicked)).collect::<Vec<_>>()
        })
    };
    let ran: Vec<(Tally, Vec<String>)> = ROWS.iter().flat_map(|lanes| row(lanes)).collect();
    let mut sum = Tally::default();
    println!("\n== sum");
    for (tally, summary) in ran {
        sum += tally;
        summary.iter().for_each(|line| println!("{line}"));
    }
    if room.is_short() {
        println!("when it began, {room}");
    }
    let took = start.elapsed();
    println!(
        "{:>8} min in all; {} are the goal, and {} the most",
        minutes(took),
        minutes(GOAL),
        minutes(BUDGET)
    );
    if took > GOAL {
        println!(
            "this took longer than it is to: make the slowest stage faster, unless the machine was busy"
        );
    }
    if Instant::now() > site.deadline {
        println!("this took too long, and was ended");
        sum += Tally::one(false);
    }
    println!("test: {sum}");
    Ok(sum)
}

/// The stages, a line each, for the help text.
pub(crate) fn stages() -> String {
    all().map(|Stage { name, what, .. }| format!("  {name:<12} {what}\n")).collect()
}

/// The stage `tools`: each stage would install what it needs, but wait for it.
fn tools(site: &Site) -> Result<Tally> {
    let mut tally = Tally::default();
    for set_up in [cargo::set_up, bench::check::set_up, interop::set_up, conformance::set_up_suite] {
        set_up(site)?;
        tally += Tally::one(true);
    }
    Ok(tally)
}

/// The stage `tidy`.
fn shape(site: &Site) -> Result<Tally> {
    system::require(site, &system::GIT)?;
    tidy::run(&site.root)
}

/// A stage that could not be carried out, or that checked nothing, is one failure.
fn outcome(site: &Site, name: &str, checked: Result<Tally>) -> Tally {
    match checked {
        Ok(tally) if tally == Tally::default() => {
            println!("{name} checked nothing");
            Tally::one(false)
        }
        Ok(tally) => tally,
        Err(error) => site.failed(name, &error),
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
        let site = Site::new(".".into(), ".".into(), Instant::now());
        assert_eq!(outcome(&site, "x", Ok(Tally::default())), Tally::one(false));
        assert_eq!(outcome(&site, "x", Err(anyhow::anyhow!("no node"))), Tally::one(false));
        assert_eq!(outcome(&site, "x", Ok(Tally::one(true))), Tally::one(true));
    }

    #[test]
    fn an_unknown_stage_is_refused_with_the_known_ones() {
        let site = Site::new(".".into(), ".".into(), Instant::now());
        let error = run(&site, &["lints".to_owned()]).unwrap_err().to_string();
        assert!(
            error.contains("\"lints\"") && error.contains("fmt, clippy, tidy, archives, docs, build"),
            "{error}"
        );
    }
}
