//! Durable creates: tasks on disk before their callers are answered, against SQLite alone; and how many one processor could
//! do at most, which has an exchange over HTTP for each to carry as well.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::figures::Figures;
use super::goal::Goal;
use super::load::{self, Found, pinned};
use super::programs::Programs;
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

pub(super) fn run(site: &Site, programs: &Programs, rounds: usize, report: &mut Report) -> Result<()> {
    let [mut ours, mut raw, mut cpu, mut p50, mut p99] = [(); 5].map(|()| Figures::default());
    let [mut raw_cpu, mut exchange_cpu, mut most] = [(); 3].map(|()| Figures::default());
    for _ in 0..rounds {
        let folder = site.target.join("bench-creates");
        if folder.exists() {
            fs::remove_dir_all(&folder).context("cannot empty the folder of the stores")?;
        }
        fs::create_dir_all(&folder).context("cannot make a folder for the stores")?;
        let (store, other) = (folder.join("ours.db"), folder.join("raw.db"));
        let (found, seconds) = create(programs, &store)?;
        ours.push(found.rate());
        cpu.push(seconds / f64::from(CREATES) * 1e6);
        p50.push(found.p50_us.context("the load measures latency")?);
        p99.push(found.p99_us.context("the load measures latency")?);
        let alone = insert(programs, &store, &other)?;
        let row = alone.cpu_seconds.context("SQLite alone says what it takes")? / alone.calls;
        let exchange = exchange(programs)?;
        raw.push(alone.rate());
        raw_cpu.push(row * 1e6);
        exchange_cpu.push(exchange * 1e6);
        most.push(1.0 / (row + exchange));
        fs::remove_dir_all(&folder).context("cannot remove the stores")?;
    }
    let none = String::new;
    report.table(
        ["", "rows/s", "CPU us/create", "p50 us", "p99 us"],
        &[
            ["SQLite alone".to_owned(), raw.to_string(), raw_cpu.to_string(), none(), none()],
            ["a bare handler's exchange".to_owned(), none(), exchange_cpu.to_string(), none(), none()],
            ["longhaul".to_owned(), ours.to_string(), cpu.to_string(), p50.to_string(), p99.to_string()],
        ],
    );
    report.plot("rows on disk a second", &[("SQLite alone", raw.median()), ("longhaul", ours.median())]);
    report.judge(GOAL, "durable creates, longhaul over SQLite alone", &ours.over(&raw));
    report.ratio(
        "what one processor could do that has a bare exchange and the row to carry, over SQLite alone",
        &most.over(&raw),
    );
    report.ratio("durable creates, longhaul over what one processor could do", &ours.over(&most));
    Ok(())
}

/// Creates tasks through a server, which is then killed and its store counted.
fn create(programs: &Programs, store: &Path) -> Result<(Found, f64)> {
    let server = Server::start(&programs.server().with("durable").with(store))?;
    load::over_http(programs, &["creates"], server.url(), WARM_UP, CALLERS)?;
    let before = server.cpu()?;
    let found = load::over_http(programs, &["creates"], server.url(), CREATES, CALLERS)?;
    let seconds = server.cpu()? - before;
    drop(server);
    let mut count = std::process::Command::new(programs.raw_sqlite());
    let output = count.arg("count").arg(store).output().context("cannot count the tasks")?;
    let counted = String::from_utf8_lossy(&output.stdout).trim().parse().ok();
    ensure!(
        counted == Some(WARM_UP + CREATES),
        "{} tasks were created and {counted:?} are in the store",
        WARM_UP + CREATES
    );
    Ok((found, seconds))
}

/// Seconds of a processor that an exchange over HTTP takes which comes to nothing.
fn exchange(programs: &Programs) -> Result<f64> {
    let server = Server::start(&programs.bare_axum())?;
    load::over_http(programs, &["http"], server.url(), WARM_UP, CALLERS)?;
    let before = server.cpu()?;
    load::over_http(programs, &["http"], server.url(), CREATES, CALLERS)?;
    Ok((server.cpu()? - before) / f64::from(CREATES))
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
