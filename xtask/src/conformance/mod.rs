//! The official conformance suite against our programs.

mod report;

use anyhow::{Context, Result};

use crate::interop::HttpServer;
use crate::site::Site;
use crate::tally::Tally;
use crate::test::program;
use crate::tools::Node;
use crate::wire::{self, Whose, emptied};
use report::Expected;

const SUITE: &str = "conformance/suite";

/// The oldest Node the suite runs on.
const OLDEST_NODE: u32 = 22;

/// The suite's program, in the folder its packages are installed in.
const PROGRAM: &str = "node_modules/@modelcontextprotocol/conformance/dist/index.js";

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

/// Runs the suite against our server, once for each set of requirements.
///
/// # Errors
///
/// When the suite or the server cannot be set up, or the suite writes nothing down.
pub(crate) fn server(site: &Site) -> Result<Tally> {
    // Some of what the suite sends is wrong on purpose.
    wire::held(site, Whose::Ours, suite)
}

fn suite(site: &Site) -> Result<Tally> {
    let program = program(site, SERVER)?;
    let node = Node::with(site, "conformance", SUITE, OLDEST_NODE)?;
    let server =
        HttpServer::start(site, program.to_str().context("the build folder's path is not UTF-8")?, &[])?;
    let mut tally = Tally::default();
    for (name, runs) in SERVER_LEGS {
        let folder = emptied(&site.target.join("conformance").join(format!("server-{name}")))?;
        for arguments in *runs {
            let mut suite = node.script(site, PROGRAM);
            suite.args(["server", "--url", &server.url()]).args(*arguments).arg("--output-dir").arg(&folder);
            // Neither its exit nor its words say as much as what it wrote down.
            site.run_telling(&mut suite, |_| Vec::new())?;
        }
        let expected = Expected::read(&site.root.join(SUITE).join(format!("server-{name}.txt")))?;
        println!("\n-- conformance server {name}");
        tally += expected.compare(&report::read(&folder)?);
    }
    Ok(tally)
}
