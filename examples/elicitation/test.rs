//! What the example promises.

#[path = "../host.rs"]
mod host;

use std::process::Command;

use host::{Answer, Host, REVISIONS, nothing};
use serde_json::{Value, json};

/// A host whose user answers so.
fn host(revision: &'static str, answer: Answer) -> Host {
    let able = json!({"elicitation": {"form": {}, "url": {}}});
    Host::start(&mut Command::new(env!("CARGO_BIN_EXE_elicitation")), revision, able, answer)
}

/// How a call ends.
fn booked(host: &mut Host) -> String {
    host.call("book", json!({"restaurant": "Noma"})).0
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
        let mut host = host(revision, accepting);
        assert_eq!(booked(&mut host), "Noma: a table for 2 outside, for dinner");
        let told: &[&str] = if host.is_modern() { &[] } else { &["notifications/elicitation/complete"] };
        assert_eq!(host.heard, told);
    }
}

#[test]
fn the_user_says_no() {
    for revision in REVISIONS {
        let mut declining = host(revision, |_, _| json!({"action": "decline"}));
        assert_eq!(booked(&mut declining), "no table was booked");
        let penniless: Answer = |method, params| match params["mode"] == "url" {
            true => json!({"action": "cancel"}),
            false => accepting(method, params),
        };
        assert_eq!(booked(&mut host(revision, penniless)), "no table was booked: there was no deposit");
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
