//! The suite against our client, which the suite starts once for each scenario.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::report::{self, Expected};
use super::{PROGRAM, SUITE, set_up};
use crate::site::Site;
use crate::tally::Tally;
use crate::test::program;
use crate::tools::Node;
use crate::wire::{self, Whose, emptied};

/// The client the suite starts, and its package.
const CLIENT: &str = "everything-client";

/// What the client is tried with. `client-<name>.txt` beside the lock file says what must come of it.
const LEGS: &[Leg] = &[
    Leg {
        name: "2025-11-25",
        runs: &[&["--requirements", "2025-11-25"]],
        alone: &["--spec-version", "2025-11-25", "--force"],
    },
    Leg {
        name: "2026-07-28",
        runs: &[&["--requirements", "2026-07-28"]],
        alone: &["--spec-version", "2026-07-28", "--force"],
    },
    Leg {
        name: "2025-06-18",
        runs: &[&["--suite", "all", "--spec-version", "2025-06-18"]],
        alone: &["--spec-version", "2025-06-18"],
    },
    Leg {
        name: "2025-03-26",
        runs: &[&["--suite", "backcompat", "--spec-version", "2025-03-26"]],
        alone: &["--spec-version", "2025-03-26"],
    },
    Leg {
        name: "skills",
        runs: &[
            &["--scenario", "sep-2640-client-no-prefetch"],
            &["--scenario", "sep-2640-client-verify-digest"],
            &["--scenario", "sep-2640-client-verify-size"],
            &["--scenario", "sep-2640-client-verify-frontmatter"],
        ],
        alone: &[],
    },
];

/// Some scenarios.
struct Leg {
    name: &'static str,
    /// What the suite is told to run, one after the other.
    runs: &'static [&'static [&'static str]],
    /// What it is told besides the name of one scenario.
    alone: &'static [&'static str],
}

/// Has the suite try our client, and holds what it found against what must come of it: a warning is a failure, and so
/// is a client that did not get to its end. When `strict`, each scenario runs alone, and the suite itself must be
/// content as well.
///
/// # Errors
///
/// When the suite or the client cannot be set up, or the suite writes nothing down.
pub(crate) fn client(site: &Site, strict: bool) -> Result<Tally> {
    wire::held(site, "suite-of-clients", Whose::Ours, |site| {
        let suite = Suite { site, node: &set_up(site)?, client: &shell_word(&program(site, CLIENT)?)? };
        let folder = emptied(&site.target.join("conformance-client"))?;
        let mut tally = Tally::default();
        for leg in LEGS {
            tally += suite.run(leg, strict, &emptied(&folder.join(leg.name))?)?;
        }
        Ok(tally)
    })
}

struct Suite<'s> {
    site: &'s Site,
    node: &'s Node,
    /// The command that starts the client.
    client: &'s str,
}

impl Suite<'_> {
    fn run(&self, leg: &Leg, strict: bool, folder: &Path) -> Result<Tally> {
        let (site, mut tally) = (self.site, Tally::default());
        let expected = Expected::read(&site.root.join(SUITE).join(format!("client-{}.txt", leg.name)))?;
        if strict {
            for name in expected.names() {
                let arguments = [&["--scenario", name], leg.alone].concat();
                tally += Tally::one(site.run(&mut self.command(&arguments, folder))?.success);
            }
        } else {
            for arguments in leg.runs {
                // Neither its exit nor its words say as much as what it wrote down.
                site.run_telling(&mut self.command(arguments, folder), |_| Vec::new())?;
            }
        }
        println!("\n-- conformance client {}", leg.name);
        tally += expected.compare(&report::read(folder, "")?);
        Ok(tally)
    }

    fn command(&self, arguments: &[&str], folder: &Path) -> Command {
        let mut suite = self.node.script(self.site, PROGRAM);
        suite.args(["client", "--command", self.client]).args(arguments).arg("--output-dir").arg(folder);
        suite
    }
}

/// The path of a program as a word of the shell that the suite starts it by; the suite cuts at spaces before.
fn shell_word(program: &Path) -> Result<String> {
    let path = program.to_str().context("the build folder's path is not UTF-8")?;
    anyhow::ensure!(
        path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte)),
        "the suite cannot start a client at {path}: build in a folder whose path has letters, digits and ._-+ alone"
    );
    Ok(path.to_owned())
}
