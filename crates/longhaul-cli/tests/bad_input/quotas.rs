//! How much callers may have is for the configuration to say: `[calls]`, and the quotas of `[store]`.

use serde_json::{Value, json};

use crate::rig::eventually;
use crate::rig::http::Answer;
use crate::rig::modern::{ask, begin, call, cancel, text};
use crate::rig::place::Place;
use crate::rig::server::Server;
use crate::rig::session::Session;

fn is_overload(answer: &Answer, word: &str) {
    let message = answer.message();
    assert_eq!((answer.status, &message["error"]["code"]), (429, &json!(-31001)), "{message}");
    assert!(message["error"]["data"]["retryAfterMs"].is_u64(), "{message}");
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
    assert!(message["error"]["message"].as_str().is_some_and(|text| text.contains(word)), "{message}");
}

fn gate(key: &str) -> Value {
    json!({"name": "gate", "arguments": {"key": key}})
}

#[test]
fn tasks_past_the_quota_of_the_configuration_are_refused_and_begin_nothing() {
    let place = Place::new("[store]\nmax_open_anonymous = 2\n");
    let mut server = Server::start(&place);
    let address = server.address();
    let open = ["one", "two"].map(|key| begin(address, "gate", json!({"key": key})));
    eventually("both commands", || (place.begun("one") + place.begun("two") == 2).then_some(()));
    is_overload(&ask(address, "tools/call", "gate", gate("three")), "max_open_anonymous");
    assert_eq!(place.begun("three"), 0);
    assert_eq!(cancel(address, &open[0])["status"], "cancelled");
    let third = begin(address, "gate", json!({"key": "three"}));
    for id in [&open[1], &third] {
        assert_eq!(cancel(address, id)["status"], "cancelled");
    }
    server.is_alone(&place);
    server.kill();
}

#[test]
fn calls_past_the_rate_of_the_configuration_are_refused_and_begin_nothing() {
    let place = Place::new("[calls]\nin_all = 1\n");
    let mut server = Server::start(&place);
    let address = server.address();
    assert_eq!(text(&call(address, "echo", json!({"text": "hi"}))["result"]), "hi");
    is_overload(&ask(address, "tools/call", "gate", gate("one")), "a minute");
    let refusal = Session::open(address).call("gate", json!({"key": "one"}));
    assert_eq!(refusal["error"]["code"], -32603, "{refusal}");
    assert!(refusal["error"]["data"]["retryAfterMs"].is_u64(), "{refusal}");
    assert_eq!(place.begun("one"), 0);
    server.kill();
}
