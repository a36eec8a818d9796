//! Tools whose work decides how it ends when it is cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longhaul::Cx;
use longhaul::proto::dialect::Revision;
use longhaul::server::{CancelPolicy, TaskPolicy, ToolError};
use longhaul::store::Memory;
use serde_json::{Value, json};

use crate::rig::{Approve, Process, only_by, policy, question, text};

fn cooperative(grace: Duration) -> TaskPolicy {
    let mut policy = policy();
    policy.cancel = CancelPolicy::Cooperative { grace };
    policy
}

const LONG: Duration = Duration::from_secs(60);

fn cancel(process: &Process, id: &str) {
    let told = process.ask("tasks/cancel", json!({"taskId": id}));
    assert_eq!(told["result"]["resultType"], "complete", "{told}");
}

fn is_over(task: &Value) -> bool {
    task["status"] != "working" && task["status"] != "input_required"
}

/// How work ends that is told to.
type End = fn(&Cx) -> Result<String, ToolError>;

/// Waits to be told to end, or for an answer; then ends as it is told to.
async fn told(cx: Cx, end: End) -> Result<String, ToolError> {
    tokio::select! {
        answer = cx.elicit::<Approve>("Go on?") => Ok(format!("{:?}", answer?.accepted().is_some())),
        () = cx.cancelled() => end(&cx),
    }
}

#[test]
fn work_that_is_told_to_end_may_end_with_another_outcome_or_as_cancelled() {
    let ends: [(End, &str); 3] = [
        (|_| Ok("half of it".to_owned()), "half of it"),
        (|cx| Err(cx.give_up()), "cancelled"),
        (|_| Err(ToolError::new("it broke meanwhile")), "it broke meanwhile"),
    ];
    for (end, comes_to) in ends {
        let store = Memory::new();
        let one = Process::of(only_by(cooperative(LONG), move |cx| told(cx, end)), &store);
        let id = one.call("work");
        question(&one.settled(&id));
        cancel(&one, &id);
        let task = one.until(&id, is_over);
        match comes_to {
            "cancelled" => assert_eq!(task["status"], "cancelled", "{task}"),
            _ => assert_eq!(text(&task), comes_to),
        }
        one.crash();
    }
}

#[test]
fn work_that_was_put_aside_is_told_wherever_it_goes_on_and_after_a_crash() {
    let store = Memory::new();
    let server = || only_by(cooperative(LONG), |cx| told(cx, |_| Ok("half of it".to_owned())));
    let one = Process::of(server(), &store);
    let id = one.call("work");
    question(&one.settled(&id));
    std::thread::sleep(Duration::from_millis(300));
    one.crash();
    // A process that cannot run it takes the request, and ends as well.
    let front = Process::of(longhaul::Server::new("front", "1").tool(other()), &store);
    cancel(&front, &id);
    assert_eq!(front.get(&id)["status"], "input_required", "it is asked, and open");
    front.crash();
    let two = Process::of(server(), &store);
    assert_eq!(text(&two.until(&id, is_over)), "half of it");
    two.crash();
}

fn other() -> longhaul::Tool {
    longhaul::Tool::typed("other", "Other", |_, _: crate::rig::Nothing| async { "other" })
        .task(TaskPolicy::always())
}

#[test]
fn work_that_does_not_heed_it_is_ended_when_its_time_is_up() {
    let (store, dropped) = (Memory::new(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&dropped);
    let one = Process::of(
        only_by(cooperative(Duration::from_millis(300)), move |_| {
            let guard = Dropped(Arc::clone(&counted));
            async move {
                let _guard = guard;
                std::future::pending().await
            }
        }),
        &store,
    );
    let id = one.call("work");
    cancel(&one, &id);
    cancel(&one, &id);
    assert_eq!(one.get(&id)["status"], "working");
    let task = one.until(&id, is_over);
    assert_eq!(task["status"], "cancelled", "{task}");
    // What was written is seen before its work is let go of.
    let _ended = one.until(&id, |_| dropped.load(Ordering::SeqCst) == 1);
    one.crash();
}

struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// C2 of the tasks' conflicts: the older revision demands that it is cancelled before it is answered.
#[test]
fn a_cancel_of_the_revision_before_holds_at_once() {
    let store = Memory::new();
    let late = |cx: Cx| async move {
        cx.cancelled().await;
        Ok("late".to_owned())
    };
    let one = Process::of(only_by(cooperative(LONG), late), &store);
    let call = json!({"name": "work", "arguments": {}, "task": {}, "_meta": {
        "io.modelcontextprotocol/clientCapabilities": {}}});
    let made = one.ask_in(Some(Revision::V2025_11_25), "tools/call", &call);
    let id = made["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{made}"));
    let meta = json!({"io.modelcontextprotocol/clientCapabilities": {}});
    let ended =
        one.ask_in(Some(Revision::V2025_11_25), "tasks/cancel", &json!({"taskId": id, "_meta": meta}));
    assert_eq!(ended["result"]["status"], "cancelled", "{ended}");
    one.crash();
}

#[test]
fn what_is_cancelled_in_its_own_time_is_undone() {
    let (store, undone) = (Memory::new(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&undone);
    let work = move |cx: Cx| {
        let counted = Arc::clone(&counted);
        async move {
            for name in ["before", "after"] {
                let counted = Arc::clone(&counted);
                let undo = move |_: u32, _: String| {
                    counted.fetch_add(1, Ordering::SeqCst);
                    async { Ok::<_, ToolError>(()) }
                };
                cx.step(name, || async { Ok::<_, ToolError>(1) }).compensate(undo).await?;
                if name == "before" {
                    cx.cancelled().await;
                }
            }
            Err::<String, _>(cx.give_up())
        }
    };
    let one = Process::paced(only_by(cooperative(LONG), work), &store, |pace| {
        pace.undo_entry = Duration::from_secs(2);
    });
    let id = one.call("work");
    cancel(&one, &id);
    assert_eq!(one.until(&id, is_over)["status"], "cancelled");
    let begun = std::time::Instant::now();
    while undone.load(Ordering::SeqCst) < 2 {
        assert!(begun.elapsed() < Duration::from_secs(60), "both steps are undone");
        std::thread::sleep(Duration::from_millis(10));
    }
    one.crash();
}
