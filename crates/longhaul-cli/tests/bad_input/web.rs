//! What HTTP itself can get wrong: media types, hosts and origins, sessions, and headers that contradict the body.

use serde_json::{Value, json};

use crate::rig::http::{Answer, request, send};
use crate::rig::modern::{REVISION, body, headers, meta};
use crate::rig::scene::Scene;
use crate::rig::session::{PLAIN, Session};

/// A good call with some headers replaced, added or (`None`) left out.
fn call_with(scene: &Scene, changes: &[(&'static str, Option<&str>)]) -> Answer {
    let body = body("tools/call", json!({"name": "echo", "arguments": {"text": "x"}})).to_string();
    let mut all = headers("tools/call", "echo");
    all.retain(|(name, _)| !changes.iter().any(|(changed, _)| name == changed));
    all.extend(changes.iter().filter_map(|(name, value)| Some((*name, (*value)?))));
    send(scene.server.address(), &request("POST", "/mcp", &all, body.as_bytes()))
}

#[track_caller]
fn is_refused(answer: &Answer, status: u16, code: i64, part: &str) -> Value {
    assert_eq!(answer.status, status, "{}", answer.text());
    let message = answer.message();
    assert_eq!(message["error"]["code"], code, "{message}");
    assert!(message["error"]["message"].as_str().unwrap().contains(part), "{part:?}: {message}");
    message
}

#[test]
fn only_json_is_read_and_only_to_those_who_can_read_the_answer() {
    let scene = Scene::new("");
    for kind in [
        None,
        Some("text/plain"),
        Some("application/x-www-form-urlencoded"),
        Some("multipart/form-data"),
        Some("application/jsonp"),
    ] {
        let answer = call_with(&scene, &[("Content-Type", kind)]);
        assert_eq!((answer.status, answer.text().as_str()), (415, "send Content-Type: application/json"));
    }
    for accept in ["text/html", "text/event-stream", "application/json;q=0", ""] {
        let answer = call_with(&scene, &[("Accept", Some(accept))]);
        assert_eq!(
            (answer.status, answer.text().contains("send Accept: application/json")),
            (406, true),
            "{accept}"
        );
    }
    for good in ["application/json; charset=utf-8", "Application/JSON"] {
        assert_eq!(call_with(&scene, &[("Content-Type", Some(good))]).status, 200);
    }
    assert_eq!(call_with(&scene, &[("Accept", None)]).status, 200);
    scene.ends_well();
}

#[test]
fn s1_foreign_hosts_and_pages_are_turned_away_on_every_route() {
    let scene = Scene::new("");
    let address = scene.server.address();
    let (local, foreign) = (address.to_string(), "evil.example");
    let attacks: &[&[(&str, &str)]] = &[
        &[("Host", foreign)],
        &[("Host", "localhost.evil.example")],
        &[("Host", "127.0.0.1.evil.example:80")],
        &[("Host", "")],
        &[("Host", &local), ("Host", foreign)],
        &[("Host", foreign), ("Host", &local)],
        &[("Host", &local), ("Origin", "http://evil.example")],
        &[("Host", &local), ("Origin", "null")],
        &[("Host", &local), ("Origin", "")],
        &[("Host", &local), ("Origin", "http://evil\u{fc}.example")],
        &[("Host", &local), ("Origin", "http://localhost"), ("Origin", "http://evil.example")],
        &[("Host", &local), ("Origin", "https://localhost.evil.example")],
    ];
    let good = body("tools/call", json!({"name": "echo", "arguments": {"text": "x"}})).to_string();
    for attack in attacks {
        for verb in ["POST", "GET", "DELETE", "OPTIONS", "PUT"] {
            for path in ["/mcp", "/", "/mcp/x", "/tasks/x", "/events", "/admin/api/tasks", "/page.css"] {
                let mut all = attack.to_vec();
                all.extend(headers("tools/call", "echo"));
                let answer = send(address, &request(verb, path, &all, good.as_bytes()));
                assert_eq!(answer.status, 403, "{attack:?} {verb} {path}: {}", answer.text());
                assert!(answer.text().starts_with("forbidden: the "), "{}", answer.text());
                assert_eq!(answer.header("access-control-allow-origin"), None);
            }
        }
    }
    let mut all = headers("tools/call", "echo");
    all.push(("Host", &local));
    let absolute = request("POST", "http://evil.example/mcp", &all, good.as_bytes());
    assert_eq!(send(address, &absolute).status, 403, "the request line names a foreign host");
    let absolute = request("POST", &format!("http://{local}/mcp"), &all, good.as_bytes());
    assert_eq!(send(address, &absolute).status, 200);
    for origin in ["http://localhost", "http://127.0.0.1:3000"] {
        assert_eq!(call_with(&scene, &[("Origin", Some(origin))]).status, 200);
    }
    let none = b"POST /mcp HTTP/1.0\r\n\r\n";
    assert_eq!(send(address, none).status, 403, "no Host at all");
    scene.ends_well();
}

#[test]
fn a_session_that_is_not_there_is_not_found() {
    let scene = Scene::new("");
    let address = scene.server.address();
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    let ended = Session::open(address);
    let close = |id: &str| send(address, &request("DELETE", "/mcp", &[("Mcp-Session-Id", id)], b""));
    assert_eq!(close(&ended.id).status, 204);
    let mut seen = Vec::new();
    for id in [ended.id.as_str(), "ffffffffffffffffffffffffffffffff", "x", "../../etc/passwd"] {
        let mut with = PLAIN.to_vec();
        with.push(("Mcp-Session-Id", id));
        let asked = send(address, &request("POST", "/mcp", &with, ping.as_bytes()));
        is_refused(&asked, 404, -32600, "send `initialize` to open a new one");
        let told = send(address, &request("POST", "/mcp", &with, notice.as_bytes()));
        let listening =
            request("GET", "/mcp", &[("Accept", "text/event-stream"), ("Mcp-Session-Id", id)], b"");
        let heard = send(address, &listening);
        assert_eq!((told.status, heard.status, close(id).status), (404, 404, 404));
        seen.push((asked.body, told.body, heard.body));
    }
    assert!(seen.windows(2).all(|two| two[0] == two[1]), "ended and never opened are the same");
    // Without a session there is nothing but its beginning.
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let answer = send(address, &request("POST", "/mcp", &PLAIN, list.as_bytes()));
    is_refused(&answer, 400, -32602, "or send `initialize` first");
    let answer = send(address, &request("POST", "/mcp", &PLAIN, notice.as_bytes()));
    assert_eq!((answer.status, answer.text().contains("`initialize` to open one")), (400, true));
    scene.ends_well();
}

#[test]
fn a_modern_request_without_its_meta_is_refused() {
    let scene = Scene::new("");
    let address = scene.server.address();
    for field in ["io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities"] {
        let mut without = meta();
        without.as_object_mut().unwrap().remove(field);
        let body = body("tools/list", json!({"_meta": without})).to_string();
        let answer = send(address, &request("POST", "/mcp", &headers("tools/list", ""), body.as_bytes()));
        is_refused(&answer, 400, -32602, field);
    }
    for bad in [json!(7), json!([]), json!({"io.modelcontextprotocol/protocolVersion": 7})] {
        let body = body("tools/list", json!({"_meta": bad})).to_string();
        let answer = send(address, &request("POST", "/mcp", &headers("tools/list", ""), body.as_bytes()));
        is_refused(&answer, 400, -32602, "`_meta`");
    }
    scene.ends_well();
}

#[test]
fn methods_and_revisions_that_do_not_exist_are_refused_with_their_status() {
    let scene = Scene::new("");
    let address = scene.server.address();
    for method in
        ["no/such", "initialize", "ping", "tasks/result", "tasks/list", "logging/setLevel", "", "TOOLS/LIST"]
    {
        let body = body(method, json!({})).to_string();
        let answer = send(address, &request("POST", "/mcp", &headers(method, ""), body.as_bytes()));
        is_refused(&answer, 404, -32601, "method not found");
    }
    for revision in ["2099-01-01", "1900-01-01", "2024-11-05", "2025-11-25", "DRAFT", " "] {
        let mut meta = meta();
        meta["io.modelcontextprotocol/protocolVersion"] = json!(revision);
        let body = body("tools/list", json!({"_meta": meta})).to_string();
        let mut all = headers("tools/list", "");
        all.retain(|(name, _)| *name != "MCP-Protocol-Version");
        // A header cannot carry a blank, which then differs from the body.
        if revision.trim().is_empty() {
            continue;
        }
        all.push(("MCP-Protocol-Version", revision));
        let answer = send(address, &request("POST", "/mcp", &all, body.as_bytes()));
        let message = is_refused(&answer, 400, -32022, "unsupported protocol version");
        let all = json!([REVISION, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]);
        assert_eq!(message["error"]["data"]["supported"], all);
        assert_eq!(message["error"]["data"]["requested"], revision);
    }
    scene.ends_well();
}

#[test]
fn headers_that_contradict_the_body_are_refused() {
    let scene = Scene::new("");
    let attacks: &[(&'static str, Option<&str>)] = &[
        ("MCP-Protocol-Version", None),
        ("MCP-Protocol-Version", Some("2099-01-01")),
        ("MCP-Protocol-Version", Some("2025-11-25")),
        ("Mcp-Method", None),
        ("Mcp-Method", Some("tools/list")),
        ("Mcp-Method", Some("Tools/Call")),
        ("Mcp-Name", None),
        ("Mcp-Name", Some("gate")),
        ("Mcp-Name", Some("=?base64?!?=")),
        ("Mcp-Name", Some("=?base64?Z2F0ZQ==?=")),
    ];
    for attack in attacks {
        let answer = call_with(&scene, &[*attack]);
        is_refused(&answer, 400, -32020, "header mismatch");
    }
    for (name, value) in
        [("Mcp-Method", "tools/call"), ("Mcp-Name", "echo"), ("MCP-Protocol-Version", REVISION)]
    {
        let answer = call_with(&scene, &[(name, Some(value)), ("x", Some("y")), (name, Some("other"))]);
        assert_eq!(answer.status, 400, "{name} twice");
        assert!(answer.text().contains("once"), "{}", answer.text());
    }
    assert_eq!(call_with(&scene, &[("Mcp-Name", Some("=?base64?ZWNobw==?="))]).status, 200);
    scene.ends_well();
}

#[test]
fn other_paths_and_verbs_say_where_to_go() {
    let scene = Scene::new("");
    let address = scene.server.address();
    for path in ["/", "/mcp/", "/mcp/../etc/passwd", "//mcp", "/%6dcp"] {
        let answer = send(address, &request("POST", path, &PLAIN, b"{}"));
        assert_eq!(
            (answer.status, answer.text().contains("the MCP endpoint is /mcp")),
            (404, true),
            "{path}"
        );
    }
    for verb in ["PUT", "PATCH", "OPTIONS", "TRACE", "BREW"] {
        let answer = send(address, &request(verb, "/mcp", &PLAIN, b"{}"));
        assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")), "{verb}");
    }
    let stream = send(address, &request("GET", "/mcp", &[("Accept", "application/json")], b""));
    assert_eq!((stream.status, stream.text().contains("accept text/event-stream")), (406, true));
    let stream = send(address, &request("GET", "/mcp", &[("Accept", "text/event-stream")], b""));
    assert_eq!((stream.status, stream.text().contains("belong to a session")), (405, true));
    scene.ends_well();
}
