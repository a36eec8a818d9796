//! A page that follows a command which writes all the time, in Chromium: by how much its timers are late, for whoever clicks
//! waits as long.

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::super::figures::Figures;
use super::super::goal::Goal;
use super::super::report::Report;
use crate::interop;
use crate::site::Site;
use crate::tools::{Node, system};

/// How many lines a second, and for how many seconds.
const LINES: u32 = 500;
const SECONDS: u32 = 60;

/// In milliseconds: one frame and a bit.
const GOAL: Goal = Goal::AlwaysUnder(20.0);

/// What the script says at its end.
#[derive(Debug, Deserialize)]
struct Said {
    /// How often a timer was looked at, a hundred times a second.
    looks: u32,
    /// In milliseconds.
    p99: f64,
    most: f64,
    /// How many lines the page shows at the end.
    lines: u32,
    /// How many a second were written, in the end.
    rate: f64,
}

/// Installs what it needs.
pub(super) fn set_up(site: &Site) -> Result<Node> {
    system::require(site, &system::CHROMIUM)?;
    interop::page_scripts(site)
}

pub(super) fn run(site: &Site, node: &Node, rounds: usize, report: &mut Report) -> Result<()> {
    let [mut p99, mut most, mut lines, mut rate] = [(); 4].map(|()| Figures::default());
    for _ in 0..rounds {
        let mut script = node.script(site, "following.mjs");
        script.arg(site.target.join("release/longhaul")).arg(system::CHROMIUM.name);
        let ran = site.run(script.args([LINES, SECONDS].map(|number| number.to_string())))?;
        let said = ran.lines.iter().find(|line| line.starts_with('{')).context("the script says nothing")?;
        let said: Said = serde_json::from_str(said).context("what the script says is not understood")?;
        ensure!(ran.success && said.looks > SECONDS * 20, "the page was not looked at: {said:?}");
        rate.push(said.rate);
        p99.push(said.p99);
        most.push(said.most);
        lines.push(f64::from(said.lines));
    }
    let what = format!("{LINES} lines a second for {SECONDS} s");
    report.table(
        ["a page that follows", "lines a second", "timers late by, p99 ms", "at most, ms", "lines shown"],
        &[[what, rate.to_string(), p99.to_string(), most.to_string(), lines.to_string()]],
    );
    report.judge(
        GOAL,
        &format!("timers of a page that follows {LINES} lines a second, late by in ms, p99"),
        &p99,
    );
    Ok(())
}
