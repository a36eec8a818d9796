//! Servers that are stopped, asked to go, or share a store.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::{PATIENCE, serve, until};
use crate::audit::{Losses, rows, settle_and_check};
use crate::history::Call;
use crate::mcp::{Client, Era};
use crate::place::{AFTER, ALWAYS, Job, Place};

fn started(place: &Place, client: &Client, job: Job) -> Result<Call> {
    let mut call = Call::new(job, client.era());
    call.told(client.call(ALWAYS, &call.job));
    ensure!(call.task.is_some(), "{} was not answered with a task: {:?}", call.job.key, call.answer);
    until("the command begins", || Ok(place.effects(&call.job.key)? > 0))?;
    Ok(call)
}

/// Which node works on a task, by the store.
fn holder(place: &Place, call: &Call) -> Result<Option<String>> {
    let task = call.task.as_deref().unwrap_or_default();
    let row = rows(place)?.into_iter().find(|row| row.id.as_str() == task).context("the task has a row")?;
    Ok(row.lease().map(|lease| lease.node.to_string()))
}

pub(super) fn second_server(place: &Place, era: Era) -> Result<String> {
    let (mut first, client) = serve(place, era)?;
    let mut calls = vec![
        started(place, &client, Job::new("short", 10, 0.2))?,
        started(place, &client, Job::new("long", 60, 0.2))?,
        started(place, &client, Job::endless("endless"))?,
    ];
    let before = holder(place, &calls[1])?;
    let (mut second, other) = serve(place, era)?;
    // Longer than a server's pause between two looks for work of the dead.
    thread::sleep(Duration::from_secs(5));
    ensure!(holder(place, &calls[1])? == before, "the second server took a task of the living first");
    // Whoever answers, the answer is the same.
    until("the short task ends", || Ok(calls[0].look(&other) == Some(true)))?;
    calls[0].look(&client);
    calls.push(started(place, &other, Job::new("of-the-second", 20, 0.1))?);
    ensure!(calls[2].cancel(&other)?, "the cancel was not answered");
    ensure!(calls[2].look(&client) == Some(true), "a cancel by the second server is not seen by the first");
    first.kill()?;
    until("the second server takes up the task of the dead first", || {
        Ok(calls[1].look(&other) == Some(true) || holder(place, &calls[1])? != before)
    })?;
    until("the task of the dead first ends under the second", || Ok(calls[1].look(&other) == Some(true)))?;
    second.kill()?;
    let summary = settle_and_check(place, &mut calls, Losses::None)?;
    Ok(summary.to_string())
}

pub(super) fn stopped_for_a_while(place: &Place, era: Era) -> Result<String> {
    let (mut server, client) = serve(place, era)?;
    let mut calls = vec![
        started(place, &client, Job::new("ends-meanwhile", 10, 0.1))?,
        started(place, &client, Job::new("goes-on", 40, 0.2))?,
    ];
    server.signal(Signal::STOP)?;
    thread::sleep(Duration::from_secs(4));
    server.signal(Signal::CONT)?;
    calls.push(started(place, &client, Job::new("after", 2, 0.1))?);
    for call in &mut calls {
        until("every task ends", || Ok(call.look(&client) == Some(true)))?;
    }
    server.kill()?;
    let summary = settle_and_check(place, &mut calls, Losses::None)?;
    ensure!(summary.completed == calls.len(), "{summary}");
    Ok(summary.to_string())
}

/// A lease lasts 30 s. Whoever is stopped for longer is thought dead by nobody, for it holds its lock, and is overdue.
/// N2, T3 of `conformance/REQUIREMENTS.md`.
pub(super) fn stopped_for_long(place: &Place, era: Era) -> Result<String> {
    let (mut first, client) = serve(place, era)?;
    let mut calls = vec![
        started(place, &client, Job::new("ends-meanwhile", 10, 0.1))?,
        started(place, &client, Job::new("ends-under-the-second", 190, 0.2))?,
        started(place, &client, Job::new("ends-later", 300, 0.2))?,
        started(place, &client, Job::endless("endless"))?,
    ];
    let before = holder(place, &calls[2])?;
    let (mut second, other) = serve(place, era)?;
    first.signal(Signal::STOP)?;
    until("the second server takes up what is overdue", || Ok(holder(place, &calls[2])? != before))?;
    until("what ended meanwhile is recorded", || Ok(calls[0].look(&other) == Some(true)))?;
    ensure!(calls[3].cancel(&other)?, "the cancel was not answered");
    // The first comes back with everything it still wanted to write.
    first.signal(Signal::CONT)?;
    for call in &mut calls {
        until("every task ends", || Ok(call.look(&other) == Some(true)))?;
        call.look(&client);
    }
    first.kill()?;
    second.kill()?;
    let summary = settle_and_check(place, &mut calls, Losses::None)?;
    ensure!(summary.completed == 3 && summary.cancelled == 1, "{summary}");
    Ok(summary.to_string())
}

pub(super) fn terminated(place: &Place, era: Era) -> Result<String> {
    let (mut server, client) = serve(place, era)?;
    let mut running = started(place, &client, Job::new("running", 30, 0.1))?;
    let mut held = Call::new(Job::new("held", 30, 0.1), era);
    let mut promoted = Call::new(Job::new("promoted", 30, 0.1), era);
    thread::scope(|scope| {
        let [waiting, asking] = [client.clone(), client.clone()];
        let (held_job, promoted_job) = (held.job.clone(), promoted.job.clone());
        let held_reply = scope.spawn(move || waiting.call_held(AFTER, &held_job));
        let promoted_reply = scope.spawn(move || asking.call(AFTER, &promoted_job));
        until("both commands run", || Ok(place.effects("held")? + place.effects("promoted")? == 2))?;
        server.signal(Signal::TERM)?;
        held.told(held_reply.join().expect("a caller does not panic"));
        promoted.told(promoted_reply.join().expect("a caller does not panic"));
        anyhow::Ok(())
    })?;
    let status = server.ended()?;
    ensure!(status.success(), "the server ended with {status}; it said:\n{}", server.said());
    for call in [&held, &promoted] {
        ensure!(call.task.is_some(), "{} was not handed over: {:?}", call.job.key, call.answer);
    }
    ensure!(running.terminal().is_none(), "a command that lives on has not ended");
    let (mut server, client) = {
        let server = place.serve(&[])?;
        let address = crate::mcp::Address::of(server.ready()?);
        (server, Client::new(era, address))
    };
    until("the task goes on and ends", || Ok(running.look(&client) == Some(true)))?;
    server.kill()?;
    let mut calls = [running, held, promoted];
    let summary = settle_and_check(place, &mut calls, Losses::None)?;
    ensure!(summary.completed == 3, "{summary}");
    Ok(summary.to_string())
}

/// Ends that are asked for race with everything under way, and that is where outcomes are made up.
pub(super) fn terminated_again_and_again(place: &Place, era: Era) -> Result<String> {
    let mut calls = Vec::new();
    for turn in 0..12_u64 {
        let (mut server, client) = serve(place, era)?;
        for (number, tool) in [ALWAYS, AFTER, ALWAYS].into_iter().enumerate() {
            let mut call = Call::new(Job::new(format!("t{turn}-{number}"), 6 + number * 8, 0.1), era);
            call.told(client.call(tool, &call.job));
            calls.push(call);
        }
        thread::sleep(Duration::from_millis(37 * turn));
        server.signal(Signal::TERM)?;
        server.ended_within(PATIENCE)?.context("it ends when asked")?;
    }
    let summary = settle_and_check(place, &mut calls, Losses::None)?;
    ensure!(summary.acknowledged == calls.len(), "{summary}");
    Ok(summary.to_string())
}
