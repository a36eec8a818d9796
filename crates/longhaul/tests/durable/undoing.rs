//! What a task did is undone when it fails, whoever is there then.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use longhaul::server::ToolError;
use longhaul::store::{Memory, Record, Rerun, Settings, SystemClock, TaskId, TaskStore as _};
use longhaul::tasks::runner::Pace;
use longhaul::{Cx, Server, Tool};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::rig::{Approve, Nothing, Process, World, hang_once, only, policy, question, text, until_hung};

/// Charges and ships, each to be undone, then ends as it is told.
fn undone_server(world: &World, end: &'static str) -> Server {
    let world = world.clone();
    only(move |cx| {
        let world = world.clone();
        async move {
            world.begun.fetch_add(1, Ordering::SeqCst);
            let (one, two) = (world.clone(), world.clone());
            let undo = |world: World, name: &'static str| {
                move |value: usize, key: String| {
                    let world = world.clone();
                    async move {
                        world.keys.lock().unwrap().push(format!("{name} {value} {key}"));
                        match (end, name) {
                            ("hang in undo", "ship") => hang_once(&world).await,
                            ("undo panics", "ship") => panic!("a bug"),
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
fn k19_a_crash_while_a_task_is_undone_does_not_end_that() {
    let mut settings = Settings::default();
    settings.lease = Duration::from_millis(500);
    let (world, store) = (World::default(), Memory::with(settings, Arc::new(SystemClock::new())));
    let one = Process::of(undone_server(&world, "hang in undo"), &store);
    let id = one.call("work");
    let ended = one.settled(&id);
    until_hung(&world);
    one.crash();
    let two = Process::of(undone_server(&world, "hang in undo"), &store);
    let (keys, record) = undone(&two, &world, &id);
    assert_eq!(keys, [SHIP, SHIP, CHARGE], "at least once, each under its own key");
    assert_eq!((record.owed, record.undo.map(|undo| undo.attempt)), (0, Some(1)), "what gets on begins anew");
    assert_eq!((two.get(&id), world.charged()), (ended, 2));
    two.crash();
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
        one.crash();
    }
}

#[test]
fn what_ends_one_process_after_another_is_not_undone_and_the_rest_is() {
    let mut settings = Settings::default();
    settings.lease = Duration::from_millis(500);
    let (world, store) = (World::default(), Memory::with(settings, Arc::new(SystemClock::new())));
    let one = Process::of(undone_server(&world, "hang in undo"), &store);
    let id = one.call("work");
    one.settled(&id);
    until_hung(&world);
    one.crash();
    let (runtime, task) = (Runtime::new().unwrap(), TaskId::new(id.clone()).unwrap());
    for _ in 1..Pace::default().max_attempts {
        // Nodes that take it up and are never heard of again.
        while runtime.block_on(store.claim_one(&task)).unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let two = Process::of(undone_server(&world, "hang in undo"), &store);
    let (keys, record) = undone(&two, &world, &id);
    assert_eq!(keys, [SHIP, CHARGE], "one step is given up, and not what was never tried");
    assert_eq!(record.undo.map(|undo| undo.failed), Some(1));
    two.crash();
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
