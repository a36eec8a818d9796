//! A server over standard input and output, and its one client.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use super::modern::body;
use super::place::Place;
use super::server::Said;
use super::session::hello;
use super::{HANG, eventually};

/// A `longhaul serve --stdio` process. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Pipe {
    child: Child,
    input: Option<ChildStdin>,
    lines: Mutex<Receiver<String>>,
    said: Arc<Said>,
}

impl Pipe {
    /// Starts a server and waits until it serves.
    pub(crate) fn start(place: &Place) -> Self {
        Self::start_with(place, &["--store", "sqlite:tasks.db"])
    }

    /// The same, with these arguments.
    pub(crate) fn start_with(place: &Place, arguments: &[&str]) -> Self {
        let mut command = place.program();
        command.args(["serve", "longhaul.toml", "--stdio"]).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = Said::listen(child.stderr.take().unwrap());
        let stdout = child.stdout.take().unwrap();
        let (sender, lines) = mpsc::sync_channel(1);
        thread::spawn(move || {
            for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8(line).unwrap()).is_err() {
                    return;
                }
            }
        });
        let pipe = Self { input: child.stdin.take(), child, lines: Mutex::new(lines), said };
        assert!(pipe.said.ready(), "it ended before it served; it said:\n{}", pipe.said());
        pipe
    }

    /// Everything the server has said on standard error.
    pub(crate) fn said(&self) -> String {
        self.said.text()
    }

    /// Its number.
    pub(crate) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Where it reads.
    pub(crate) fn input(&self) -> &ChildStdin {
        self.input.as_ref().unwrap()
    }

    /// Writes these bytes.
    pub(crate) fn write(&self, bytes: &[u8]) {
        self.input().write_all(bytes).unwrap();
    }

    /// The next line.
    #[track_caller]
    pub(crate) fn next_line(&self) -> String {
        self.lines.lock().unwrap().recv_timeout(HANG).unwrap()
    }

    /// The next message.
    #[track_caller]
    pub(crate) fn next(&self) -> Value {
        let line = self.next_line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Writes one line and reads the next message.
    #[track_caller]
    pub(crate) fn say(&self, line: &[u8]) -> Value {
        self.write(line);
        self.write(b"\n");
        self.next()
    }

    /// Sends a request of the modern era and reads its answer.
    #[track_caller]
    pub(crate) fn ask(&self, method: &str, params: Value) -> Value {
        self.say(body(method, params).to_string().as_bytes())
    }

    /// Calls a tool.
    #[track_caller]
    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Opens a session of the legacy era.
    pub(crate) fn initialize(&self) {
        let request = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello()});
        let answer = self.say(request.to_string().as_bytes());
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
        self.write(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
    }

    /// Sends a request of the legacy era and reads its answer.
    #[track_caller]
    pub(crate) fn ask_legacy(&self, method: &str, params: Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.say(request.to_string().as_bytes())
    }

    /// Where it reads, to be written to from elsewhere.
    pub(crate) fn take_input(&mut self) -> ChildStdin {
        self.input.take().unwrap()
    }

    /// Closes the server's input.
    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    /// Waits until it has ended by itself.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        eventually("the end of the server", || self.child.try_wait().unwrap())
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the server said:\n{}", self.said());
        }
        // One that has ended already needs neither.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
