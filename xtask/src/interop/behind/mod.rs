//! Servers of others behind ours: the same clients at each without ours and with it, and what our end leaves of them.

mod comers;
mod front;
mod killed;
mod sessions;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::tap::Tap;
use super::theirs::{self, Listening, Over};
use super::{PYTHON, Rigs, Server};
use crate::site::Site;
use crate::tally::Tally;
use crate::test::program;
use crate::wire::{self, Whose};
pub(super) use comers::come_and_go;
use front::Front;
pub(super) use killed::killed;
pub(super) use sessions::end as end_sessions;

/// A server of others that is put behind ours.
#[derive(Debug)]
pub(super) struct Behind {
    /// Its name in `conformance/interop/behind.json`.
    name: &'static str,
    /// The server that it is.
    server: &'static str,
    over: Over,
    /// The Python client looks at it as well.
    with_python: bool,
}

/// Those of the stage `interop`.
pub(super) const BEHIND: &[Behind] = &[
    Behind::new("everything", "everything", Over::Stdio).with_python(),
    Behind::new("filesystem", "filesystem", Over::Stdio).with_python(),
    Behind::new("typescript-v1", "typescript-v1", Over::Http).with_python(),
    Behind::new("typescript-v2", "typescript-v2", Over::Http).with_python(),
    Behind::new("typescript-2024", "typescript-v1", Over::Sse).with_python(),
    Behind::new("rmcp", "rmcp", Over::Stdio).with_python(),
    Behind::new("fastmcp", theirs::FASTMCP, Over::Http).with_python(),
];

/// How many sessions the stage `interop` has end in every way, over either transport.
pub(super) const SESSIONS: usize = 50;

/// Puts the servers named behind ours, or all; and has so many sessions end. Or has ours killed in the middle of calls, and nothing
/// else.
///
/// # Errors
///
/// When a server has no such name, or something cannot be set up.
pub(crate) fn behind(site: &Site, servers: &[String], sessions: usize, only_killed: bool) -> Result<Tally> {
    theirs::known(servers)?;
    let chosen = |each: &&Behind| servers.is_empty() || servers.iter().any(|name| name == each.server);
    program(site, Server::Commands.name())?;
    let rigs = Rigs::new(site)?;
    wire::held(site, "behind", Whose::All, |site| {
        if only_killed {
            return killed(site, &rigs);
        }
        let mut tally = Tally::default();
        for each in BEHIND.iter().filter(chosen) {
            tally += each.run(site, &rigs)?;
        }
        if servers.is_empty() {
            tally += killed(site, &rigs)?;
        }
        tally += end_sessions(site, &rigs, sessions)?;
        tally += come_and_go(site, &rigs, sessions)?;
        Ok(tally)
    })
}

impl Behind {
    const fn new(name: &'static str, server: &'static str, over: Over) -> Self {
        Self { name, server, over, with_python: false }
    }

    const fn with_python(mut self) -> Self {
        self.with_python = true;
        self
    }

    /// Has every client look at it without ours, and behind it; then ours is killed, and nothing may be left.
    pub(super) fn run(&self, site: &Site, rigs: &Rigs) -> Result<Tally> {
        let upstream = Upstream::start(site, rigs, self.server, self.over, self.name)?;
        let mut front =
            Front::start(site, &format!("[http]\nlegacy_sse = true\n\n{}", upstream.section("it", "")))?;
        front.lists(site, [""])?;
        let before = upstream.target().to_string();
        let behind = json!({ "url": front.url() }).to_string();
        let mut tally = Tally::default();
        let node = rigs.node.script(site, "behind.mjs");
        let python = self.with_python.then(|| rigs.python.script(site, &format!("{PYTHON}/behind.py")));
        for mut client in [Some(node), python].into_iter().flatten() {
            let ran = site.run(client.args([self.name, &before, &behind]))?;
            tally += Tap::read(&ran.lines).tally(ran.success);
        }
        tally += front.kill()?;
        Ok(tally)
    }
}

/// A server of others as ours is told of it.
#[derive(Debug)]
struct Upstream {
    reach: Reach,
}

#[derive(Debug)]
enum Reach {
    /// Whoever wants it starts it, in the root.
    Command {
        words: Vec<String>,
        root: PathBuf,
    },
    Url(Box<Listening>),
}

impl Upstream {
    fn start(site: &Site, rigs: &Rigs, server: &str, over: Over, name: &str) -> Result<Self> {
        let reach = match over {
            Over::Stdio => Reach::Command {
                words: words(&theirs::command(site, rigs, server)?)?,
                root: site.root.clone(),
            },
            over => Reach::Url(Box::new(Listening::start(
                site,
                rigs,
                server,
                over,
                &format!("behind-{name}.log"),
            )?)),
        };
        Ok(Self { reach })
    }

    /// Has its command end with another word: the folder that it serves.
    fn ends_with(&mut self, folder: &Path) -> Result<()> {
        if let Reach::Command { words, .. } = &mut self.reach {
            words.pop();
            words.push(folder.to_str().context("a path is not UTF-8")?.to_owned());
        }
        Ok(())
    }

    /// Has it started as people start servers that need something beside them: by a shell, which leaves a process of its own
    /// behind, with the streams of the server.
    fn in_a_shell(mut self) -> Self {
        if let Reach::Command { words, .. } = &mut self.reach {
            let shell = ["sh", "-c", "sleep 3600 & exec \"$@\"", "sh"].map(str::to_owned);
            words.splice(0..0, shell);
        }
        self
    }

    /// As a client is pointed at it.
    fn target(&self) -> Value {
        match &self.reach {
            Reach::Command { words, .. } => json!({ "command": words }),
            Reach::Url(server) => json!({ "url": server.url() }),
        }
    }

    /// Its section of a configuration, with more lines.
    fn section(&self, name: &str, more: &str) -> String {
        let mut section = format!("[servers.{name}]\n");
        // A list of texts, and a text, are the same in JSON and in TOML.
        let written = match &self.reach {
            Reach::Command { words, root } => writeln!(section, "command = {words:?}\ncwd = {root:?}"),
            Reach::Url(server) => writeln!(section, "url = {:?}", server.url()),
        };
        written.expect("a string takes everything");
        section + more + "\n"
    }
}

/// The words of a command.
fn words(command: &Command) -> Result<Vec<String>> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| Ok(word.to_str().context("a path is not UTF-8")?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_behind_ours_is_known_and_has_its_steps() {
        let steps: Value =
            serde_json::from_str(include_str!("../../../../conformance/interop/behind.json")).unwrap();
        for each in BEHIND {
            assert!(theirs::names().any(|name| name == each.server), "{}", each.name);
            assert!(steps[each.name]["node"].is_array(), "{}", each.name);
            assert_eq!(steps[each.name]["python"].is_array(), each.with_python, "{}", each.name);
        }
    }
}
