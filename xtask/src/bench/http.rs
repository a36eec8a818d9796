//! CPU per call over stateless HTTP.

use anyhow::{Context, Result, ensure};

use super::figures::{Figures, print_table};
use super::goal::Goal;
use super::load;
use super::programs::Programs;
use super::server::Server;
use crate::site::Site;
use crate::tally::Tally;

/// Connections, kept alive, each waiting for its answer before it calls again.
const CONNECTIONS: u32 = 32;

/// How much of the bare handler's CPU a call of ours may cost.
const GOAL: Goal = Goal::AtMost(1.6);

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

pub(super) fn run(_: &Site, programs: &Programs, rounds: usize) -> Result<Tally> {
    let mut rows = [
        Row::new("bare axum", Server::start(&programs.bare_axum(), &[])?, 100_000),
        Row::new("longhaul", Server::start(&programs.server(), &["http"])?, 100_000),
        Row::new("rmcp 3.8.0", Server::start(&programs.rmcp(), &["http"])?, 40_000),
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
    print_table(["", "CPU us/call", "calls/s", "p50 us", "p99 us", "MB after"], &cells);
    let [bare, ours, rmcp] = &rows;
    ensure!(
        bare.answer == ours.answer,
        "the bare handler answers otherwise than we do: {:?}, and we {:?}",
        bare.answer,
        ours.answer
    );
    println!("CPU per call, rmcp over bare axum: {}", rmcp.cpu.over(&bare.cpu));
    println!("CPU per call, rmcp over longhaul: {}", rmcp.cpu.over(&ours.cpu));
    Ok(GOAL.judge("CPU per call, longhaul over bare axum", &ours.cpu.over(&bare.cpu)))
}

impl Row {
    fn new(name: &'static str, server: Server, calls: u32) -> Self {
        let none = Figures::default;
        Self { name, server, calls, rate: none(), cpu: none(), p50: none(), p99: none(), answer: None }
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
