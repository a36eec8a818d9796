//! Servers that others wrote: what starts each.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::server::HttpServer;
use super::{PYTHON, Rigs};
use crate::site::Site;
use crate::tools::system;

/// The server that keeps its tasks elsewhere.
pub(super) const FASTMCP: &str = "fastmcp";

/// The crate of those in Rust, which is apart from the workspace.
const RUST: &str = "conformance/interop/rmcp/Cargo.toml";

/// What starts each server.
const SERVERS: &[(&str, Start)] = &[
    ("everything", Start::Everything("node_modules/@modelcontextprotocol/server-everything/dist/index.js")),
    ("filesystem", Start::Files("node_modules/@modelcontextprotocol/server-filesystem/dist/index.js")),
    ("python", Start::Python("serve.py")),
    ("typescript-v1", Start::Node("serve_v1.mjs")),
    ("typescript-v2", Start::Node("serve_v2.mjs")),
    (FASTMCP, Start::Python("serve_fastmcp.py")),
    ("rmcp", Start::Rust("rmcp-rig")),
];

/// What starts a server.
#[derive(Clone, Copy, Debug)]
enum Start {
    /// `@modelcontextprotocol/server-everything`, which takes its transport as a word and its port from the environment.
    Everything(&'static str),
    /// `@modelcontextprotocol/server-filesystem`, which takes the folder that it serves.
    Files(&'static str),
    /// A rig of ours on an SDK of others, in JavaScript.
    Node(&'static str),
    /// One in Python.
    Python(&'static str),
    /// One in Rust, by the name of its program.
    Rust(&'static str),
}

/// How it is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Stdio,
    Http,
    /// HTTP+SSE of 2024-11-05.
    Sse,
}

impl Over {
    /// The path of its endpoint.
    const fn path(self) -> &'static str {
        match self {
            Self::Sse => "sse",
            Self::Stdio | Self::Http => "mcp",
        }
    }
}

/// Every server's name.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    SERVERS.iter().map(|(name, _)| *name)
}

/// Refuses a name that none has.
///
/// # Errors
///
/// When one of them is no server's.
pub(super) fn known(wanted: &[String]) -> Result<()> {
    match wanted.iter().find(|name| names().all(|known| known != **name)) {
        Some(unknown) => {
            bail!("there is no server {unknown:?}; name any of {}", names().collect::<Vec<_>>().join(", "))
        }
        None => Ok(()),
    }
}

/// What starts the server over its standard streams.
///
/// # Errors
///
/// When it cannot be built.
pub(super) fn command(site: &Site, rigs: &Rigs, name: &str) -> Result<Command> {
    let (start, mut command) = begun(site, rigs, name)?;
    match start {
        Start::Everything(_) => command.arg("stdio"),
        Start::Files(_) => command.arg("conformance/interop"),
        Start::Node(_) | Start::Python(_) | Start::Rust(_) => command.arg("--stdio"),
    };
    Ok(command)
}

/// The same, to listen on an address.
fn listening(site: &Site, rigs: &Rigs, name: &str, over: Over, address: SocketAddr) -> Result<Command> {
    let (start, mut command) = begun(site, rigs, name)?;
    let is_old = over == Over::Sse;
    match start {
        Start::Everything(_) => {
            let word = if is_old { "sse" } else { "streamableHttp" };
            command.arg(word).env("PORT", address.port().to_string())
        }
        Start::Files(_) | Start::Node(_) | Start::Python(_) | Start::Rust(_) => {
            command.args([if is_old { "--sse" } else { "--http" }, &address.to_string()])
        }
    };
    Ok(command)
}

fn begun(site: &Site, rigs: &Rigs, name: &str) -> Result<(Start, Command)> {
    let start = SERVERS.iter().find(|(known, _)| *known == name).map(|(_, start)| *start);
    let start = start.with_context(|| format!("nothing starts the server {name:?}"))?;
    let command = match start {
        Start::Everything(script) | Start::Files(script) | Start::Node(script) => {
            rigs.node.script(site, script)
        }
        Start::Python(script) => rigs.python.script(site, &format!("{PYTHON}/{script}")),
        Start::Rust(name) => built(site, name)?,
    };
    Ok((start, command))
}

/// One that listens, for as long as the value lives.
#[derive(Debug)]
pub(super) struct Listening {
    server: HttpServer,
    over: Over,
    /// Where it keeps its tasks.
    _redis: Option<HttpServer>,
}

impl Listening {
    /// Starts it; what it writes goes to `log`.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub(super) fn start(site: &Site, rigs: &Rigs, name: &str, over: Over, log: &str) -> Result<Self> {
        let folder = site.target.join("interop");
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let log = folder.join(log);
        // Over HTTP its tasks are in a Redis, over stdin in its own memory.
        let redis = (name == FASTMCP).then(|| HttpServer::run(redis)).transpose()?;
        let server = HttpServer::run(|address| {
            let mut command = listening(site, rigs, name, over, address)?;
            command.envs(redis.as_ref().map(|redis| ("FASTMCP_DOCKET_URL", redis.redis())));
            // Some write a line for each request.
            command.stderr(created(&log)?);
            Ok(command)
        });
        let server = server.with_context(|| format!("{} says why", log.display()))?;
        Ok(Self { server, over, _redis: redis })
    }

    /// The address of its endpoint.
    pub(super) fn url(&self) -> String {
        self.server.at(self.over.path())
    }
}

fn created(log: &Path) -> Result<File> {
    File::create(log).with_context(|| format!("cannot write {}", log.display()))
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
    let mut command = Command::new(system::REDIS.name);
    command.args(["--bind", &address.ip().to_string(), "--port", &address.port().to_string()]);
    command.args(["--save", "", "--appendonly", "no"]);
    Ok(command)
}
