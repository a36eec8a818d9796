//! Our client beside rmcp's, calling the same bare handler: one call after the other, and many at a time.

use anyhow::{Context, Result};

use super::figures::Figures;
use super::goal::Goal;
use super::load;
use super::programs::Programs;
use super::report::Report;
use super::server::Server;
use crate::site::Site;

/// How many calls wait for their answers at a time, and how many are made.
const LOADS: [(u32, u32); 2] = [(1, 20_000), (64, 60_000)];

/// How many times as many calls a second as rmcp's client makes, and how many times the CPU it takes for one.
const GOAL: Goal = Goal::AtLeast(1.5);

/// In microseconds: a peer that puts off its acknowledgements does so for 40 ms.
const STALL: Goal = Goal::AlwaysUnder(40_000.0);

/// A client, and its figures.
#[derive(Default)]
struct Row {
    rate: Figures,
    cpu: Figures,
    p50: Figures,
    p99: Figures,
}

pub(super) fn run(_: &Site, programs: &Programs, rounds: usize, report: &mut Report) -> Result<()> {
    let server = Server::start(&programs.bare_axum())?;
    for (in_flight, calls) in LOADS {
        let (mut ours, mut rmcp) = (Row::default(), Row::default());
        for _ in 0..rounds {
            ours.push(&load::of_client(&programs.client(), server.url(), calls, in_flight)?)?;
            rmcp.push(&load::of_client(&programs.rmcp_client(), server.url(), calls, in_flight)?)?;
        }
        let what = if in_flight == 1 { "one at a time".to_owned() } else { format!("{in_flight} in flight") };
        report.table(
            [&what, "CPU us/call", "calls/s", "p50 us", "p99 us"],
            &[ours.cells("longhaul"), rmcp.cells("rmcp 3.8.0")],
        );
        let bars = [("longhaul", ours.cpu.median()), ("rmcp 3.8.0", rmcp.cpu.median())];
        report.plot(&format!("CPU of a client per call, {what}, us"), &bars);
        let rate = format!("calls a second {what}, longhaul over rmcp");
        report.judge(GOAL, &rate, &ours.rate.over(&rmcp.rate));
        report.judge(GOAL, &format!("CPU per call {what}, rmcp over longhaul"), &rmcp.cpu.over(&ours.cpu));
        report.judge(STALL, &format!("p99 us {what}, longhaul"), &ours.p99);
    }
    Ok(())
}

impl Row {
    fn push(&mut self, found: &load::Found) -> Result<()> {
        self.rate.push(found.rate());
        self.cpu.push(found.cpu_seconds.context("a client measures its CPU")? / found.calls * 1e6);
        self.p50.push(found.p50_us.context("a client measures latency")?);
        self.p99.push(found.p99_us.context("a client measures latency")?);
        Ok(())
    }

    fn cells(&self, name: &str) -> [String; 5] {
        let [cpu, rate, p50, p99] = [&self.cpu, &self.rate, &self.p50, &self.p99].map(ToString::to_string);
        [name.to_owned(), cpu, rate, p50, p99]
    }
}
