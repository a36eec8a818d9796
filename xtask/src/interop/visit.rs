//! Our client against servers that others wrote: which servers, which checks, over which transports.

use std::process::Command;

use anyhow::Result;

use super::Rigs;
use super::tap::Tap;
use super::theirs::{self, FASTMCP, Listening, Over};
use crate::site::Site;
use crate::tally::Tally;
use crate::test::program;
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

/// The revision of the legacy era that a server of both is asked for.
const LEGACY: Option<&str> = Some("2025-11-25");

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

/// Visits the servers named, or all, and holds what they and our client say against the schemas.
///
/// # Errors
///
/// When a server has no such name, or it or our client cannot be set up.
pub(crate) fn visit(site: &Site, servers: &[String]) -> Result<Tally> {
    theirs::known(servers)?;
    let chosen = |visit: &&Visit| servers.is_empty() || servers.iter().any(|name| name == visit.server);
    program(site, CLIENT)?;
    let rigs = Rigs::new(site)?;
    wire::held(site, "servers", Whose::All, |site| {
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

    /// Whether this tries that set of checks with that server.
    #[cfg(test)]
    pub(super) fn tries(&self, server: &str, set: &str) -> bool {
        self.server == server && self.sets.split(',').any(|known| known == set)
    }

    /// Starts the server if it is one that listens, and has our client visit it.
    pub(super) fn run(&self, site: &Site, rigs: &Rigs) -> Result<Tally> {
        let mut client = Command::new(site.target.join("debug").join(CLIENT));
        client.current_dir(&site.root).arg(self.sets);
        if let Some(date) = self.revision {
            client.args(["--revision", date]);
        }
        let listening = match self.over {
            Over::Stdio => {
                let server = theirs::command(site, rigs, self.server)?;
                client.arg("--").arg(server.get_program()).args(server.get_args());
                None
            }
            over => {
                let revision = self.revision.unwrap_or("newest");
                let log = format!("{}-{over:?}-{revision}.log", self.server);
                let server = Listening::start(site, rigs, self.server, over, &log)?;
                client.args(["--url", &server.url()]);
                Some(server)
            }
        };
        let ran = site.run(&mut client)?;
        drop(listening);
        Ok(Tap::read(&ran.lines).tally(ran.success))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_that_is_visited_is_known() {
        assert!(VISITS.iter().all(|visit| theirs::names().any(|name| name == visit.server)));
    }
}
