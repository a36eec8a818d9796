//! Durable creates: tasks on disk before their callers are answered, against SQLite alone; and against the least that does so
//! over HTTP for the same callers, which shows how much of SQLite's own pace can be had that way.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::figures::Figures;
use super::goal::Goal;
use super::load::{self, Found, pinned};
use super::programs::{Launch, Programs};
use super::report::Report;
use super::server::{PROCESSOR, Server};
use crate::site::Site;

/// Callers at once; and so the most rows that can ever wait for one commit, which is what SQLite alone is given.
pub(super) const CALLERS: u32 = 64;

/// Rows before those that count.
const WARM_UP: u32 = 2_000;

const CREATES: u32 = 20_000;

/// How much of what SQLite does alone.
const GOAL: Goal = Goal::AtLeast(0.5);

/// How much of what the least does that takes them over HTTP.
const OF_BARE: Goal = Goal::AtLeast(0.6);

pub(super) fn run(site: &Site, programs: &Programs, rounds: usize, report: &mut Report) -> Result<()> {
    let [mut ours, mut bare] = [(); 2].map(|()| Row::default());
    let [mut raw, mut raw_cpu] = [(); 2].map(|()| Figures::default());
    for _ in 0..rounds {
        let folder = site.target.join("bench-creates");
        if folder.exists() {
            fs::remove_dir_all(&folder).context("cannot empty the folder of the stores")?;
        }
        fs::create_dir_all(&folder).context("cannot make a folder for the stores")?;
        let store = folder.join("ours.db");
        ours.create(programs, &programs.server().with("durable").with(&store), &store)?;
        let file = folder.join("bare.db");
        bare.create(programs, &programs.bare_creates().with("--like").with(&store).with(&file), &file)?;
        let alone = insert(programs, &store, &folder.join("raw.db"))?;
        let row = alone.cpu_seconds.context("SQLite alone says what it takes")? / alone.calls;
        raw.push(alone.rate());
        raw_cpu.push(row * 1e6);
        fs::remove_dir_all(&folder).context("cannot remove the stores")?;
    }
    let none = String::new;
    report.table(
        ["", "rows/s", "CPU us/create", "p50 us", "p99 us"],
        &[
            ["SQLite alone".to_owned(), raw.to_string(), raw_cpu.to_string(), none(), none()],
            bare.cells("hyper and SQLite alone"),
            ours.cells("longhaul"),
        ],
    );
    let bars = [
        ("SQLite alone", raw.median()),
        ("hyper and SQLite alone", bare.rate.median()),
        ("longhaul", ours.rate.median()),
    ];
    report.plot("rows on disk a second", &bars);
    let alone = ("hyper and SQLite alone over SQLite alone", &bare.rate.over(&raw));
    report.judge_beside(GOAL, "durable creates, longhaul over SQLite alone", &ours.rate.over(&raw), alone);
    report.judge(
        OF_BARE,
        "durable creates, longhaul over hyper and SQLite alone",
        &ours.rate.over(&bare.rate),
    );
    Ok(())
}

/// What takes tasks over HTTP, and its figures.
#[derive(Default)]
struct Row {
    rate: Figures,
    cpu: Figures,
    p50: Figures,
    p99: Figures,
}

impl Row {
    /// Creates tasks through a server, which is then killed and what it wrote counted.
    fn create(&mut self, programs: &Programs, server: &Launch, file: &Path) -> Result<()> {
        let server = Server::start(server)?;
        load::over_http(programs, &["creates"], server.url(), WARM_UP, CALLERS)?;
        let before = server.cpu()?;
        let found = load::over_http(programs, &["creates"], server.url(), CREATES, CALLERS)?;
        let seconds = server.cpu()? - before;
        drop(server);
        let mut count = std::process::Command::new(programs.raw_sqlite());
        let output = count.arg("count").arg(file).output().context("cannot count the tasks")?;
        let counted = String::from_utf8_lossy(&output.stdout).trim().parse().ok();
        let all = WARM_UP + CREATES;
        ensure!(counted == Some(all), "{all} tasks were created and {counted:?} are in the store");
        self.rate.push(found.rate());
        self.cpu.push(seconds / f64::from(CREATES) * 1e6);
        self.p50.push(found.p50_us.context("the load measures latency")?);
        self.p99.push(found.p99_us.context("the load measures latency")?);
        Ok(())
    }

    fn cells(&self, name: &str) -> [String; 5] {
        let figures = [&self.rate, &self.cpu, &self.p50, &self.p99];
        let [rate, cpu, p50, p99] = figures.map(ToString::to_string);
        [name.to_owned(), rate, cpu, p50, p99]
    }
}

/// Inserts rows like these into a file of its own.
///
/// # Errors
///
/// When the store has none, or something cannot be written.
pub(super) fn insert(programs: &Programs, like: &Path, file: &Path) -> Result<Found> {
    let mut command = pinned(PROCESSOR, &programs.raw_sqlite());
    command.arg("insert").arg("--like").arg(like).arg(file);
    for (option, value) in [("--warm-up", WARM_UP), ("--rows", CREATES), ("--group", CALLERS)] {
        command.args([option, &value.to_string()]);
    }
    load::found(&mut command)
}
