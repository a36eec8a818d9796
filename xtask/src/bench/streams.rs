//! Streams that stay open: memory for each, and how soon all have heard of a change.

use anyhow::{Context, Result};
use serde::Deserialize;

use super::figures::Figures;
use super::goal::Goal;
use super::load;
use super::programs::Programs;
use super::report::Report;
use super::server::Server;
use crate::site::Site;

/// A machine lets a process have 20,000 open files; each end of a stream is one.
const STREAMS: u32 = 8_000;

/// In kB, above what hyper takes alone: of a stream, and of one with the session that it is of.
const STREAM: Goal = Goal::AtMost(3.0);
const WITH_SESSION: Goal = Goal::AtMost(7.0);

/// What a load of streams found.
#[derive(Debug, Deserialize)]
struct Found {
    kb: f64,
    told_ms: f64,
    told_past_slow_ms: Option<f64>,
}

/// One of those compared, and its figures.
struct Row {
    name: &'static str,
    kind: &'static str,
    kb: Figures,
    told: Figures,
    told_past_slow: Figures,
}

pub(super) fn run(_: &Site, programs: &Programs, rounds: usize, report: &mut Report) -> Result<()> {
    let mut rows = [
        Row::new("bare hyper", "bare"),
        Row::new("GET, 2025-11-25", "legacy"),
        Row::new("subscriptions/listen", "listen"),
    ];
    for _ in 0..rounds {
        for row in &mut rows {
            row.measure(programs).with_context(|| row.name)?;
        }
    }
    let cells = rows.each_ref().map(|row| {
        let [kb, told, told_past_slow] = [&row.kb, &row.told, &row.told_past_slow].map(ToString::to_string);
        [row.name.to_owned(), kb, told, told_past_slow]
    });
    report.remark(&format!("{STREAMS} streams"));
    report.table(["", "kB/stream", "all told, ms", "past slow readers, ms"], &cells);
    report.plot("memory per open stream, kB", &rows.each_ref().map(|row| (row.name, row.kb.median())));
    let [bare, legacy, listen] = &rows;
    let above = |row: &Row| row.kb.less(&bare.kb);
    report.judge(WITH_SESSION, "memory per GET stream and its session above bare hyper, kB", &above(legacy));
    report.judge(STREAM, "memory per subscription above bare hyper, kB", &above(listen));
    Ok(())
}

impl Row {
    fn new(name: &'static str, kind: &'static str) -> Self {
        let none = Figures::default;
        Self { name, kind, kb: none(), told: none(), told_past_slow: none() }
    }

    /// A server is measured once: what it has freed, it may keep.
    fn measure(&mut self, programs: &Programs) -> Result<()> {
        let server = match self.kind {
            "bare" => Server::start(&programs.bare_streams())?,
            _ => Server::start(&programs.server().with("streams"))?,
        };
        let found: Found = load::of_streams(programs, server.url(), self.kind, STREAMS, None, server.pid())?;
        self.kb.push(found.kb);
        self.told.push(found.told_ms);
        if let Some(told) = found.told_past_slow_ms {
            self.told_past_slow.push(told);
        }
        Ok(())
    }
}
