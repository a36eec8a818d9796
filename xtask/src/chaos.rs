//! Killing the program: what `chaos/` plays, on builds made for it.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::site::{Ran, Site};
use crate::tally::Tally;
use crate::test::libtest::Tests;
use crate::test::{TESTED, program};
use crate::tools::system;

/// How long random kills may take.
pub(crate) const BUDGET: Duration = Duration::from_secs(60 * 60);

/// How many servers the stage kills at random, four at a time on one store.
const MANY: &str = "200";

/// How many it kills where a single one serves, and where supervisors are killed as well.
const FEW: &str = "15";

/// How many tasks of every kind the stage gives its nodes, and how often it kills one of the three meanwhile.
const LOAD: [&str; 7] = ["load", "--tasks", "300", "--kills", "20", "--minutes", "4"];

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
    tally += chaos.play(site, &["points"])?;
    tally += chaos.play(site, &["kills", "--kills", MANY, "--servers", "4"])?;
    tally += chaos.play(site, &["kills", "--kills", FEW])?;
    tally += chaos.play(site, &["kills", "--kills", FEW, "--servers", "2", "--supervisors"])?;
    tally += chaos.play(site, &LOAD)?;
    tally += chaos.play(site, &["power"])?;
    tally += chaos.play(site, &["scenes"])?;
    Ok(tally)
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
pub(crate) fn drive(site: &Site, what: &str, arguments: &[String]) -> Result<Tally> {
    let chaos = Chaos::build(site, Build::Tested)?;
    let ran = site.run(chaos.command(&[what]).args(arguments))?;
    if ran.success {
        ran.lines.iter().for_each(|line| println!("{line}"));
    }
    Ok(counted(&ran))
}

/// Lets servers crash at every operation of their store; with `pairs` two of them, one after the other.
///
/// # Errors
///
/// When the tests cannot be run.
pub(crate) fn explore(site: &Site, pairs: bool) -> Result<Tally> {
    let mut command =
        site.cargo(&["test", "--locked", "-p", "longhaul", "--features", "sqlite", "--test", "explorer"]);
    if pairs {
        command.env("LONGHAUL_EXPLORE", "pairs");
    }
    let ran = site.run(&mut command)?;
    Ok(Tests::read(&ran.lines, ran.success).tally)
}

/// Plays so many seeds of the simulator, from `seed` on; without a number that one alone, line by line.
///
/// # Errors
///
/// When the tests cannot be run.
pub(crate) fn simulate(site: &Site, seeds: Option<u64>, seed: Option<u64>, at_once: u64) -> Result<Tally> {
    // As all tests are built, so that nothing is built for this alone.
    let mut command = site.cargo(&["test", "--locked", "--workspace", "--features", TESTED]);
    command
        .args(["--test", "explorer", "sim::"])
        .env("LONGHAUL_SIM_THREADS", at_once.to_string())
        .env("RUST_BACKTRACE", "0");
    for (name, number) in [("LONGHAUL_SIM_SEEDS", seeds), ("LONGHAUL_SIM_SEED", seed)] {
        if let Some(number) = number {
            command.env(name, number.to_string());
        }
    }
    let ran = site.run_telling(&mut command, |lines| lines.iter().map(String::as_str).collect())?;
    let told = |line: &&String| seeds.is_none() || line.starts_with("simulated: ");
    if ran.success {
        ran.lines.iter().filter(told).for_each(|line| println!("{line}"));
    }
    Ok(Tests::read(&ran.lines, ran.success).tally)
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
    fn the_last_line_is_counted() {
        assert_eq!(counts("chaos: 12 passed, 1 failed"), Some(Tally { passed: 12, failed: 1 }));
        assert_eq!(counts("ok      store.create.before d3   0.4 s"), None);
    }
}
