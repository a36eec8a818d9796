//! A session: a question is a request of the server's, and the handler waits.

use std::time::Duration;

use longhaul::driver::Options;
use serde_json::json;

use crate::rig::{Client, PATIENT, accept, code, sampled, text};

const LEGACY: &str = "2025-11-25";

fn delete() -> serde_json::Value {
    json!({"name": "delete", "arguments": {"path": "a"}})
}

#[tokio::test]
async fn a_question_is_a_request_and_its_answer_goes_to_who_asked() {
    let mut client = Client::session(LEGACY, Options::default()).await;
    client.call(1, delete()).await;
    let question = client.receive().await;
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["message"], "Delete a?");
    assert_eq!(question["params"]["requestedSchema"]["required"], json!(["go"]));
    client.answer(&json!({"id": "unknown"}), accept(json!({"go": false}))).await;
    client.answer(&question, accept(json!({"go": true}))).await;
    let done = client.receive().await;
    assert_eq!((&done["id"], text(&done)), (&json!(1), "deleted a"));
    client.answer(&question, accept(json!({"go": true}))).await;
    client.send(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).await;
    assert_eq!(client.receive().await["id"], 2, "an answer twice is passed over");
    assert_eq!(client.counts.now(), (1, 1));
}

#[tokio::test]
async fn one_source_serves_both_eras() {
    let mut client = Client::session(LEGACY, Options::default()).await;
    client.call(1, json!({"name": "greet", "arguments": {}})).await;
    let name = client.receive().await;
    client.answer(&name, accept(json!({"name": "Ada"}))).await;
    let colour = client.receive().await;
    assert_eq!(colour["params"]["message"], "Which colour, Ada?");
    client.answer(&colour, accept(json!({"colour": "blue"}))).await;
    let sample = client.receive().await;
    assert_eq!(sample["method"], "sampling/createMessage");
    client.answer(&sample, sampled("Roses")).await;
    assert_eq!(text(&client.receive().await), r#"Ada {"colour":"blue"} Roses"#);
    assert_eq!(client.counts.now(), (1, 1));
}

#[tokio::test]
async fn several_are_asked_at_once_and_answered_in_any_order() {
    let mut client = Client::session(LEGACY, Options::default()).await;
    client.call(1, json!({"name": "all", "arguments": {}})).await;
    let questions = [client.receive().await, client.receive().await, client.receive().await];
    let ids: Vec<_> = questions.iter().map(|question| question["id"].as_str().unwrap()).collect();
    assert!(ids[0] != ids[1] && ids[1] != ids[2], "{ids:?}");
    for question in questions.iter().rev() {
        let answer = match question["method"].as_str().unwrap() {
            "elicitation/create" => accept(json!({"name": "Ada"})),
            "roots/list" => json!({"roots": [{"uri": "file:///a"}]}),
            _ => sampled("Roses"),
        };
        client.answer(question, answer).await;
    }
    assert_eq!(text(&client.receive().await), "Ada Roses file:///a");
}

#[tokio::test]
async fn the_ids_of_one_session_tell_nothing_of_anothers() {
    let mut salts = Vec::new();
    for _ in 0..2 {
        let mut client = Client::session(LEGACY, Options::default()).await;
        client.call(1, delete()).await;
        let id = client.receive().await["id"].as_str().unwrap().to_owned();
        salts.push(id.split_once('-').unwrap().0.to_owned());
    }
    assert_ne!(salts[0], salts[1]);
    assert!(salts[0].len() >= 24, "{salts:?}");
}

#[tokio::test]
async fn errors_and_answers_that_do_not_fit_are_told_apart() {
    let mut client = Client::session(LEGACY, Options::default()).await;
    client.call(1, json!({"name": "errors", "arguments": {}})).await;
    let question = client.receive().await;
    let error = json!({"code": -1, "message": "the user is away"});
    client.send(json!({"jsonrpc": "2.0", "id": question["id"], "error": error})).await;
    assert_eq!(text(&client.receive().await), "refused: the user is away (-1)");
    for wrong in [json!(7), accept(json!({"name": ""})), accept(json!({"other": "x"})), json!({})] {
        client.call(2, json!({"name": "errors", "arguments": {}})).await;
        let question = client.receive().await;
        client.answer(&question, wrong).await;
        let failed = client.receive().await;
        assert!(text(&failed).starts_with("failed: the client's answer does not fit"), "{failed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_not_answered_in_time_is_withdrawn() {
    let mut client = Client::session(LEGACY, Options::default()).await;
    client.call(1, json!({"name": "errors", "arguments": {}})).await;
    let question = client.receive().await;
    let began = tokio::time::Instant::now();
    let withdrawn = client.receive().await;
    assert_eq!(began.elapsed().as_secs(), 30);
    assert_eq!(withdrawn["method"], "notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    assert_eq!(text(&client.receive().await), "failed: no answer came within 30 s");
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_not_answered_in_time_is_answered_by_default() {
    let mut client = Client::session(LEGACY, Options::default()).await;
    client.call(1, json!({"name": "patient", "arguments": {}})).await;
    let first = client.receive().await;
    tokio::time::sleep(2 * PATIENT).await;
    assert_eq!(client.receive().await["method"], "notifications/cancelled");
    let second = client.receive().await;
    assert_eq!(second["params"]["message"], "And?", "{second}");
    // It comes too late.
    client.answer(&first, accept(json!({"name": "Ada"}))).await;
    client.answer(&second, accept(json!({"name": "Bob"}))).await;
    assert_eq!(text(&client.receive().await), "nobody and Bob");
    client.call(2, json!({"name": "unfit", "arguments": {}})).await;
    let unfit = client.receive().await;
    assert!(text(&unfit).starts_with("invalid: "), "{unfit}");
}

#[tokio::test]
async fn a_call_that_is_cancelled_withdraws_its_question() {
    let mut client = Client::session(LEGACY, Options::default()).await;
    client.call(1, delete()).await;
    let question = client.receive().await;
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    client.send(cancelled).await;
    let withdrawn = client.receive().await;
    assert_eq!(withdrawn["method"], "notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    client.answer(&question, accept(json!({"go": true}))).await;
    client.send(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).await;
    assert_eq!(client.receive().await["id"], 2);
    assert_eq!(client.counts.now(), (1, 0));
}

#[tokio::test]
async fn a_session_without_the_capability_is_not_asked() {
    let mut client = Client::connect(Options::default());
    let params = json!({"protocolVersion": LEGACY, "capabilities": {"sampling": {}},
        "clientInfo": {"name": "t", "version": "1"}});
    client.send(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})).await;
    client.receive().await;
    client.call(1, delete()).await;
    assert_eq!(code(&client.receive().await), -32021);
    client.call(2, json!({"name": "greet", "arguments": {}})).await;
    assert_eq!(code(&client.receive().await), -32021);
    client.call(3, json!({"name": "polite", "arguments": {}})).await;
    let question = client.receive().await;
    assert_eq!(question["method"], "sampling/createMessage");
    client.answer(&question, sampled("me")).await;
    assert_eq!(text(&client.receive().await), "a sample: me");
}

#[tokio::test]
async fn a_revision_without_the_word_is_not_asked() {
    let mut client = Client::session("2025-03-26", Options::default()).await;
    client.call(1, json!({"name": "greet", "arguments": {}})).await;
    let refused = client.receive().await;
    assert_eq!(code(&refused), -32603);
    assert!(refused["error"]["message"].as_str().unwrap().contains("2025-03-26"), "{refused}");
}

#[tokio::test]
async fn a_full_connection_still_reads_answers() {
    let mut client = Client::session(LEGACY, Options::default().max_open(1)).await;
    client.call(1, delete()).await;
    let question = client.receive().await;
    client.send(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).await;
    let refused = client.receive().await;
    assert_eq!((&refused["id"], code(&refused)), (&json!(2), -32603));
    client.answer(&question, accept(json!({"go": true}))).await;
    let done = tokio::time::timeout(Duration::from_secs(5), client.receive()).await.unwrap();
    assert_eq!(text(&done), "deleted a");
}

#[tokio::test]
async fn only_so_many_questions_are_open() {
    let mut client = Client::session(LEGACY, Options::default()).await;
    for id in 0..64 {
        client.call(id, delete()).await;
        assert_eq!(client.receive().await["method"], "elicitation/create");
    }
    client.call(64, json!({"name": "errors", "arguments": {}})).await;
    let refused = client.receive().await;
    assert!(text(&refused).contains("64 questions to this client are open"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_become_a_task_asks_while_its_caller_waits() {
    let mut client = Client::session(LEGACY, Options::default()).await;
    client.call(1, json!({"name": "task_once", "arguments": {}})).await;
    let question = client.receive().await;
    client.answer(&question, accept(json!({"name": "Ada"}))).await;
    assert_eq!(text(&client.receive().await), "rested");
    // Who asked for a task is asked once it comes for the result.
    client.call(2, json!({"name": "task_once", "arguments": {}, "task": {}})).await;
    let created = client.receive().await;
    let id = created["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
    let ask = json!({"jsonrpc": "2.0", "id": 3, "method": "tasks/result", "params": {"taskId": id}});
    client.send(ask).await;
    let mut question = client.receive().await;
    while question["method"] != "elicitation/create" {
        assert_eq!(question["method"], "notifications/tasks/status", "{question}");
        question = client.receive().await;
    }
    let related = &question["params"]["_meta"]["io.modelcontextprotocol/related-task"];
    assert_eq!(related, &json!({"taskId": id}), "{question}");
    client.answer(&question, accept(json!({"name": "Ada"}))).await;
    let mut result = client.receive().await;
    while result["id"] != 3 {
        result = client.receive().await;
    }
    assert_eq!(text(&result), "rested");
    // Once it is handed over, an open question is the task's, and is put to who waits for that.
    client.call(4, json!({"name": "task_once", "arguments": {}})).await;
    assert_eq!(client.receive().await["method"], "elicitation/create");
    let handed_over = client.receive().await;
    assert!(text(&handed_over).contains("Still running"), "{handed_over}");
    let id = handed_over["result"]["structuredContent"]["taskId"].clone();
    let withdrawn = client.receive().await;
    assert_eq!(withdrawn["method"], "notifications/cancelled", "{withdrawn}");
    client.call(5, json!({"name": "task_wait", "arguments": {"id": id}})).await;
    let question = client.receive().await;
    assert_eq!(question["method"], "elicitation/create", "{question}");
    client.answer(&question, accept(json!({"name": "Ada"}))).await;
    assert_eq!(text(&client.receive().await), "rested");
}
