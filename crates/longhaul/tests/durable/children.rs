//! Tasks that tools make: each once, waited for without a node, and ended with the one that made it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use longhaul::proto::jsonrpc::{Code, ErrorObject};
use longhaul::server::{ChildError, SpawnError, TaskMode, TaskPolicy, ToolError};
use longhaul::store::{
    Filter, Memory, Operation, Overlay, Phase, Record, Scope, Settings, StoreError, StoreFuture, SystemClock,
    TaskStore as _,
};
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};

use crate::rig::{Nothing, Process, World, hang_once, order, policy, question, text, until_hung, yes};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Shard {
    number: u64,
}

/// A server whose tool `work` is resumable and has tools to call.
fn family<F: Future<Output = Result<String, ToolError>> + Send + 'static>(
    world: &World,
    work: impl Fn(World, Cx) -> F + Send + Sync + 'static,
) -> Server {
    let (of_work, of_order, of_shard, of_once) = (world.clone(), world.clone(), world.clone(), world.clone());
    Server::new("family", "1")
        .tool(Tool::typed("work", "Work", move |cx, _: Nothing| work(of_work.clone(), cx)).task(policy()))
        .tool(Tool::typed("order", "Order", move |cx, _: Nothing| order(of_order.clone(), cx)).task(policy()))
        .tool(
            Tool::typed("shard", "Test a shard", move |cx: Cx, Shard { number }| {
                let world = of_shard.clone();
                async move {
                    world.begun.fetch_add(1, Ordering::SeqCst);
                    let ran = || async { Ok::<_, ToolError>(world.charged.fetch_add(1, Ordering::SeqCst)) };
                    cx.step("run", ran).await?;
                    match number {
                        13 => Err(ToolError::protocol(
                            ErrorObject::new(Code(-32050), "unlucky").with_data(&json!({"shard": 13})),
                        )),
                        14 => Err(ToolError::new("flaky")),
                        _ => Ok(number * 10),
                    }
                }
            })
            .task(policy()),
        )
        .tool(
            Tool::typed("forever", "Never ends", |_: Cx, _: Nothing| async {
                std::future::pending::<String>().await
            })
            .task(policy()),
        )
        .tool(
            Tool::typed("once", "Hangs in the first process", move |_: Cx, _: Nothing| {
                let world = of_once.clone();
                async move {
                    hang_once(&world).await;
                    "once"
                }
            })
            .task(one_at_a_time()),
        )
}

/// Work that is never run twice, one call after the other.
fn one_at_a_time() -> TaskPolicy {
    let mut policy = TaskPolicy::always();
    policy.limit = Some(1);
    policy
}

/// Every task there is.
fn tasks(store: &Memory) -> Vec<Record> {
    let filter = Filter::all();
    let list = store.list(Scope::Operator, &filter, None, 100);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(list).unwrap().tasks
}

/// The only task of this tool.
#[track_caller]
fn only_of(store: &Memory, tool: &str) -> Record {
    let mut of_tool: Vec<Record> = tasks(store).into_iter().filter(|task| &*task.tool == tool).collect();
    assert_eq!(of_tool.len(), 1, "{of_tool:?}");
    of_tool.remove(0)
}

/// The task of this tool, once there is one.
#[track_caller]
fn made(store: &Memory, tool: &str) -> Record {
    for _ in 0..1000 {
        if tasks(store).iter().any(|task| &*task.tool == tool) {
            return only_of(store, tool);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("nobody has made a task of {tool}");
}

fn shard(number: u64) -> Value {
    json!({ "number": number })
}

#[test]
fn children_are_made_run_and_joined_in_their_order() {
    let (world, store) = (World::default(), Memory::new());
    let server = family(&world, |_, cx| async move {
        let mut children = Vec::new();
        for number in 1..=3 {
            children.push(cx.spawn("shard", shard(number)).await?);
        }
        let ends = cx.join_all(&children).await.len();
        let first: u64 = children[0].join_as().await?;
        let last: u64 = children[2].join_as().await?;
        Ok(format!("{ends}: {first} to {last}"))
    });
    let one = Process::of(server, &store);
    let id = one.call("work");
    assert_eq!(text(&one.settled(&id)), "3: 10 to 30");
    let parent = one.record(&id);
    assert_eq!((parent.children.open, parent.children.ended, parent.children.below), (0, 3, 3));
    assert_eq!(tasks(&store).len(), 4);
    for child in tasks(&store).iter().filter(|task| &*task.tool == "shard") {
        let link = child.parent.as_ref().unwrap();
        assert_eq!((&link.task, link.depth, &child.owner), (&parent.id, 1, &parent.owner));
        let seen = one.get(child.id.as_str());
        assert_eq!(seen["status"], "completed", "it is a task like any other");
        assert_eq!(seen["_meta"]["dev.longhaul/parentTaskId"], id);
    }
    assert_eq!(one.get(&id)["_meta"]["dev.longhaul/children"], json!({"made": 3}));
    one.crash();
}

#[test]
fn a_parent_that_waits_is_put_aside_and_goes_on_when_its_child_ends() {
    let (world, store) = (World::default(), Memory::new());
    let server = || {
        family(&world, |world, cx| async move {
            world.hang.fetch_add(1, Ordering::SeqCst);
            let child = cx.spawn("order", json!({})).await?;
            let said = child.join().await?;
            Ok(format!("{:?}", said.content[0].as_text()))
        })
    };
    let one = Process::of(server(), &store);
    let id = one.call("work");
    let child = made(&store, "order").id;
    let waits = format!("waits for order ({child})");
    let task = one.until(&id, |task| task["statusMessage"] == waits);
    assert_eq!(task["status"], "working");
    assert_eq!(task["_meta"]["dev.longhaul/children"], json!({"made": 1, "open": 1}));
    let aside = |process: &Process| {
        process.until(&id, |_| matches!(process.record(&id).phase, Phase::Parked { until: None }))
    };
    aside(&one);
    let asked = question(&one.settled(child.as_str()));
    one.crash();
    // Nothing of it is anywhere but in the store.
    let two = Process::of(server(), &store);
    two.answer(child.as_str(), &asked, &yes());
    let ended = two.settled(&id);
    assert_eq!(text(&ended), r#"Some("receipt 1, shipped")"#);
    assert_eq!(
        (world.charged(), world.hang.load(Ordering::SeqCst)),
        (1, 2),
        "entered to spawn, and to go on"
    );
    assert_eq!(tasks(&store).len(), 2);
    two.crash();
}

#[test]
fn k21_whoever_is_entered_again_finds_the_child_it_has_made() {
    let (world, store) = (World::default(), Memory::new());
    let server = || {
        family(&world, |world, cx| async move {
            let child = cx.spawn("shard", shard(1)).await?;
            hang_once(&world).await;
            let said: u64 = child.join_as().await?;
            Ok(format!("{said}"))
        })
    };
    let one = Process::of(server(), &store);
    let id = one.call("work");
    until_hung(&world);
    one.crash();
    let two = Process::of(server(), &store);
    assert_eq!(text(&two.settled(&id)), "10");
    assert_eq!((world.charged(), tasks(&store).len()), (1, 2));
    two.crash();
}

#[test]
fn k21_a_child_whose_process_dies_goes_on_or_is_lost_as_any_task() {
    let (world, store) = (World::default(), Memory::new());
    let server = || {
        family(&world, |_, cx| async move {
            let child = cx.spawn("once", json!({})).await?;
            match child.join().await {
                Err(ChildError::Lost { reason, .. }) => Ok(format!("lost: {reason}")),
                other => Ok(format!("{other:?}")),
            }
        })
    };
    let one = Process::of(server(), &store);
    let id = one.call("work");
    until_hung(&world);
    one.crash();
    let two = Process::of(server(), &store);
    assert_eq!(text(&two.settled(&id)), "lost: the process that ran it is gone");
    assert_eq!(world.hang.load(Ordering::SeqCst), 1, "what is never run twice is begun once");
    two.crash();
}

#[test]
fn what_a_child_fails_with_keeps_its_code_and_data() {
    for (number, keeps) in [(13, true), (14, false)] {
        let (world, store) = (World::default(), Memory::new());
        let server = family(&world, move |_, cx| async move {
            let child = cx.spawn("shard", shard(number)).await?;
            match child.join().await {
                Err(ChildError::Failed { task, result, .. }) => {
                    Ok(format!("{} {}", task == *child.id(), result.content[0].as_text().unwrap()))
                }
                Err(error) => Err(error.into()),
                Ok(said) => Ok(format!("{said:?}")),
            }
        });
        let one = Process::of(server, &store);
        let id = one.call("work");
        let ended = one.settled(&id);
        if keeps {
            let error = json!({"code": -32050, "message": "unlucky", "data": {"shard": 13}});
            assert_eq!((&ended["status"], &ended["error"]), (&json!("failed"), &error));
        } else {
            assert_eq!(text(&ended), "true flaky");
        }
        one.crash();
    }
}

#[test]
fn k21_cancelling_a_parent_whose_node_is_dead_cancels_its_children() {
    let (world, store) = (World::default(), Memory::new());
    let server = family(&world, |_, cx| async move {
        let kept = cx.spawn("order", json!({})).outlive().await?;
        let child = cx.spawn("forever", json!({})).await?;
        let _ends = cx.join_all(&[kept, child]).await;
        Ok("done".to_owned())
    });
    let one = Process::of(server, &store);
    let id = one.call("work");
    let (kept, child) = (made(&store, "order").id, made(&store, "forever").id);
    one.until(child.as_str(), |_| one.record(child.as_str()).started);
    one.crash();
    // A node that has none of the tools.
    let tool =
        Tool::typed("other", "Other", |_: Cx, _: Nothing| async { "other" }).task(TaskPolicy::always());
    let two = Process::of(Server::new("other", "1").tool(tool), &store);
    assert!(two.ask("tasks/cancel", json!({"taskId": id}))["result"].is_object());
    assert_eq!(two.get(&id)["status"], "cancelled");
    let ended = two.get(child.as_str());
    assert_eq!(ended["status"], "cancelled");
    assert_eq!(ended["statusMessage"], "the task that made it has ended");
    assert_ne!(two.get(kept.as_str())["status"], "cancelled", "it outlives its parent");
    two.crash();
    let three = Process::start(&world, &store);
    let asked = question(&three.settled(kept.as_str()));
    three.answer(kept.as_str(), &asked, &yes());
    assert_eq!(text(&three.settled(kept.as_str())), "receipt 1, shipped");
    three.crash();
}

#[test]
fn a_parent_that_ends_leaves_no_child_at_work() {
    let (world, store) = (World::default(), Memory::new());
    let server = family(&world, |_, cx| async move {
        let child = cx.spawn("forever", json!({})).await?;
        drop(child);
        Ok("did not wait".to_owned())
    });
    let one = Process::of(server, &store);
    let id = one.call("work");
    assert_eq!(text(&one.settled(&id)), "did not wait");
    let child = only_of(&store, "forever");
    assert_eq!(one.get(child.id.as_str())["status"], "cancelled");
    one.crash();
}

#[test]
fn a_task_that_cannot_do_without_a_child_fails_with_it() {
    let (world, store) = (World::default(), Memory::new());
    let server = family(&world, |_, cx| async move {
        let other = cx.spawn("forever", json!({})).await?;
        let _bad = cx.spawn("shard", shard(13)).essential().await?;
        let _never = other.join().await;
        Ok("not reached".to_owned())
    });
    let one = Process::of(server, &store);
    let id = one.call("work");
    let ended = one.settled(&id);
    let (bad, other) = (only_of(&store, "shard").id, only_of(&store, "forever").id);
    assert_eq!(ended["error"]["code"], -32603, "{ended}");
    let data = json!({"reason": "child_failed", "taskId": bad.as_str()});
    assert_eq!(ended["error"]["data"], data);
    assert_eq!(one.get(other.as_str())["status"], "cancelled");
    one.crash();
}

#[test]
fn a_race_has_one_winner_for_ever_and_cancels_the_others() {
    let (world, store) = (World::default(), Memory::new());
    let server = || {
        family(&world, |world, cx| async move {
            let slow = cx.spawn("forever", json!({})).await?;
            let fast = cx.spawn("shard", shard(4)).await?;
            let (first, said) = cx.race(&[slow.clone(), fast]).await.unwrap();
            hang_once(&world).await;
            let lost = matches!(slow.join().await, Err(ChildError::Cancelled { .. }));
            Ok(format!("{first} {} {lost}", said.is_ok()))
        })
    };
    let one = Process::of(server(), &store);
    let id = one.call("work");
    until_hung(&world);
    one.crash();
    let two = Process::of(server(), &store);
    assert_eq!(text(&two.settled(&id)), "1 true true");
    two.crash();
}

#[test]
fn a_tool_that_is_never_entered_again_has_children_too() {
    let (world, store) = (World::default(), Memory::new());
    let of_shards = family(&world, |_, _| async { Ok(String::new()) });
    let server = of_shards.tool(
        Tool::typed("resident", "Work", |cx: Cx, _: Nothing| async move {
            let child = cx.spawn("shard", shard(5)).await?;
            let said: u64 = child.join_as().await?;
            Ok::<_, ToolError>(format!("{said}"))
        })
        .task(TaskPolicy::always()),
    );
    let one = Process::of(server, &store);
    let id = one.call("resident");
    assert_eq!(text(&one.settled(&id)), "50");
    one.crash();
}

/// Makes two of its own, and they two of theirs.
async fn nest(cx: Cx, depth: u64, at_once: bool) -> Result<u64, ToolError> {
    if depth == 0 {
        return Ok(1);
    }
    let below = json!({ "depth": depth - 1, "at_once": at_once });
    let (one, two) = (cx.spawn("nest", &below).await?, cx.spawn("nest", &below).await?);
    let (one, two) = match at_once {
        true => tokio::join!(one.join_as::<u64>(), two.join_as::<u64>()),
        false => (one.join_as().await, two.join_as().await),
    };
    Ok(one? + two?)
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nest {
    depth: u64,
    at_once: bool,
}

#[test]
fn whoever_waits_for_children_of_its_own_tool_leaves_them_its_place() {
    for at_once in [false, true] {
        let store = Memory::new();
        let running = |cx, Nest { depth, at_once }| nest(cx, depth, at_once);
        let server =
            Server::new("nests", "1").tool(Tool::typed("nest", "Nest", running).task(one_at_a_time()));
        let one = Process::of(server, &store);
        let called =
            one.ask("tools/call", json!({"name": "nest", "arguments": {"depth": 2, "at_once": at_once}}));
        let id = called["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{called}"));
        assert_eq!(text(&one.settled(id)), "4");
        one.crash();
    }
}

#[test]
fn k21_a_child_that_was_claimed_and_had_not_begun_is_begun_by_the_next() {
    let (world, store) = (World::default(), Memory::new());
    let server = || {
        family(&world, |_, cx| async move {
            // Either may be the first to run.
            let children = [cx.spawn("once", json!({})).await?, cx.spawn("once", json!({})).await?];
            let ends = cx.join_all(&children).await;
            let lost = ends.iter().filter(|end| matches!(end, Err(ChildError::Lost { .. }))).count();
            Ok(format!("{lost} lost, {} done", ends.iter().flatten().count()))
        })
    };
    let one = Process::of(server(), &store);
    let id = one.call("work");
    until_hung(&world);
    // There is one place, so that the other is claimed and waits for it.
    one.until(&id, |_| {
        tasks(&store).iter().filter(|task| &*task.tool == "once" && task.started).count() == 2
    });
    one.crash();
    let two = Process::of(server(), &store);
    assert_eq!(text(&two.settled(&id)), "1 lost, 1 done");
    assert_eq!(world.hang.load(Ordering::SeqCst), 2, "each has begun once");
    two.crash();
}

#[test]
fn what_cannot_be_made_is_refused_in_words_that_stay() {
    let mut settings = Settings::default();
    settings.limits.max_children = 1;
    let (world, store) = (World::default(), Memory::with(settings, Arc::new(SystemClock::new())));
    let server = || {
        family(&world, |world, cx| async move {
            let said = |refused: Result<longhaul::server::Child, SpawnError>| match refused {
                Err(SpawnError::Overloaded { limit, .. }) => limit,
                Err(SpawnError::UnknownTool { tool, .. }) => format!("no {tool}"),
                Err(SpawnError::Arguments { .. }) => "arguments".to_owned(),
                other => format!("{other:?}"),
            };
            let child = cx.spawn("order", json!({})).await?;
            let two = said(cx.spawn("shard", shard(1)).await);
            let none = said(cx.spawn("nothing", json!({})).await);
            let list = said(cx.spawn("shard", [1]).await);
            hang_once(&world).await;
            child.join().await?;
            Ok(format!("{two}, {none}, {list}"))
        })
    };
    let one = Process::of(server(), &store);
    let id = one.call("work");
    until_hung(&world);
    let child = only_of(&store, "order").id;
    let asked = question(&one.settled(child.as_str()));
    one.answer(child.as_str(), &asked, &yes());
    one.settled(child.as_str());
    one.crash();
    // There is room by now; what was refused stays refused.
    let two = Process::of(server(), &store);
    assert_eq!(text(&two.settled(&id)), "max_children, no nothing, arguments");
    two.crash();
}

/// A store whose first row is not written, or is written and nobody is told.
#[derive(Debug)]
struct Stumbling {
    store: Memory,
    writes: bool,
    created: AtomicBool,
}

impl Overlay for Stumbling {
    type Below = Memory;

    fn below(&self) -> &Memory {
        &self.store
    }

    fn around<'a, T: Send + 'a>(&'a self, of: Operation, doing: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        if of != Operation::Create || self.created.swap(true, Ordering::SeqCst) {
            return doing;
        }
        Box::pin(async move {
            if self.writes {
                doing.await?;
            }
            Err(StoreError::Unreachable {
                place: "here".to_owned(),
                source: Arc::new(std::io::Error::other("the way is cut")),
            })
        })
    }
}

#[test]
fn what_could_not_be_made_before_there_was_a_task_is_refused_for_ever() {
    for writes in [false, true] {
        let (world, store) = (World::default(), Memory::new());
        let mut later = policy();
        later.mode = TaskMode::After(Duration::from_millis(300));
        let server = || {
            let of_work = world.clone();
            let family = family(&world, |_, _| async { Ok(String::new()) });
            let work = move |cx: Cx, _: Nothing| {
                let world = of_work.clone();
                async move {
                    let refused = cx.spawn("shard", shard(1)).await;
                    let made = cx.spawn("shard", shard(2)).await?;
                    let said: u64 = made.join_as().await?;
                    hang_once(&world).await;
                    Ok::<_, ToolError>(format!(
                        "{} {said}",
                        matches!(refused, Err(SpawnError::NoTask { .. }))
                    ))
                }
            };
            family.tool(Tool::typed("later", "Work", work).task(later.clone()))
        };
        let stumbling = Stumbling { store: store.another_node(), writes, created: AtomicBool::new(false) };
        let one = Process::on(server(), stumbling, |_| {});
        let id = one.call("later");
        until_hung(&world);
        one.crash();
        let two = Process::of(server(), &store);
        assert_eq!(text(&two.settled(&id)), "true 20", "writes: {writes}");
        assert_eq!(tasks(&store).len(), 2, "its own and one that it has made");
        two.crash();
    }
}

#[test]
fn a_call_that_is_no_task_makes_none() {
    let (world, store) = (World::default(), Memory::new());
    let of_shards = family(&world, |_, _| async { Ok(String::new()) });
    let server = of_shards.tool(Tool::typed("plain", "Work", |cx: Cx, _: Nothing| async move {
        match cx.spawn("shard", shard(1)).await {
            Err(SpawnError::NoTask { .. }) => "refused",
            _ => "made",
        }
    }));
    let one = Process::of(server, &store);
    let told = one.ask("tools/call", json!({"name": "plain", "arguments": {}}));
    assert_eq!(told["result"]["content"][0]["text"], "refused", "{told}");
    assert!(tasks(&store).is_empty());
    one.crash();
}

#[test]
fn a_task_that_fails_after_a_child_is_undone_with_what_it_knew() {
    let (world, store) = (World::default(), Memory::new());
    let server = family(&world, |world, cx| async move {
        let child = cx.spawn("shard", shard(6)).await?;
        let made: u64 = child.join_as().await?;
        let done = || async move { Ok::<_, ToolError>(made) };
        let undone = world.clone();
        cx.step("use", done)
            .compensate(move |value: u64, _| {
                undone.keys.lock().unwrap().push(format!("undid {value}"));
                async { Ok::<_, ToolError>(()) }
            })
            .await?;
        Err(ToolError::new("broke"))
    });
    let one = Process::of(server, &store);
    let id = one.call("work");
    one.settled(&id);
    one.until(&id, |_| !one.record(&id).is_undoing());
    assert_eq!(*world.keys.lock().unwrap(), ["undid 60"]);
    assert_eq!(tasks(&store).len(), 2, "nothing is made to undo it");
    one.crash();
}
