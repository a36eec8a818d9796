//! Sessions of ours over its standard streams, each of which starts the servers behind it and ends in one of three ways.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail, ensure};

use super::Upstream;
use super::front::Place;
use crate::interop::Rigs;
use crate::interop::theirs::Over;
use crate::site::Site;
use crate::tally::Tally;

/// How many there are at once.
const AT_ONCE: usize = 2;

/// What a host says first, and then a call.
const SAID: [&str; 3] = [
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"host","version":"1"}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"message":"here"}}}"#,
];

/// How a session ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// The host closes its stream.
    Closed,
    /// It is asked to end.
    Asked,
    /// It is killed, alone.
    Killed,
}

/// So many sessions, of which nothing may be left.
pub(in crate::interop) fn end(site: &Site, rigs: &Rigs, count: usize) -> Result<Tally> {
    println!("# {count} sessions, which end in every way");
    let upstream = Upstream::start(site, rigs, "rmcp", Over::Stdio, "sessions")?;
    let place = Place::new(site, &upstream.section("it", ""))?;
    let place = &place;
    thread::scope(|scope| {
        let worker = |first: usize| {
            move || -> Result<()> {
                for number in (first..count).step_by(AT_ONCE) {
                    let end = [End::Closed, End::Asked, End::Killed][number % 3];
                    session(site, place, end).with_context(|| format!("session {number}, {end:?}"))?;
                }
                Ok(())
            }
        };
        let workers: Vec<_> = (0..AT_ONCE).map(|first| scope.spawn(worker(first))).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|_| bail!("a host of sessions panicked")))
    })?;
    place.is_empty()
}

fn session(site: &Site, place: &Place, end: End) -> Result<()> {
    let mut command = place.command(site);
    command.args(["--stdio", "--store", "memory:"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let talked = talk(&mut child);
    match end {
        End::Closed => drop(child.stdin.take()),
        End::Asked => {
            Command::new("kill").arg(child.id().to_string()).status().context("it cannot be asked to end")?;
        }
        End::Killed => child.kill()?,
    }
    let status = child.wait()?;
    talked?;
    ensure!(status.success() || matches!(end, End::Killed), "it ended with {status}");
    Ok(())
}

/// A call that is answered.
fn talk(child: &mut Child) -> Result<()> {
    let mut stdin = child.stdin.as_ref().context("it has no standard input")?;
    for line in SAID {
        writeln!(stdin, "{line}")?;
    }
    let stdout = child.stdout.as_mut().context("it has no standard output")?;
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        if line.contains(r#""id":2"#) {
            ensure!(line.contains("here"), "the call came to {line}");
            return Ok(());
        }
    }
    bail!("it did not answer the call")
}
