//! A server that hangs: it is there, and says nothing any more.

use std::sync::Arc;
use std::time::Duration;

use longhaul::client::{CallOptions, Client, Options};
use longhaul::proto::model::CallToolResult;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::json;
use tokio::sync::Notify;

use super::rig::{Front, as_a_program, both_eras, eventually};

async fn call(client: &Client, tool: &str) -> CallToolResult {
    client.call(tool, &json!({})).await.unwrap()
}

fn said(result: &CallToolResult) -> &str {
    result.content[0].as_text().unwrap()
}

/// The process that serves now.
async fn process(client: &Client) -> Pid {
    let pid = call(client, "pid").await;
    Pid::from_raw(said(&pid).parse().unwrap()).unwrap()
}

/// Has it hang. The signal stops the one thread that takes it and then the others: on a busy machine one of those could still answer.
async fn stop(process: Pid) {
    kill_process(process, Signal::STOP).unwrap();
    #[cfg(target_os = "linux")]
    eventually("it goes on", async || {
        let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
        threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap()).all(
            |stat| {
                // Its name, in brackets, may hold any.
                stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
            },
        )
    })
    .await;
}

fn is_gone(process: Pid) -> bool {
    test_kill_process(process).is_err()
}

/// Calls a tool, and goes away once its server is at it.
async fn begin_and_leave(client: &Client, tool: &'static str) {
    let (caller, has_begun) = (client.clone(), Arc::new(Notify::new()));
    let begun = Arc::clone(&has_begun);
    let told = CallOptions::default().on_progress(move |_| begun.notify_one());
    let call = tokio::spawn(async move { caller.call_with(tool, &json!({}), told).await });
    has_begun.notified().await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
}

#[tokio::test]
async fn a_server_that_hangs_is_ended_once_a_call_ran_out_of_its_clock_and_a_ping_is_unanswered() {
    for behind in both_eras() {
        for (clock, told) in [("idle", "it answered no ping either"), ("timeout", "longer than its timeout")]
        {
            let more = format!("ping_within = \"300ms\"\ntools.who.{clock} = \"300ms\"");
            let front = Front::before(vec![as_a_program("one", &more)], behind).await;
            let client = front.caller(Options::default()).await;
            let first = process(&client).await;
            stop(first).await;
            let failed = call(&client, "who").await;
            assert!(failed.is_error && said(&failed).contains(told), "{behind} {clock}: {failed:?}");
            eventually("it is not ended", async || is_gone(first)).await;
            assert_ne!(process(&client).await, first, "{behind} {clock}");
            front.upstreams.close().await;
        }
    }
}

#[tokio::test]
async fn what_may_be_called_again_is_called_again_when_its_server_hangs() {
    let more = "ping_within = \"300ms\"\ntools.who = { idle = \"3s\", rerun = \"restart\" }";
    for behind in both_eras() {
        let front = Front::before(vec![as_a_program("one", more)], behind).await;
        let client = front.caller(Options::default()).await;
        let first = process(&client).await;
        stop(first).await;
        let answered = call(&client, "who").await;
        assert!(!answered.is_error && said(&answered) == "program", "{behind}: {answered:?}");
        assert_ne!(process(&client).await, first, "{behind}");
        front.upstreams.close().await;
    }
}

#[tokio::test]
async fn a_server_that_hangs_and_that_nobody_waits_for_is_replaced_before_it_is_called_again() {
    for behind in both_eras() {
        let front = Front::before(vec![as_a_program("one", "ping_within = \"300ms\"")], behind).await;
        let client = front.caller(Options::default()).await;
        let first = process(&client).await;
        // There is no clock: who called goes away, for nothing comes.
        begin_and_leave(&client, "endless").await;
        stop(first).await;
        // That it has gone may not be known yet when the next one comes.
        eventually("it is not replaced", async || {
            let patience = CallOptions::default().timeout(Duration::from_secs(10));
            let pid = client.call_with("pid", &json!({}), patience).await;
            pid.is_ok_and(|pid| said(&pid) != first.as_raw_nonzero().to_string())
        })
        .await;
        assert!(is_gone(first), "{behind}");
        front.upstreams.close().await;
    }
}

#[tokio::test]
async fn a_server_that_works_in_its_one_thread_and_answers_no_ping_is_left_at_its_work() {
    for behind in both_eras() {
        let more = "ping_within = \"100ms\"";
        let front = Front::before(vec![as_a_program("one", more)], behind).await;
        let client = front.caller(Options::default()).await;
        let first = process(&client).await;
        let (caller, has_begun) = (client.clone(), Arc::new(Notify::new()));
        let begun = Arc::clone(&has_begun);
        let told = CallOptions::default().on_progress(move |_| begun.notify_one());
        let works = tokio::spawn(async move { caller.call_with("busy", &json!({}), told).await });
        has_begun.notified().await;
        // Somebody gives up on it meanwhile, and others call.
        let given_up = CallOptions::default().timeout(Duration::from_millis(300));
        while client.call_with("who", &json!({}), given_up.clone()).await.is_ok() {
            assert!(!works.is_finished(), "it is at work in its one thread");
        }
        let third = process(&client).await;
        let worked = works.await.unwrap().unwrap();
        assert!(!worked.is_error && said(&worked) == "done", "{behind}: {worked:?}");
        assert_eq!(third, first, "{behind}");
        front.upstreams.close().await;
    }
}

#[tokio::test]
async fn a_call_may_take_longer_than_it_may_be_idle_as_long_as_its_server_says_how_far_it_is() {
    for behind in both_eras() {
        let front = Front::before(vec![as_a_program("one", "idle = \"1s\"")], behind).await;
        let client = front.caller(Options::default()).await;
        let (stepped, silent) = tokio::join!(call(&client, "steps"), call(&client, "endless"));
        assert!(!stepped.is_error && said(&stepped) == "stepped", "{behind}: {stepped:?}");
        let words = "no answer and no progress for 1s";
        assert!(silent.is_error && said(&silent).contains(words), "{behind}: {silent:?}");
        front.upstreams.close().await;
    }
}
