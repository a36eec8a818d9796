//! Messages that are not JSON, not JSON-RPC, or not what their method takes: over HTTP and over a pipe, in both eras.

use serde_json::{Value, json};

use crate::rig::http::{request, send};
use crate::rig::modern::{self, body, headers, meta};
use crate::rig::pipe::Pipe;
use crate::rig::place::Place;
use crate::rig::scene::Scene;
use crate::rig::session::{PLAIN, Session};

/// Bytes that are no message, the code they are answered with, and a part of what is said.
fn no_messages() -> Vec<(Vec<u8>, i64, &'static str)> {
    let text = |text: &str| text.as_bytes().to_vec();
    let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
    vec![
        (text("{"), -32700, "parse error"),
        (text("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}}"), -32700, "text after the message"),
        (text("nonsense"), -32700, "parse error"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}".to_vec(), -32700, "not UTF-8"),
        (b"\x00".to_vec(), -32700, "parse error"),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":\"a\x00b\",\"method\":\"ping\"}".to_vec(),
            -32700,
            "control character",
        ),
        (b"\xef\xbb\xbf{}".to_vec(), -32700, "parse error"),
        (text(&nested(100_000)), -32700, "nested too deeply"),
        (
            text(&format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{{\"a\":{}}}}}",
                nested(70)
            )),
            -32700,
            "nested too deeply",
        ),
        (text("[]"), -32600, "batches"),
        (text("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]"), -32600, "batches"),
        (text("7"), -32600, "a message is an object"),
        (text("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}"), -32600, "`jsonrpc` must be \"2.0\""),
        (text("{\"id\":1,\"method\":\"ping\"}"), -32600, "`jsonrpc` must be \"2.0\""),
        (text("{\"jsonrpc\":2.0,\"id\":1,\"method\":\"ping\"}"), -32600, "`jsonrpc` must be \"2.0\""),
        (text("{\"jsonrpc\":\"2.0\",\"id\":1}"), -32600, "`method` is missing"),
        (text("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}"), -32600, "`method` must be a string"),
        (text("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}"), -32600, "`id` must be"),
        (text("{\"jsonrpc\":\"2.0\",\"id\":1e999999,\"method\":\"ping\"}"), -32600, "`id` must be"),
        (
            text("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[1]}"),
            -32600,
            "`params` must be",
        ),
        (text("{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}"), -32600, "twice"),
        (text("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"\\u006dethod\":\"x\"}"), -32600, "twice"),
        (
            text("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{\"a\":1,\"a\":2}}"),
            -32600,
            "twice",
        ),
        (
            text("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"error\":{}}"),
            -32600,
            "both `result` and `error`",
        ),
    ]
}

#[track_caller]
fn is_refused(answer: &Value, code: i64, part: &str) {
    let error = &answer["error"];
    assert_eq!(error["code"], code, "{answer}");
    assert!(error["message"].as_str().is_some_and(|message| message.contains(part)), "{part:?}: {answer}");
}

#[test]
fn what_is_no_message_is_refused_over_http() {
    let scene = Scene::new("");
    let address = scene.server.address();
    let session = Session::open(address);
    for (bytes, code, part) in no_messages() {
        for answer in [
            send(address, &request("POST", "/mcp", &headers("ping", ""), &bytes)),
            send(address, &request("POST", "/mcp", &PLAIN, &bytes)),
            session.post(&bytes),
        ] {
            assert_eq!(answer.status, 400, "{}", answer.text());
            is_refused(&answer.message(), code, part);
        }
    }
    scene.ends_well();
}

#[test]
fn what_is_no_message_is_refused_over_a_pipe() {
    let place = Place::new("");
    let pipe = Pipe::start(&place);
    for legacy in [false, true] {
        if legacy {
            pipe.initialize();
        }
        for (bytes, code, part) in no_messages() {
            is_refused(&pipe.say(&bytes), code, part);
        }
    }
    assert_eq!(modern::text(&pipe.call("echo", json!({"text": "x"}))["result"]), "x");
    assert_eq!(pipe.ask_legacy("ping", json!({}))["result"], json!({}));
}

#[test]
fn a_message_past_the_bound_is_refused_before_it_is_read() {
    let scene = Scene::new("");
    let address = scene.server.address();
    let huge = vec![b' '; (4 << 20) + 1];
    for headers in [headers("tools/list", ""), PLAIN.to_vec()] {
        let answer = send(address, &request("POST", "/mcp", &headers, &huge));
        assert_eq!(answer.status, 413);
        assert!(answer.text().contains("4194304 bytes at most"), "{}", answer.text());
        let mut chunked = headers.clone();
        chunked.push(("Transfer-Encoding", "chunked"));
        let body = [format!("{:x}\r\n", huge.len()).as_bytes(), &huge, b"\r\n0\r\n\r\n"].concat();
        assert_eq!(send(address, &request("POST", "/mcp", &chunked, &body)).status, 413);
        let mut claimed = headers;
        claimed.push(("Content-Length", "99999999999999999999999"));
        assert_eq!(send(address, &request("POST", "/mcp", &claimed, b"{}")).status, 400);
    }
    scene.ends_well();

    let place = Place::new("");
    let pipe = Pipe::start(&place);
    is_refused(&pipe.say(&huge), -32600, "longer than the limit of 4194304 bytes");
    assert_eq!(modern::text(&pipe.call("echo", json!({"text": "x"}))["result"]), "x");
}

/// Requests whose parameters are wrong, and what they are told.
fn wrong_requests() -> Vec<(&'static str, Value, i64, &'static str)> {
    vec![
        ("no/such", json!({}), -32601, "method not found: no/such"),
        ("tools/call", json!({}), -32602, "`name` is missing"),
        ("tools/call", json!({"name": 7}), -32602, "`name`"),
        ("tools/call", json!({"name": "no-such"}), -32602, "unknown tool: no-such"),
        ("tools/call", json!({"name": "echo", "arguments": [1]}), -32602, "`arguments` must be an object"),
        ("tools/list", json!({"cursor": "mine"}), -32602, "`cursor` was not issued here"),
        ("resources/read", json!({}), -32602, "`uri` is missing"),
        ("resources/read", json!({"uri": "file:///etc/passwd"}), -32602, "resource not found"),
        ("resources/read", json!({"uri": "longhaul://tasks/../../etc/passwd/stdout"}), -32602, "not found"),
        ("tasks/get", json!({}), -32602, "`taskId` is missing"),
        ("tasks/get", json!({"taskId": {}}), -32602, "`taskId`"),
        ("tasks/cancel", json!({"taskId": "../x"}), -32602, "task not found"),
    ]
}

/// Arguments that the tool `echo` does not take, and what its caller is told.
fn wrong_arguments() -> Vec<(Value, &'static str)> {
    vec![
        (json!({}), "`text` is missing"),
        (json!({"text": 7}), "`text` must be a string"),
        (json!({"text": null}), "`text`"),
        (json!({"text": "a", "more": 1}), "there is no argument `more`"),
        (json!({"text": "-x"}), "must not begin with `-`"),
        (json!({"text": "--config=/etc/passwd"}), "must not begin with `-`"),
        (json!({"text": "a\u{0}b"}), "NUL"),
        (json!({"text": "x".repeat(129 << 10)}), "`text`"),
    ]
}

#[test]
fn wrong_requests_are_told_what_is_wrong() {
    let scene = Scene::new("");
    let address = scene.server.address();
    let session = Session::open(address);
    let pipe = Pipe::start(&scene.place);
    for (method, params, code, part) in wrong_requests() {
        // Of a resource that is not there each revision says so by a code of its own.
        let code_of = |answer: &Value| match (&answer["error"]["code"], method) {
            (code, "resources/read") if *code == -32002 => -32602,
            (code, _) => code.as_i64().unwrap(),
        };
        let name = ["name", "uri", "taskId"].into_iter().find_map(|name| params[name].as_str());
        let http = modern::ask(address, method, name.unwrap_or_default(), params.clone());
        assert_eq!(http.status, if code == -32601 { 404 } else { 200 }, "{}", http.text());
        for answer in [http.message(), session.ask(method, params.clone()), pipe.ask(method, params)] {
            assert_eq!(code_of(&answer), code, "{method} {part}: {answer}");
            assert!(answer["error"]["message"].to_string().contains(part), "{method} {part}: {answer}");
        }
    }
    drop(pipe);
    scene.ends_well();
}

#[test]
fn wrong_arguments_are_told_what_is_wrong_and_nothing_runs() {
    let scene = Scene::new(
        "[tools.touch]\ndescription = \"Leave a mark\"\ncommand = [\"touch\", \"ran\", \"{text}\"]\n\
         input.text = { type = \"string\" }",
    );
    let address = scene.server.address();
    let session = Session::open(address);
    let pipe = Pipe::start(&scene.place);
    for (arguments, part) in wrong_arguments() {
        for answer in [
            modern::call(address, "touch", arguments.clone()),
            session.call("touch", arguments.clone()),
            pipe.call("touch", arguments.clone()),
        ] {
            let result = &answer["result"];
            assert_eq!(result["isError"], true, "{answer}");
            let text = modern::text(result);
            assert!(text.contains(part) && text.contains("usage: touch(text: string)"), "{part}: {text}");
        }
        // Whoever asked for a task can read no result but the task's.
        let answer = session.ask("tools/call", json!({"name": "touch", "arguments": arguments, "task": {}}));
        is_refused(&answer, -32602, part);
    }
    assert!(!scene.place.path("ran").exists());
    drop(pipe);
    scene.ends_well();
}

#[test]
fn members_given_twice_are_refused_wherever_two_readers_could_differ() {
    let scene = Scene::new("");
    let pipe = Pipe::start(&scene.place);
    let meta = meta().to_string();
    let version = "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"";
    let twice = format!("{},{version}}}", meta.strip_suffix('}').unwrap());
    let call = |arguments: &str, meta: &str| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":\
             {{\"name\":\"echo\",\"arguments\":{arguments},\"_meta\":{meta}}}}}"
        )
    };
    let good = call("{\"text\":\"x\"}", &meta);
    let in_meta = call("{\"text\":\"x\"}", &twice);
    let in_arguments = call("{\"text\":\"x\",\"text\":\"y\"}", &meta);
    assert_eq!(modern::text(&pipe.say(good.as_bytes())["result"]), "x");
    is_refused(&pipe.say(in_meta.as_bytes()), -32602, "appears twice");
    let answer = pipe.say(in_arguments.as_bytes());
    assert!(modern::text(&answer["result"]).contains("`text` is passed twice"), "{answer}");
    let posted = |body: &str| {
        send(
            scene.server.address(),
            &request("POST", "/mcp", &headers("tools/call", "echo"), body.as_bytes()),
        )
    };
    assert_eq!((posted(&good).status, posted(&in_meta).status), (200, 400));
    drop(pipe);
    scene.ends_well();
}

#[test]
fn a_hundred_thousand_requests_with_one_id_are_answered_one_by_one() {
    let place = Place::new("");
    let pipe = Pipe::start(&place);
    let line = body("tools/list", json!({})).to_string() + "\n";
    let before = crate::rig::server::memory(pipe.pid());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let batch = line.repeat(100);
            for _ in 0..1000 {
                pipe_write(&pipe, batch.as_bytes());
            }
        });
        for _ in 0..100_000 {
            assert!(pipe.next_line().contains("\"id\":1,\"result\""));
        }
    });
    let grown = crate::rig::server::memory(pipe.pid()).saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
}

fn pipe_write(pipe: &Pipe, bytes: &[u8]) {
    use std::io::Write as _;
    pipe.input().write_all(bytes).unwrap();
}

#[test]
fn an_id_that_is_still_open_is_refused_and_the_first_call_goes_on() {
    let scene = Scene::new("");
    let session = std::sync::Arc::new(Session::open(scene.server.address()));
    let held = std::sync::Arc::clone(&session);
    let first = std::thread::spawn(move || {
        held.ask_as(json!("same"), "tools/call", json!({"name": "gate", "arguments": {"key": "second"}}))
    });
    crate::rig::eventually("the first call's command", || (scene.place.begun("second") == 1).then_some(()));
    let second = session.ask_as(json!("same"), "ping", json!({}));
    is_refused(&second, -32600, "still open");
    std::fs::write(scene.place.path("second"), "").unwrap();
    let first = first.join().unwrap();
    assert!(first["result"].is_object(), "{first}");
    assert_eq!(session.ask_as(json!("same"), "ping", json!({}))["result"], json!({}));
    scene.ends_well();
}
