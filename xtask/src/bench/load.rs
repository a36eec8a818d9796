//! The load, and what it found.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::programs::{Launch, Programs};
use crate::site::shown;

/// The processor of the load.
pub(super) const PROCESSOR: &str = "1";

/// What a load found: every call was answered rightly.
#[derive(Debug, Deserialize)]
pub(super) struct Found {
    /// How many calls.
    pub(super) calls: f64,
    /// From the first byte to the last answer.
    pub(super) seconds: f64,
    /// In microseconds.
    pub(super) p50_us: Option<f64>,
    /// In microseconds.
    pub(super) p99_us: Option<f64>,
    /// In microseconds.
    pub(super) p999_us: Option<f64>,
    /// Of a server that the load started, or of the client itself.
    pub(super) cpu_seconds: Option<f64>,
    /// Of a server that the load started.
    pub(super) peak_rss_kb: Option<f64>,
    /// The first answer, where all are alike.
    pub(super) answer: Option<String>,
}

impl Found {
    /// Calls a second.
    pub(super) fn rate(&self) -> f64 {
        self.calls / self.seconds
    }
}

/// Runs a program on one processor alone.
pub(super) fn pinned(processor: &str, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", processor]).arg(program);
    command
}

/// Calls a server over HTTP, by a load and what it is told.
///
/// # Errors
///
/// When an answer is wrong or missing.
pub(super) fn over_http(
    programs: &Programs,
    load: &[&str],
    url: &str,
    calls: u32,
    connections: u32,
) -> Result<Found> {
    let mut command = pinned(PROCESSOR, &programs.load());
    command.args(load).args([url, "--calls", &calls.to_string()]);
    command.args(["--connections", &connections.to_string()]);
    found(&mut command)
}

/// Opens streams of a kind, and keeps them open: each over a connection of its own, or over so many of HTTP/2.
///
/// # Errors
///
/// When one cannot be opened, or does not hear of a change.
pub(super) fn of_streams<F: DeserializeOwned>(
    programs: &Programs,
    url: &str,
    kind: &str,
    streams: u32,
    http2: Option<u32>,
    server: u32,
) -> Result<F> {
    let mut command = pinned(PROCESSOR, &programs.load());
    command.args(["streams", url, "--kind", kind, "--streams", &streams.to_string()]);
    command.args(http2.iter().flat_map(|connections| ["--http2".to_owned(), connections.to_string()]));
    command.args(["--pid", &server.to_string()]);
    found(&mut command)
}

/// Begins sessions, and leaves them idle.
///
/// # Errors
///
/// When one cannot be begun, or is gone once all are.
pub(super) fn of_sessions<F: DeserializeOwned>(
    programs: &Programs,
    url: &str,
    sessions: u32,
    server: u32,
) -> Result<F> {
    let mut command = pinned(PROCESSOR, &programs.load());
    command.args(["sessions", url, "--sessions", &sessions.to_string(), "--pid", &server.to_string()]);
    found(&mut command)
}

/// Starts a server and calls it over its stdin and stdout.
///
/// # Errors
///
/// When an answer is wrong or missing.
pub(super) fn over_stdio(programs: &Programs, calls: u32, server: &Launch) -> Result<Found> {
    let mut command = pinned(PROCESSOR, &programs.load());
    command.args(["stdio", "--calls", &calls.to_string(), "--"]);
    command.args(["taskset", "-c", super::server::PROCESSOR]).args(server.words());
    found(&mut command)
}

/// Lets a client call a server over HTTP.
///
/// # Errors
///
/// When an answer is wrong or missing.
pub(super) fn of_client(client: &Path, url: &str, calls: u32, in_flight: u32) -> Result<Found> {
    let mut command = pinned(PROCESSOR, client);
    found(command.args([url, &calls.to_string(), &in_flight.to_string()]))
}

/// Runs a program that prints what it found.
///
/// # Errors
///
/// When it fails, or prints something else.
pub(super) fn found<F: DeserializeOwned>(command: &mut Command) -> Result<F> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {}", shown(command)))?;
    if !output.status.success() {
        bail!("{} failed", shown(command));
    }
    serde_json::from_slice(&output.stdout).with_context(|| format!("what {} printed", shown(command)))
}
