//! Our client against servers that others wrote: which servers, which checks, over which transports.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::server::HttpServer;
use super::tap::Tap;
use super::{PYTHON, Rigs};
use crate::site::Site;
use crate::tally::Tally;
use crate::test::program;
use crate::tools::system;
use crate::wire::{self, Whose};

/// The program that visits them.
pub(super) const CLIENT: &str = "interop-client";

/// The visits of the stage `interop`.
pub(super) const VISITS: &[Visit] = &[
    // First, for it is built while the others wait.
    Visit::new("rmcp", Over::Stdio, None, "offer,asks,tasks"),
    Visit::new("rmcp", Over::Stdio, LEGACY, "offer"),
    Visit::new("everything", Over::Stdio, None, "everything"),
    Visit::new("everything", Over::Http, None, "everything"),
    Visit::new("everything", Over::Sse, None, "everything"),
    Visit::new("python", Over::Stdio, None, "offer,asks,changes"),
    Visit::new("python", Over::Http, None, "offer,asks,changes"),
    Visit::new("python", Over::Stdio, LEGACY, "offer,asks,refuses"),
    Visit::new("python", Over::Http, LEGACY, "offer,asks,refuses"),
    Visit::new("typescript-v1", Over::Stdio, None, "offer,asks,refuses,changes,tasks,hosts"),
    Visit::new("typescript-v1", Over::Http, None, "offer,asks,refuses,changes,tasks,hosts"),
    Visit::new("typescript-v2", Over::Stdio, None, "offer,asks,changes"),
    Visit::new("typescript-v2", Over::Http, None, "offer,asks,changes"),
    Visit::new("typescript-v2", Over::Stdio, LEGACY, "offer,asks,refuses,changes"),
    Visit::new("typescript-v2", Over::Http, LEGACY, "offer,asks,refuses,changes"),
    Visit::new(FASTMCP, Over::Stdio, None, "offer,asks,tasks"),
    Visit::new(FASTMCP, Over::Http, None, "offer,asks,tasks"),
];

/// The server that keeps its tasks elsewhere.
const FASTMCP: &str = "fastmcp";

/// The revision of the legacy era that a server of both is asked for.
const LEGACY: Option<&str> = Some("2025-11-25");

/// What starts each server.
const SERVERS: &[(&str, Theirs)] = &[
    ("everything", Theirs::Everything("node_modules/@modelcontextprotocol/server-everything/dist/index.js")),
    ("python", Theirs::Python("serve.py")),
    ("typescript-v1", Theirs::Node("serve_v1.mjs")),
    ("typescript-v2", Theirs::Node("serve_v2.mjs")),
    (FASTMCP, Theirs::Python("serve_fastmcp.py")),
    ("rmcp", Theirs::Rust("rmcp-rig")),
];

/// The crate of those in Rust, which is apart from the workspace.
const RUST: &str = "conformance/interop/rmcp/Cargo.toml";

/// Some checks of our client with one server.
#[derive(Debug)]
pub(super) struct Visit {
    /// The server, by its name.
    server: &'static str,
    over: Over,
    /// The revision to speak; none finds out what the server speaks.
    revision: Option<&'static str>,
    /// The sets of checks, separated by commas.
    sets: &'static str,
}

/// A server of others, by what starts it.
#[derive(Clone, Copy, Debug)]
enum Theirs {
    /// `@modelcontextprotocol/server-everything`, which takes its transport as a word and its port from the environment.
    Everything(&'static str),
    /// A rig of ours on an SDK of others, in JavaScript.
    Node(&'static str),
    /// One in Python.
    Python(&'static str),
    /// One in Rust, by the name of its program.
    Rust(&'static str),
}

/// How it is reached.
#[derive(Clone, Copy, Debug)]
enum Over {
    Stdio,
    Http,
    /// HTTP+SSE of 2024-11-05.
    Sse,
}

/// Visits the servers named, or all, and holds what they and our client say against the schemas.
///
/// # Errors
///
/// When a server has no such name, or it or our client cannot be set up.
pub(crate) fn visit(site: &Site, servers: &[String]) -> Result<Tally> {
    let known = || SERVERS.iter().map(|(name, _)| *name);
    if let Some(unknown) = servers.iter().find(|name| known().all(|known| known != **name)) {
        bail!("there is no server {unknown:?}; name any of {}", known().collect::<Vec<_>>().join(", "));
    }
    let chosen = |visit: &&Visit| servers.is_empty() || servers.iter().any(|name| name == visit.server);
    program(site, CLIENT)?;
    let rigs = Rigs::new(site)?;
    wire::held(site, Whose::All, |site| {
        let mut tally = Tally::default();
        for visit in VISITS.iter().filter(chosen) {
            tally += visit.run(site, &rigs)?;
        }
        Ok(tally)
    })
}

impl Visit {
    const fn new(
        server: &'static str,
        over: Over,
        revision: Option<&'static str>,
        sets: &'static str,
    ) -> Self {
        Self { server, over, revision, sets }
    }

    /// Starts the server if it is one that listens, and has our client visit it.
    pub(super) fn run(&self, site: &Site, rigs: &Rigs) -> Result<Tally> {
        let mut client = Command::new(site.target.join("debug").join(CLIENT));
        client.current_dir(&site.root).arg(self.sets);
        if let Some(date) = self.revision {
            client.args(["--revision", date]);
        }
        let path = match self.over {
            Over::Stdio => {
                let server = self.command(site, rigs, None)?;
                client.arg("--").arg(server.get_program()).args(server.get_args());
                let ran = site.run(&mut client)?;
                return Ok(Tap::read(&ran.lines).tally(ran.success));
            }
            Over::Http => "mcp",
            Over::Sse => "sse",
        };
        // Over HTTP its tasks are in a Redis, over stdin in its own memory.
        let redis = (self.server == FASTMCP).then(|| HttpServer::run(redis)).transpose()?;
        let log = self.log(site)?;
        let server = HttpServer::run(|address| {
            let mut command = self.command(site, rigs, Some(address))?;
            // Some write a line for each request.
            command.envs(redis.as_ref().map(|redis| ("FASTMCP_DOCKET_URL", redis.redis())));
            command.stderr(File::create(&log).with_context(|| format!("cannot write {}", log.display()))?);
            Ok(command)
        });
        let server = server.with_context(|| format!("{} says why", log.display()))?;
        let ran = site.run(client.args(["--url", &server.at(path)]))?;
        Ok(Tap::read(&ran.lines).tally(ran.success))
    }

    /// Where the server's standard error goes.
    fn log(&self, site: &Site) -> Result<PathBuf> {
        let folder = site.target.join("interop");
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let revision = self.revision.unwrap_or("newest");
        Ok(folder.join(format!("{}-{:?}-{revision}.log", self.server, self.over)))
    }

    /// What starts the server, to listen on `address` if there is one.
    fn command(&self, site: &Site, rigs: &Rigs, address: Option<SocketAddr>) -> Result<Command> {
        let theirs = SERVERS.iter().find(|(name, _)| *name == self.server).map(|(_, theirs)| *theirs);
        let theirs = theirs.with_context(|| format!("nothing starts the server {:?}", self.server))?;
        let mut command = match theirs {
            Theirs::Everything(script) | Theirs::Node(script) => rigs.node.script(site, script),
            Theirs::Python(script) => rigs.python.script(site, &format!("{PYTHON}/{script}")),
            Theirs::Rust(name) => built(site, name)?,
        };
        match (theirs, address) {
            (Theirs::Everything(_), None) => command.arg("stdio"),
            (Theirs::Everything(_), Some(address)) => {
                let word = if matches!(self.over, Over::Sse) { "sse" } else { "streamableHttp" };
                command.arg(word).env("PORT", address.port().to_string())
            }
            (_, None) => command.arg("--stdio"),
            (_, Some(address)) => command.args(["--http", &address.to_string()]),
        };
        Ok(command)
    }
}

/// A program of the crate that is apart, built if it is not.
fn built(site: &Site, name: &str) -> Result<Command> {
    let folder = site.target.join("interop").join("rust");
    let mut build = site.cargo(&["build", "--locked", "--quiet", "--manifest-path", RUST, "--target-dir"]);
    let ran = site.run(build.arg(&folder))?;
    if !ran.success {
        bail!("{name} cannot be built");
    }
    Ok(Command::new(folder.join("debug").join(name)))
}

/// What starts a Redis that keeps nothing on the disk.
fn redis(address: SocketAddr) -> Result<Command> {
    let mut command = Command::new(system::REDIS.name());
    command.args(["--bind", &address.ip().to_string(), "--port", &address.port().to_string()]);
    command.args(["--save", "", "--appendonly", "no"]);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_is_visited_and_known() {
        assert!(VISITS.iter().all(|visit| SERVERS.iter().any(|(name, _)| *name == visit.server)));
        assert!(SERVERS.iter().all(|(name, _)| VISITS.iter().any(|visit| visit.server == *name)));
    }
}
