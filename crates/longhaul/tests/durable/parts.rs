//! Parts of a result, which are given before its end: once, and there for their owner while their task is.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use longhaul::Cx;
use longhaul::server::{Json, ToolError};
use longhaul::store::{Memory, Settings, SystemClock};
use serde_json::{Value, json};

use crate::rig::{Approve, Process, World, hang_once, only, only_in, text, until_hung};

/// What was read of a task's parts behind the first `after`: their texts, and where to go on.
#[track_caller]
fn read(process: &Process, id: &str, after: u64) -> (Vec<String>, Value) {
    let uri = format!("longhaul://tasks/{id}/parts?after={after}");
    let read = process.ask("resources/read", json!({ "uri": uri }));
    let contents = read["result"]["contents"].as_array().unwrap_or_else(|| panic!("{read}"));
    let texts = contents.iter().map(|part| part["text"].as_str().unwrap().to_owned()).collect();
    (texts, contents.last().unwrap()["_meta"]["dev.longhaul/output"].clone())
}

#[test]
fn parts_are_read_while_their_task_runs_and_are_given_once() {
    let (world, store) = (World::default(), Memory::new());
    let server = || {
        only_in(&world, move |world, cx| async move {
            let time = world.begun.fetch_add(1, Ordering::SeqCst);
            cx.emit(format!("begun the time number {time}")).await?;
            cx.step("look", || async { cx.emit("in a step").await }).await?;
            cx.emit(Json(json!({ "found": 3 }))).await?;
            hang_once(&world).await;
            cx.emit("last").await?;
            Ok("found".to_owned())
        })
    };
    let one = Process::of(server(), &store);
    let id = one.call("work");
    until_hung(&world);
    let (texts, position) = read(&one, &id, 0);
    assert_eq!(texts, ["begun the time number 0", "in a step", r#"{"found":3}"#]);
    assert_eq!(position, json!({"start": 2, "next": 3, "total": 3, "done": false}));
    let nothing = (vec![String::new()], json!({"start": 3, "next": 3, "total": 3, "done": false}));
    assert_eq!(read(&one, &id, 3), nothing);
    let pointer = json!({"uri": format!("longhaul://tasks/{id}/parts"), "total": 3});
    assert_eq!(one.get(&id)["_meta"]["dev.longhaul/parts"], pointer);
    one.crash();

    let two = Process::of(server(), &store);
    let task = two.settled(&id);
    assert_eq!((text(&task), world.begun()), ("found", 2));
    let (texts, position) = read(&two, &id, 0);
    assert_eq!(texts, ["begun the time number 0", "in a step", r#"{"found":3}"#, "last"]);
    assert_eq!(position, json!({"start": 3, "next": 4, "total": 4, "done": true}));
    let (texts, _) = read(&two, &id, 2);
    assert_eq!(texts, [r#"{"found":3}"#, "last"]);
    let link = &task["result"]["content"][1];
    assert_eq!((&link["type"], &link["uri"]), (&json!("resource_link"), &pointer["uri"]), "{task}");
    two.crash();
}

#[test]
fn a_part_too_many_is_an_error_that_the_work_can_outlive() {
    let mut settings = Settings::default();
    (settings.limits.max_parts, settings.limits.max_part) = (2, 20);
    let store = Memory::with(settings, Arc::new(SystemClock::new()));
    let process = Process::of(
        only(|cx| async move {
            cx.emit("one").await?;
            let large = cx.emit("x".repeat(30)).await.unwrap_err();
            cx.emit("two").await?;
            let many = cx.emit("three").await.unwrap_err();
            Ok(format!("{large:?} {many:?}"))
        }),
        &store,
    );
    let id = process.call("work");
    let task = process.settled(&id);
    let said = text(&task);
    assert!(said.contains("a part of 32 bytes (at most 20)") && said.contains("`max_parts`"), "{said}");
    assert_eq!(read(&process, &id, 0).0, ["one", "two"]);
    process.crash();
}

#[test]
fn branches_and_rounds_give_their_own_parts() {
    let (world, store) = (World::default(), Memory::new());
    let server = || {
        only_in(&world, move |world, cx| async move {
            let again = world.begun.fetch_add(1, Ordering::SeqCst) > 0;
            let give = async |cx: Cx, late: bool, text: &str| {
                if late {
                    tokio::task::yield_now().await;
                }
                cx.emit(text).await
            };
            // In the second process they get on in the other order.
            let (a, b) = (cx.scope("branch"), cx.scope("branch"));
            let (a, b) = tokio::join!(give(a, again, "a"), give(b, !again, "b"));
            a.and(b)?;
            let mut round = cx.checkpointed(0).await;
            while *round < 3 {
                cx.emit(format!("round {}", *round)).await?;
                if *round == 1 {
                    hang_once(&world).await;
                }
                *round += 1;
                round.save().await?;
            }
            Ok("given".to_owned())
        })
    };
    let one = Process::of(server(), &store);
    let id = one.call("work");
    until_hung(&world);
    one.crash();
    let two = Process::of(server(), &store);
    assert_eq!(text(&two.settled(&id)), "given");
    assert_eq!(read(&two, &id, 0).0, ["a", "b", "round 0", "round 1", "round 2"]);
    two.crash();
}

#[test]
fn what_undoes_a_task_gives_nothing_and_is_not_held_up() {
    let (world, store) = (World::default(), Memory::new());
    let server = only_in(&world, move |world, cx| async move {
        let done = || async { Ok::<_, ToolError>(()) };
        let undo = |name: &'static str| {
            let (world, cx) = (world.clone(), cx.clone());
            move |(), _: String| {
                let (world, cx) = (world.clone(), cx.clone());
                async move {
                    world.keys.lock().unwrap().push(name.to_owned());
                    cx.emit("undone").await
                }
            }
        };
        cx.step("first", done).compensate(undo("first")).await?;
        cx.emit("between").await?;
        cx.step("second", done).compensate(undo("second")).await?;
        let _answer = cx.elicit::<Approve>("Go on?").await?;
        Ok("gone on".to_owned())
    });
    let process = Process::of(server, &store);
    let id = process.call("work");
    process.settled(&id);
    process.ask("tasks/cancel", json!({ "taskId": id }));
    for _ in 0..1000 {
        if !process.record(&id).is_undoing() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(*world.keys.lock().unwrap(), ["second", "first"]);
    assert_eq!(read(&process, &id, 0).0, ["between"]);
    process.crash();
}

#[test]
fn the_parts_of_a_task_are_its_owners_alone() {
    let (world, store) = (World::default(), Memory::new());
    let process = Process::of(
        only_in(&world, |world, cx| async move {
            cx.emit("secret").await?;
            hang_once(&world).await;
            Ok(String::new())
        }),
        &store,
    );
    let id = process.call("work");
    process.until(&id, |task| task["_meta"]["dev.longhaul/parts"]["total"] == 1);
    let ask = |who: &str, id: &str| {
        let uri = format!("longhaul://tasks/{id}/parts");
        let answer = process.ask_as(who, "resources/read", json!({ "uri": uri }));
        answer.to_string().replace(id, "ID")
    };
    assert!(ask("ann", &id).contains("secret"));
    assert_eq!(ask("bob", &id), ask("bob", "never-was"));
    assert!(ask("bob", &id).contains("resource not found"));
    process.crash();
}
