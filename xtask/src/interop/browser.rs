//! A real browser: a page in it against the example that serves it (`examples/browser`), a person before it who signs
//! in for our program, and the pages of the program itself (`conformance/page`).

use std::fs;

use anyhow::{Context, Result};

use super::tap::Tap;
use crate::site::Site;
use crate::tally::Tally;
use crate::test::program;
use crate::tools::{Node, system};
use crate::wire::{self, Whose};

const EXAMPLE: &str = "examples/browser";
const OWN_PAGES: &str = "conformance/page";

/// Its script needs a `WebSocket` of Node's own.
const OLDEST_NODE: u32 = 22;

/// The stage: builds the example, has Chromium open its page from several origins, and lets a person sign in with it.
pub(crate) fn stage(site: &Site) -> Result<Tally> {
    wire::held(site, "page", Whose::All, |site| {
        let mut tally = pages(site)?;
        tally += person(site)?;
        tally += own_pages(site)?;
        Ok(tally)
    })
}

/// Installs what it needs that no client of another language does.
pub(super) fn set_up(site: &Site) -> Result<()> {
    system::require(site, &system::CHROMIUM)?;
    Node::with(site, "browser", EXAMPLE, OLDEST_NODE)?;
    page_scripts(site)?;
    Ok(())
}

/// Where scripts run that look at the pages of our program.
///
/// # Errors
///
/// When Node or a package cannot be installed.
pub(crate) fn page_scripts(site: &Site) -> Result<Node> {
    Node::with(site, "page", OWN_PAGES, OLDEST_NODE)
}

/// The pages of our program, as people see them, with a picture of each in `page/` of the folder of what is built.
fn own_pages(site: &Site) -> Result<Tally> {
    let node = page_scripts(site)?;
    let pictures = site.target.join("page");
    fs::create_dir_all(&pictures).with_context(|| format!("{} cannot be made", pictures.display()))?;
    let mut pages = node.script(site, "page.mjs");
    pages.arg(program(site, super::Server::Commands.name())?).arg(system::CHROMIUM.name).arg(pictures);
    let ran = site.run(&mut pages)?;
    Ok(Tap::read(&ran.lines).tally(ran.success))
}

/// A person who signs in with Chromium, for `longhaul login`.
fn person(site: &Site) -> Result<Tally> {
    let node = Node::with(site, "interop-node", super::NODE, super::OLDEST_NODE)?;
    let mut login = node.script(site, "login.mjs");
    login.arg(program(site, super::Server::Commands.name())?).arg(system::CHROMIUM.name);
    let ran = site.run(&mut login)?;
    Ok(Tap::read(&ran.lines).tally(ran.success))
}

fn pages(site: &Site) -> Result<Tally> {
    system::require(site, &system::CHROMIUM)?;
    let server = program(site, "browser")?;
    let node = Node::with(site, "browser", EXAMPLE, OLDEST_NODE)?;
    let script = site.root.join(EXAMPLE).join("test.mjs");
    let mut test = node.script(site, script.to_str().context("the repository's path is not UTF-8")?);
    test.arg(node.packages()).arg(server).arg(system::CHROMIUM.name);
    let ran = site.run(&mut test)?;
    Ok(Tap::read(&ran.lines).tally(ran.success))
}
