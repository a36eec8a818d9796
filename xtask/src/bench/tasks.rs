//! Tasks on SQLite: asking after them beside a plain call, and their steps beside SQLite alone.

use anyhow::{Context, Result};

use super::creates::{CALLERS, insert};
use super::figures::Figures;
use super::goal::Goal;
use super::load::{Found, over_http};
use super::programs::Programs;
use super::report::Report;
use super::server::Server;
use crate::site::Site;

/// How many requests of either kind, and after how many tasks they ask.
const REQUESTS: u32 = 60_000;
const TASKS: &str = "256";

/// How many calls of how many steps each.
const CALLS: u32 = 640;
const STEPS: u32 = 100;

/// How much of the rate of a plain call.
const GOAL: Goal = Goal::AtLeast(0.6);

/// What is asked, and its figures.
struct Row {
    name: &'static str,
    load: &'static [&'static str],
    requests: u32,
    rate: Figures,
    cpu: Figures,
    p50: Figures,
    p99: Figures,
}

pub(super) fn run(site: &Site, programs: &Programs, rounds: usize, report: &mut Report) -> Result<()> {
    let row = |name, load, requests| {
        let none = Figures::default;
        Row { name, load, requests, rate: none(), cpu: none(), p50: none(), p99: none() }
    };
    let mut rows = [
        row("tools/call", &["http"], REQUESTS),
        row("tasks/get", &["gets", "--tasks", TASKS], REQUESTS),
        row("tools/call of 100 steps", &["http", "--what", "steps"], CALLS),
    ];
    let mut raw = Figures::default();
    for _ in 0..rounds {
        let folder = tempfile::Builder::new().prefix("bench-tasks-").tempdir_in(&site.target)?;
        let store = folder.path().join("ours.db");
        let server = Server::start(&programs.server().with("durable").with(&store))?;
        for row in &mut rows {
            row.measure(programs, &server).with_context(|| row.name)?;
        }
        drop(server);
        raw.push(insert(programs, &store, &folder.path().join("raw.db"))?.rate());
    }
    let cells = rows.each_ref().map(|row| {
        let [rate, cpu, p50, p99] = [&row.rate, &row.cpu, &row.p50, &row.p99].map(ToString::to_string);
        [row.name.to_owned(), rate, cpu, p50, p99]
    });
    report.table(["", "a second", "CPU us", "p50 us", "p99 us"], &cells);
    report.plot("requests a second", &rows.each_ref().map(|row| (row.name, row.rate.median()))[..2]);
    let [call, get, steps] = &rows;
    report.judge(GOAL, "rate of tasks/get over that of tools/call", &get.rate.over(&call.rate));
    let steps = steps.rate.times(f64::from(STEPS));
    report.ratio("steps a second", &steps);
    report.ratio("rows a second of SQLite alone", &raw);
    report.ratio("steps over rows of SQLite alone", &steps.over(&raw));
    Ok(())
}

impl Row {
    fn measure(&mut self, programs: &Programs, server: &Server) -> Result<()> {
        let load = |requests| over_http(programs, self.load, server.url(), requests, CALLERS);
        load((self.requests / 5).max(CALLERS))?;
        let before = server.cpu()?;
        let found: Found = load(self.requests)?;
        let cpu = server.cpu()? - before;
        self.rate.push(found.rate());
        self.cpu.push(cpu / f64::from(self.requests) * 1e6);
        self.p50.push(found.p50_us.context("the load measures latency")?);
        self.p99.push(found.p99_us.context("the load measures latency")?);
        Ok(())
    }
}
