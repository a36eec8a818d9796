//! Callers that repeat themselves, come in crowds, or leave.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::{serve, until};
use crate::audit::{Losses, settle_and_check};
use crate::history::Call;
use crate::mcp::{Client, Era, Reply};
use crate::place::{AFTER, ALWAYS, Job, Place};

/// How many do the same at once.
const CROWD: usize = 8;

fn called(client: &Client, job: Job) -> Result<Call> {
    let mut call = Call::new(job, client.era());
    call.told(client.call(ALWAYS, &call.job));
    ensure!(call.task.is_some(), "{} was not answered with a task: {:?}", call.job.key, call.answer);
    Ok(call)
}

/// The same from many threads at once. D2 clients each have a session of their own, as different callers do.
fn crowd(client: &Client, ask: impl Fn(&Client) -> Reply + Sync) -> Vec<Reply> {
    thread::scope(|scope| {
        let asked: Vec<_> = (0..CROWD)
            .map(|_| {
                let (client, ask) = (client.another(), &ask);
                scope.spawn(move || ask(&client))
            })
            .collect();
        asked.into_iter().map(|asked| asked.join().expect("a caller does not panic")).collect()
    })
}

pub(super) fn cancelled_at_once(place: &Place, era: Era) -> Result<String> {
    let (mut server, client) = serve(place, era)?;
    let mut calls = Vec::new();
    for turn in 0..6 {
        let mut call = called(&client, Job::endless(format!("endless-{turn}")))?;
        thread::sleep(Duration::from_millis(60 * turn));
        let task = call.task.clone().unwrap_or_default();
        let replies = crowd(&client, |client| client.cancel(&task));
        let carried_out = replies.iter().filter(|reply| matches!(reply, Reply::Result(_))).count();
        match era {
            // One ends it; the others are told that it has ended.
            Era::D2 => {
                ensure!(carried_out == 1, "{carried_out} of {CROWD} cancels were the one: {replies:?}")
            }
            Era::D3 => {
                ensure!(carried_out == CROWD, "a cancel of what is cancelled is no error: {replies:?}")
            }
        }
        call.cancelled = true;
        ensure!(call.look(&client) == Some(true), "an acknowledged cancel left {task} working");
        calls.push(call);
    }
    server.kill()?;
    let summary = settle_and_check(place, &mut calls, Losses::None)?;
    ensure!(summary.cancelled == calls.len(), "{summary}");
    Ok(summary.to_string())
}

pub(super) fn asked_by_many(place: &Place, era: Era) -> Result<String> {
    let (mut server, client) = serve(place, era)?;
    let mut call = called(&client, Job::new("watched", 8, 0.1))?;
    let task = call.task.clone().unwrap_or_default();
    if era == Era::D3 {
        until("the task ends", || Ok(call.look(&client) == Some(true)))?;
    }
    // D2 waits for the end; D3 asks after it.
    let replies = crowd(&client, |client| match era {
        Era::D2 => client.task_result(&task),
        Era::D3 => client.task("many", &task),
    });
    let told: BTreeSet<String> = replies
        .into_iter()
        .map(|reply| match reply {
            Reply::Result(result) => result.get().to_owned(),
            other => format!("{other:?}"),
        })
        .collect();
    ensure!(told.len() == 1, "{} different answers: {told:?}", told.len());
    ensure!(call.look(&client) == Some(true), "a task with a result has not ended");
    server.kill()?;
    let summary = settle_and_check(place, &mut [call], Losses::None)?;
    ensure!(summary.completed == 1, "{summary}");
    Ok(summary.to_string())
}

/// N7 of `conformance/REQUIREMENTS.md`.
pub(super) fn gone_before_the_answer(place: &Place, era: Era) -> Result<String> {
    let (mut server, client) = serve(place, era)?;
    let mut calls = Vec::new();
    for turn in 0..24_u64 {
        let tool = [ALWAYS, AFTER][usize::from(turn % 2 == 1)];
        let job = Job::new(format!("gone-{turn}"), 4, 0.1);
        client.call_and_leave(tool, &job, Duration::from_millis(turn * 17));
        calls.push(Call::new(job, era));
    }
    let still = called(&client, Job::new("still-served", 2, 0.05))?;
    calls.push(still);
    thread::sleep(Duration::from_millis(500));
    server.kill()?;
    let summary = settle_and_check(place, &mut calls, Losses::None)?;
    ensure!(summary.completed >= 1, "{summary}");
    Ok(summary.to_string())
}

/// A client that repeats a request on a new connection, because it never saw the answer, calls twice: nothing says
/// that it is the same call. Each is counted as what it is, and neither takes the other's answer.
pub(super) fn same_request_id(place: &Place, era: Era) -> Result<String> {
    let (mut server, client) = serve(place, era)?;
    let jobs = ["one", "two"].map(|key| Job::new(key, 6, 0.1));
    let replies = thread::scope(|scope| {
        let asked = jobs.clone().map(|job| {
            let client = client.another();
            scope.spawn(move || client.call_as("the-same", ALWAYS, &job))
        });
        asked.map(|asked| asked.join().expect("a caller does not panic"))
    });
    let mut calls: Vec<Call> = Vec::new();
    for (job, reply) in jobs.into_iter().zip(replies) {
        let mut call = Call::new(job, era);
        call.told(reply);
        ensure!(call.task.is_some(), "{} was not answered with a task: {:?}", call.job.key, call.answer);
        calls.push(call);
    }
    ensure!(calls[0].task != calls[1].task, "two calls became one task");
    server.kill()?;
    let summary = settle_and_check(place, &mut calls, Losses::None)?;
    ensure!(summary.completed == 2, "{summary}");
    Ok(summary.to_string())
}
