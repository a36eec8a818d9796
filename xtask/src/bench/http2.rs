//! Streams that stay open over HTTP/2, many a connection: memory for each, and how soon all have heard of a change.

use anyhow::{Context, Result};
use serde::Deserialize;

use super::figures::Figures;
use super::goal::Goal;
use super::load;
use super::programs::Programs;
use super::report::Report;
use super::server::Server;
use crate::site::Site;

/// How many, and over how many connections: first for their memory, then to hear of a change.
const MANY: (u32, u32) = (50_000, 200);
const TOLD: (u32, u32) = (10_000, 40);

/// How many a connection may have: those, and what is asked meanwhile.
const EACH: &str = "256";

/// In kB, above what hyper takes alone.
const MEMORY: Goal = Goal::AtMost(3.0);

/// In milliseconds.
const SOON: Goal = Goal::AlwaysUnder(1000.0);

/// What a load of streams found.
#[derive(Debug, Deserialize)]
struct Found {
    kb: f64,
    told_ms: f64,
}

/// One of those compared, and its figures.
struct Row {
    name: &'static str,
    kind: &'static str,
    of: (u32, u32),
    kb: Figures,
    told: Figures,
}

pub(super) fn run(_: &Site, programs: &Programs, rounds: usize, report: &mut Report) -> Result<()> {
    let row = |name, kind, of| {
        let none = Figures::default;
        Row { name, kind, of, kb: none(), told: none() }
    };
    let mut rows = [
        row("bare hyper", "bare", MANY),
        row("longhaul", "listen", MANY),
        row("bare hyper, fewer", "bare", TOLD),
        row("longhaul, fewer", "listen", TOLD),
    ];
    for _ in 0..rounds {
        for row in &mut rows {
            row.measure(programs).with_context(|| row.name)?;
        }
    }
    let cells = rows.each_ref().map(|row| {
        let [kb, told] = [&row.kb, &row.told].map(ToString::to_string);
        [row.name.to_owned(), row.of.0.to_string(), row.of.1.to_string(), kb, told]
    });
    report.table(["", "streams", "connections", "kB/stream", "all told, ms"], &cells);
    report.plot(
        "memory per open stream over HTTP/2, kB",
        &rows.each_ref().map(|row| (row.name, row.kb.median()))[..2],
    );
    let [bare, ours, _, told] = &rows;
    report.judge(MEMORY, "memory per subscription above bare hyper, kB", &ours.kb.less(&bare.kb));
    report.judge(SOON, "until 10,000 subscriptions have heard of a change, ms", &told.told);
    Ok(())
}

impl Row {
    /// A server is measured once: what it has freed, it may keep.
    fn measure(&mut self, programs: &Programs) -> Result<()> {
        let server = match self.kind {
            "bare" => Server::start(&programs.bare_streams().with(EACH))?,
            _ => Server::start(&programs.server().with("streams").with("--http2").with(EACH))?,
        };
        let (streams, connections) = self.of;
        let found: Found =
            load::of_streams(programs, server.url(), self.kind, streams, Some(connections), server.pid())?;
        self.kb.push(found.kb);
        self.told.push(found.told_ms);
        Ok(())
    }
}
