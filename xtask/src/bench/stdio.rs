//! Throughput and memory over stdio, all calls pipelined.

use anyhow::{Context, Result, ensure};

use super::figures::Figures;
use super::goal::Goal;
use super::load;
use super::programs::{Launch, Programs};
use super::report::Report;
use crate::site::Site;

/// How many times rmcp's throughput ours must be.
const THROUGHPUT: Goal = Goal::AtLeast(25.0);

/// How many times ours the bare loop may do.
const FLOOR: Goal = Goal::AtMost(3.0);

/// How much memory, in MB, we may have resident at any time.
const MEMORY: Goal = Goal::AlwaysUnder(16.0);

/// One of those compared, and its figures.
struct Row {
    name: &'static str,
    server: Launch,
    calls: u32,
    rate: Figures,
    cpu: Figures,
    peak: Figures,
    answer: Option<String>,
}

pub(super) fn run(_: &Site, programs: &Programs, rounds: usize, report: &mut Report) -> Result<()> {
    let mut rows = [
        Row::new("bare loop", programs.bare_lines(), 100_000),
        Row::new("longhaul", programs.server().with("stdio"), 100_000),
        Row::new("rmcp 3.8.0", programs.rmcp().with("stdio"), 100_000),
        Row::new("tower-mcp 0.25.0", programs.tower().with("stdio"), 100_000),
        Row::new("TypeScript 2.4.0", programs.typescript().with("stdio"), 50_000),
        Row::new("Python 2.3.0", programs.python().with("stdio"), 5_000),
        Row::new("FastMCP 4.1.2", programs.fastmcp().with("stdio"), 2_000),
    ];
    for _ in 0..rounds {
        for row in &mut rows {
            row.measure(programs)?;
        }
    }
    let cells = rows.each_ref().map(|row| {
        let [rate, cpu, peak] = [&row.rate, &row.cpu, &row.peak].map(ToString::to_string);
        [row.name.to_owned(), row.calls.to_string(), rate, cpu, peak]
    });
    report.table(["", "calls", "calls/s", "CPU us/call", "peak MB"], &cells);
    report.plot("calls a second over stdio", &rows.each_ref().map(|row| (row.name, row.rate.median())));
    let [bare, ours, rmcp, ..] = &rows;
    ensure!(
        bare.answer == ours.answer,
        "the bare loop answers otherwise than we do: {:?}, and we {:?}",
        bare.answer,
        ours.answer
    );
    report.judge(THROUGHPUT, "throughput, longhaul over rmcp", &ours.rate.over(&rmcp.rate));
    report.judge(FLOOR, "throughput, bare loop over longhaul", &bare.rate.over(&ours.rate));
    report.judge(MEMORY, "peak memory of longhaul, MB", &ours.peak);
    Ok(())
}

impl Row {
    fn new(name: &'static str, server: Launch, calls: u32) -> Self {
        let none = Figures::default;
        Self { name, server, calls, rate: none(), cpu: none(), peak: none(), answer: None }
    }

    fn measure(&mut self, programs: &Programs) -> Result<()> {
        let found = load::over_stdio(programs, self.calls, &self.server).with_context(|| self.name)?;
        self.rate.push(found.rate());
        self.answer.clone_from(&found.answer);
        self.cpu.push(found.cpu_seconds.context("the load measures CPU")? / f64::from(self.calls) * 1e6);
        self.peak.push(found.peak_rss_kb.context("the load measures memory")? / 1000.0);
        Ok(())
    }
}
