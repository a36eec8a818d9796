//! Ours is killed in the middle of calls of servers of others, and is there again.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::Upstream;
use super::front::Front;
use crate::interop::tap::Tap;
use crate::interop::theirs::{FASTMCP, Over};
use crate::interop::{PYTHON, Rigs};
use crate::site::{Ran, Site};
use crate::tally::Tally;

/// The servers, and what holds for their tools: each is called by the name before it, as `killed.json` lists.
const SERVERS: &[(&str, &str, Over, &str)] = &[
    ("its", "typescript-v1", Over::Http, ""),
    ("redis", FASTMCP, Over::Http, AGAIN),
    ("old", "typescript-v1", Over::Sse, AGAIN),
    ("new", "typescript-v2", Over::Http, AGAIN),
    ("files", FILES, Over::Stdio, AGAIN),
    ("again", "everything", Over::Stdio, AGAIN),
    ("rust", "rmcp", Over::Stdio, AGAIN),
    ("once", "everything", Over::Stdio, ""),
    ("last", "typescript-v1", Over::Stdio, ""),
];

/// The one that serves files.
const FILES: &str = "filesystem";

/// How many files it searches: so many that it takes some seconds.
const MANY: usize = 30_000;

/// Its tools may be called again.
const AGAIN: &str = "rerun = \"restart\"\n";

/// Kills ours while every kind of client has called, and sees what they come back to.
pub(in crate::interop) fn killed(site: &Site, rigs: &Rigs) -> Result<Tally> {
    let (mut upstreams, mut config) = (Vec::new(), String::new());
    for (name, server, over, policy) in SERVERS {
        let mut upstream = Upstream::start(site, rigs, server, *over, &format!("killed-{name}"))?;
        if *server == FILES {
            upstream.ends_with(&many_files(site)?)?;
        }
        let lines = format!("prefix = \"{name}_\"\ntask = \"after 100ms\"\nhold = \"1s\"\n{policy}");
        config += &upstream.section(name, &lines);
        upstreams.push(upstream);
    }
    let mut front = Front::start(site, &config)?;
    front.lists(site, SERVERS.iter().map(|(name, ..)| *name))?;
    let ready = Client::Python.notes(&front).with_extension("ready");
    // All calls are under way at once, whichever clients take longer to start.
    let begun = thread::scope(|scope| {
        let hosts = scope.spawn(|| play(site, rigs, Client::Python, "begin", &front));
        while !ready.exists() && !hosts.is_finished() {
            thread::sleep(Duration::from_millis(10));
        }
        let clients = play(site, rigs, Client::Node, "begin", &front);
        [clients, hosts.join().unwrap_or_else(|_| bail!("the thread of the Python hosts panicked"))]
    });
    for (ran, whose) in begun.into_iter().zip(["Node", "Python"]) {
        if !ran?.success {
            return Ok(site.complain(format!("not every call of the {whose} clients has begun")));
        }
    }
    let mut tally = front.kill()?;
    front.start_again()?;
    for client in [Client::Node, Client::Python] {
        let ran = play(site, rigs, client, "end", &front)?;
        tally += Tap::read(&ran.lines).tally(ran.success);
    }
    tally += front.kill()?;
    Ok(tally)
}

/// A folder with so many files that whoever looks through it is at it for a while.
fn many_files(site: &Site) -> Result<PathBuf> {
    let folder = site.target.join("interop").join("many-files");
    // It is written last.
    let needle = folder.join("0").join("needle.txt");
    if !needle.exists() {
        let cannot = || format!("cannot fill {}", folder.display());
        for number in 0..MANY {
            let within = folder.join((number / 200).to_string());
            fs::create_dir_all(&within).with_context(cannot)?;
            fs::write(within.join(format!("{number}.txt")), "").with_context(cannot)?;
        }
        fs::write(needle, "").with_context(cannot)?;
    }
    Ok(folder)
}

/// Whose clients call.
#[derive(Clone, Copy, Debug)]
enum Client {
    Node,
    Python,
}

impl Client {
    /// Where they note how to come back.
    fn notes(self, front: &Front) -> PathBuf {
        front.path().join(match self {
            Self::Node => "calls-node.json",
            Self::Python => "calls-python.json",
        })
    }
}

/// Has clients begin their calls, or come back to them.
fn play(site: &Site, rigs: &Rigs, client: Client, verb: &str, front: &Front) -> Result<Ran> {
    let mut script = match client {
        Client::Node => rigs.node.script(site, "killed.mjs"),
        Client::Python => rigs.python.script(site, &format!("{PYTHON}/killed.py")),
    };
    site.run(script.arg(verb).arg(front.url()).arg(client.notes(front)))
}
