//! Peers that misbehave below HTTP: slow ones, silent ones, ones that never read, and plain garbage.

use std::io::{BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::rig::http::{connect, read, request, send};
use crate::rig::modern::{self, body, headers};
use crate::rig::scene::Scene;
use crate::rig::session::{PLAIN, Session};
use crate::rig::{HANG, eventually};

fn call_bytes(tool: &str, arguments: serde_json::Value) -> Vec<u8> {
    let body = body("tools/call", json!({"name": tool, "arguments": arguments})).to_string();
    request("POST", "/mcp", &headers("tools/call", tool), body.as_bytes())
}

/// Everything that comes until the peer closes.
fn until_closed(mut stream: &TcpStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn a_client_that_is_slow_is_let_go() {
    let scene = Scene::new("");
    let address = scene.server.address();
    let call = call_bytes("echo", json!({"text": "x"}));
    let (silent, header, body) = (connect(address), connect(address), connect(address));
    (&header).write_all(&call[..40]).unwrap();
    (&body).write_all(&call[..call.len() - 1]).unwrap();
    thread::scope(|scope| {
        // A byte now and then does not help.
        scope.spawn(|| {
            for byte in &call[40..] {
                if (&header).write_all(&[*byte]).is_err() {
                    return;
                }
                thread::sleep(Duration::from_millis(500));
            }
            panic!("the server read all of it");
        });
        scene.is_unharmed();
        assert_eq!(until_closed(&silent), "");
        assert_eq!(until_closed(&header), "");
        let told = until_closed(&body);
        assert!(told.starts_with("HTTP/1.1 408 ") && told.contains("the body took too long"), "{told}");
    });
    scene.ends_well();
}

#[test]
fn two_thousand_silent_connections_keep_nobody_out() {
    let scene = Scene::new("");
    let address = scene.server.address();
    let mut silent = Vec::new();
    for _ in 0..2000 {
        silent.push(connect(address));
    }
    // The last places are taken by whoever comes while the silent ones are let go.
    scene.is_unharmed();
    drop(silent);
    scene.ends_well();
}

#[test]
fn a_client_that_never_reads_is_left_and_holds_no_memory() {
    let scene = Scene::new("");
    let address = scene.server.address();
    let list = request(
        "POST",
        "/mcp",
        &headers("tools/list", ""),
        body("tools/list", json!({})).to_string().as_bytes(),
    );
    let deaf = connect(address);
    deaf.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let before = scene.server.memory();
    let batch = list.repeat(50);
    // Until the server reads no more either.
    while (&deaf).write_all(&batch).is_ok() {}
    let grown = scene.server.memory().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
    scene.is_unharmed();
    // It is closed although nothing of it was read: the answers that come now are all that was ever written.
    let connections = || sockets_of(scene.server.pid());
    let with_it = connections();
    eventually("the end of a connection that nobody reads", || (connections() < with_it).then_some(()));
    drop(deaf);
    scene.ends_well();
}

/// How many sockets a process has open.
fn sockets_of(pid: i32) -> usize {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().filter_map(Result::ok);
    let links = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

#[test]
fn a_modern_client_that_hangs_up_cancels_its_call_and_no_other() {
    let scene = Scene::new(
        "[tools.quick]\ndescription = \"Held\"\ncommand = [\"sh\", \"-c\", \"sleep 600\"]\ntask = \"never\"\ngrace = \"100ms\"",
    );
    let address = scene.server.address();
    let sleeping = || scene.place.processes().iter().filter(|(_, line)| line.contains("sleep 600")).count();
    for shutdown in [Shutdown::Write, Shutdown::Both] {
        let stream = connect(address);
        (&stream).write_all(&call_bytes("quick", json!({}))).unwrap();
        eventually("the command", || (sleeping() > 0).then_some(()));
        stream.shutdown(shutdown).unwrap();
        eventually("the end of the command", || (sleeping() == 0).then_some(()));
    }
    scene.ends_well();
}

#[test]
fn a_legacy_client_that_hangs_up_loses_nothing() {
    let scene = Scene::new("");
    let address = scene.server.address();
    let session = Session::open(address);
    let mut all = PLAIN.to_vec();
    all.push(("Mcp-Session-Id", session.id.as_str()));
    let params = json!({"name": "gate", "arguments": {"key": "left"}, "task": {}});
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string();
    let answer = send(address, &request("POST", "/mcp", &all, body.as_bytes())).message();
    let id = answer["result"]["task"]["taskId"].as_str().unwrap();
    let body =
        json!({"jsonrpc": "2.0", "id": 8, "method": "tasks/result", "params": {"taskId": id}}).to_string();
    let stream = connect(address);
    (&stream).write_all(&request("POST", "/mcp", &all, body.as_bytes())).unwrap();
    stream.shutdown(Shutdown::Both).unwrap();
    std::fs::write(scene.place.path("left"), "").unwrap();
    let result = session.ask("tasks/result", json!({"taskId": id}));
    assert_eq!(modern::text(&result["result"]), "open");
    assert_eq!(scene.place.begun("left"), 1);
    scene.ends_well();
}

#[test]
fn garbage_is_refused() {
    let scene = Scene::new("");
    let address = scene.server.address();
    let tls = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let garbage: &[&[u8]] = &[
        b"\0\0\0\0\r\n\r\n",
        b"hello\r\n\r\n",
        b"POST\r\n\r\n",
        b"POST /mcp HTTP/9.9\r\n\r\n",
        tls,
        preface,
        b"\xff\xfe\xfd\r\n\r\n",
    ];
    for bytes in garbage {
        let stream = connect(address);
        (&stream).write_all(bytes).unwrap();
        // Nobody can be told what to do in words of a protocol it does not speak.
        let told = until_closed(&stream);
        assert!(told.is_empty() || told.starts_with("HTTP/1.1 400 "), "{bytes:?}: {told}");
    }
    let good = call_bytes("echo", json!({"text": "x"}));
    let stream = connect(address);
    (&stream).write_all(&[&good[..], b"garbage\0\r\n\r\n", &good].concat()).unwrap();
    let mut reader = BufReader::new(&stream);
    assert_eq!(modern::text(&read(&mut reader).unwrap().message()["result"]), "x");
    assert_eq!(read(&mut reader).unwrap().status, 400);
    assert!(read(&mut reader).is_err(), "after garbage nothing is understood");
    scene.ends_well();
}

#[test]
fn huge_and_many_headers_are_refused() {
    let scene = Scene::new("");
    let address = scene.server.address();
    let huge = "a".repeat(1 << 20);
    let mut all = headers("tools/list", "");
    all.push(("X-Huge", &huge));
    assert_eq!(send(address, &request("POST", "/mcp", &all, b"{}")).status, 431);
    let mut all = headers("tools/list", "");
    all.extend([("X-Many", "a"); 500]);
    assert_eq!(send(address, &request("POST", "/mcp", &all, b"{}")).status, 431);
    let path = format!("/{}", "a".repeat(100_000));
    assert!(matches!(send(address, &request("POST", &path, &[], b"{}")).status, 404 | 414));
    scene.ends_well();
}

#[test]
fn a_body_that_lies_about_its_length_is_refused() {
    let scene = Scene::new("");
    let address = scene.server.address();
    let body = body("tools/list", json!({})).to_string();
    let both = [("Content-Length", "5"), ("Transfer-Encoding", "chunked")];
    let two = [("Content-Length", "5"), ("Content-Length", "6")];
    for lie in [both, two] {
        let mut all = headers("tools/list", "");
        all.extend(lie);
        let answer = send(address, &request("POST", "/mcp", &all, body.as_bytes()));
        assert_eq!(answer.status, 400, "{lie:?}: {}", answer.text());
    }
    let stream = connect(address);
    let mut all = headers("tools/list", "");
    all.push(("Content-Length", "9999"));
    (&stream).write_all(&request("POST", "/mcp", &all, body.as_bytes())).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    let told = until_closed(&stream);
    assert!(told.is_empty() || told.starts_with("HTTP/1.1 400 "), "{told}");
    scene.ends_well();
}
