//! A page in a browser against the example that serves it: `examples/browser`.

use anyhow::{Context, Result};

use super::tap::Tap;
use crate::site::Site;
use crate::tally::Tally;
use crate::test::program;
use crate::tools::{Node, system};
use crate::wire::{self, Whose};

const EXAMPLE: &str = "examples/browser";

/// Its script needs a `WebSocket` of Node's own.
const OLDEST_NODE: u32 = 22;

/// The stage: builds the example, and has Chromium open its page from several origins.
pub(crate) fn stage(site: &Site) -> Result<Tally> {
    wire::held(site, Whose::All, pages)
}

fn pages(site: &Site) -> Result<Tally> {
    system::require(site, &system::CHROMIUM)?;
    let server = program(site, "browser")?;
    let node = Node::with(site, "browser", EXAMPLE, OLDEST_NODE)?;
    let script = site.root.join(EXAMPLE).join("test.mjs");
    let mut test = node.script(site, script.to_str().context("the repository's path is not UTF-8")?);
    test.arg(node.packages()).arg(server).arg(system::CHROMIUM.name());
    let ran = site.run(&mut test)?;
    Ok(Tap::read(&ran.lines).tally(ran.success))
}
