//! Sessions of ours over its standard streams, each of which starts the servers behind it and ends in one of three ways, with its
//! call answered or in the middle of it.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::Upstream;
use super::front::Place;
use crate::interop::Rigs;
use crate::interop::theirs::Over;
use crate::site::Site;
use crate::tally::Tally;

/// How many there are at once: one of six waits out a call that nobody will answer, and takes nothing meanwhile.
const AT_ONCE: usize = 8;

/// What a host says first.
pub(super) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"host","version":"1"}}}"#;
pub(super) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// How long one that is asked to end again has had for it.
const MOMENT: Duration = Duration::from_millis(50);

/// How a session goes.
#[derive(Clone, Copy)]
struct Session {
    number: usize,
    end: End,
    /// It ends in the middle of a call.
    is_calling: bool,
    /// The server that it calls is below a shell, which has a process beside it.
    is_in_a_shell: bool,
}

/// How a session ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// The host closes its stream.
    Closed,
    /// It is asked to end; and again, where it would wait for a call.
    Asked,
    /// It is killed, alone.
    Killed,
}

/// The servers that are behind ours: one that is a process, and one that is a tree of them, whose tools begin with `tree_`.
pub(super) fn servers(site: &Site, rigs: &Rigs) -> Result<String> {
    let start = || Upstream::start(site, rigs, "rmcp", Over::Stdio, "sessions");
    Ok(start()?.section("it", "") + &start()?.in_a_shell().section("tree", "prefix = \"tree_\"\n"))
}

/// So many sessions, of which nothing may be left.
pub(in crate::interop) fn end(site: &Site, rigs: &Rigs, count: usize) -> Result<Tally> {
    println!("# {count} sessions over standard streams, which end in every way");
    let place = Place::new(site, &servers(site, rigs)?)?;
    let place = &place;
    thread::scope(|scope| {
        let worker = |first: usize| {
            move || -> Result<()> {
                for number in (first..count).step_by(AT_ONCE) {
                    let session = Session::of(number);
                    session.go(site, place).with_context(|| session.to_string())?;
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

impl Session {
    /// Of twelve in a row no two go alike.
    fn of(number: usize) -> Self {
        Self {
            number,
            end: [End::Closed, End::Asked, End::Killed][number % 3],
            is_calling: number / 3 % 2 == 1,
            is_in_a_shell: number / 6 % 2 == 1,
        }
    }

    fn go(self, site: &Site, place: &Place) -> Result<()> {
        let mut command = place.command(site);
        command.args(["--stdio", "--store", "memory:"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let talked = self.talk(&mut child);
        let mut awaited = 0;
        match self.end {
            End::Closed => drop(child.stdin.take()),
            End::Asked => {
                ask_to_end(&child)?;
                if self.is_calling {
                    thread::sleep(MOMENT);
                    ask_to_end(&child)?;
                    // As a shell says of one that SIGTERM has ended.
                    awaited = 128 + 15;
                }
            }
            End::Killed => child.kill()?,
        }
        // Waiting would close it: who is asked to end is to be asked alone.
        let stdin = child.stdin.take();
        let status = child.wait()?;
        drop(stdin);
        talked?;
        ensure!(matches!(self.end, End::Killed) || status.code() == Some(awaited), "it ended with {status}");
        Ok(())
    }

    /// A call that is answered, or that is under way.
    fn talk(self, child: &mut Child) -> Result<()> {
        let tree = if self.is_in_a_shell { "tree_" } else { "" };
        let call = if self.is_calling { long_call(tree, LONG) } else { quick_call(tree) };
        let mut stdin = child.stdin.as_ref().context("it has no standard input")?;
        for line in [INITIALIZE, INITIALIZED, &call] {
            writeln!(stdin, "{line}")?;
        }
        let stdout = child.stdout.as_mut().context("it has no standard output")?;
        for line in BufReader::new(stdout).lines() {
            let line = line?;
            if line.contains(r#""id":2"#) {
                ensure!(!self.is_calling && line.contains("here"), "the call came to {line}");
                return Ok(());
            }
            if self.is_calling && line.contains(UNDER_WAY) {
                return Ok(());
            }
        }
        bail!("it ended before the call was answered, or under way")
    }
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, end, is_calling, is_in_a_shell } = self;
        let call = if *is_calling { "in the middle of a call" } else { "after its call" };
        let shell = if *is_in_a_shell { "of a server in a shell" } else { "of a server alone" };
        write!(f, "session {number}, {end:?} {call} {shell}")
    }
}

fn ask_to_end(child: &Child) -> Result<()> {
    Command::new("kill").arg(child.id().to_string()).status().context("it cannot be asked to end")?;
    Ok(())
}

/// In how many steps of 20 ms a call is done that no session sees the end of.
pub(super) const LONG: usize = 100_000;

/// What is heard of a call that is under way.
pub(super) const UNDER_WAY: &str = "notifications/progress";

/// A call that is answered at once, with `here`.
pub(super) fn quick_call(prefix: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"{prefix}echo","arguments":{{"message":"here"}}}}}}"#
    )
}

/// One that takes so many steps, each of which is told.
pub(super) fn long_call(prefix: &str, steps: usize) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"{prefix}count","arguments":{{"steps":{steps}}},"_meta":{{"progressToken":"steps"}}}}}}"#
    )
}
