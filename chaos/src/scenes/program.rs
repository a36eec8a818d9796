//! The server's program changes while it runs: an upgrade replaces or removes the file.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::until;
use crate::audit::{Losses, settle_and_check};
use crate::history::Call;
use crate::mcp::{Address, Client, Era};
use crate::place::{AFTER, ALWAYS, Job, Place};
use crate::server::Server;

pub(super) fn deleted(place: &Place, era: Era) -> Result<String> {
    served_from_a_copy(place, era, |copy| Ok(fs::remove_file(copy)?))
}

pub(super) fn replaced(place: &Place, era: Era) -> Result<String> {
    served_from_a_copy(place, era, |copy| {
        let other = copy.with_extension("new");
        fs::write(&other, "not a program")?;
        Ok(fs::rename(other, copy)?)
    })
}

/// More runs to find again than descriptors to find them with: that says nothing of the runs.
pub(super) fn short_of_descriptors(place: &Place, era: Era) -> Result<String> {
    const RUNS: usize = 40;
    let mut server = place.serve(&[])?;
    let client = Client::new(era, Address::of(server.ready()?));
    let mut calls = Vec::new();
    for number in 0..RUNS {
        let mut call = Call::new(Job::new(format!("run-{number}"), 6, 2.0), era);
        call.told(client.call(ALWAYS, &call.job));
        ensure!(call.task.is_some(), "run-{number} was not answered with a task: {:?}", call.answer);
        calls.push(call);
    }
    server.kill()?;
    let program = place.program().display().to_string();
    let mut short = Server::start(place, Path::new("prlimit"), &["--nofile=48:48", &program], &[])?;
    short.came_up().with_context(|| format!("the server said:\n{}", short.said()))?;
    short.ended_within(Duration::from_secs(4))?;
    short.kill()?;
    let summary = settle_and_check(place, &mut calls, Losses::None)?;
    ensure!(summary.completed == RUNS, "{summary}");
    Ok(summary.to_string())
}

fn served_from_a_copy(
    place: &Place,
    era: Era,
    change: impl FnOnce(&PathBuf) -> Result<()>,
) -> Result<String> {
    let copy = place.path("program");
    fs::copy(place.program(), &copy)?;
    let mut server = Server::start(place, &copy, &[], &[])?;
    let client = Client::new(era, Address::of(server.ready()?));
    let mut calls = Vec::new();
    let mut call = |tool, key: &str| -> Result<()> {
        let mut call = Call::new(Job::new(key, 5, 0.1), era);
        call.told(client.call(tool, &call.job));
        ensure!(call.task.is_some(), "{key} was not answered with a task: {:?}", call.answer);
        calls.push(call);
        Ok(())
    };
    call(ALWAYS, "before")?;
    change(&copy)?;
    call(ALWAYS, "after")?;
    call(AFTER, "promoted-after")?;
    for call in &mut calls {
        until("every task ends", || Ok(call.look(&client) == Some(true)))?;
    }
    server.kill()?;
    let summary = settle_and_check(place, &mut calls, Losses::None)?;
    ensure!(summary.completed == 3, "{summary}");
    Ok(summary.to_string())
}
