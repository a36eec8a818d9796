//! Clients in other languages against our server: which clients, which checks, over which transports. And our client
//! against servers of others: `visit`; and those behind ours: `behind`.

mod behind;
mod browser;
mod server;
mod tap;
mod theirs;
mod visit;

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};

use crate::site::Site;
use crate::tally::Tally;
use crate::test::program;
use crate::tools::{Node, Python, system};
use crate::wire::{self, Whose};
pub(crate) use behind::behind;
use behind::{BEHIND, Behind, SESSIONS};
pub(crate) use browser::{page_scripts, stage as browser};
pub(crate) use server::HttpServer;
use tap::Tap;
pub(crate) use visit::visit;
use visit::{CLIENT, VISITS, Visit};

const NODE: &str = "conformance/interop/node";
/// The oldest Node the clients run on: the Inspector's.
pub(crate) const OLDEST_NODE: u32 = 22;
const PYTHON: &str = "conformance/interop/python";
/// What is installed of Python, a path from the root.
pub(crate) const PYTHON_PACKAGES: &str = "conformance/interop/python/requirements.txt";

/// What is run in the stage `interop`: which server, a set of checks, over which transports.
const STAGE: &[(Server, &str, &[Transport])] = &[
    (Server::Everything, "echo", &[Transport::Stdio, Transport::Http]),
    (Server::Everything, "offer", &[Transport::Stdio, Transport::Http]),
    (Server::Everything, "asks", &[Transport::Stdio, Transport::Http]),
    (Server::Everything, "streams", &[Transport::Http]),
    (Server::Everything, "sse", &[Transport::Http]),
    (Server::Everything, "held", &[Transport::Http]),
    (Server::Everything, "tasks", &[Transport::Http]),
    (Server::Commands, "held", &[Transport::Stdio]),
    (Server::Commands, "output", &[Transport::Stdio, Transport::Http]),
    (Server::Commands, "tasks", &[Transport::Stdio, Transport::Http]),
];

/// A server of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    /// Tools that are functions: `longhaul-everything`.
    Everything,
    /// The same tools as commands: the program, with the configuration beside the clients.
    Commands,
}

impl Server {
    const ALL: [Self; 2] = [Self::Everything, Self::Commands];

    /// Its program's name.
    const fn name(self) -> &'static str {
        match self {
            Self::Everything => "longhaul-everything",
            Self::Commands => "longhaul",
        }
    }

    /// Its arguments, before those of the transport. Each start has a store of its own.
    fn arguments(self, site: &Site) -> Result<Vec<String>> {
        if self == Self::Everything {
            return Ok(Vec::new());
        }
        let dir = site.target.join("interop");
        std::fs::create_dir_all(&dir).context("cannot create the folder of the servers' stores")?;
        let store = tempfile::Builder::new().prefix("store-").tempdir_in(dir)?.keep();
        let url = format!("sqlite:{}", store.join("tasks.db").display());
        Ok(["serve", "conformance/interop/longhaul.toml", "--store", &url].map(String::from).into())
    }
}

/// Checks that start a server of ours themselves, behind an authorization server that nobody here wrote.
const SIGNING_IN: &[&str] = &["protected.mjs", "proxied.mjs"];

/// A client and the sets of checks it has.
const CLIENTS: &[Client] = &[
    Client {
        name: "node-modern",
        runtime: Runtime::Node,
        sets: &["echo", "offer", "asks", "streams", "held", "output"],
    },
    Client { name: "node-v2-legacy", runtime: Runtime::Node, sets: &["echo", "offer", "asks", "streams"] },
    Client {
        name: "node-legacy",
        runtime: Runtime::Node,
        sets: &["echo", "offer", "asks", "streams", "sse", "held", "output", "tasks"],
    },
    Client { name: "node-inspector-modern", runtime: Runtime::Node, sets: &["offer"] },
    Client { name: "node-inspector-legacy", runtime: Runtime::Node, sets: &["offer", "sse"] },
    Client { name: "node-ext-tasks-d2", runtime: Runtime::Node, sets: &["tasks"] },
    Client { name: "node-ext-tasks-d3", runtime: Runtime::Node, sets: &["tasks"] },
    Client {
        name: "python-modern",
        runtime: Runtime::Python,
        sets: &["echo", "offer", "asks", "streams", "held"],
    },
    Client {
        name: "python-legacy",
        runtime: Runtime::Python,
        sets: &["echo", "offer", "asks", "streams", "sse", "held"],
    },
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

/// The stage: builds our server, points every client at it, has our client visit the servers of others, puts
/// those behind our server, and holds what all say against the schemas.
pub(crate) fn stage(site: &Site) -> Result<Tally> {
    wire::held(site, "clients", Whose::All, clients_in_turn)
}

fn clients_in_turn(site: &Site) -> Result<Tally> {
    for name in Server::ALL.iter().map(|server| server.name()).chain([CLIENT]) {
        program(site, name)?;
    }
    let rigs = Rigs::new(site)?;
    let rigs = &rigs;
    let tries = STAGE.iter().flat_map(|(server, set, transports)| {
        transports.iter().map(move |over| Run::Clients(*server, set, *over))
    });
    let behind = BEHIND.iter().map(Run::Behind).chain([Run::Killed, Run::Sessions, Run::Comers]);
    let runs: Vec<_> = tries.chain(VISITS.iter().map(Run::Ours)).chain(behind).collect();
    let next = AtomicUsize::new(0);
    let next = &next;
    let runs = &runs;
    // The clients mostly wait: for tasks that take their time on purpose.
    let tallies: Vec<Result<Tally>> = thread::scope(|scope| {
        let worker = || {
            let mut tally = Tally::default();
            while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                // One that cannot be carried out does not keep the others from running.
                tally += run
                    .carry_out(site, rigs)
                    .unwrap_or_else(|error| site.failed(&format!("{run:?}"), &error));
            }
            Ok(tally)
        };
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(worker)).collect();
        let joined = |worker: thread::ScopedJoinHandle<'_, Result<Tally>>| {
            worker.join().unwrap_or_else(|_| bail!("a run of clients panicked"))
        };
        workers.into_iter().map(joined).collect()
    });
    let mut tally = Tally::default();
    for each in tallies {
        tally += each?;
    }
    for script in SIGNING_IN {
        let mut command = rigs.node.script(site, script);
        command.arg(site.target.join("debug").join(Server::Commands.name()));
        let ran = site.run(&mut command)?;
        tally += Tap::read(&ran.lines).tally(ran.success);
    }
    Ok(tally)
}

/// One server, tried.
#[derive(Debug)]
enum Run<'r> {
    /// Ours, by every client that has the set.
    Clients(Server, &'r str, Transport),
    /// One of others, by our client.
    Ours(&'r Visit),
    /// One of others behind ours, by clients in other languages.
    Behind(&'r Behind),
    /// Ours before others, killed.
    Killed,
    /// Sessions of ours, of which nothing is left.
    Sessions,
    /// The same of one server, while it lives.
    Comers,
}

impl Run<'_> {
    fn carry_out(&self, site: &Site, rigs: &Rigs) -> Result<Tally> {
        match self {
            Self::Clients(server, set, over) => run_once(site, rigs, *server, set, *over),
            Self::Ours(visit) => visit.run(site, rigs),
            Self::Behind(behind) => behind.run(site, rigs),
            Self::Killed => behind::killed(site, rigs),
            Self::Sessions => behind::end_sessions(site, rigs, SESSIONS),
            Self::Comers => behind::come_and_go(site, rigs, SESSIONS),
        }
    }
}

/// How many servers are tried at once.
const AT_ONCE: usize = 4;

/// Every client that has the set, against one server over one transport.
fn run_once(site: &Site, rigs: &Rigs, server: Server, set: &str, over: Transport) -> Result<Tally> {
    let program = site.target.join("debug").join(server.name());
    let program = program.to_str().context("the build folder's path is not UTF-8")?;
    let arguments = server.arguments(site)?;
    match over {
        Transport::Stdio => {
            // Clients give the servers they start little of their own environment.
            let noting = site.noting().map(|(name, folder)| format!("{name}={}", folder.display()));
            let mut command = vec!["env".to_owned()];
            command.extend(noting);
            command.push(program.to_owned());
            command.extend(arguments);
            command.push("--stdio".to_owned());
            rigs.run_set(site, set, &[], &Target::Command(command))
        }
        Transport::Http => {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let server = HttpServer::start(site, program, &arguments)?;
            rigs.run_set(site, set, &[], &Target::Url(server.url()))
        }
    }
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
            let known: BTreeSet<&str> = CLIENTS.iter().flat_map(|client| client.sets).copied().collect();
            let known: Vec<&str> = known.into_iter().collect();
            bail!("there is no set of checks {set:?}; name any of {}", known.join(", "));
        }
        tally += rigs.run_set(site, set, clients, target)?;
    }
    Ok(tally)
}

/// Installs what the stages `interop` and `browser` need.
///
/// # Errors
///
/// When something cannot be installed.
pub(crate) fn set_up(site: &Site) -> Result<()> {
    Rigs::new(site)?;
    browser::set_up(site)
}

/// The clients and their sets, a line each, for the help text.
pub(crate) fn clients() -> String {
    CLIENTS.iter().map(|client| format!("  {:<18} {}\n", client.name, client.sets.join(", "))).collect()
}

impl Rigs {
    fn new(site: &Site) -> Result<Self> {
        system::require(site, &system::REDIS)?;
        let node = Node::with(site, "interop-node", NODE, OLDEST_NODE)?;
        let python = Python::with(site, "interop-python", PYTHON_PACKAGES)?;
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
        for (_, set, transports) in STAGE {
            assert!(CLIENTS.iter().any(|client| client.sets.contains(set)), "{set}");
            assert!(!transports.is_empty(), "{set}");
        }
    }

    /// X6 of `conformance/REQUIREMENTS.md`: whoever has tasks is met with them, as a client and as a server.
    #[test]
    fn peers_that_have_tasks_are_met_with_them() {
        let is_met = |set: &str| STAGE.iter().any(|(_, of, transports)| *of == set && !transports.is_empty());
        for client in ["node-legacy", "node-ext-tasks-d2", "node-ext-tasks-d3"] {
            let known = CLIENTS.iter().find(|known| known.name == client);
            assert!(known.is_some_and(|known| known.sets.contains(&"tasks")) && is_met("tasks"), "{client}");
        }
        for server in ["typescript-v1", "fastmcp", "rmcp"] {
            assert!(VISITS.iter().any(|visit| visit.tries(server, "tasks")), "{server}");
        }
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for (file, pinned) in [
            ("node/package.json", "\"@modelcontextprotocol/sdk\": \"1.32.2\""),
            ("node/package.json", "\"@modelcontextprotocol/ext-tasks\": \"0.2.2\""),
            ("python/requirements.in", "fastmcp-tasks==4.1.2"),
            ("rmcp/Cargo.toml", "3.8.0"),
        ] {
            let text = std::fs::read_to_string(root.join("conformance/interop").join(file)).unwrap();
            assert!(text.contains(pinned), "{file} has no {pinned}");
        }
    }
}
