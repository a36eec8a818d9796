//! Clients in other languages against our server: which clients, which checks, over which transports.

mod server;
mod tap;

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::site::Site;
use crate::tally::Tally;
use crate::tools::{Node, Python};
use crate::workspace::Workspace;
use server::HttpServer;
use tap::Tap;

const NODE: &str = "conformance/interop/node";
const PYTHON: &str = "conformance/interop/python";

/// The package whose binary is served.
const SERVER: &str = "longhaul-everything";

/// What is run against our server in the stage `interop`: a set of checks, over which transports.
const STAGE: &[(&str, &[Transport])] = &[("echo", &[Transport::Stdio])];

/// A client and the sets of checks it has.
const CLIENTS: &[Client] = &[
    Client { name: "node-modern", runtime: Runtime::Node, sets: &["echo", "held", "output"] },
    Client { name: "node-legacy", runtime: Runtime::Node, sets: &["echo", "held", "output", "tasks"] },
    Client { name: "node-ext-tasks-d2", runtime: Runtime::Node, sets: &["tasks"] },
    Client { name: "node-ext-tasks-d3", runtime: Runtime::Node, sets: &["tasks"] },
    Client { name: "python-modern", runtime: Runtime::Python, sets: &["echo", "held"] },
    Client { name: "python-legacy", runtime: Runtime::Python, sets: &["echo", "held"] },
];

#[derive(Debug)]
struct Client {
    name: &'static str,
    runtime: Runtime,
    sets: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runtime {
    Node,
    Python,
}

/// How a client reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    /// The client starts the server and speaks over its stdin and stdout.
    Stdio,
    /// The server listens, and the client speaks Streamable HTTP.
    #[expect(dead_code, reason = "named in STAGE once the server speaks HTTP")]
    Http,
}

/// What the clients are pointed at.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// A command that serves on its stdin and stdout.
    Command(Vec<String>),
    /// The address of an endpoint.
    Url(String),
}

/// The clients, set up.
#[derive(Debug)]
struct Rigs {
    node: Node,
    python: Python,
}

/// The stage: builds our server and points every client at it.
pub(crate) fn stage(site: &Site) -> Result<Tally> {
    let workspace = Workspace::members(&site.root)?;
    if workspace.our_packages().all(|package| package.name != SERVER) {
        bail!("the workspace has no package {SERVER} to serve");
    }
    site.must_run(&mut site.cargo(&["build", "--quiet", "--locked", "-p", SERVER]))?;
    let program = site.target.join("debug").join(SERVER);
    let program = program.to_str().context("the build folder's path is not UTF-8")?;
    let rigs = Rigs::new(site)?;
    let mut tally = Tally::default();
    for (set, transports) in STAGE {
        for transport in *transports {
            tally += match transport {
                Transport::Stdio => {
                    let target = Target::Command(vec![program.to_owned(), "--stdio".to_owned()]);
                    rigs.run_set(site, set, &[], &target)?
                }
                Transport::Http => {
                    let server = HttpServer::start(program, &[])?;
                    rigs.run_set(site, set, &[], &Target::Url(server.url()))?
                }
            };
        }
    }
    Ok(tally)
}

/// Points the clients named (all that have the set, when none is) at any server.
///
/// # Errors
///
/// When a set or a client has no such name, or the clients cannot be set up.
pub(crate) fn run(site: &Site, sets: &[String], clients: &[String], target: &Target) -> Result<Tally> {
    let named = |name: &String| CLIENTS.iter().any(|client| client.name == name);
    if let Some(unknown) = clients.iter().find(|name| !named(name)) {
        let known: Vec<&str> = CLIENTS.iter().map(|client| client.name).collect();
        bail!("there is no client {unknown:?}; name any of {}", known.join(", "));
    }
    let rigs = Rigs::new(site)?;
    let mut tally = Tally::default();
    for set in sets {
        if CLIENTS.iter().all(|client| !client.sets.contains(&set.as_str())) {
            bail!("there is no set of checks {set:?}; name any of echo, held, output, tasks");
        }
        tally += rigs.run_set(site, set, clients, target)?;
    }
    Ok(tally)
}

/// The clients and their sets, a line each, for the help text.
pub(crate) fn clients() -> String {
    CLIENTS.iter().map(|client| format!("  {:<18} {}\n", client.name, client.sets.join(", "))).collect()
}

impl Rigs {
    fn new(site: &Site) -> Result<Self> {
        let node = Node::with(site, "interop-node", NODE)?;
        let python = Python::with(site, "interop-python", &format!("{PYTHON}/requirements.txt"))?;
        Ok(Self { node, python })
    }

    fn run_set(&self, site: &Site, set: &str, clients: &[String], target: &Target) -> Result<Tally> {
        let mut tally = Tally::default();
        let chosen = |client: &&Client| clients.is_empty() || clients.iter().any(|name| name == client.name);
        for client in CLIENTS.iter().filter(|client| client.sets.contains(&set)).filter(chosen) {
            let mut command = match client.runtime {
                Runtime::Node => self.node.script(site, "rig.mjs"),
                Runtime::Python => self.python.script(site, &format!("{PYTHON}/rig.py")),
            };
            let era = client.name.split_once('-').map_or(client.name, |(_, era)| era);
            command.args([era, set]);
            point(&mut command, target);
            let ran = site.run(&mut command)?;
            tally += Tap::read(&ran.lines).tally(ran.success);
        }
        Ok(tally)
    }
}

fn point(command: &mut Command, target: &Target) {
    match target {
        Target::Command(words) => command.arg("--").args(words),
        Target::Url(url) => command.args(["--url", url]),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_of_the_stage_has_a_client() {
        for (set, transports) in STAGE {
            assert!(CLIENTS.iter().any(|client| client.sets.contains(set)), "{set}");
            assert!(!transports.is_empty(), "{set}");
        }
    }
}
