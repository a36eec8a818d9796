//! A server that is killed at a bad moment: the next one finds everything, and ends what was to be ended.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::rig::eventually;
use crate::rig::modern::{self, begin, cancel, ended, output, text};
use crate::rig::place::Place;
use crate::rig::server::Server;
use crate::rig::session::Session;

#[test]
fn a_server_that_is_killed_and_started_again_has_lost_nothing() {
    let counter = "[tools.counts]\ndescription = \"Counts\"\ntask = \"always\"\n\
        command = [\"sh\", \"-c\", 'n=0; while [ $n -lt 100 ]; do n=$((n+1)); echo line $n; sleep 0.02; done']\n";
    let place = Place::new(counter);
    let mut server = Server::start(&place);
    let task = begin(server.address(), "counts", json!({}));
    let session = Session::open(server.address());
    let waiting = session.begin("gate", json!({"key": "waiting"}));
    for _ in 0..5 {
        server.kill();
        server = Server::start(&place);
    }
    let result = ended(server.address(), &task);
    let expected: String = (1..=100).map(|line| format!("line {line}\n")).collect();
    assert_eq!(text(&result["result"]), expected);
    let read: String =
        output(server.address(), &task, "stdout").iter().filter_map(|part| part["text"].as_str()).collect();
    assert_eq!(read, expected);
    fs::write(place.path("waiting"), "").unwrap();
    let session = Session::open(server.address());
    assert_eq!(text(&session.ask("tasks/result", json!({"taskId": waiting}))["result"]), "open");
    assert_eq!(place.begun("waiting"), 1);
    server.kill();
}

#[test]
fn a_cancelled_command_whose_server_is_killed_at_once_is_ended_by_the_next() {
    let place = Place::new("");
    for round in 0..3 {
        let key = format!("doomed{round}");
        let mut server = Server::start(&place);
        let task = begin(server.address(), "gate", json!({"key": key}));
        eventually("the command", || (place.begun(&key) == 1).then_some(()));
        let answer = modern::ask(server.address(), "tasks/cancel", &task, json!({"taskId": task}));
        server.kill();
        assert_eq!(answer.message()["error"], serde_json::Value::Null);
        let mut server = Server::start(&place);
        assert_eq!(cancel(server.address(), &task)["status"], "cancelled");
        let running = || place.processes().iter().any(|(_, line)| line.contains(&format!("gate {key}")));
        eventually("the end of the cancelled command", || (!running()).then_some(()));
        server.kill();
    }
}

#[test]
fn a_command_ends_on_the_terms_it_was_started_with_whatever_the_configuration_says_since() {
    let place = Place::new("");
    let mut server = Server::start(&place);
    let task = begin(server.address(), "gate", json!({"key": "terms"}));
    eventually("the command", || (place.begun("terms") == 1).then_some(()));
    server.kill();
    let configuration = fs::read_to_string(place.path("longhaul.toml")).unwrap();
    // What the gate prints is no JSON.
    let changed = configuration.replace("grace = \"200ms\"", "grace = \"200ms\"\noutput = \"json\"");
    assert_ne!(changed, configuration);
    fs::write(place.path("longhaul.toml"), changed).unwrap();
    let mut server = Server::start(&place);
    fs::write(place.path("terms"), "").unwrap();
    let result = ended(server.address(), &task);
    assert_eq!(text(&result["result"]), "open");
    assert_ne!(result["result"]["isError"], true, "{result}");
    assert_eq!(result["result"]["structuredContent"]["exitCode"], 0);
    server.kill();
}

#[test]
fn a_command_whose_tool_has_been_renamed_is_followed_to_its_end_and_cancelled_at_once() {
    let place = Place::new("");
    let mut server = Server::start(&place);
    let [ends, doomed] = ["ends", "doomed"].map(|key| {
        let task = begin(server.address(), "gate", json!({"key": key}));
        eventually("the command", || (place.begun(key) == 1).then_some(()));
        task
    });
    server.kill();
    let configuration = fs::read_to_string(place.path("longhaul.toml")).unwrap();
    fs::write(place.path("longhaul.toml"), configuration.replace("[tools.gate]", "[tools.door]")).unwrap();
    let began = Instant::now();
    let mut server = Server::start(&place);
    assert!(server.said().contains("2 open, 2 taken up"), "{}", server.said());
    assert!(server.said().contains("not configured any more were taken up: gate\n"), "{}", server.said());

    let running = || place.processes().iter().any(|(_, line)| line.contains("gate doomed"));
    assert!(running());
    assert_eq!(cancel(server.address(), &doomed)["status"], "cancelled");
    eventually("the end of the cancelled command", || (!running()).then_some(()));
    // The janitor, which would end it too, has looked when the server began, and looks once a minute.
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());

    fs::write(place.path("ends"), "").unwrap();
    let result = ended(server.address(), &ends);
    assert_eq!((result["status"].as_str(), text(&result["result"])), (Some("completed"), "open"));
    assert_eq!(place.begun("ends"), 1);
    server.kill();
}
