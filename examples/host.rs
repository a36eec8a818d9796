//! A host written by hand, for examples whose servers speak first: it answers what they ask, as requests in a session
//! and in the rounds of the modern era, and keeps what they tell it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Map, Value, json};

/// The revisions that the examples are tried in: the newest of each era.
pub(crate) const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// What the host says to a question: its method and parameters, and the result.
pub(crate) type Answer = fn(&str, &Value) -> Value;

pub(crate) struct Host {
    server: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    revision: &'static str,
    capabilities: Value,
    answer: Answer,
    last_id: u64,
    /// The methods of the notifications so far.
    pub(crate) heard: Vec<String>,
}

impl Host {
    /// Starts a server and opens a session with it, if the revision has any.
    pub(crate) fn start(
        command: &mut Command,
        revision: &'static str,
        capabilities: Value,
        answer: Answer,
    ) -> Self {
        let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (server.stdin.take().unwrap(), BufReader::new(server.stdout.take().unwrap()));
        let mut host =
            Self { server, to, from, revision, capabilities, answer, last_id: 0, heard: Vec::new() };
        if !host.is_modern() {
            let info = json!({"name": "host", "version": "1"});
            let params =
                json!({"protocolVersion": revision, "capabilities": host.capabilities, "clientInfo": info});
            host.ask("initialize", params);
            host.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        }
        host
    }

    pub(crate) fn is_modern(&self) -> bool {
        self.revision == REVISIONS[1]
    }

    /// The text that a tool answers with, and whether it failed.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> (String, bool) {
        let result = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"));
        (text.to_owned(), result["isError"] == true)
    }

    /// The result of a request, once all that the server asks meanwhile is answered.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let mut answer = self.try_ask(method, params);
        let result = answer["result"].take();
        assert!(!result.is_null(), "{answer}");
        result
    }

    /// The whole answer to a request.
    pub(crate) fn try_ask(&mut self, method: &str, params: Value) -> Value {
        let mut round = params.clone();
        loop {
            let answer = self.exchange(method, round);
            if answer["result"]["resultType"] != "input_required" {
                return answer;
            }
            let empty = Map::new();
            let questions = answer["result"]["inputRequests"].as_object().unwrap_or(&empty);
            let answers: Map<String, Value> =
                questions.iter().map(|(key, question)| (key.clone(), self.reply(question))).collect();
            round = params.clone();
            round["inputResponses"] = answers.into();
            round["requestState"] = answer["result"]["requestState"].clone();
        }
    }

    /// Sends a request and does not wait.
    pub(crate) fn request(&mut self, method: &str, mut params: Value) -> u64 {
        if self.is_modern() {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": self.revision,
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            });
        }
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The answer to a request made once, whatever it asks.
    pub(crate) fn exchange(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        loop {
            let message = self.receive();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.take(&message);
        }
    }

    /// Takes a message that nobody waits for: answers a request of the server's, keeps a notification.
    pub(crate) fn take(&mut self, message: &Value) {
        let method = message["method"].as_str().unwrap_or_else(|| panic!("nobody asked: {message}"));
        if message.get("id").is_none() {
            self.heard.push(method.to_owned());
            return;
        }
        let result = self.reply(message);
        self.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
    }

    fn reply(&self, question: &Value) -> Value {
        (self.answer)(question["method"].as_str().unwrap(), &question["params"])
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.to, "{message}").unwrap();
    }

    /// The next message of the server's.
    pub(crate) fn receive(&mut self) -> Value {
        let mut line = String::new();
        assert_ne!(self.from.read_line(&mut line).unwrap(), 0, "the server has ended");
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.server.kill());
        drop(self.server.wait());
    }
}

/// A host that can be asked nothing.
pub(crate) fn nothing(method: &str, params: &Value) -> Value {
    panic!("asked {method} {params}");
}
