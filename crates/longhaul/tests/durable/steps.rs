//! What is done once, slept once and drawn once, in loops and in branches too.

use std::sync::atomic::Ordering;
use std::time::Duration;

use longhaul::Cx;
use longhaul::server::ToolError;
use longhaul::store::Memory;

use crate::rig::{Approve, Process, World, hang_once, only_in, question, text, until_hung, yes};

#[test]
fn k5_inside_a_step_it_is_done_again_unless_it_must_not_be() {
    for (tool, outcome) in [("again", "done the time number 2"), ("once", "not done")] {
        let (world, store) = (World::default(), Memory::new());
        let one = Process::start(&world, &store);
        let id = one.call(tool);
        while world.hang.load(Ordering::SeqCst) == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        one.crash();
        let two = Process::start(&world, &store);
        let task = two.settled(&id);
        assert!(text(&task).starts_with(outcome), "{task}");
        assert!(tool == "again" || text(&task).contains("\"step:effect is in doubt: a crash"), "{task}");
        assert_eq!(world.hang.load(Ordering::SeqCst), if tool == "again" { 2 } else { 1 });
        two.crash();
    }
}

#[test]
fn a_sleep_ends_when_it_was_to_end_whoever_waits() {
    let (world, store) = (World::default(), Memory::new());
    let one = Process::start(&world, &store);
    let id = one.call("nap");
    std::thread::sleep(Duration::from_millis(300));
    one.crash();
    let two = Process::start(&world, &store);
    assert_eq!(two.get(&id)["status"], "working");
    assert_eq!(text(&two.settled(&id)), "rested");
    assert_eq!(world.begun(), 2, "put aside by the first, entered again when its time had come");
    two.crash();
}

#[test]
fn an_effect_is_named_after_its_task_before_there_is_one() {
    let (world, store) = (World::default(), Memory::new());
    let one = Process::start(&world, &store);
    // Its step makes it durable, and its question a task.
    let id = one.call("later");
    let asked = question(&one.settled(&id));
    let keys = world.keys.lock().unwrap().clone();
    assert!(keys.len() == 1 && keys[0].starts_with(&id), "{keys:?}");
    one.crash();
    let two = Process::start(&world, &store);
    two.answer(&id, &asked, &yes());
    assert_eq!(text(&two.settled(&id)), "receipt 1, shipped");
    two.crash();
}

#[test]
fn a_loop_with_a_checkpoint_goes_on_where_it_was_and_keeps_one_round() {
    const ROUNDS: usize = 10_000;
    let (world, store) = (World::default(), Memory::new());
    let server = || {
        only_in(&world, move |world, cx| async move {
            world.begun.fetch_add(1, Ordering::SeqCst);
            let first = cx.step("first", || async { Ok::<_, ToolError>(7_usize) }).await?;
            let mut state = cx.checkpointed((0, 0)).await;
            while state.0 < ROUNDS {
                let key = cx.effect_key("add");
                let inner = cx.scope("branch");
                state.1 += cx
                    .step("add", || async {
                        world.keys.lock().unwrap().push(key.clone());
                        Ok::<_, ToolError>(world.charged.fetch_add(1, Ordering::SeqCst) % 2)
                    })
                    .await?;
                inner.step("nothing", || async { Ok::<_, ToolError>(()) }).pure().await?;
                if state.0 == ROUNDS / 2 {
                    hang_once(&world).await;
                }
                state.0 += 1;
                state.save().await?;
            }
            Ok(format!("{first} {} {}", state.0, state.1))
        })
    };
    let one = Process::of(server(), &store);
    let id = one.call("work");
    until_hung(&world);
    let record = one.record(&id);
    assert!(record.steps <= 4, "what comes before the loop, the state, and a round: {}", record.steps);
    one.crash();

    let two = Process::of(server(), &store);
    assert_eq!(text(&two.settled(&id)), format!("7 {ROUNDS} {}", ROUNDS / 2));
    assert_eq!((world.charged(), world.begun()), (ROUNDS, 2), "each round's effect once");
    let mut keys = std::mem::take(&mut *world.keys.lock().unwrap());
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), ROUNDS, "each under a key of its own");
    assert!(two.record(&id).steps <= 4);
    two.crash();
}

#[test]
fn branches_are_numbered_each_for_itself_however_they_get_on() {
    let (world, store) = (World::default(), Memory::new());
    let server = || {
        only_in(&world, move |world, cx| async move {
            let again = world.begun.fetch_add(1, Ordering::SeqCst) > 0;
            let branch = |cx: Cx, name: &'static str, late: bool| {
                let world = world.clone();
                async move {
                    if late {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                    let charged = || async {
                        world.charged.fetch_add(1, Ordering::SeqCst);
                        Ok::<_, ToolError>(name.to_owned())
                    };
                    let first = cx.step("say", charged).await?;
                    Ok::<_, ToolError>(first + &cx.step("say", charged).await?)
                }
            };
            // In the second process they get on in the other order.
            let (a, b) = (cx.scope("branch"), cx.scope("branch"));
            let (a, b) = tokio::join!(branch(a, "a", again), branch(b, "b", !again));
            let said = a? + &b?;
            hang_once(&world).await;
            Ok(said)
        })
    };
    let one = Process::of(server(), &store);
    let id = one.call("work");
    until_hung(&world);
    one.crash();
    let two = Process::of(server(), &store);
    assert_eq!(text(&two.settled(&id)), "aabb");
    assert_eq!((world.charged(), world.begun()), (4, 2));
    two.crash();
}

#[test]
fn what_is_drawn_once_stays_and_a_fence_rises() {
    let (world, store) = (World::default(), Memory::new());
    let server = || {
        only_in(&world, move |world, cx| async move {
            let uuid = cx.uuid_once().await?;
            cx.sleep_until(std::time::UNIX_EPOCH).await;
            cx.sleep_until(std::time::SystemTime::now() + Duration::from_millis(20)).await;
            let (task, epoch) = cx.fence().expect("it is a task");
            world.keys.lock().unwrap().push(format!("{uuid} {task} {epoch}"));
            hang_once(&world).await;
            Ok(uuid)
        })
    };
    let one = Process::of(server(), &store);
    let id = one.call("work");
    until_hung(&world);
    one.crash();
    let two = Process::of(server(), &store);
    let task = two.settled(&id);
    let uuid = text(&task);
    assert!(uuid.len() == 36 && &uuid[14..15] == "4", "{uuid}");
    let keys = world.keys.lock().unwrap().clone();
    let [first, second] = &keys[..] else { panic!("{keys:?}") };
    let epoch = |said: &str| -> u64 {
        let said = said.strip_prefix(&format!("{uuid} {id} ")).expect("the same draw, the same task");
        said.parse().unwrap()
    };
    assert!(epoch(first) < epoch(second), "{keys:?}");
    two.crash();
}

#[test]
fn work_that_is_entered_again_knows_how_long_ago_it_was_begun() {
    let (world, store) = (World::default(), Memory::new());
    let server = || {
        only_in(&world, move |world, cx| async move {
            let before = cx.worked_before().as_millis().to_string();
            world.keys.lock().unwrap().push(before.clone());
            hang_once(&world).await;
            // A question puts it aside: that counts, too.
            cx.elicit::<Approve>("Go on?").await?;
            Ok(before)
        })
    };
    let one = Process::of(server(), &store);
    let id = one.call("work");
    until_hung(&world);
    std::thread::sleep(Duration::from_millis(400));
    one.crash();
    let two = Process::of(server(), &store);
    let asked = question(&two.settled(&id));
    std::thread::sleep(Duration::from_millis(400));
    two.answer(&id, &asked, &yes());
    let before: u64 = text(&two.settled(&id)).parse().unwrap();
    assert!((400..60_000).contains(&before), "{before}");
    assert_eq!(world.keys.lock().unwrap()[0], "0", "as it began");
    two.crash();
}
