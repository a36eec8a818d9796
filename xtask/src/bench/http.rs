//! CPU per call over stateless HTTP.

use anyhow::{Context, Result, ensure};

use super::figures::Figures;
use super::goal::Goal;
use super::load;
use super::programs::{Launch, Programs};
use super::report::Report;
use super::server::Server;
use crate::site::Site;

/// Connections, kept alive, each waiting for its answer before it calls again.
const CONNECTIONS: u32 = 32;

/// How much of the bare handler's CPU a call of ours may cost.
const GOAL: Goal = Goal::AtMost(1.25);

/// How much of rmcp's.
const OF_RMCP: Goal = Goal::AtMost(0.4);

/// How much longer than the bare handler's slowest of a hundred calls ours may take.
const TAIL: Goal = Goal::AtMost(1.5);

/// One of those compared, and its figures.
struct Row {
    name: &'static str,
    server: Server,
    calls: u32,
    rate: Figures,
    cpu: Figures,
    p50: Figures,
    p99: Figures,
    answer: Option<String>,
}

pub(super) fn run(_: &Site, programs: &Programs, rounds: usize, report: &mut Report) -> Result<()> {
    let mut rows = [
        Row::new("bare axum", programs.bare_axum(), 100_000)?,
        Row::new("longhaul", programs.server().with("http"), 100_000)?,
        Row::new("rmcp 3.8.0", programs.rmcp().with("http"), 40_000)?,
        Row::new("rmcp, our allocator", programs.rmcp_with_our_allocator().with("http"), 40_000)?,
        Row::new("TypeScript 2.4.0", programs.typescript().with("http"), 4_000)?,
        Row::new("Python 2.3.0", programs.python().with("http"), 4_000)?,
        Row::new("FastMCP 4.1.2", programs.fastmcp().with("http"), 2_000)?,
    ];
    for row in &mut rows {
        row.warm_up(programs)?;
    }
    for _ in 0..rounds {
        for row in &mut rows {
            row.measure(programs)?;
        }
    }
    let cells = rows.iter().map(Row::cells).collect::<Result<Vec<_>>>()?;
    report.table(["", "CPU us/call", "calls/s", "p50 us", "p99 us", "MB after"], &cells);
    report.plot("CPU per call over HTTP, us", &rows.each_ref().map(|row| (row.name, row.cpu.median())));
    let [bare, ours, peers @ ..] = &rows;
    ensure!(
        bare.answer == ours.answer,
        "the bare handler answers otherwise than we do: {:?}, and we {:?}",
        bare.answer,
        ours.answer
    );
    for peer in peers {
        report.ratio(&format!("CPU per call, {} over longhaul", peer.name), &peer.cpu.over(&ours.cpu));
    }
    let [rmcp, ..] = peers;
    report.judge(GOAL, "CPU per call, longhaul over bare axum", &ours.cpu.over(&bare.cpu));
    report.judge(OF_RMCP, "CPU per call, longhaul over rmcp", &ours.cpu.over(&rmcp.cpu));
    report.judge(TAIL, "p99, longhaul over bare axum", &ours.p99.over(&bare.p99));
    Ok(())
}

impl Row {
    fn new(name: &'static str, server: Launch, calls: u32) -> Result<Self> {
        let (server, none) = (Server::start(&server)?, Figures::default);
        Ok(Self { name, server, calls, rate: none(), cpu: none(), p50: none(), p99: none(), answer: None })
    }

    fn warm_up(&mut self, programs: &Programs) -> Result<()> {
        let found = load::over_http(programs, "http", self.server.url(), self.calls / 5, CONNECTIONS)
            .with_context(|| self.name)?;
        self.answer = found.answer;
        Ok(())
    }

    fn measure(&mut self, programs: &Programs) -> Result<()> {
        let before = self.server.cpu()?;
        let found = load::over_http(programs, "http", self.server.url(), self.calls, CONNECTIONS)
            .with_context(|| self.name)?;
        let cpu = self.server.cpu()? - before;
        self.cpu.push(cpu / f64::from(self.calls) * 1e6);
        self.rate.push(found.rate());
        self.p50.push(found.p50_us.context("the load measures latency")?);
        self.p99.push(found.p99_us.context("the load measures latency")?);
        Ok(())
    }

    fn cells(&self) -> Result<[String; 6]> {
        let mb = format!("{:.1}", self.server.rss()?);
        let figures = [&self.cpu, &self.rate, &self.p50, &self.p99].map(ToString::to_string);
        let [cpu, rate, p50, p99] = figures;
        Ok([self.name.to_owned(), cpu, rate, p50, p99, mb])
    }
}
