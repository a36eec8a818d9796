//! `cargo xtask bench flame`: where the server's time goes in a call and in a durable create, drawn for
//! `docs/where-the-time-goes.md`. perf looks at the release many times a second, by a clock, for not every machine shows the
//! counters of its processor; inferno draws what it saw.

mod stacks;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::creates::CALLERS;
use super::load;
use super::programs::Launch;
use super::server::Server;
use crate::site::{Site, shown};
use crate::tally::Tally;
use crate::tools::{installed, system};

/// How often perf looks in a second in which the server works: no divisor of what else goes by a clock.
const RATE: &str = "1999";

/// How perf finds who called whom, and how many bytes of a stack it keeps for that.
const UNWINDING: &str = "dwarf,32768";

/// What takes less, in per cent, is not drawn.
const LEAST: &str = "0.3";

/// Calls before those that are looked at.
const WARM_UP: u32 = 2_000;

/// How often perf must have seen the server for a picture to say anything.
const SEEN: u64 = 1_000;

struct Picture {
    file: &'static str,
    title: &'static str,
    /// What the server is to be; with a store after it where it is to have one.
    mode: &'static str,
    load: &'static str,
    /// Of one server.
    calls: u32,
    /// How many servers are looked at, one after the other.
    servers: u32,
}

const PICTURES: [Picture; 2] = [
    Picture {
        file: "docs/flame-call.svg",
        title: "tools/call of echo over HTTP",
        mode: "http",
        load: "http",
        calls: 200_000,
        servers: 1,
    },
    // As many of each as are made before the leases of its first are renewed.
    Picture {
        file: "docs/flame-create.svg",
        title: "durable creates on SQLite",
        mode: "durable",
        load: "creates",
        calls: 8_000,
        servers: 6,
    },
];

/// Builds the server, looks where it is while it works, and writes the pictures.
///
/// # Errors
///
/// When something cannot be built or installed, or perf sees nothing.
pub(crate) fn run(site: &Site) -> Result<Tally> {
    system::require(site, &system::TASKSET)?;
    system::require(site, &system::PERF)?;
    let draws = installed::install(site, &installed::INFERNO)?.join("inferno-flamegraph");
    let programs = ["--bin", "bench-server", "--bin", "bench-load"];
    let mut build = site.cargo(&["build", "--release", "--locked", "--quiet", "-p", "longhaul-bench"]);
    site.must_run(build.args(programs))?;
    let mut tally = Tally::default();
    for picture in &PICTURES {
        let mut seen = String::new();
        for _ in 0..picture.servers {
            let folder = tempfile::Builder::new().prefix("bench-flame-").tempdir_in(&site.target)?;
            seen += &look(site, picture, folder.path()).with_context(|| picture.title)?;
        }
        let stacks = stacks::fold(&seen);
        let count: u64 = stacks.values().sum();
        ensure!(count >= SEEN, "perf saw the server {count} times only, where {SEEN} say something");
        let drawn = draw(&draws, picture, &stacks::written(&stacks))?;
        fs::write(site.root.join(picture.file), drawn)
            .with_context(|| format!("cannot write {}", picture.file))?;
        println!("{}: seen {count} times, drawn in {}", picture.title, picture.file);
        tally += Tally::one(true);
    }
    Ok(tally)
}

/// What perf saw, as `perf script` tells it.
fn look(site: &Site, picture: &Picture, folder: &Path) -> Result<String> {
    let release = site.target.join("release");
    let mut launch = Launch::from(release.join("bench-server")).with(picture.mode);
    if picture.mode == "durable" {
        launch = launch.with(folder.join("tasks.db"));
    }
    let server = Server::start(&launch)?;
    let load = |calls: u32| {
        let mut command = load::pinned(load::PROCESSOR, &release.join("bench-load"));
        command.args([picture.load, server.url(), "--calls", &calls.to_string()]);
        command.args(["--connections", &CALLERS.to_string()]);
        command
    };
    site.must_run(&mut load(WARM_UP))?;
    let (data, calls) = (folder.join("perf.data"), load(picture.calls));
    let mut record = Command::new("perf");
    record.args(["record", "--quiet", "-e", "cpu-clock", "-F", RATE, "--call-graph", UNWINDING, "-o"]);
    record.arg(&data).args(["-p", &server.pid().to_string(), "--"]);
    record.arg(calls.get_program()).args(calls.get_args());
    site.must_run(&mut record)?;
    drop(server);
    let mut script = Command::new("perf");
    script.args(["script", "--no-inline", "-F", "comm,ip,sym", "-i"]).arg(&data).stdin(Stdio::null());
    let output = script.output().with_context(|| format!("cannot run {}", shown(&script)))?;
    ensure!(output.status.success(), "{} failed", shown(&script));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The picture of stacks, a line each.
fn draw(program: &Path, picture: &Picture, stacks: &str) -> Result<Vec<u8>> {
    let mut command = Command::new(program);
    command.args(["--title", picture.title, "--countname", "samples", "--colors", "rust", "--deterministic"]);
    command.args(["--minwidth", LEAST, "--width", "1200", "--fontsize", "11"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut drawing = command.spawn().with_context(|| format!("cannot run {}", shown(&command)))?;
    // It draws once it has read everything.
    drawing.stdin.take().context("a piped stdin")?.write_all(stacks.as_bytes())?;
    let output = drawing.wait_with_output()?;
    ensure!(output.status.success(), "{} failed", shown(&command));
    Ok(output.stdout)
}
