//! The official conformance suite against our programs.

mod client;
mod kills;
mod report;
mod server;

use anyhow::Result;

use crate::site::Site;
use crate::tally::Tally;
use crate::tools::Node;
pub(crate) use client::client;
pub(crate) use server::{KILLS, server};

const SUITE: &str = "conformance/suite";

/// The oldest Node the suite runs on.
const OLDEST_NODE: u32 = 22;

/// The suite's program, in the folder its packages are installed in.
const PROGRAM: &str = "node_modules/@modelcontextprotocol/conformance/dist/index.js";

/// The stage: [`client()`], and [`server()`] with as many kills as there is time for.
pub(crate) fn stage(site: &Site) -> Result<Tally> {
    let mut tally = client(site, false)?;
    tally += server(site, KILLS)?;
    Ok(tally)
}

/// Installs the suite's packages.
///
/// # Errors
///
/// When they cannot be installed.
pub(crate) fn set_up_suite(site: &Site) -> Result<()> {
    set_up(site).map(drop)
}

/// The suite's packages, and a Node that runs them.
fn set_up(site: &Site) -> Result<Node> {
    Node::with(site, "conformance", SUITE, OLDEST_NODE)
}
