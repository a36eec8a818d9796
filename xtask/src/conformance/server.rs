//! The suite against our server, before and after the server was killed.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::report::{self, Expected};
use super::{PROGRAM, SUITE, kills, set_up};
use crate::interop::HttpServer;
use crate::site::Site;
use crate::tally::Tally;
use crate::test::program;
use crate::tools::Node;
use crate::wire::{self, Whose, emptied};

/// The server the suite is pointed at, and its package.
const SERVER: &str = "everything-server";

/// What the server is tried with: a name, and what the suite is told to run, one after the other. `server-<name>.txt`
/// beside the lock file says what must come of it.
const SERVER_LEGS: &[(&str, &[&[&str]])] = &[
    ("2025-11-25", &[&["--requirements", "2025-11-25"]]),
    ("2026-07-28", &[&["--requirements", "2026-07-28"]]),
    ("2025-06-18", &[&["--suite", "all", "--spec-version", "2025-06-18"]]),
    ("2025-03-26", &[&["--suite", "all", "--spec-version", "2025-03-26"]]),
    (
        "skills",
        &[
            &["--scenario", "sep-2640-skills-enumeration"],
            &["--scenario", "sep-2640-skills-manifest"],
            &["--scenario", "sep-2640-skills-directory"],
        ],
    ),
];

/// Those that have tasks: they are run again after the server was killed.
const LEGS_AFTER_KILLS: usize = 2;

/// What the suite runs while the server is killed, in turn: what makes tasks most of all.
const WHILE_KILLED: &[&[&str]] = &[
    &["--scenario", "tasks-lifecycle"],
    &["--scenario", "tasks-mrtr-input"],
    &["--requirements", "2025-11-25"],
    &["--requirements", "2026-07-28"],
];

/// How often the server is killed among the stages.
pub(crate) const KILLS: usize = 12;

/// Runs the suite against our server, once for each set of requirements. Then the server is killed `kills` times while
/// the suite runs against it, and what is asked of tasks is asked again of the store that is left.
///
/// # Errors
///
/// When the suite or the server cannot be set up, or the suite writes nothing down.
pub(crate) fn server(site: &Site, kills: usize) -> Result<Tally> {
    // Some of what the suite sends is wrong on purpose.
    wire::held(site, "suite-of-servers", Whose::Ours, |site| suite(site, kills))
}

fn suite(site: &Site, kills: usize) -> Result<Tally> {
    let program = program(site, SERVER)?;
    let program = program.to_str().context("the build folder's path is not UTF-8")?;
    let node = set_up(site)?;
    let folder = emptied(&site.target.join("conformance"))?;
    let store = folder.join("server.db");
    let store = store.to_str().context("the build folder's path is not UTF-8")?;
    let mut server = HttpServer::start(site, program, &["--store", store])?;
    let mut tally = Tally::default();
    for leg in SERVER_LEGS {
        tally += run_leg(site, &node, &server, leg, &folder, "")?;
    }
    if kills == 0 {
        return Ok(tally);
    }
    let (legs, storm) = (&SERVER_LEGS[..LEGS_AFTER_KILLS], emptied(&folder.join("killed"))?);
    kills::kill(site, &mut server, kills, |number, url| {
        command(site, &node, url, WHILE_KILLED[number % WHILE_KILLED.len()], &storm)
    })?;
    for leg in legs {
        tally += run_leg(site, &node, &server, leg, &folder, " after kills")?;
    }
    Ok(tally)
}

/// What the suite is told to run, and its name.
type Leg<'l> = (&'l str, &'l [&'l [&'l str]]);

fn run_leg(
    site: &Site,
    node: &Node,
    server: &HttpServer,
    (name, runs): &Leg<'_>,
    folder: &Path,
    when: &str,
) -> Result<Tally> {
    let folder = emptied(&folder.join(format!("server-{name}{}", when.replace(' ', "-"))))?;
    for arguments in *runs {
        // Neither its exit nor its words say as much as what it wrote down.
        site.run_telling(&mut command(site, node, &server.url(), arguments, &folder), |_| Vec::new())?;
    }
    let expected = Expected::read(&site.root.join(SUITE).join(format!("server-{name}.txt")))?;
    println!("\n-- conformance server {name}{when}");
    Ok(expected.compare(&report::read(&folder, "server-")?))
}

fn command(site: &Site, node: &Node, url: &str, arguments: &[&str], folder: &Path) -> Command {
    let mut suite = node.script(site, PROGRAM);
    suite.args(["server", "--url", url]).args(arguments).arg("--output-dir").arg(folder);
    suite
}

#[cfg(test)]
mod tests {
    use super::*;

    /// X5 of `conformance/REQUIREMENTS.md`.
    #[test]
    fn what_the_suite_asks_of_tasks_is_asked_again_after_kills() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(SUITE);
        let has_tasks = |leg: &Leg<'_>| {
            let file = root.join(format!("server-{}.txt", leg.0));
            Expected::read(&file).unwrap().names().any(|name| name.starts_with("tasks-"))
        };
        let after: Vec<&str> = SERVER_LEGS[..LEGS_AFTER_KILLS].iter().map(|(name, _)| *name).collect();
        let asked: Vec<&str> =
            SERVER_LEGS.iter().filter(|leg| has_tasks(leg)).map(|(name, _)| *name).collect();
        assert!(!asked.is_empty() && asked.iter().all(|name| after.contains(name)), "{asked:?} of {after:?}");
        assert!(KILLS > 0 && WHILE_KILLED.iter().any(|run| run.contains(&"tasks-lifecycle")));
    }
}
