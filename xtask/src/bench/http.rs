//! CPU per call over stateless HTTP.

use anyhow::{Result, ensure};

use super::goal::Goal;
use super::programs::Programs;
use super::report::Report;
use super::row::{CALLS, HEADS, Row};
use crate::site::Site;

/// How much of the bare handler's CPU a request to ours may cost.
pub(super) const GOAL: Goal = Goal::AtMost(1.25);

/// How much of rmcp's.
pub(super) const OF_RMCP: Goal = Goal::AtMost(0.4);

/// How much longer than the bare handler's slowest of a hundred ours may take.
pub(super) const TAIL: Goal = Goal::AtMost(1.5);

pub(super) fn run(_: &Site, programs: &Programs, rounds: usize, report: &mut Report) -> Result<()> {
    let start = |name, server, calls| Row::start(programs, name, &server, CALLS, calls);
    let mut rows = [
        start("bare axum", programs.bare_axum(), 100_000)?,
        start("longhaul", programs.server().with("http"), 100_000)?,
        start("rmcp 3.8.0", programs.rmcp().with("http"), 40_000)?,
        start("rmcp, our allocator", programs.rmcp_with_our_allocator().with("http"), 40_000)?,
        start("tower-mcp 0.25.0", programs.tower().with("http"), 40_000)?,
        start("TypeScript 2.4.0", programs.typescript().with("http"), 4_000)?,
        start("Python 2.3.0", programs.python().with("http"), 4_000)?,
        start("FastMCP 4.1.2", programs.fastmcp().with("http"), 2_000)?,
    ];
    for _ in 0..rounds {
        for row in &mut rows {
            row.measure(programs)?;
        }
    }
    let cells = rows.iter().map(Row::cells).collect::<Result<Vec<_>>>()?;
    report.table(HEADS, &cells);
    report.plot("CPU per call over HTTP, us", &rows.each_ref().map(|row| (row.name, row.cpu.median())));
    let [bare, ours, peers @ ..] = &rows;
    same_answer(bare, ours)?;
    for peer in peers {
        report.ratio(&format!("CPU per call, {} over longhaul", peer.name), &peer.cpu.over(&ours.cpu));
    }
    let [rmcp, ..] = peers;
    report.judge(GOAL, "CPU per call, longhaul over bare axum", &ours.cpu.over(&bare.cpu));
    report.judge(OF_RMCP, "CPU per call, longhaul over rmcp", &ours.cpu.over(&rmcp.cpu));
    report.judge(TAIL, "p99, longhaul over bare axum", &ours.p99.over(&bare.p99));
    Ok(())
}

/// The bare handler must do what we do.
///
/// # Errors
///
/// When it answers otherwise.
pub(super) fn same_answer(bare: &Row, ours: &Row) -> Result<()> {
    ensure!(
        bare.answer == ours.answer,
        "the bare handler answers otherwise than we do: {:?}, and we {:?}",
        bare.answer,
        ours.answer
    );
    Ok(())
}
