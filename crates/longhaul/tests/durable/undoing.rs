//! What a task did is undone when it fails, whoever is there then.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use longhaul::server::{TaskPolicy, ToolError};
use longhaul::store::{
    Memory, Record, Rerun, Settings, SystemClock, TaskId, TaskStore as _, Undo, UndoPhase,
};
use longhaul::tasks::runner::Pace;
use longhaul::{Cx, Server, Tool};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::rig::{
    Approve, Nothing, Process, World, hang_once, only, only_in, only_in_by, policy, question, text,
    until_hung,
};

/// Charges and ships, each to be undone, then ends as it is told.
fn undone_server(world: &World, end: &'static str) -> Server {
    undone_server_of(world, end, policy())
}

fn undone_server_of(world: &World, end: &'static str, policy: TaskPolicy) -> Server {
    only_in_by(world, policy, move |world, cx| async move {
        world.begun.fetch_add(1, Ordering::SeqCst);
        let (one, two) = (world.clone(), world.clone());
        let undo = |world: World, name: &'static str| {
            move |value: usize, key: String| {
                let world = world.clone();
                async move {
                    world.keys.lock().unwrap().push(format!("{name} {value} {key}"));
                    match (end, name) {
                        ("hang in undo", "ship") => hang_once(&world).await,
                        ("slow undo", _) => tokio::time::sleep(Duration::from_millis(600)).await,
                        // Not by a macro, whose words would be among those of the tests.
                        ("undo panics", "ship") => std::panic::resume_unwind(Box::new("a bug")),
                        ("undo fails", "ship") => return Err(ToolError::new("nobody is there")),
                        _ => {}
                    }
                    Ok::<_, ToolError>(())
                }
            }
        };
        let done = || async { Ok::<_, ToolError>(world.charged.fetch_add(1, Ordering::SeqCst) + 1) };
        cx.step("charge", done).compensate(undo(one, "charge")).await?;
        cx.step("ship", done).compensate(undo(two, "ship")).await?;
        match end {
            "well" => Ok("well".to_owned()),
            "ask" => {
                let _answer = cx.elicit::<Approve>("Go on?").await?;
                cx.step("after", done).await?;
                Ok("gone on".to_owned())
            }
            _ => Err(ToolError::new("broke")),
        }
    })
}

/// What was undone, once nothing is owed any more: the same as ever for its caller.
fn undone(process: &Process, world: &World, id: &str) -> (Vec<String>, Record) {
    let seen = process.get(id);
    for _ in 0..1000 {
        let record = process.record(id);
        if !record.is_undoing() {
            assert_eq!(process.get(id), seen, "nobody sees it");
            let keys = world.keys.lock().unwrap().iter().map(|said| said.replace(id, "ID")).collect();
            return (keys, record);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{:?}", process.record(id));
}

const SHIP: &str = "ship 2 ID/step:ship/undo";
const CHARGE: &str = "charge 1 ID/step:charge/undo";

#[test]
fn what_failed_is_undone_the_latest_first_and_what_ended_well_is_not() {
    for (end, undoes) in [("fail", true), ("well", false)] {
        let (world, store) = (World::default(), Memory::new());
        let one = Process::of(undone_server(&world, end), &store);
        let id = one.call("work");
        assert_eq!(one.settled(&id)["status"], "completed", "{end}");
        let (keys, record) = undone(&one, &world, &id);
        if undoes {
            assert_eq!((keys, record.owed), (vec![SHIP.to_owned(), CHARGE.to_owned()], 0));
            assert_eq!(record.undo.map(|undo| (undo.attempt, undo.failed)), Some((1, 0)));
        } else {
            assert_eq!((keys, record.undo), (vec![], None));
        }
        assert_eq!(world.charged(), 2, "nothing is done anew");
        one.crash();
    }
}

#[test]
fn what_is_cancelled_is_undone_by_any_node_and_goes_no_further() {
    let (world, store) = (World::default(), Memory::new());
    let one = Process::of(undone_server(&world, "ask"), &store);
    let id = one.call("work");
    question(&one.settled(&id));
    one.crash();
    let two = Process::of(undone_server(&world, "ask"), &store);
    assert!(two.ask("tasks/cancel", json!({"taskId": id}))["result"].is_object());
    assert_eq!(two.get(&id)["status"], "cancelled");
    let (keys, record) = undone(&two, &world, &id);
    assert_eq!((keys, record.owed), (vec![SHIP.to_owned(), CHARGE.to_owned()], 0));
    assert_eq!(world.charged(), 2);
    two.crash();
}

#[test]
fn what_is_cancelled_in_the_middle_of_a_step_is_undone_once_its_worker_is_gone() {
    let (world, store) = (World::default(), Memory::new());
    let server = || {
        only_in(&world, move |world, cx| async move {
            let undone = world.clone();
            let undo = move |value: usize, key: String| {
                let world = undone.clone();
                async move {
                    let during = world.begun();
                    world.keys.lock().unwrap().push(format!("charge {value} {key}, {during} at work"));
                    Ok::<_, ToolError>(())
                }
            };
            let done = || async { Ok::<_, ToolError>(world.charged.fetch_add(1, Ordering::SeqCst) + 1) };
            cx.step("charge", done).compensate(undo).await?;
            let _at_work = AtWork::begin(&world);
            hang_once(&world).await;
            Ok("never".to_owned())
        })
    };
    // The other node is asked to cancel, and finds what is to be undone first.
    let (one, two) = (Process::of(server(), &store), Process::of(server(), &store));
    let id = one.call("work");
    until_hung(&world);
    assert!(two.ask("tasks/cancel", json!({"taskId": id}))["result"].is_object());
    let (keys, _) = undone(&two, &world, &id);
    assert_eq!(keys, [format!("{CHARGE}, 0 at work")], "long before the lease is over");
    one.crash();
    two.crash();
}

/// Counts whoever is at work.
struct AtWork(World);

impl AtWork {
    fn begin(world: &World) -> Self {
        world.begun.fetch_add(1, Ordering::SeqCst);
        Self(world.clone())
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.begun.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn k19_a_crash_while_a_task_is_undone_does_not_end_that() {
    let (world, store) = (World::default(), Memory::new());
    let one = Process::of(undone_server(&world, "hang in undo"), &store);
    let id = one.call("work");
    let ended = one.settled(&id);
    until_hung(&world);
    one.crash();
    let two = Process::of(undone_server(&world, "hang in undo"), &store);
    let (keys, record) = undone(&two, &world, &id);
    assert_eq!(keys, [SHIP, SHIP, CHARGE], "at least once, each under its own key, and at once");
    assert_eq!((record.owed, record.undo.map(|undo| undo.attempt)), (0, Some(1)), "what gets on begins anew");
    assert_eq!((two.get(&id), world.charged()), (ended, 2));
    two.crash();
}

#[test]
fn k19_k27_a_server_that_stops_in_order_gives_undoing_back_and_charges_nothing() {
    let (world, store) = (World::default(), Memory::new());
    let one =
        Process::paced(undone_server(&world, "undo fails"), &store, |pace| pace.retry_work = A_LONG_TIME);
    let id = one.call("work");
    one.settled(&id);
    until(|| world.keys.lock().unwrap().len() == 1);
    one.drain();
    // Between two tries, and on disk by now: the process may go.
    let given_back = undo(&one, &id);
    assert!(matches!(given_back.phase, UndoPhase::Queued { .. }), "{given_back:?}");
    assert_eq!(given_back.attempt, 0);
    let two = Process::of(undone_server(&world, "well"), &store);
    let (keys, record) = undone(&two, &world, &id);
    assert_eq!(keys, [SHIP, SHIP, CHARGE]);
    assert_eq!(record.undo.map(|undo| (undo.attempt, undo.failed)), Some((1, 0)));
    one.crash();
    two.crash();
}

#[test]
fn a_node_that_stood_still_goes_on_with_what_it_claims_back() {
    let mut settings = Settings::default();
    settings.lease = Duration::from_millis(200);
    let (world, store) = (World::default(), Memory::with(settings, Arc::new(SystemClock::new())));
    let one =
        Process::paced(undone_server(&world, "slow undo"), &store, |pace| pace.renew_every = A_LONG_TIME);
    let id = one.call("work");
    one.settled(&id);
    let (keys, record) = undone(&one, &world, &id);
    assert_eq!(keys, [SHIP, CHARGE], "neither is begun again");
    assert_eq!(record.undo.map(|undo| (undo.attempt, undo.failed)), Some((1, 0)));
    one.crash();
}

const A_LONG_TIME: Duration = Duration::from_secs(24 * 3600);

fn undo(process: &Process, id: &str) -> Undo {
    process.record(id).undo.expect("it is undone")
}

#[track_caller]
fn until(is: impl Fn() -> bool) {
    for _ in 0..2000 {
        if is() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("it did not come to that");
}

#[test]
fn a_try_to_undo_that_takes_too_long_is_one_that_failed() {
    let (world, store) = (World::default(), Memory::new());
    let one = Process::paced(undone_server(&world, "hang in undo"), &store, |pace| {
        pace.undo_try = Duration::from_millis(50);
    });
    let id = one.call("work");
    one.settled(&id);
    let (keys, record) = undone(&one, &world, &id);
    assert_eq!(
        (keys, record.undo.map(|undo| undo.failed)),
        (vec![SHIP, SHIP, CHARGE].into_iter().map(str::to_owned).collect(), Some(0))
    );
    assert!(one.said().contains("it took longer than 50ms"), "{}", one.said());
    one.crash();
}

#[test]
fn undoing_takes_one_of_the_places_of_its_tool() {
    let (world, store) = (World::default(), Memory::new());
    let mut one_at_once = policy();
    one_at_once.limit = Some(1);
    let server = undone_server_of(&world, "hang in undo", one_at_once);
    let one = Process::of(server, &store);
    let id = one.call("work");
    one.settled(&id);
    until_hung(&world);
    let next = one.call("work");
    one.until(&next, |task| task["statusMessage"] == "queued: 1 of work are running, its limit");
    assert_eq!(world.begun(), 2, "the first, and once more to be undone");
    one.crash();
}

/// Goes on with errors that it is told, and is entered again in between; what it is told is all that it did.
fn told_server(world: &World) -> Server {
    only_in(world, move |world, cx| async move {
        let at = |time: usize| {
            let world = world.clone();
            move || async move {
                if world.hang.fetch_add(1, Ordering::SeqCst) == time {
                    std::future::pending::<()>().await;
                }
                Ok::<_, ToolError>(0)
            }
        };
        let in_doubt = cx.step("in doubt", at(0)).at_most_once().await;
        let unknown = cx
            .step("unknown", at(1))
            .reconcile(|_| async { Err::<Option<usize>, _>(ToolError::new("the API is down")) })
            .await;
        let late = cx.elicit::<Approve>("Go on?").within(Duration::from_millis(50)).await;
        let told = [in_doubt.is_err(), unknown.is_err(), late.is_err()];
        let undone = world.clone();
        let undo = move |value: usize, key: String| {
            let world = undone.clone();
            async move {
                world.keys.lock().unwrap().push(format!("charge {value} {key}"));
                Ok::<_, ToolError>(())
            }
        };
        if told == [true; 3] {
            let done = || async { Ok::<_, ToolError>(1) };
            cx.step("charge", done).compensate(undo).await?;
        }
        Err(ToolError::new("broke"))
    })
}

#[test]
fn whatever_a_function_was_told_it_is_told_again_when_it_is_undone() {
    let (world, store) = (World::default(), Memory::new());
    let mut process = Process::of(told_server(&world), &store);
    let id = process.call("work");
    for time in 1..=2 {
        until(|| world.hang.load(Ordering::SeqCst) == time);
        process.crash();
        process = Process::of(told_server(&world), &store);
    }
    let ended = process.until(&id, |task| task["status"] == "completed");
    assert_eq!(ended["result"]["isError"], true, "{ended}");
    let (keys, record) = undone(&process, &world, &id);
    assert_eq!((keys, record.undo.map(|undo| undo.failed)), (vec![CHARGE.to_owned()], Some(0)));
    process.crash();
}

/// Charges, and fails; entered to be undone it is slow outside any step so often.
fn slow_server(world: &World, slow: usize) -> Server {
    only_in(world, move |world, cx| async move {
        let nth = world.begun.fetch_add(1, Ordering::SeqCst);
        if (1..=slow).contains(&nth) {
            std::future::pending::<()>().await;
        }
        let undone = world.clone();
        let undo = move |value: usize, key: String| {
            let world = undone.clone();
            async move {
                world.keys.lock().unwrap().push(format!("charge {value} {key}"));
                Ok::<_, ToolError>(())
            }
        };
        let done = || async { Ok::<_, ToolError>(1) };
        cx.step("charge", done).compensate(undo).await?;
        Err(ToolError::new("broke"))
    })
}

#[test]
fn what_is_not_known_to_be_undone_how_is_asked_for_until_the_attempts_run_out() {
    let most = Pace::default().max_attempts as usize;
    for (slow, undoes) in [(2, true), (most + 1, false)] {
        let (world, store) = (World::default(), Memory::new());
        let one = Process::paced(slow_server(&world, slow), &store, |pace| {
            (pace.undo_entry, pace.retry_work) = (Duration::from_millis(20), Duration::from_millis(1));
        });
        let id = one.call("work");
        one.settled(&id);
        let (keys, record) = undone(&one, &world, &id);
        assert!(one.said().contains("not all of a task could be undone yet: it is tried again"));
        let undo = record.undo.expect("it was");
        assert_eq!((keys.len(), undo.failed), (usize::from(undoes), u32::from(!undoes)), "{}", one.said());
        if !undoes {
            assert_eq!(world.begun(), 1 + most, "each attempt enters it once");
            let said = one.said();
            let by_hand =
                said.lines().find(|line| line.contains("ERROR") && line.contains("undo it by hand"));
            let by_hand = by_hand.unwrap_or_else(|| panic!("{said}"));
            for word in [&*id, "tool=work", r#"step="step:charge/undo""#, "does not reach the step"] {
                assert!(by_hand.contains(word), "{word}: {by_hand}");
            }
        }
        one.crash();
    }
}

#[test]
fn what_cannot_be_undone_is_tried_again_and_then_said() {
    for end in ["undo fails", "undo panics"] {
        let (world, store) = (World::default(), Memory::new());
        let one = Process::of(undone_server(&world, end), &store);
        let id = one.call("work");
        one.settled(&id);
        let (keys, record) = undone(&one, &world, &id);
        let tries = Pace::default().max_attempts as usize;
        assert_eq!(
            (keys.len(), keys.last().map(String::as_str)),
            (tries + 1, Some(CHARGE)),
            "{end}: {keys:?}"
        );
        assert_eq!(record.undo.map(|undo| undo.failed), Some(1), "{end}");
        let said = one.said();
        let count = |level: &str, words: &str| {
            said.lines().filter(|line| line.contains(level) && line.contains(words)).count()
        };
        assert_eq!(count("WARN", "a step could not be undone yet"), tries - 1, "{said}");
        assert_eq!(count("ERROR", "a step could not be undone: undo it by hand"), 1, "{said}");
        one.crash();
    }
}

#[test]
fn what_ends_one_process_after_another_is_not_undone_and_the_rest_is() {
    let (world, store) = (World::default(), Memory::new());
    let one = Process::of(undone_server(&world, "hang in undo"), &store);
    let id = one.call("work");
    one.settled(&id);
    until_hung(&world);
    one.crash();
    let (runtime, task) = (Runtime::new().unwrap(), TaskId::new(id.clone()).unwrap());
    for _ in 1..Pace::default().max_attempts {
        // Nodes that take it up and are never heard of again.
        let node = store.another_node();
        until(|| runtime.block_on(node.claim_one(&task)).unwrap().is_some());
    }
    let two = Process::of(undone_server(&world, "hang in undo"), &store);
    let (keys, record) = undone(&two, &world, &id);
    assert_eq!(keys, [SHIP, CHARGE], "one step is given up, and not what was never tried");
    assert_eq!(record.undo.map(|undo| undo.failed), Some(1));
    two.crash();
}

#[test]
fn what_nobody_could_undo_in_time_is_told_when_it_is_forgotten() {
    let mut settings = Settings::default();
    settings.undo_retention = Duration::from_millis(300);
    let (world, store) = (World::default(), Memory::with(settings, Arc::new(SystemClock::new())));
    let mut kept_briefly = policy();
    kept_briefly.ttl = Duration::from_millis(100);
    let server = undone_server_of(&world, "hang in undo", kept_briefly);
    let one = Process::paced(server, &store, |pace| pace.sweep_every = Duration::from_millis(20));
    let id = one.call("work");
    until(|| one.said().contains("forgotten before its steps were undone"));
    let said = one.said();
    let line = said.lines().find(|line| line.contains("forgotten before")).expect("it is said");
    for word in ["ERROR", &*id, "steps=2", "undo them by hand"] {
        assert!(line.contains(word), "{word}: {line}");
    }
    one.crash();
}

#[test]
fn the_names_of_steps_do_not_meet_the_keys_of_what_undoes_them() {
    let store = Memory::new();
    let server = only(|cx| async move {
        let done = || async { Ok::<_, ToolError>(1) };
        cx.step("charge", done).compensate(|_: i32, _| async { Ok::<_, ToolError>(()) }).await?;
        cx.step("charge/undo", done).await?;
        cx.step("charge%2Fundo", done).await?;
        Ok("told apart".to_owned())
    });
    let one = Process::of(server, &store);
    let id = one.call("work");
    assert_eq!(text(&one.settled(&id)), "told apart");
    one.crash();
}

#[test]
fn a_step_that_could_not_be_undone_later_is_not_made() {
    let (world, store) = (World::default(), Memory::new());
    let (counts, mut once) = (world.clone(), policy());
    once.rerun = Rerun::Never;
    let work = move |cx: Cx, _: Nothing| {
        let world = counts.clone();
        async move {
            let done = || async { Ok::<_, ToolError>(world.charged.fetch_add(1, Ordering::SeqCst)) };
            let undo = |_: usize, _: String| async { Ok::<_, ToolError>(()) };
            Ok::<_, ToolError>(cx.step("charge", done).compensate(undo).await?.to_string())
        }
    };
    let one =
        Process::of(Server::new("once", "1").tool(Tool::typed("work", "Work", work).task(once)), &store);
    let id = one.call("work");
    let ended = one.settled(&id);
    assert_eq!(ended["error"]["data"]["reason"], "not_durable", "{ended}");
    assert_eq!(world.charged(), 0);
    one.crash();
}
