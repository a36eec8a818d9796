//! The program asked to end, cut off from its client, or held by a client that will not let go.

use std::fs;
use std::io::Write as _;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::rig::eventually;
use crate::rig::modern::{self, begin, body, ended, text};
use crate::rig::pipe::Pipe;
use crate::rig::place::Place;
use crate::rig::server::Server;
use crate::rig::session::Session;

const PATIENT: &str = "[tools.patient]\ndescription = \"Held for long\"\n\
    command = [\"sh\", \"-c\", 'while [ ! -e \"$1\" ]; do sleep 0.05; done; printf open', \"patient\", \"{key}\"]\n\
    task = \"after 100ms\"\nhold = \"10m\"\ngrace = \"200ms\"\njoin = \"never\"\ninput.key = { type = \"string\" }\n";

#[test]
fn callers_who_are_held_are_handed_over_when_the_server_is_asked_to_end() {
    let place = Place::new(PATIENT);
    let mut server = Server::start(&place);
    let address = server.address();
    let session = Arc::new(Session::open(address));
    let modern = thread::spawn(move || modern::call_held(address, "patient", json!({"key": "one"})));
    let held = Arc::clone(&session);
    let legacy = thread::spawn(move || held.call("patient", json!({"key": "two"})));
    let running = || place.processes().iter().filter(|(_, line)| line.contains("patient")).count();
    eventually("both commands", || (running() >= 2).then_some(()));
    thread::sleep(Duration::from_millis(500));
    server.terminate();
    let answers = [modern.join().unwrap(), legacy.join().unwrap()];
    assert_eq!(server.ended().code(), Some(0));
    drop(server);
    let next = Server::start(&place);
    for (answer, key) in answers.iter().zip(["one", "two"]) {
        let task =
            answer["result"]["structuredContent"]["taskId"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(text(&answer["result"]).contains("The work goes on as task"), "{answer}");
        fs::write(place.path(key), "").unwrap();
        assert_eq!(text(&ended(next.address(), task)["result"]), "open");
    }
    drop(next);
}

#[test]
fn a_caller_who_is_held_over_a_pipe_is_handed_over_when_the_server_is_asked_to_end() {
    let place = Place::new(PATIENT);
    let mut pipe = Pipe::start(&place);
    pipe.initialize();
    let params = json!({"name": "patient", "arguments": {"key": "piped"}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    pipe.write((call.to_string() + "\n").as_bytes());
    let running = || place.processes().iter().filter(|(_, line)| line.contains("patient")).count();
    eventually("the command", || (running() >= 1).then_some(()));
    kill_process(Pid::from_raw(pipe.pid()).unwrap(), Signal::TERM).unwrap();
    let answer = pipe.next();
    let task = answer["result"]["structuredContent"]["taskId"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert_eq!(pipe.ended().code(), Some(0));
    fs::write(place.path("piped"), "").unwrap();
    let next = Pipe::start(&place);
    assert_eq!(text(&next.call("task_wait", json!({"id": task, "up_to": 60}))["result"]), "open");
    drop(next);
}

#[test]
fn a_pipe_that_is_closed_ends_the_server_and_no_durable_command() {
    let place = Place::new(PATIENT);
    let mut pipe = Pipe::start(&place);
    let begun = pipe.call("gate", json!({"key": "kept"}));
    let task = begun["result"]["taskId"].as_str().unwrap().to_owned();
    eventually("the command", || (place.begun("kept") == 1).then_some(()));
    pipe.close_input();
    assert_eq!(pipe.ended().code(), Some(0));
    let next = Pipe::start(&place);
    let still = next.ask("tasks/get", json!({"taskId": task}));
    assert_eq!(still["result"]["status"], "working", "{still}");
    fs::write(place.path("kept"), "").unwrap();
    assert_eq!(text(&next.call("task_wait", json!({"id": task, "up_to": 60}))["result"]), "open");
    assert_eq!(place.begun("kept"), 1);
    drop(next);
}

#[test]
fn a_call_that_is_not_durable_ends_with_its_pipe() {
    let more = PATIENT
        .replace("after 100ms", "never")
        .replace("hold = \"10m\"\n", "")
        .replace("join = \"never\"\n", "");
    let place = Place::new(&more);
    let mut pipe = Pipe::start(&place);
    let request = body("tools/call", json!({"name": "patient", "arguments": {"key": "gone"}})).to_string();
    pipe.write(format!("{request}\n").as_bytes());
    let running = || place.processes().iter().any(|(_, line)| line.contains("patient gone"));
    eventually("the command", || running().then_some(()));
    pipe.close_input();
    assert_eq!(pipe.ended().code(), Some(0));
    eventually("the end of the command", || (!running()).then_some(()));
}

#[test]
fn who_asks_a_server_twice_to_end_waits_no_longer() {
    let more = PATIENT.replace("after 100ms", "never").replace("hold = \"10m\"\n", "");
    let more = more.replace("join = \"never\"\n", "");
    let place = Place::new(&more);
    let mut server = Server::start(&place);
    let address = server.address();
    let task = begin(address, "gate", json!({"key": "kept"}));
    eventually("the task's command", || (place.begun("kept") == 1).then_some(()));
    // It may not become a task, so that it is waited for.
    let call = body("tools/call", json!({"name": "patient", "arguments": {"key": "stuck"}})).to_string();
    let headers = modern::headers("tools/call", "patient");
    let mut caller = crate::rig::http::connect(address);
    caller.write_all(&crate::rig::http::request("POST", "/mcp", &headers, call.as_bytes())).unwrap();
    let running = || place.processes().iter().any(|(_, line)| line.contains("patient stuck"));
    eventually("the command", || running().then_some(()));
    server.terminate();
    eventually("what it waits for", || {
        server.said().contains("waiting for 1 call, at most 10s; again to stop at once").then_some(())
    });
    server.terminate();
    assert_eq!(server.ended().code(), Some(143), "at once");
    drop((server, caller));
    let next = Server::start(&place);
    fs::write(place.path("kept"), "").unwrap();
    assert_eq!(text(&ended(next.address(), &task)["result"]), "open", "its command has lived on");
    assert_eq!(place.begun("kept"), 1);
    drop(next);
}

#[test]
fn a_last_message_without_its_line_end_is_answered() {
    let place = Place::new("");
    let mut pipe = Pipe::start(&place);
    pipe.write(body("tools/list", json!({})).to_string().as_bytes());
    pipe.close_input();
    assert!(pipe.next()["result"]["tools"].is_array());
    assert_eq!(pipe.ended().code(), Some(0));
}

#[test]
fn a_client_that_never_reads_its_pipe_cannot_keep_the_server() {
    let place = Place::new("");
    let mut pipe = Pipe::start(&place);
    let lines = (body("tools/list", json!({})).to_string() + "\n").repeat(200);
    let before = crate::rig::server::memory(pipe.pid());
    let mut input = pipe.take_input();
    // Blocks once the server reads no more, until it is gone.
    let deaf = thread::spawn(move || while input.write_all(lines.as_bytes()).is_ok() {});
    thread::sleep(Duration::from_secs(2));
    let grown = crate::rig::server::memory(pipe.pid()).saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
    kill_process(Pid::from_raw(pipe.pid()).unwrap(), Signal::TERM).unwrap();
    pipe.ended();
    deaf.join().unwrap();
}

#[test]
fn few_file_descriptors_keep_out_connections_and_no_command() {
    let place = Place::new("");
    let server = Server::start_limited(&place, 96);
    let address = server.address();
    let task = begin(address, "gate", json!({"key": "scarce"}));
    let silent: Vec<_> = (0..200).map(|_| crate::rig::http::connect(address)).collect();
    fs::write(place.path("scarce"), "").unwrap();
    // The places are given on as the silent ones are let go.
    assert_eq!(text(&ended(address, &task)["result"]), "open");
    assert_eq!(text(&modern::call(address, "echo", json!({"text": "x"}))["result"]), "x");
    drop(silent);
    assert!(!server.said().contains("open files"), "{}", server.said());
    drop(server);
}
