//! What the example promises.

#[path = "../host.rs"]
mod host;

use std::process::Command;

use host::{Answer, Host, REVISIONS, nothing};
use serde_json::{Value, json};

/// How a call ends whose user answers so.
fn booked(revision: &'static str, answer: Answer) -> (String, bool) {
    let able = json!({"elicitation": {"form": {}, "url": {}}});
    let mut command = Command::new(env!("CARGO_BIN_EXE_elicitation"));
    Host::start(&mut command, revision, able, answer).call("book", json!({"restaurant": "Noma"}))
}

fn accepting(method: &str, params: &Value) -> Value {
    assert_eq!(method, "elicitation/create");
    if params["mode"] == "url" {
        assert_eq!(params["url"], "https://pay.example.com/Noma");
        return json!({"action": "accept"});
    }
    let fields = &params["requestedSchema"]["properties"];
    assert_eq!(fields["meal"]["enum"], json!(["lunch", "dinner"]), "{params}");
    assert_eq!(fields["people"]["maximum"], 12);
    json!({"action": "accept", "content": {"people": 2, "meal": "dinner", "outside": true}})
}

#[test]
fn the_user_fills_in_a_form_and_visits_a_page() {
    for revision in REVISIONS {
        let (text, failed) = booked(revision, accepting);
        assert_eq!((text.as_str(), failed), ("Noma: a table for 2 outside, for dinner", false));
    }
}

#[test]
fn the_user_says_no() {
    for revision in REVISIONS {
        assert_eq!(booked(revision, |_, _| json!({"action": "decline"})).0, "no table was booked");
        let penniless: Answer = |method, params| match params["mode"] == "url" {
            true => json!({"action": "cancel"}),
            false => accepting(method, params),
        };
        assert_eq!(booked(revision, penniless).0, "no table was booked: there was no deposit");
    }
}

#[test]
fn who_cannot_be_asked_is_told() {
    for revision in REVISIONS {
        let mut command = Command::new(env!("CARGO_BIN_EXE_elicitation"));
        let mut host = Host::start(&mut command, revision, json!({}), nothing);
        let answer = host.try_ask("tools/call", json!({"name": "book", "arguments": {"restaurant": "Noma"}}));
        assert_eq!(answer["error"]["code"], -32021, "{answer}");
    }
}
