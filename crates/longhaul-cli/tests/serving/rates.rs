//! What callers may ask and call is theirs at all servers of a store together.

use std::time::Duration;

use serde_json::{Value, json};

use super::fleet::{CONFIG, Fleet, Node, SAY};

#[tokio::test]
async fn what_a_caller_has_called_at_one_node_counts_at_another() {
    calls_count_everywhere(&Fleet::new(&format!("{CONFIG}\n{SAY}\n[calls]\neach = 60\n"))).await;
}

#[tokio::test]
async fn what_a_caller_has_called_at_one_node_counts_at_another_on_redis() {
    calls_count_everywhere(&Fleet::on_redis(&format!("{CONFIG}\n{SAY}\n[calls]\neach = 60\n"))).await;
}

async fn calls_count_everywhere(fleet: &Fleet) {
    let (one, two) = (fleet.node(&[]), fleet.node(&[]));
    let say = json!({"name": "say", "arguments": {}});
    // Whoever was here before is known, and has all it may again.
    let said = two.ask("ann", "tools/call", say.clone()).await;
    assert_eq!(said["result"]["content"][0]["text"], "said", "{said}");
    for _ in 0..60 {
        let said = one.ask("ann", "tools/call", say.clone()).await;
        assert_eq!(said["result"]["content"][0]["text"], "said", "{said}");
    }
    // Two thirds of what it may: the other node alone would make them all.
    let mut refused = Value::Null;
    for _ in 0..40 {
        refused = two.ask("ann", "tools/call", say.clone()).await["error"].take();
        if refused.is_object() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    assert!(refused["message"].as_str().is_some_and(|why| why.contains("too many calls")), "{refused}");
    let other = two.ask("bob", "tools/call", say).await;
    assert_eq!(other["result"]["content"][0]["text"], "said", "another caller has its own: {other}");
}

#[tokio::test]
async fn what_a_caller_has_asked_at_one_node_counts_at_another() {
    polls_count_everywhere(&Fleet::new(&format!("{CONFIG}\n[polls]\neach = 2\n"))).await;
}

#[tokio::test]
async fn what_a_caller_has_asked_at_one_node_counts_at_another_on_redis() {
    polls_count_everywhere(&Fleet::on_redis(&format!("{CONFIG}\n[polls]\neach = 2\n"))).await;
}

async fn polls_count_everywhere(fleet: &Fleet) {
    let (one, two) = (fleet.node(&[]), fleet.node(&[]));
    let task = one.call("ann", "work", json!({"until": "go"})).await;
    // Five times as many at once as in a second.
    for _ in 0..10 {
        let found = one.ask("ann", "tasks/get", json!({"taskId": task})).await;
        assert_eq!(found["result"]["status"], "working", "{found}");
    }
    // So many come back to the other node meanwhile: by itself it would never refuse one.
    let refused = refusal(&two, &task, 20, Duration::from_millis(500)).await;
    assert!(refused.contains("too much is asked about tasks"), "{refused}");
    let other = two.ask("bob", "tasks/get", json!({"taskId": task})).await;
    assert_eq!(other["error"]["code"], -32602, "another caller has its own: {other}");
}

#[tokio::test]
async fn what_a_caller_has_asked_in_vain_at_one_node_counts_at_another() {
    guesses_count_everywhere(&Fleet::new(&format!("{CONFIG}\n[polls]\nin_vain = 20\n"))).await;
}

#[tokio::test]
async fn what_a_caller_has_asked_in_vain_at_one_node_counts_at_another_on_redis() {
    guesses_count_everywhere(&Fleet::on_redis(&format!("{CONFIG}\n[polls]\nin_vain = 20\n"))).await;
}

async fn guesses_count_everywhere(fleet: &Fleet) {
    let (one, two) = (fleet.node(&[]), fleet.node(&[]));
    let task = one.call("ann", "work", json!({"until": "go"})).await;
    for guess in 0..10 {
        for node in [&one, &two] {
            let found = node.ask("ann", "tasks/get", json!({"taskId": format!("work-{guess:026}")})).await;
            assert_eq!(found["error"]["code"], -32602, "{found}");
        }
    }
    // Each has let through half of what there is. What is there is looked up for nothing, until neither has any left.
    for node in [&one, &two] {
        let refused = refusal(node, &task, 40, Duration::from_millis(150)).await;
        assert!(refused.contains("too many tasks were asked after that are not there"), "{refused}");
    }
    let other = two.ask("bob", "tasks/get", json!({"taskId": task})).await;
    assert_eq!(other["error"]["code"], -32602, "another caller has its own: {other}");
}

/// Why the caller is refused that asks so often after its task.
async fn refusal(node: &Node, task: &str, times: usize, pause: Duration) -> String {
    for _ in 0..times {
        let answer = node.ask("ann", "tasks/get", json!({"taskId": task})).await;
        if answer["result"].is_object() {
            tokio::time::sleep(pause).await;
            continue;
        }
        let code = &answer["error"]["code"];
        assert_eq!(*code, json!(-31001), "{answer}");
        return answer["error"]["message"].as_str().unwrap_or_default().to_owned();
    }
    panic!("whatever was asked at the other node, it is answered {times} times");
}
