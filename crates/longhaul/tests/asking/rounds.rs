//! The modern era: a call is answered with its questions and made again with the answers.

use std::sync::atomic::Ordering;
use std::time::Duration;

use longhaul::driver::Options;
use longhaul::proto::model::ElicitUrl;
use longhaul::server::{RoundOptions, ToolError};
use longhaul::store::{Memory, Registry};
use longhaul::{Cx, Tool};
use longhaul_test::{Astray, replay_always};
use serde_json::{Value, json};

use crate::rig::{Bare, Client, PATIENT, accept, asked, code, sampled, text};

fn delete(path: &str) -> Value {
    json!({"name": "delete", "arguments": {"path": path}})
}

fn tool(name: &str) -> Value {
    json!({"name": name, "arguments": {}})
}

#[tokio::test]
async fn a_call_that_may_run_once_waits_in_memory_for_its_answer() {
    let bare = Bare::new();
    let first = bare.call(delete("a")).await;
    assert_eq!(asked(&first), ["approve"]);
    let question = &first["result"]["inputRequests"]["approve"];
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["message"], "Delete a?");
    assert_eq!(question["params"]["requestedSchema"]["properties"]["go"]["type"], "boolean");
    assert_eq!(bare.counts.now(), (1, 0));
    let done = bare.answer(delete("a"), &first, json!({"approve": accept(json!({"go": true}))})).await;
    assert_eq!(text(&done), "deleted a");
    assert_eq!(bare.counts.now(), (1, 1), "it ran once");
}

#[tokio::test]
async fn a_call_that_may_run_again_goes_on_from_its_journal() {
    for (name, runs) in [("greet", 4), ("greet_once", 1)] {
        let bare = Bare::new();
        let first = bare.call(tool(name)).await;
        assert_eq!(asked(&first), ["elicit"]);
        let second = bare.answer(tool(name), &first, json!({"elicit": accept(json!({"name": "Ada"}))})).await;
        assert_eq!(asked(&second), ["elicit#2"], "what is answered is not asked again");
        assert_ne!(first["result"]["requestState"], second["result"]["requestState"]);
        let colour = &second["result"]["inputRequests"]["elicit#2"]["params"];
        assert_eq!(colour["message"], "Which colour, Ada?");
        let answer = json!({"elicit#2": accept(json!({"colour": "blue"}))});
        let third = bare.answer(tool(name), &second, answer).await;
        assert_eq!(asked(&third), ["sample"]);
        let done = bare.answer(tool(name), &third, json!({"sample": sampled("Roses")})).await;
        assert_eq!(text(&done), r#"Ada {"colour":"blue"} Roses"#);
        assert_eq!(bare.counts.now(), (runs, 1), "{name}");
    }
}

#[tokio::test]
async fn what_is_awaited_together_is_asked_together() {
    for name in ["all", "all_once"] {
        let bare = Bare::new();
        let first = bare.call(tool(name)).await;
        assert_eq!(asked(&first), ["elicit", "roots", "sample"]);
        let some = json!({"roots": {"roots": [{"uri": "file:///a"}]}, "sample": sampled("Roses")});
        let second = bare.answer(tool(name), &first, some).await;
        assert_eq!(asked(&second), ["elicit"], "only what is missing: {name}");
        let done = bare.answer(tool(name), &second, json!({"elicit": accept(json!({"name": "Ada"}))})).await;
        assert_eq!(text(&done), "Ada Roses file:///a");
    }
}

#[tokio::test]
async fn who_comes_back_too_late_finds_that_the_default_has_answered() {
    for name in ["patient", "patient_once"] {
        let bare = Bare::new();
        let ada = json!({"elicit": accept(json!({"name": "Ada"}))});
        let first = bare.call(tool(name)).await;
        assert_eq!(asked(&first), ["elicit"]);
        tokio::time::sleep(PATIENT + PATIENT / 2).await;
        let second = bare.answer(tool(name), &first, ada.clone()).await;
        assert_eq!(asked(&second), ["elicit#2"]);
        let mut both = ada.clone();
        both["elicit#2"] = accept(json!({"name": "Bob"}));
        let done = bare.answer(tool(name), &second, both).await;
        assert_eq!(text(&done), "nobody and Bob", "{name}");
    }
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_asked_for_again() {
    for name in ["greet", "greet_once"] {
        let bare = Bare::new();
        let first = bare.call(tool(name)).await;
        for wrong in [
            json!({}),
            json!({"elicit": 12345}),
            json!({"elicit": null}),
            json!({"other": accept(json!({"name": "Ada"}))}),
            json!({"elicit": accept(json!({"name": ""}))}),
            json!({"elicit": accept(json!({"name": "Ada", "more": 1}))}),
            json!({"elicit": {"action": "accept"}}),
            json!({"elicit": {"action": "dance"}}),
            json!({"elicit": sampled("Ada")}),
            Value::Null,
        ] {
            let again = bare.answer(tool(name), &first, wrong.clone()).await;
            assert_eq!(asked(&again), ["elicit"], "{name}: {wrong}");
        }
        let declined =
            bare.answer(tool(name), &first, json!({"elicit": {"action": "decline"}, "x": 1})).await;
        assert_eq!(text(&declined), "nobody");
    }
}

#[tokio::test]
async fn answers_may_come_with_the_first_request() {
    let bare = Bare::new();
    for (name, content) in [("delete", json!({"go": true})), ("polite", json!({"name": "Ada"}))] {
        let key = if name == "delete" { "approve" } else { "elicit" };
        let mut params = json!({"name": name, "arguments": {"path": "a"}});
        params["inputResponses"] = json!({key: accept(content), "unknown": accept(json!({}))});
        assert!(!text(&bare.call(params).await).is_empty());
    }
}

#[tokio::test]
async fn a_key_that_is_taken_gets_a_number() {
    let bare = Bare::new();
    let mut last = bare.call(tool("many")).await;
    for (key, name) in [("name", "a"), ("name#2", "b"), ("name#3", "c")] {
        assert_eq!(asked(&last), [key]);
        last = bare.answer(tool("many"), &last, json!({key: accept(json!({"name": name}))})).await;
    }
    assert_eq!(text(&last), "a,b,c");
}

/// A6 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn s24_r8_a_state_is_good_for_its_own_request_only() {
    for (params, key, content) in
        [(delete("a"), "approve", json!({"go": true})), (tool("greet"), "elicit", json!({"name": "Ada"}))]
    {
        let bare = Bare::new();
        let first = bare.call(params.clone()).await;
        let (state, answers) =
            (first["result"]["requestState"].as_str().unwrap(), json!({key: accept(content)}));
        let with = |params: &Value, state: &str| {
            let mut params = params.clone();
            params["requestState"] = json!(state);
            params["inputResponses"] = answers.clone();
            params
        };
        let before = bare.counts.now();
        let mut flipped = state.to_owned();
        let last = if flipped.pop() == Some('A') { 'B' } else { 'A' };
        flipped.insert(flipped.len() / 2, last);
        for wrong in [
            with(&params, &format!("{state}-TAMPERED")),
            with(&params, &flipped),
            with(&params, ""),
            with(&json!({"name": params["name"], "arguments": {"path": "b"}}), state),
            with(&json!({"name": "all", "arguments": params["arguments"]}), state),
        ] {
            let refused = bare.call(wrong).await;
            assert_eq!(code(&refused), -32602);
            let message = refused["error"]["message"].as_str().unwrap();
            assert!(message.contains("again without `requestState`"), "{message}");
        }
        let foreign = bare.ask_as("bob", "tools/call", with(&params, state)).await;
        assert_eq!(code(&foreign), -32602);
        let mut number = params.clone();
        number["requestState"] = json!(7);
        assert_eq!(code(&bare.call(number).await), -32602);
        assert_eq!(code(&Bare::new().call(with(&params, state)).await), -32602, "another server's");
        assert_eq!(bare.counts.now(), before, "nothing has run");
        let mut right = with(&params, state);
        right["arguments"] =
            serde_json::from_str(&params["arguments"].to_string().replace(':', " : ")).unwrap();
        assert!(bare.call(right).await.get("result").is_some(), "it is still good for its own");
    }
}

#[tokio::test]
async fn s24_a_state_expires() {
    let bare = Bare::bounded(RoundOptions::default().patience(Duration::from_millis(50)));
    for params in [delete("a"), tool("greet")] {
        let first = bare.call(params.clone()).await;
        tokio::time::sleep(Duration::from_millis(80)).await;
        for _ in 0..2 {
            let late = bare.answer(params.clone(), &first, json!({})).await;
            assert_eq!(code(&late), -32602);
            assert!(late["error"]["message"].as_str().unwrap().contains("has expired"), "{late}");
        }
        // Made again as it says, it asks anew.
        assert_eq!(asked(&bare.call(params).await), asked(&first));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_time_is_up_is_gone_and_does_not_run_again() {
    let bare = Bare::new();
    let first = bare.call(delete("a")).await;
    assert_eq!(bare.counts.dropped.load(Ordering::SeqCst), 0);
    // The clock of states is the system's, which does not move here.
    tokio::time::sleep(Duration::from_secs(15 * 60 + 1)).await;
    assert_eq!(bare.counts.dropped.load(Ordering::SeqCst), 1, "it holds no memory");
    let late = bare.answer(delete("a"), &first, json!({"approve": accept(json!({"go": true}))})).await;
    assert_eq!(code(&late), -32603);
    assert_eq!(late["error"]["data"]["reason"], "worker_lost");
    assert_eq!(bare.counts.now(), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_lost_is_given_again_for_a_while() {
    let bare = Bare::new();
    let first = bare.call(delete("a")).await;
    let answers = json!({"approve": accept(json!({"go": true}))});
    let done = bare.answer(delete("a"), &first, answers.clone()).await;
    assert_eq!(text(&done), "deleted a");
    for other in [answers.clone(), json!({"approve": accept(json!({"go": false}))})] {
        let again = bare.answer(delete("a"), &first, other).await;
        assert_eq!(text(&again), "deleted a", "the first answer counts");
    }
    assert_eq!(bare.counts.now(), (1, 1));
    tokio::time::sleep(Duration::from_secs(15 * 60 + 1)).await;
    let late = bare.answer(delete("a"), &first, answers).await;
    assert_eq!(late["error"]["data"]["reason"], "worker_lost");
    assert_eq!(bare.counts.now(), (1, 1));
}

#[tokio::test]
async fn a_round_whose_questions_were_lost_is_asked_again() {
    let bare = Bare::new();
    let first = bare.call(tool("greet_once")).await;
    let answers = json!({"elicit": accept(json!({"name": "Ada"}))});
    let second = bare.answer(tool("greet_once"), &first, answers.clone()).await;
    let repeated = bare.answer(tool("greet_once"), &first, answers).await;
    assert_eq!(second["result"]["inputRequests"], repeated["result"]["inputRequests"]);
    let answers = json!({"elicit#2": {"action": "decline"}});
    assert_eq!(asked(&bare.answer(tool("greet_once"), &repeated, answers).await), ["sample"]);
    assert_eq!(bare.counts.now(), (1, 0));
}

fn nap(millis: u64) -> Value {
    json!({"name": "nap", "arguments": {"millis": millis}})
}

#[tokio::test(start_paused = true)]
async fn who_brings_an_answer_while_the_call_runs_waits_for_its_outcome() {
    let bare = Bare::new();
    let first = bare.call(nap(5000)).await;
    let answers = json!({"elicit": accept(json!({"name": "Ada"}))});
    let (one, two) = tokio::join!(
        bare.answer(nap(5000), &first, answers.clone()),
        bare.answer(nap(5000), &first, answers)
    );
    assert_eq!((text(&one), text(&two)), ("rested", "rested"));
    assert_eq!(bare.counts.now(), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_ends_the_call_and_a_later_answer_runs_nothing() {
    let bare = Bare::new();
    let first = bare.call(nap(5000)).await;
    let answers = json!({"elicit": accept(json!({"name": "Ada"}))});
    let gone = tokio::time::timeout(Duration::from_secs(1), bare.answer(nap(5000), &first, answers.clone()));
    assert!(gone.await.is_err());
    assert_eq!(bare.counts.dropped.load(Ordering::SeqCst), 1);
    let late = bare.answer(nap(5000), &first, answers).await;
    assert_eq!(late["error"]["data"]["reason"], "worker_lost");
    assert_eq!(bare.counts.now(), (1, 0));
}

#[tokio::test]
async fn only_so_many_calls_wait() {
    let bare = Bare::bounded(RoundOptions::default().max_waiting(3, 2));
    let first = bare.call(delete("a")).await;
    let _second = bare.call(delete("b")).await;
    let refused = bare.call(delete("c")).await;
    assert_eq!(code(&refused), -31001, "no more of one principal");
    assert!(refused["error"]["data"]["retryAfterMs"].is_u64());
    assert_eq!(bare.counts.now().0, 2, "the third did not begin");
    let other = bare.ask_as("bob", "tools/call", delete("d")).await;
    assert_eq!(asked(&other), ["approve"]);
    assert_eq!(code(&bare.ask_as("eve", "tools/call", delete("e")).await), -31001, "no more in all");
    asked(&bare.call(tool("greet")).await);
    let answers = json!({"approve": accept(json!({"go": false}))});
    assert_eq!(text(&bare.answer(delete("a"), &first, answers).await), "kept a");
    asked(&bare.call(delete("f")).await);
}

/// Two nodes that share a registry.
async fn sharing() -> [Bare; 2] {
    let shared: std::sync::Arc<dyn Registry> = std::sync::Arc::new(Memory::new());
    let nodes = [(); 2].map(|()| Bare::with(|server| server.registry(std::sync::Arc::clone(&shared))));
    for node in &nodes {
        node.dispatcher.start().await.unwrap();
    }
    nodes
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_at_another_node_ends_the_call_at_its_own() {
    let nodes = sharing().await;
    let first = nodes[0].call(nap(600_000)).await;
    let answers = json!({"elicit": accept(json!({"name": "Ada"}))});
    let answering = nodes[1].answer(nap(600_000), &first, answers.clone());
    assert!(tokio::time::timeout(Duration::from_secs(5), answering).await.is_err());
    let mut looks = 0;
    while nodes[0].counts.dropped.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        looks += 1;
        assert!(looks < 300, "its node goes on for nobody");
    }
    let late = nodes[1].answer(nap(600_000), &first, answers).await;
    assert_eq!(late["error"]["data"]["reason"], "worker_lost");
    assert_eq!(nodes[0].counts.now(), (1, 0));
}

#[tokio::test]
async fn nodes_that_share_a_registry_go_on_with_each_others_calls() {
    let nodes = sharing().await;
    let first = nodes[0].call(tool("many")).await;
    let second = nodes[1].answer(tool("many"), &first, json!({"name": accept(json!({"name": "a"}))})).await;
    assert_eq!(asked(&second), ["name#2"]);
    let held = nodes[0].call(delete("a")).await;
    // Its future is in the memory of the first, which is handed what came to the second.
    let done = nodes[1].answer(delete("a"), &held, json!({"approve": accept(json!({"go": true}))})).await;
    assert_eq!(done["result"]["content"][0]["text"], "deleted a", "{done}");
    assert_eq!((nodes[0].counts.now(), nodes[1].counts.now()), ((1, 1), (0, 0)), "nothing ran twice");
    // The same answers again, for theirs was lost.
    let again = nodes[1].answer(delete("a"), &held, json!({"approve": accept(json!({"go": true}))})).await;
    assert_eq!(again["result"], done["result"], "{again}");
}

fn declaring(mut params: Value, capabilities: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    params
}

#[tokio::test]
async fn nobody_is_asked_what_they_have_not_declared() {
    let bare = Bare::new();
    let refused = bare.call(declaring(delete("a"), json!({"sampling": {}}))).await;
    assert_eq!(code(&refused), -32021);
    assert_eq!(refused["error"]["data"]["requiredCapabilities"], json!({"elicitation": {"form": {}}}));
    assert_eq!(bare.counts.now(), (0, 0), "it said that it asks, and did not run");
    for name in ["greet", "greet_once"] {
        let refused = bare.call(declaring(tool(name), json!({"elicitation": {"url": {}}}))).await;
        assert_eq!(code(&refused), -32021);
    }
    assert_eq!(bare.counts.now(), (2, 0));
    let sampling = bare.call(declaring(tool("polite"), json!({"sampling": {}}))).await;
    assert_eq!(asked(&sampling), ["sample"]);
    assert_eq!(text(&bare.call(declaring(tool("polite"), json!({}))).await), "nothing");
    let forms = bare.call(declaring(tool("visit"), json!({"elicitation": {}}))).await;
    assert_eq!(forms["error"]["data"]["requiredCapabilities"], json!({"elicitation": {"url": {}}}));
    assert_eq!(asked(&bare.call(tool("visit")).await), ["elicit"]);
    // Who asks again must declare it again.
    let first = bare.call(tool("greet_once")).await;
    let mut again = declaring(tool("greet_once"), json!({}));
    again["requestState"] = first["result"]["requestState"].clone();
    assert_eq!(code(&bare.call(again.clone()).await), -32021);
    assert_eq!(asked(&bare.answer(tool("greet_once"), &first, json!({})).await), ["elicit"], "it waits on");
}

#[tokio::test]
async fn prompts_and_resources_may_ask_too() {
    let bare = Bare::new();
    for (method, params, done) in [
        ("prompts/get", json!({"name": "write"}), "Write to Ada"),
        ("resources/read", json!({"uri": "test://asked"}), "for Ada"),
    ] {
        let first = bare.ask_as("ann", method, params.clone()).await;
        assert_eq!(asked(&first), ["elicit"]);
        let mut again = params;
        again["requestState"] = first["result"]["requestState"].clone();
        again["inputResponses"] = json!({"elicit": accept(json!({"name": "Ada"}))});
        assert_eq!(code(&bare.ask_as("bob", method, again.clone()).await), -32602);
        let answer = bare.ask_as("ann", method, again).await;
        assert_eq!(answer["result"]["resultType"], "complete");
        assert!(answer["result"].to_string().contains(done), "{answer}");
    }
}

/// The handler's progress goes to the request that it goes on by, under that one's token.
#[tokio::test]
async fn a_call_that_goes_on_is_heard_where_it_was_made_again() {
    let mut client = Client::connect(Options::default());
    let meta = |token: &str| {
        json!({
            "progressToken": token,
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        })
    };
    let mut params = delete("a");
    params["_meta"] = meta("one");
    client.call(1, params.clone()).await;
    let first = client.receive().await;
    assert_eq!(asked(&first), ["approve"]);
    params["_meta"] = meta("two");
    params["requestState"] = first["result"]["requestState"].clone();
    params["inputResponses"] = json!({"approve": accept(json!({"go": true}))});
    client.call(2, params).await;
    let progress = client.receive().await;
    assert_eq!(
        (&progress["method"], &progress["params"]["progressToken"]),
        (&json!("notifications/progress"), &json!("two"))
    );
    let done = client.receive().await;
    assert_eq!((&done["id"], text(&done)), (&json!(2), "deleted a"));
    assert_eq!(client.counts.now(), (1, 1));
}

#[tokio::test]
async fn a_handler_may_be_entered_again_at_every_question() {
    let bare = Bare::new();
    let answer = |_: &str, question: &Value| match question["method"].as_str().unwrap() {
        "roots/list" => json!({"roots": [{"uri": "file:///a"}]}),
        "sampling/createMessage" => sampled("Roses"),
        _ if question["params"]["requestedSchema"]["properties"]["colour"].is_object() => {
            accept(json!({"colour": "blue"}))
        }
        _ => accept(json!({"name": "Ada"})),
    };
    for (name, rounds, said) in [
        ("greet", 3, r#"Ada {"colour":"blue"} Roses"#),
        ("all", 1, "Ada Roses file:///a"),
        ("many", 3, "Ada,Ada,Ada"),
    ] {
        let went = replay_always(&tool(name), |params| bare.call(params), answer).await.unwrap();
        assert_eq!(went.asked.len(), rounds, "{name}");
        assert_eq!(went.outcome["content"][0]["text"], said);
    }
    let astray = replay_always(&tool("fickle"), |params| bare.call(params), answer).await.unwrap_err();
    assert!(matches!(astray, Astray::Round { round: 0, .. }), "{astray}");
}

/// An answer to another question is no answer, whatever key it comes under.
#[tokio::test]
async fn an_answer_counts_only_for_the_question_it_was_given_to() {
    let bare = Bare::new();
    let first = bare.call(tool("fickle")).await;
    let again = bare.answer(tool("fickle"), &first, json!({"elicit": accept(json!({"name": "Ada"}))})).await;
    let message = |answer: &Value| answer["result"]["inputRequests"]["elicit"]["params"]["message"].clone();
    assert_ne!(message(&first), message(&again), "{again}");
}

#[tokio::test(start_paused = true)]
async fn a_call_asks_in_rounds_before_it_becomes_a_task() {
    let bare = Bare::new();
    let takes = json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    for (capabilities, result_type) in [(takes, "task"), (json!({"elicitation": {}}), "complete")] {
        let first = bare.call(declaring(tool("task"), capabilities.clone())).await;
        assert_eq!(asked(&first), ["elicit"]);
        assert!(first["result"].get("taskId").is_none(), "{first}");
        let answers = json!({"elicit": accept(json!({"name": "Ada"}))});
        let second = bare.answer(declaring(tool("task"), capabilities), &first, answers).await;
        assert_eq!(second["result"]["resultType"], result_type, "{second}");
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Page {
    url: String,
}

#[tokio::test]
async fn s65_nobody_is_sent_to_what_is_no_page() {
    let bare = Bare::with(|server| {
        server.tool(Tool::typed("send", "Send the user away", |cx: Cx, Page { url }| async move {
            Ok::<_, ToolError>(format!("{:?}", cx.elicit_url(ElicitUrl::new("Go", url, "e1")).await?))
        }))
    });
    let call = |url: &str| json!({"name": "send", "arguments": {"url": url}});
    for url in ["javascript:alert(1)", "file:///etc/passwd", "http://example.com/", "https://a@b.example/"] {
        let refused = bare.call(call(url)).await;
        assert_eq!(refused["result"]["isError"], true, "{refused}");
        assert!(text(&refused).starts_with("nobody is sent to this page: its address"), "{refused}");
        assert!(!text(&refused).contains(url), "an address may hold what is secret: {refused}");
    }
    for url in ["https://example.com/in", "http://localhost:3000/in"] {
        let answer = bare.call(call(url)).await;
        let [key] = asked(&answer)[..] else { panic!("{answer}") };
        assert_eq!(answer["result"]["inputRequests"][key]["params"]["url"], url);
    }
}
