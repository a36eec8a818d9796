//! Sessions of 2025-11-25 over HTTP in which nothing is open: memory for each.

use anyhow::{Context, Result};
use serde::Deserialize;

use super::figures::Figures;
use super::goal::Goal;
use super::load;
use super::programs::{Launch, Programs};
use super::report::Report;
use super::server::Server;
use crate::site::Site;

/// How many of ours, and of rmcp's, which takes longer for each.
const OURS: u32 = 50_000;
const THEIRS: u32 = 5_000;

/// In kB.
const GOAL: Goal = Goal::AtMost(4.0);

/// What a load of sessions found.
#[derive(Debug, Deserialize)]
struct Found {
    kb: f64,
    per_second: f64,
}

/// One of those compared, and its figures.
struct Row {
    name: &'static str,
    server: Launch,
    sessions: u32,
    kb: Figures,
    per_second: Figures,
}

pub(super) fn run(_: &Site, programs: &Programs, rounds: usize, report: &mut Report) -> Result<()> {
    let row = |name, server, sessions| {
        let none = Figures::default;
        Row { name, server, sessions, kb: none(), per_second: none() }
    };
    let mut rows = [
        row("longhaul", programs.server().with("streams"), OURS),
        row("rmcp 3.8.0", programs.rmcp().with("sessions"), THEIRS),
        row("rmcp, our allocator", programs.rmcp_with_our_allocator().with("sessions"), THEIRS),
    ];
    for _ in 0..rounds {
        for row in &mut rows {
            row.measure(programs).with_context(|| row.name)?;
        }
    }
    let cells = rows.each_ref().map(|row| {
        let [kb, per_second] = [&row.kb, &row.per_second].map(ToString::to_string);
        [row.name.to_owned(), row.sessions.to_string(), kb, per_second]
    });
    report.table(["", "sessions", "kB/session", "begun a second"], &cells);
    report.plot("memory per idle session, kB", &rows.each_ref().map(|row| (row.name, row.kb.median())));
    let [ours, peers @ ..] = &rows;
    for peer in peers {
        report.ratio(&format!("memory per session, {} over longhaul", peer.name), &peer.kb.over(&ours.kb));
    }
    report.judge(GOAL, "memory per idle session, kB", &ours.kb);
    Ok(())
}

impl Row {
    /// A server is measured once: what it has freed, it may keep.
    fn measure(&mut self, programs: &Programs) -> Result<()> {
        let server = Server::start(&self.server)?;
        let found: Found = load::of_sessions(programs, server.url(), self.sessions, server.pid())?;
        self.kb.push(found.kb);
        self.per_second.push(found.per_second);
        Ok(())
    }
}
