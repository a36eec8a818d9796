//! A tool that has changed since its task began.

use std::sync::atomic::Ordering;

use longhaul::server::ToolError;
use longhaul::store::Memory;
use longhaul::{Server, Tool};
use serde_json::json;

use crate::rig::{
    Approve, Nothing, Process, World, hang_once, only, only_in, order, policy, question, text, until_hung,
    yes,
};

/// A server whose tool `order` is of this version.
fn version(world: &World, version: &str, accepts: Option<&str>) -> Server {
    let world = world.clone();
    let mut tool =
        Tool::typed("order", "Order", move |cx, _: Nothing| order(world.clone(), cx)).task(policy());
    tool = tool.version(version);
    if let Some(accepts) = accepts {
        tool = tool.accepts(accepts);
    }
    Server::new("versions", "1").tool(tool)
}

/// K12 of `conformance/REQUIREMENTS.md`.
#[test]
fn v1_a_task_is_entered_again_only_in_a_version_that_accepts_its_own() {
    let (world, store) = (World::default(), Memory::new());
    let one = Process::of(version(&world, "1.4", None), &store);
    let id = one.call("order");
    let asked = question(&one.settled(&id));
    one.crash();

    let two = Process::of(version(&world, "2", None), &store);
    assert_eq!(two.answer(&id, &asked, &yes())["result"]["resultType"], "complete", "answers are never lost");
    let said = "queued: no node runs version 1.4.0 of order";
    let task = two.until(&id, |task| task["statusMessage"] == said);
    assert_eq!((&task["status"], world.begun()), (&json!("working"), 1));
    two.crash();

    let three = Process::of(version(&world, "2.1", Some(">=1.4, <3")), &store);
    assert_eq!(text(&three.settled(&id)), "receipt 1, shipped");
    assert_eq!((world.charged(), world.begun()), (1, 2));
    three.crash();
}

#[test]
fn a_tool_that_would_not_go_on_with_its_own_tasks_is_not_offered() {
    let world = World::default();
    for (of, accepts, why) in
        [("2", Some("<2"), "accepts <2"), ("two", None, "version"), ("2", Some("?"), "version")]
    {
        let refused = version(&world, of, accepts).dispatcher().unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn v3_a_step_that_is_read_as_something_else_ends_the_task_and_says_which() {
    let (world, store) = (World::default(), Memory::new());
    let hung = world.clone();
    let old = only(move |cx| {
        let world = hung.clone();
        async move {
            let price = cx.step("price", || async { Ok::<_, ToolError>(250) }).await?;
            hang_once(&world).await;
            Ok(format!("{price}"))
        }
    });
    let one = Process::of(old, &store);
    let id = one.call("work");
    until_hung(&world);
    one.crash();
    #[derive(serde::Deserialize, serde::Serialize)]
    struct Price {
        amount: u64,
    }
    let new = only(|cx| async move {
        let price = cx.step("price", || async { Ok::<_, ToolError>(Price { amount: 1 }) }).await?;
        Ok(format!("{}", price.amount))
    });
    let two = Process::of(new, &store);
    let ended = two.settled(&id);
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("failed"), &json!(-32603)), "{ended}");
    let data = json!({"reason": "step_changed", "step": "step:price", "version": "0.0.0"});
    assert_eq!(ended["error"]["data"], data);
    two.crash();
}

#[test]
fn v4_steps_are_found_by_name_and_another_question_under_a_key_ends_the_task() {
    for other in [false, true] {
        let (world, store) = (World::default(), Memory::new());
        let server = |again: bool| {
            only_in(&world, move |world, cx| async move {
                let count = async |name: &'static str| {
                    cx.step(name, || async {
                        Ok::<_, ToolError>(world.charged.fetch_add(1, Ordering::SeqCst))
                    })
                    .await
                };
                let said = if again {
                    // Reordered, and one is new.
                    let (b, new, a) = (count("b").await?, count("new").await?, count("a").await?);
                    format!("a{a} b{b} new{new}")
                } else {
                    let (a, b) = (count("a").await?, count("b").await?);
                    format!("a{a} b{b}")
                };
                let question = if again && other { "Sell it?" } else { "Ship it?" };
                let _answer = cx.elicit::<Approve>(question).await?;
                Ok(said)
            })
        };
        let one = Process::of(server(false), &store);
        let id = one.call("work");
        let asked = question(&one.settled(&id));
        one.crash();
        let two = Process::of(server(true), &store);
        two.answer(&id, &asked, &yes());
        let ended = two.settled(&id);
        if other {
            let data = json!({"reason": "nondeterminism", "step": "elicit"});
            assert_eq!((&ended["status"], &ended["error"]["data"]), (&json!("failed"), &data), "{ended}");
        } else {
            assert_eq!(text(&ended), "a0 b1 new2");
        }
        assert_eq!(world.charged(), 3);
        two.crash();
    }
}
