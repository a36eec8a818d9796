//! The programs that are measured and that measure, built as they are shipped.

use std::path::PathBuf;

use anyhow::Result;

use crate::site::Site;

/// The folder of the peers, which are no part of the workspace.
const PEERS: &str = "benches/compare/Cargo.toml";

/// Where the programs lie.
#[derive(Debug)]
pub(super) struct Programs {
    ours: PathBuf,
    peers: PathBuf,
}

impl Programs {
    /// Builds them all.
    ///
    /// # Errors
    ///
    /// When one does not build.
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
        let mut build = site.cargo(&["build", "--release", "--locked", "--quiet", "--manifest-path", PEERS]);
        site.must_run(build.arg("--target-dir").arg(&peers))?;
        Ok(Self { ours: site.target.join("release"), peers: peers.join("release") })
    }

    /// The server of ours.
    pub(super) fn server(&self) -> PathBuf {
        self.ours.join("bench-server")
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
    pub(super) fn bare_streams(&self) -> PathBuf {
        self.ours.join("bench-bare-streams")
    }

    /// SQLite without us.
    pub(super) fn raw_sqlite(&self) -> PathBuf {
        self.ours.join("bench-raw-sqlite")
    }

    /// The bare handler.
    pub(super) fn bare_axum(&self) -> PathBuf {
        self.peers.join("bare-axum")
    }

    /// The client of rmcp.
    pub(super) fn rmcp_client(&self) -> PathBuf {
        self.peers.join("rmcp-client")
    }

    /// The server on rmcp.
    pub(super) fn rmcp(&self) -> PathBuf {
        self.peers.join("rmcp-server")
    }
}
