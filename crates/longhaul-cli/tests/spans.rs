//! What OpenTelemetry is told: one trace of a task, whichever process works on it.
#![expect(clippy::unwrap_used, reason = "what fails to unwrap fails the test")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

const LONGHAUL: &str = env!("CARGO_BIN_EXE_longhaul");

const TOOLS: &str = r#"
[tools.work]
description = "Work until a file is there, or another is not"
command = ["sh", "-c", "while [ -e longhaul.toml ] && [ ! -e go ]; do sleep 0.02; done; printf ended"]
task = "always"
"#;

/// A span, as it came over the wire.
#[derive(Clone, Debug)]
struct Span {
    name: String,
    trace: Vec<u8>,
    id: Vec<u8>,
    parent: Vec<u8>,
    /// The traces that it links to.
    links: Vec<Vec<u8>>,
    attributes: BTreeMap<String, String>,
}

/// Takes spans as a collector does: by OTLP over HTTP, in Protobuf.
fn collector() -> (String, Receiver<Span>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, tell) = (stream.unwrap(), tell.clone());
            thread::spawn(move || take(stream, &tell));
        }
    });
    (url, told)
}

/// Takes what comes over one connection, until that ends.
fn take(mut stream: TcpStream, tell: &Sender<Span>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let begun = head.len();
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
            if let Some(said) = head[begun..].to_ascii_lowercase().strip_prefix("content-length:") {
                length = said.trim().parse().unwrap();
            }
        }
        assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        for resource in inside(&body, 1) {
            for scope in inside(resource, 2) {
                for span in inside(scope, 2) {
                    // Whoever has seen enough listens no more.
                    let _ = tell.send(read(span));
                }
            }
        }
        stream
            .write_all(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n",
            )
            .unwrap();
    }
}

/// The span of `opentelemetry.proto.trace.v1`.
fn read(span: &[u8]) -> Span {
    let bytes = |field| inside(span, field).first().map(|bytes| bytes.to_vec()).unwrap_or_default();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let attribute = |of: &&[u8]| {
        let value = inside(of, 2).first().and_then(|value| inside(value, 1).first().map(|value| text(value)));
        (text(inside(of, 1)[0]), value.unwrap_or_default())
    };
    Span {
        name: text(&bytes(5)),
        trace: bytes(1),
        id: bytes(2),
        parent: bytes(4),
        links: inside(span, 13).iter().map(|link| inside(link, 1)[0].to_vec()).collect(),
        attributes: inside(span, 9).iter().map(attribute).collect(),
    }
}

/// What a message of Protobuf has under the number of a field of bytes, text or messages.
fn inside(mut message: &[u8], field: u64) -> Vec<&[u8]> {
    fn number(message: &mut &[u8]) -> u64 {
        let mut found = 0;
        for place in 0.. {
            let (byte, rest) = message.split_first().unwrap();
            *message = rest;
            found |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                break;
            }
        }
        found
    }
    let mut found = Vec::new();
    while !message.is_empty() {
        let key = number(&mut message);
        let length = match key & 7 {
            0 => {
                number(&mut message);
                0
            }
            1 => 8,
            2 => number(&mut message) as usize,
            5 => 4,
            kind => panic!("no kind of field: {kind}"),
        };
        let (value, rest) = message.split_at(length);
        message = rest;
        if key == field << 3 | 2 {
            found.push(value);
        }
    }
    found
}

/// What is killed with its handle.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server that is ready. It is killed with its handle.
struct Server {
    _process: Killed,
    url: String,
}

impl Server {
    fn start(folder: &Path, collector: &str) -> Self {
        let mut command = Command::new(LONGHAUL);
        command.args(["serve", "--http", "127.0.0.1:0"]).current_dir(folder);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector).env("OTEL_BSP_SCHEDULE_DELAY", "50");
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = String::new();
        while !said.lines().any(|line| line.starts_with("ready")) {
            let line = lines.next().unwrap_or_else(|| panic!("it ended; it said:\n{said}")).unwrap();
            said += &format!("{line}\n");
        }
        thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let url = said[said.find("http://").unwrap()..].split_whitespace().next().unwrap().to_owned();
        Self { _process: Killed(child), url }
    }
}

fn run(folder: &Path, words: &[&str]) -> Option<i32> {
    Command::new(LONGHAUL)
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap()
        .status
        .code()
}

/// The next span of this name.
fn next(told: &Receiver<Span>, name: &str) -> Span {
    let mut heard = Vec::new();
    loop {
        match told.recv_timeout(Duration::from_secs(120)) {
            Ok(span) if span.name == name => return span,
            Ok(span) => heard.push(span.name),
            Err(error) => panic!("no span {name:?} ({error}), but {heard:?}"),
        }
    }
}

#[test]
fn work_after_a_restart_is_of_the_trace_that_made_its_task_and_who_asks_links_to_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("longhaul.toml"), TOOLS).unwrap();
    let (first, told) = collector();
    let one = Server::start(folder.path(), &first);
    let mut call = Command::new(LONGHAUL);
    call.args(["call", &one.url, "work"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let call = Killed(call.spawn().unwrap());
    let made = next(&told, "create work");
    let asked = next(&told, "tools/call work");
    assert_eq!((&made.trace, &made.parent), (&asked.trace, &asked.id), "{made:?} {asked:?}");
    let id = made.attributes["mcp.task.id"].clone();
    // As kill -9 has it: nothing more is sent.
    drop((call, one));

    let (second, told) = collector();
    let two = Server::start(folder.path(), &second);
    assert_eq!(run(folder.path(), &["tasks", "get", &id, "--url", &two.url]), Some(0));
    let poll = next(&told, "tasks/get");
    assert!(poll.links.contains(&made.trace) && poll.trace != made.trace, "{poll:?}");
    std::fs::write(folder.path().join("go"), "").unwrap();
    let work = next(&told, "work work");
    assert_eq!((&work.trace, &work.parent), (&asked.trace, &asked.id), "{work:?}");
    let said = |name| work.attributes.get(name).map(String::as_str);
    assert_eq!((said("mcp.task.id"), said("mcp.task.outcome")), (Some(&*id), Some("ended")));
}
