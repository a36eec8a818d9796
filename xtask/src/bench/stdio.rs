//! Throughput and memory over stdio, all calls pipelined.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::figures::{Figures, print_table};
use super::goal::Goal;
use super::load;
use super::programs::Programs;
use crate::site::Site;
use crate::tally::Tally;

const CALLS: u32 = 100_000;

/// How many times rmcp's throughput ours must be.
const THROUGHPUT: Goal = Goal::AtLeast(10.0);

/// How much memory, in MB, we may have resident at any time.
const MEMORY: Goal = Goal::AlwaysUnder(24.0);

/// One of those compared, and its figures.
struct Row {
    name: &'static str,
    server: PathBuf,
    rate: Figures,
    cpu: Figures,
    peak: Figures,
}

pub(super) fn run(_: &Site, programs: &Programs, rounds: usize) -> Result<Tally> {
    let row = |name, server| Row {
        name,
        server,
        rate: Figures::default(),
        cpu: Figures::default(),
        peak: Figures::default(),
    };
    let mut rows = [row("longhaul", programs.server()), row("rmcp 3.8.0", programs.rmcp())];
    for _ in 0..rounds {
        for row in &mut rows {
            row.measure(programs)?;
        }
    }
    let cells = rows.each_ref().map(|row| {
        let [rate, cpu, peak] = [&row.rate, &row.cpu, &row.peak].map(ToString::to_string);
        [row.name.to_owned(), rate, cpu, peak]
    });
    print_table(["", "calls/s", "CPU us/call", "peak MB"], &cells);
    let [ours, rmcp] = &rows;
    let mut tally = THROUGHPUT.judge("throughput, longhaul over rmcp", &ours.rate.over(&rmcp.rate));
    tally += MEMORY.judge("peak memory of longhaul, MB", &ours.peak);
    Ok(tally)
}

impl Row {
    fn measure(&mut self, programs: &Programs) -> Result<()> {
        let found = load::over_stdio(programs, CALLS, &self.server).with_context(|| self.name)?;
        self.rate.push(found.rate());
        self.cpu.push(found.cpu_seconds.context("the load measures CPU")? / f64::from(CALLS) * 1e6);
        self.peak.push(found.peak_rss_kb.context("the load measures memory")? / 1000.0);
        Ok(())
    }
}
