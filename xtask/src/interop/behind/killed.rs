//! Ours is killed in the middle of calls of servers of others, and is there again.

use anyhow::{Context, Result};

use super::Upstream;
use super::front::Front;
use crate::interop::Rigs;
use crate::interop::tap::Tap;
use crate::interop::theirs::{FASTMCP, Over};
use crate::site::Site;
use crate::tally::Tally;

/// The servers, and what holds for their tools: each is called in `killed.mjs` by the name before it.
const SERVERS: &[(&str, &str, Over, &str)] = &[
    ("its", "typescript-v1", Over::Http, ""),
    ("redis", FASTMCP, Over::Http, AGAIN),
    ("old", "typescript-v1", Over::Sse, AGAIN),
    ("again", "everything", Over::Stdio, AGAIN),
    ("rust", "rmcp", Over::Stdio, AGAIN),
    ("once", "everything", Over::Stdio, ""),
];

/// Its tools may be called again.
const AGAIN: &str = "rerun = \"restart\"\n";

/// Kills ours while every kind of client has called, and sees what they come back to.
pub(in crate::interop) fn killed(site: &Site, rigs: &Rigs) -> Result<Tally> {
    let (mut upstreams, mut config) = (Vec::new(), String::new());
    for (name, server, over, policy) in SERVERS {
        let upstream = Upstream::start(site, rigs, server, *over, &format!("killed-{name}"))?;
        let lines = format!("prefix = \"{name}_\"\ntask = \"after 100ms\"\nhold = \"1s\"\n{policy}");
        config += &upstream.section(name, &lines);
        upstreams.push(upstream);
    }
    let mut front = Front::start(site, &config)?;
    front.lists(site, SERVERS.iter().map(|(name, ..)| *name))?;
    let calls = front.path().join("calls.json");
    let calls = calls.to_str().context("the build folder's path is not UTF-8")?;
    let mut begin = rigs.node.script(site, "killed.mjs");
    if !site.run(begin.args(["begin", &front.url(), calls]))?.success {
        return Ok(Tally::one(false));
    }
    let mut tally = front.kill()?;
    front.start_again()?;
    let mut end = rigs.node.script(site, "killed.mjs");
    let ran = site.run(end.args(["end", &front.url(), calls]))?;
    tally += Tap::read(&ran.lines).tally(ran.success);
    tally += front.kill()?;
    Ok(tally)
}
