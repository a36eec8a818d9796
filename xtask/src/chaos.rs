//! Killing the program: what `chaos/` plays, on builds made for it.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::shown::{self, Outcome};
use crate::site::{Ran, Site};
use crate::stamp;
use crate::tally::Tally;
use crate::test::libtest::{Tests, failures};
use crate::test::program;
use crate::tools::system;

/// How long random kills may take.
pub(crate) const BUDGET: Duration = Duration::from_secs(60 * 60);

/// How many servers the stage kills at random, four at a time on one store.
const MANY: &str = "200";

/// How many it kills where a single one serves, and where supervisors are killed as well.
const FEW: &str = "15";

/// What the stage has the driver play, one after the other.
const PLAYED: [&[&str]; 7] = [
    &["points"],
    &["kills", "--kills", MANY, "--servers", "4"],
    &["kills", "--kills", FEW],
    &["kills", "--kills", FEW, "--servers", "2", "--supervisors"],
    // Tasks of every kind for three nodes, one of which is killed so often meanwhile.
    &["load", "--tasks", "300", "--kills", "20", "--minutes", "4"],
    &["power"],
    &["scenes"],
];

/// The driver, and the program that it kills.
#[derive(Debug)]
struct Chaos {
    driver: PathBuf,
    program: PathBuf,
}

/// How the program is built.
#[derive(Clone, Copy, Debug)]
enum Build {
    /// As the tests are, with crash points that can be armed.
    Tested,
    /// As users build it.
    Released,
}

/// The stage: every crash point, some random kills, loss of power, and particular misfortunes.
pub(crate) fn stage(site: &Site) -> Result<Tally> {
    system::require(site, &system::STRACE)?;
    let mut tally = Tally::default();
    let chaos = Chaos::build(site, Build::Tested)?;
    for arguments in PLAYED {
        tally += chaos.play(site, arguments)?;
    }
    Ok(tally)
}

/// Whether the stage plays this, a command of `chaos/` and some of its options.
pub(crate) fn plays(words: &str) -> bool {
    let mut words = words.split_whitespace();
    let command = words.next();
    let options: Vec<&str> = words.collect();
    PLAYED.iter().any(|played| {
        played.first().copied() == command && options.iter().all(|option| played.contains(option))
    })
}

/// Kills servers, and supervisors if asked to, at random under load.
///
/// # Errors
///
/// When the program or the driver cannot be built or run.
pub(crate) fn run(site: &Site, arguments: &[String]) -> Result<Tally> {
    let chaos = Chaos::build(site, Build::Released)?;
    let arguments: Vec<&str> = std::iter::once("kills").chain(arguments.iter().map(String::as_str)).collect();
    chaos.play(site, &arguments)
}

/// Loads nodes with tasks of every kind, and kills them at random; or has the power go at random moments.
///
/// # Errors
///
/// When the program or the driver cannot be built or run.
pub(crate) fn drive(site: &Site, what: &str, arguments: &[String]) -> Result<Outcome> {
    let chaos = Chaos::build(site, Build::Tested)?;
    let ran = site.run(chaos.command(&[what]).args(arguments))?;
    if ran.success {
        ran.lines.iter().for_each(|line| println!("{line}"));
    }
    Ok(Outcome { tally: counted(&ran), sum: ran.lines, left: 0 })
}

/// Loads a fleet on one database, and has all of it fail.
///
/// # Errors
///
/// When a database or another program that is needed is missing, or the program or the driver cannot be built or run.
pub(crate) fn fleet(site: &Site, arguments: &[String]) -> Result<Outcome> {
    for needed in [system::POSTGRES, system::REDIS, system::FAKETIME] {
        system::require(site, &needed)?;
    }
    drive(site, "fleet", arguments)
}

/// Lets servers crash at every operation of their store.
///
/// # Errors
///
/// When the tests cannot be run.
pub(crate) fn explore(site: &Site) -> Result<Tally> {
    let ran = site.run(&mut explorer(site))?;
    tell_explored(&ran.lines);
    Ok(Tests::read(&ran.lines, ran.success).tally)
}

/// Lets two of them crash, one after the other, for so many minutes. With `resume` what was tried before is not tried again.
///
/// # Errors
///
/// When the tests cannot be run, or what was tried before is not this code.
pub(crate) fn explore_pairs(site: &Site, resume: bool, minutes: u64) -> Result<Outcome> {
    let notes = site.target.join("explored");
    if !resume {
        stamp::clear(&notes)?;
    }
    stamp::begin(&notes, &stamp::of(&site.root, is_explored)?)?;
    let mut command = explorer(site);
    command.env("LONGHAUL_EXPLORE", "pairs").env("LONGHAUL_EXPLORED", &notes);
    command.env("LONGHAUL_EXPLORE_MINUTES", minutes.to_string());
    let ran = site.run(&mut command)?;
    let (sum, left) = tell_explored(&ran.lines);
    if left > 0 {
        println!("go on with the others: cargo xtask chaos explore --pairs --resume");
    }
    Ok(Outcome { tally: Tests::read(&ran.lines, ran.success).tally, sum, left })
}

/// Has the tests of very many try as many as the matrix of failures asks for.
///
/// # Errors
///
/// When the tests cannot be run.
pub(crate) fn many(site: &Site) -> Result<Tally> {
    let mut tally = Tally::default();
    for (package, features, test, which) in MANY_OF {
        let of = ["test", "--locked", "-p", package, "--features", features, "--test", test, "--", which];
        let ran = site.run(site.cargo(&of).env("LONGHAUL_MANY", "all"))?;
        tally += Tests::read(&ran.lines, ran.success).tally;
    }
    Ok(tally)
}

/// The tests of very many: a package with its features, a test and which of its functions.
const MANY_OF: [(&str, &str, &str, &str); 4] = [
    ("longhaul-store", "conformance,sqlite", "sqlite", "many::"),
    ("longhaul", "http,http-client", "threats", "a2_of_very_many"),
    ("longhaul", "http,http-client", "threats", "s2_who_polls_very_many"),
    ("longhaul", "http,http-client", "task_news", "s1_who_reads_a_byte_a_second"),
];

/// The packages that crash in the explorer, and those that they crash in.
const EXPLORED: [&str; 5] = [
    "crates/longhaul-proto",
    "crates/longhaul-store",
    "crates/longhaul-tasks",
    "crates/longhaul",
    "chaos/explorer",
];

/// Whether the explorer is about that file.
pub(crate) fn is_explored(path: &str) -> bool {
    let of = EXPLORED.iter().find_map(|package| path.strip_prefix(package)?.strip_prefix('/'));
    let is_code = |file: &str| file == "Cargo.toml" || file.starts_with("src/") && !shown::is_prose(file);
    shown::builds_all(path) || of.is_some_and(is_code)
}

fn explorer(site: &Site) -> Command {
    site.cargo(&["test", "--locked", "--profile", "explorer", "-p", EXPLORER])
}

/// The package that explores and simulates: it is built apart from all others, and optimized.
pub(crate) const EXPLORER: &str = "longhaul-explorer";

/// How many seeds the simulator plays among the checks.
const SEEDS: &str = "2000";

/// The stage `explorer`.
pub(crate) fn explorer_stage(site: &Site) -> Result<Tally> {
    let mut command = explorer(site);
    command.env("LONGHAUL_SIM_SEEDS", SEEDS).env("LONGHAUL_SIM_THREADS", "2").env("RUST_BACKTRACE", "0");
    let ran = site.run_telling(&mut command, failures)?;
    tell_explored(&ran.lines);
    Ok(Tests::read(&ran.lines, ran.success).tally)
}

/// Says how many crashes tests have tried, and of how many, if any. Gives what it says, and how many there was no time for.
fn tell_explored(lines: &[String]) -> (Vec<String>, usize) {
    let told: Vec<Explored> = lines.iter().filter_map(|line| Explored::read(line)).collect();
    let of = |count: fn(&Explored) -> usize| told.iter().map(count).sum::<usize>();
    let (points, all) = (of(|story| story.points), of(|story| story.of));
    let mut sum = Vec::new();
    if !told.is_empty() {
        let whole = told.iter().filter(|story| story.points == story.of).count();
        let stories = told.len();
        sum.push(format!("explored: {points} of {all} crashes, {whole} of {stories} stories to the end"));
    }
    sum.iter().for_each(|line| println!("{line}"));
    (sum, all - points)
}

/// What a test says of a scenario on a store.
#[derive(Debug)]
struct Explored {
    points: usize,
    of: usize,
}

impl Explored {
    /// Reads `explored NAME: N crash points, STORE`, or `N of M`.
    fn read(line: &str) -> Option<Self> {
        let (_, said) = line.split_once("explored ")?;
        let (counts, _) = said.rsplit_once(": ")?.1.split_once(" crash points")?;
        let (points, of) = counts.split_once(" of ").unwrap_or((counts, counts));
        Some(Self { points: points.parse().ok()?, of: of.parse().ok()? })
    }
}

/// Plays so many seeds of the simulator, from `seed` on; without a number that one alone, line by line.
///
/// # Errors
///
/// When the tests cannot be run.
pub(crate) fn simulate(site: &Site, seeds: Option<u64>, seed: Option<u64>, at_once: u64) -> Result<Outcome> {
    let mut command = explorer(site);
    command.arg("sim::").env("LONGHAUL_SIM_THREADS", at_once.to_string()).env("RUST_BACKTRACE", "0");
    for (name, number) in [("LONGHAUL_SIM_SEEDS", seeds), ("LONGHAUL_SIM_SEED", seed)] {
        if let Some(number) = number {
            command.env(name, number.to_string());
        }
    }
    let ran = site.run_telling(&mut command, |lines| lines.iter().map(String::as_str).collect())?;
    let told = |line: &&String| seeds.is_none() || line.starts_with("simulated: ");
    let sum: Vec<String> = ran.lines.iter().filter(told).cloned().collect();
    if ran.success {
        sum.iter().for_each(|line| println!("{line}"));
    }
    Ok(Outcome { tally: Tests::read(&ran.lines, ran.success).tally, sum, left: 0 })
}

impl Chaos {
    fn build(site: &Site, build: Build) -> Result<Self> {
        let driver = program(site, "longhaul-chaos")?;
        let program = match build {
            Build::Tested => program(site, "longhaul")?,
            Build::Released => {
                let build = ["build", "--release", "--locked", "--quiet", "-p", "longhaul-cli"];
                site.must_run(&mut site.cargo(&build))?;
                site.target.join("release").join("longhaul")
            }
        };
        Ok(Self { driver, program })
    }

    fn play(&self, site: &Site, arguments: &[&str]) -> Result<Tally> {
        Ok(counted(&site.run(&mut self.command(arguments))?))
    }

    fn command(&self, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(&self.driver);
        command.arg("--program").arg(&self.program).args(arguments);
        command
    }
}

/// What a driver says that it has counted.
fn counted(ran: &Ran) -> Tally {
    let counted = ran.lines.iter().rev().find_map(|line| counts(line)).unwrap_or_default();
    // A driver that fails without a failed case has died.
    if ran.success || counted.failed > 0 { counted } else { Tally::one(false) }
}

/// The counts of `chaos: N passed, M failed`.
fn counts(line: &str) -> Option<Tally> {
    let (passed, failed) = line.strip_prefix("chaos: ")?.split_once(" passed, ")?;
    Some(Tally { passed: passed.parse().ok()?, failed: failed.strip_suffix(" failed")?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crashes_are_counted_and_so_is_what_is_left() {
        let read = |line: &str| Explored::read(line).map(|told| (told.points, told.of));
        assert_eq!(read("explored k01: it crashes: 12 crash points, SQLite"), Some((12, 12)));
        assert_eq!(read("explored k01: 7 of 30 crash points, memory"), Some((7, 30)));
        assert_eq!(read("test scenarios::explored ... ok"), None);
    }

    #[test]
    fn the_last_line_is_counted() {
        assert_eq!(counts("chaos: 12 passed, 1 failed"), Some(Tally { passed: 12, failed: 1 }));
        assert_eq!(counts("ok      store.create.before d3   0.4 s"), None);
    }
}
