//! A server that takes so many calls at once.

use std::time::Duration;

use longhaul::client::{Client, Options};
use longhaul::proto::dialect::Dialect;
use longhaul::proto::model::ElicitResult;
use longhaul::server::{Principal, TaskMode};
use longhaul::transport::memory;
use serde_json::json;
use serde_json::value::to_raw_value;

use super::rig::{Front, as_a_program, begun, eventually, says};

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
