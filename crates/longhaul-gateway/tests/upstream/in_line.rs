//! A server that takes so many calls at once, and one of whose tools does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longhaul::Tool;
use longhaul::client::{Client, Options};
use longhaul::proto::dialect::Dialect;
use longhaul::proto::model::ElicitResult;
use longhaul::server::{Principal, TaskMode};
use longhaul::transport::memory;
use serde_json::json;
use serde_json::value::to_raw_value;
use tokio::sync::Semaphore;

use super::rig::{
    Front, Nothing, as_a_program, at, begun, both_eras, eventually, one_of_each, over_http, says,
};

#[tokio::test]
async fn whose_a_question_is_can_be_told_of_a_server_that_takes_one_call_at_once() {
    let mut behind = as_a_program("behind", "at_once = 1");
    behind.defaults.task = TaskMode::After(Duration::ZERO);
    // It does not say to which call a question belongs.
    let front = Front::before(vec![behind], Dialect::newest_legacy().revision()).await;
    let caller = async |name: &'static str| {
        let options = Options::default().on_form(move |_| async move {
            ElicitResult::accepted(to_raw_value(&json!({ "name": name })).unwrap())
        });
        let target = memory::serve(front.dispatcher.clone(), Principal::new(name.to_owned()).unwrap());
        Client::connect_with(target, options.cache(false)).await.unwrap()
    };
    let (ann, bob) = (caller("ann").await, caller("bob").await);
    let first = begun(&ann, "asks").await;
    eventually("nothing is asked", async || !first.get().await.unwrap().questions.is_empty()).await;
    let second = begun(&bob, "asks").await;
    says(&second, "waiting for its turn: its server takes 1 call at once").await;
    for (task, name) in [(first, "ann"), (second, "bob")] {
        let said = task.wait().await.unwrap();
        assert_eq!(said.content[0].as_text(), Some(name), "{said:?}");
    }
    front.upstreams.close().await;
}

#[tokio::test]
async fn who_waits_for_a_turn_does_so_within_its_timeout_and_keeps_nobody_when_it_is_over() {
    let mut behind = as_a_program("behind", "at_once = 1\ntools.who.timeout = \"200ms\"");
    behind.defaults.task = TaskMode::After(Duration::ZERO);
    let front = Front::before(vec![behind], Dialect::newest_modern().revision()).await;
    let client = front.caller(Options::default()).await;
    let endless = begun(&client, "endless").await;
    let late = client.call("who", &json!({})).await.unwrap();
    assert!(late.is_error && late.content[0].as_text().unwrap().contains("its timeout of 200ms"), "{late:?}");
    let waits = begun(&client, "pid").await;
    says(&waits, "waiting for its turn").await;
    endless.cancel().await.unwrap();
    assert!(!waits.wait().await.unwrap().is_error);
    front.upstreams.close().await;
}

#[tokio::test]
async fn of_a_tool_with_a_limit_so_many_calls_are_at_its_server_and_no_other_tool_is_held_up() {
    for (behind, task) in both_eras().into_iter().flat_map(|behind| [(behind, "never"), (behind, "always")]) {
        let (at_it, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let door = Arc::new(Semaphore::new(0));
        let (its, seen, way) = (Arc::clone(&at_it), Arc::clone(&most), Arc::clone(&door));
        let work = Tool::typed("work", "Work until it may end", move |_, Nothing {}| {
            let (at_it, most, door) = (Arc::clone(&its), Arc::clone(&seen), Arc::clone(&way));
            async move {
                most.fetch_max(at_it.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                door.acquire().await.unwrap().forget();
                at_it.fetch_sub(1, Ordering::SeqCst);
                "worked"
            }
        });
        let (server, _catalogue) = one_of_each("one");
        let url = over_http(server.tool(work).dispatcher().unwrap()).await;
        let more = format!("task = {task:?}\ntools.work = {{ limit = 1, join = \"never\" }}\n");
        let front = Front::before(vec![at("one", &url, &more)], behind).await;
        let client = front.caller(Options::default()).await;
        let calls: Vec<_> = (0..3)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move { client.call("work", &json!({})).await.unwrap() })
            })
            .collect();
        eventually("none begins", async || at_it.load(Ordering::SeqCst) > 0).await;
        let who = client.call("who", &json!({})).await.unwrap();
        assert_eq!(who.content[0].as_text(), Some("one"), "{behind} {task}");
        for _ in &calls {
            // Whoever is next has time to be there too soon.
            tokio::time::sleep(Duration::from_millis(50)).await;
            door.add_permits(1);
        }
        for call in calls {
            let worked = call.await.unwrap();
            assert_eq!(worked.content[0].as_text(), Some("worked"), "{behind} {task}: {worked:?}");
        }
        assert_eq!(most.load(Ordering::SeqCst), 1, "{behind} {task}");
    }
}
