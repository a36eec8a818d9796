//! Stores that hold a thousand tasks and up to a million: what each operation takes, and what is kept of a task.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::figures::Figures;
use super::goal::Goal;
use super::load;
use super::report::Report;
use crate::site::Site;
use crate::tools::system;

const STORES: [&str; 3] = ["sqlite", "postgres", "redis"];

/// How many tasks stores hold, from the least.
const TASKS: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];

/// How much more an operation may take of processors among the most tasks than among the fewest.
const GOAL: Goal = Goal::AtMost(1.2);

/// How many rounds there are for each one asked for. An operation is measured for some ten milliseconds of a round, less than what
/// else the machine does lasts.
const ROUNDS_EACH: usize = 6;

/// How rows are named of what the driver takes alone. They are what ours stand beside, and nothing is wanted of them.
const ALONE: &str = ", by the driver alone";

/// What was found of a store of one size.
#[derive(Debug, Deserialize)]
struct Found {
    tasks: u32,
    disk: f64,
    database: f64,
    process: f64,
    operations: BTreeMap<String, Vec<Spent>>,
}

/// Microseconds of an operation.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Spent {
    time: f64,
    process: f64,
    database: f64,
}

pub(super) fn run(site: &Site, rounds: usize, report: &mut Report) -> Result<()> {
    system::require(site, &system::POSTGRES)?;
    system::require(site, &system::REDIS)?;
    let rounds = (rounds * ROUNDS_EACH).to_string();
    report.remark(&format!("rounds are short here, and there are {rounds} of them"));
    let build =
        ["build", "--release", "--locked", "--quiet", "-p", "longhaul-bench-stores", "--bin", "bench-scale"];
    site.must_run(&mut site.cargo(&build))?;
    for store in STORES {
        let mut command = std::process::Command::new(site.target.join("release/bench-scale"));
        command.args(["--store", store, "--rounds", &rounds]);
        command.args(["--tasks", &TASKS.map(|tasks| tasks.to_string()).join(",")]);
        let found: Vec<Found> = load::found(&mut command)?;
        ensure!(found.iter().map(|found| found.tasks).eq(TASKS), "{store} was not measured whole");
        tell(store, &found, report)?;
    }
    Ok(())
}

fn tell(store: &str, found: &[Found], report: &mut Report) -> Result<()> {
    let (least, most) =
        (found.first().context("something was measured")?, found.last().context("something was")?);
    report.remark(&format!(
        "{store}: microseconds of processors each, of our process and of the database's, among so many tasks"
    ));
    let of = |found: &Found, what: &str, how: fn(&Spent) -> f64| {
        let mut figures = Figures::default();
        found.operations.get(what).into_iter().flatten().for_each(|spent| figures.push(how(spent)));
        figures
    };
    // The system tells no less apart.
    let cpu = |spent: &Spent| (spent.process + spent.database).max(1.0);
    let (mut rows, mut judged) = (Vec::new(), Vec::new());
    for what in least.operations.keys() {
        let at = |found: &Found| {
            let [process, database] = [|spent: &Spent| spent.process, |spent: &Spent| spent.database];
            format!("{:.0} + {:.0}", of(found, what, process).median(), of(found, what, database).median())
        };
        let (grown, slower) = (
            of(most, what, cpu).over(&of(least, what, cpu)),
            [most, least].map(|found| of(found, what, |spent| spent.time)),
        );
        let time = slower[0].over(&slower[1]);
        let [a, b, c, d] = [0, 1, 2, 3].map(|size| found.get(size).map(at).unwrap_or_default());
        rows.push([
            what.clone(),
            a,
            b,
            c,
            d,
            format!("{:.2}", grown.median()),
            format!("{:.2}", time.median()),
        ]);
        if !what.ends_with(ALONE) {
            judged.push((what, grown));
        }
    }
    report.table(["", "1,000", "10,000", "100,000", "1,000,000", "growth", "of time"], &rows);
    for (what, grown) in judged {
        report.judge(GOAL, &format!("{store}, {what}: CPU among the most over the fewest"), &grown);
    }
    let mb = |bytes: f64| format!("{:.1}", bytes / 1e6);
    let row = |what: &str, how: fn(&Found) -> f64| {
        let [a, b, c, d] =
            [0, 1, 2, 3].map(|size| found.get(size).map(|found| mb(how(found))).unwrap_or_default());
        [what.to_owned(), a, b, c, d]
    };
    report.table(
        ["MB", "1,000", "10,000", "100,000", "1,000,000"],
        &[
            row("on disk", |found| found.disk),
            row("the database's memory", |found| found.database),
            row("our process's memory", |found| found.process),
        ],
    );
    let each = |how: fn(&Found) -> f64| (how(most) - how(least)) / f64::from(most.tasks - least.tasks);
    report.remark(&format!(
        "a task more is {:.0} bytes on disk and {:.0} of the database's memory",
        each(|found| found.disk),
        each(|found| found.database)
    ));
    let mut memory = Figures::default();
    memory.push(most.process / least.process);
    report.judge(GOAL, &format!("{store}: memory of our process, among the most over the fewest"), &memory);
    Ok(())
}
