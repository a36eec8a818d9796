//! The programs that are measured and that measure, built as they are shipped.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::interop;
use crate::site::Site;
use crate::tools::{Node, Python};

/// The folder of the peers, which are no part of the workspace.
const PEERS: &str = "benches/compare";

/// A program and what it is started with.
#[derive(Clone, Debug)]
pub(super) struct Launch(Vec<OsString>);

impl Launch {
    /// With one argument more.
    pub(super) fn with(mut self, argument: impl Into<OsString>) -> Self {
        self.0.push(argument.into());
        self
    }

    /// The program, then its arguments.
    pub(super) fn words(&self) -> &[OsString] {
        &self.0
    }

    fn of(command: &Command) -> Self {
        Self(std::iter::once(command.get_program()).chain(command.get_args()).map(OsString::from).collect())
    }
}

impl From<PathBuf> for Launch {
    fn from(program: PathBuf) -> Self {
        Self(vec![program.into()])
    }
}

/// Where the programs lie.
#[derive(Debug)]
pub(super) struct Programs {
    ours: PathBuf,
    peers: PathBuf,
    typescript: Launch,
    python: Launch,
    fastmcp: Launch,
}

impl Programs {
    /// Builds them all, and installs the peers that are not built.
    ///
    /// # Errors
    ///
    /// When one does not build, or cannot be installed.
    pub(super) fn build(site: &Site) -> Result<Self> {
        site.must_run(&mut site.cargo(&[
            "build",
            "--release",
            "--locked",
            "--quiet",
            "-p",
            "longhaul-bench",
        ]))?;
        let peers = site.target.join("compare");
        let mut build = site.cargo(&["build", "--release", "--locked", "--quiet", "--manifest-path"]);
        build.arg(format!("{PEERS}/Cargo.toml")).arg("--target-dir").arg(&peers);
        site.must_run(&mut build)?;
        let node = Node::with(site, "bench-node", PEERS, interop::OLDEST_NODE)?;
        // The versions that the interoperability tests pin.
        let python = Python::with(site, "interop-python", interop::PYTHON_PACKAGES)?;
        Ok(Self {
            ours: site.target.join("release"),
            peers: peers.join("release"),
            typescript: Launch::of(&node.script(site, "typescript.mjs")),
            python: Launch::of(&python.script(site, &format!("{PEERS}/python.py"))),
            fastmcp: Launch::of(&python.script(site, &format!("{PEERS}/fastmcp_server.py"))),
        })
    }

    /// The server of ours.
    pub(super) fn server(&self) -> Launch {
        self.ours.join("bench-server").into()
    }

    /// Our client.
    pub(super) fn client(&self) -> PathBuf {
        self.ours.join("bench-client")
    }

    /// What calls it.
    pub(super) fn load(&self) -> PathBuf {
        self.ours.join("bench-load")
    }

    /// Streams without us.
    pub(super) fn bare_streams(&self) -> Launch {
        self.ours.join("bench-bare-streams").into()
    }

    /// Durable creates without us.
    pub(super) fn bare_creates(&self) -> Launch {
        self.ours.join("bench-bare-creates").into()
    }

    /// SQLite without us.
    pub(super) fn raw_sqlite(&self) -> PathBuf {
        self.ours.join("bench-raw-sqlite")
    }

    /// The bare handler over HTTP.
    pub(super) fn bare_axum(&self) -> Launch {
        self.peers.join("bare-axum").into()
    }

    /// The bare loop over lines.
    pub(super) fn bare_lines(&self) -> Launch {
        self.peers.join("bare-lines").into()
    }

    /// The client of rmcp.
    pub(super) fn rmcp_client(&self) -> PathBuf {
        self.peers.join("rmcp-client")
    }

    /// The server on rmcp, as its documentation has it.
    pub(super) fn rmcp(&self) -> Launch {
        self.peers.join("rmcp-server").into()
    }

    /// The server on rmcp, with the allocator that ours has.
    pub(super) fn rmcp_with_our_allocator(&self) -> Launch {
        self.peers.join("rmcp-server-mimalloc").into()
    }

    /// The server on tower-mcp.
    pub(super) fn tower(&self) -> Launch {
        self.peers.join("tower-server").into()
    }

    /// The server on the TypeScript SDK.
    pub(super) fn typescript(&self) -> Launch {
        self.typescript.clone()
    }

    /// The server on the Python SDK.
    pub(super) fn python(&self) -> Launch {
        self.python.clone()
    }

    /// The server on FastMCP.
    pub(super) fn fastmcp(&self) -> Launch {
        self.fastmcp.clone()
    }
}
