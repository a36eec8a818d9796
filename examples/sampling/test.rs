//! What the example promises.

#[path = "../host.rs"]
mod host;

use std::process::Command;

use host::{Answer, Host, REVISIONS, nothing};
use serde_json::{Value, json};

fn summary(revision: &'static str, capabilities: Value, answer: Answer) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sampling"));
    let mut host = Host::start(&mut command, revision, capabilities, answer);
    host.call("summarize", json!({"text": "It rains. It has for days."})).0
}

#[test]
fn the_callers_model_is_asked() {
    let model: Answer = |method, params| {
        assert_eq!(method, "sampling/createMessage");
        assert_eq!(params["systemPrompt"], "Answer in one sentence.");
        assert!(params.to_string().contains("It has for days."), "{params}");
        json!({"role": "assistant", "model": "a model", "content": {"type": "text", "text": "The weather."}})
    };
    for revision in REVISIONS {
        assert_eq!(summary(revision, json!({"sampling": {}}), model), "The weather.");
    }
}

#[test]
fn without_a_model_the_first_sentence_does() {
    for revision in REVISIONS {
        assert_eq!(summary(revision, json!({}), nothing), "It rains.");
    }
}
