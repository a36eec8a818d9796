//! Run files may take no more: calls are refused before anything happens, and tasks wait.

use std::fs;

use serde_json::{Value, json};

use crate::rig::eventually;
use crate::rig::modern::{begin, call, cancel, ended, task, text};
use crate::rig::place::Place;
use crate::rig::server::Server;
use crate::rig::session::Session;

/// Room for one run that has not ended.
const ONE_RUN: &str = r#"
[store]
max_run_bytes = "3MiB"

[tools.wait]
description = "Wait until the gate is open"
command = ["sh", "-c", 'echo >> "runs-of-$1"; while [ ! -e "$1" ]; do sleep 0.05; done; printf open', "wait", "{key}"]
task = "always"
max_output = "1MiB"
grace = "200ms"
input.key = { type = "string" }

[tools.quick]
description = "Leave a trace"
command = ["sh", "-c", 'echo >> runs-of-quick']
task = "after 1h"
max_output = "1MiB"
"#;

fn is_overload(answer: &Value, code: i64) {
    assert_eq!(answer["error"]["code"], code, "{answer}");
    assert!(answer["error"]["data"]["retryAfterMs"].as_u64() > Some(0), "{answer}");
    let message = answer["error"]["message"].as_str();
    assert!(message.is_some_and(|text| text.contains("max_run_bytes")), "{answer}");
}

#[test]
fn a_call_without_room_for_its_run_is_an_overload_and_a_task_waits_for_room() {
    let place = Place::new(ONE_RUN);
    let mut server = Server::start(&place);
    let address = server.address();
    let first = begin(address, "wait", json!({"key": "first"}));
    eventually("the first command", || (place.begun("first") == 1).then_some(()));

    is_overload(&call(address, "quick", json!({})), -31001);
    is_overload(&Session::open(address).call("quick", json!({})), -32603);
    assert_eq!(place.begun("quick"), 0);
    assert_eq!(fs::read_dir(place.path("tasks.db.runs")).unwrap().count(), 1, "nothing is left of it");

    let [second, third] = ["second", "third"].map(|key| begin(address, "wait", json!({"key": key})));
    eventually("a word from the task that waits", || {
        let status = task(address, &second)["statusMessage"].as_str()?.to_owned();
        status.starts_with("waiting to be started: run files may take").then_some(())
    });
    assert_eq!(cancel(address, &second)["status"], "cancelled", "one that waits can be cancelled");

    fs::write(place.path("first"), "").unwrap();
    assert_eq!(text(&ended(address, &first)["result"]), "open");
    fs::write(place.path("third"), "").unwrap();
    assert_eq!(text(&ended(address, &third)["result"]), "open");
    assert_eq!((place.begun("second"), place.begun("third")), (0, 1));
    server.kill();
}
