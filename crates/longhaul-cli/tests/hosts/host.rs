//! A host: what it says of itself, how long it waits, and what it does then.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::place::{ANNS_TOKEN, Place, Server};
use super::wire::{HANG, Wire, eventually};

/// What is known of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    /// The revision that it speaks.
    pub(crate) revision: &'static str,
    /// What it says of itself, and what it declares.
    pub(crate) client: (&'static str, &'static str),
    /// What it asks for before anything is called.
    pub(crate) lists: &'static [&'static str],
    /// Whether its calls ask for progress.
    pub(crate) sends_token: bool,
    /// How long a call may take before it is given up, unscaled.
    pub(crate) clock: Option<Duration>,
    /// Whether that counts anew from each progress.
    pub(crate) progress_resets: bool,
    /// What it does then.
    pub(crate) gives_up: GivesUp,
}

/// What a host does about a call that takes too long.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GivesUp {
    /// It says so, with this reason.
    Cancels(&'static str),
    /// It leaves, and says nothing.
    HangsUp,
}

/// A host that is connected to one server.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) habits: Habits,
    wire: Wire,
    /// The clock of a call, scaled.
    clock: Duration,
    asked: u64,
    /// What the tools were called when it listed them.
    tools: Vec<String>,
    /// How far calls were said to be.
    pub(crate) progress: Vec<f64>,
}

impl Host {
    /// A host that starts the server itself.
    pub(crate) fn over_stdio(place: &Place, habits: Habits, clock: Duration) -> Self {
        Self::on(Wire::child(place.program().arg("--stdio")), habits, clock)
    }

    /// A host that is told where the server is.
    pub(crate) fn over_http(server: &Server, habits: Habits, clock: Duration) -> Self {
        Self::on(Wire::http(server.address, habits.revision, None), habits, clock)
    }

    /// The same, with a token of its user's.
    pub(crate) fn of_ann(server: &Server, habits: Habits, clock: Duration) -> Self {
        Self::on(Wire::http(server.address, habits.revision, Some(ANNS_TOKEN)), habits, clock)
    }

    fn on(wire: Wire, habits: Habits, clock: Duration) -> Self {
        Self { habits, wire, clock, asked: 0, tools: Vec::new(), progress: Vec::new() }
    }

    fn is_modern(&self) -> bool {
        self.habits.revision >= "2026"
    }

    /// Opens the connection, and asks for what it asks for: each is answered, be it with a refusal.
    pub(crate) fn begin(&mut self) {
        let (client, able) = self.habits.client;
        let read = |json| -> Value { serde_json::from_str(json).unwrap() };
        if !self.is_modern() {
            let hello = json!({
                "protocolVersion": self.habits.revision, "capabilities": read(able), "clientInfo": read(client),
            });
            let agreed = self.ask("initialize", hello).expect("it starts in time");
            assert_eq!(agreed["result"]["protocolVersion"], self.habits.revision, "{agreed}");
            self.wire.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        }
        for method in self.habits.lists {
            let listed = self.ask(method, json!({})).expect("it is listed in time");
            let refused = &listed["error"]["code"];
            assert!(listed["result"].is_object() || *refused == -32601, "{method}: {listed}");
            if let Some(tools) = listed["result"]["tools"].as_array() {
                self.tools = tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
            }
        }
    }

    /// What the tools were called when it listed them.
    pub(crate) fn tools(&self) -> Vec<String> {
        self.tools.clone()
    }

    /// Opens the stream on which the server speaks unasked.
    pub(crate) fn listen(&self) {
        self.wire.listen();
    }

    /// Calls a tool; `None` if it was given up. The result.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Option<Value> {
        let answer = self.ask("tools/call", json!({ "name": tool, "arguments": arguments }))?;
        assert!(answer["result"].is_object(), "{answer}");
        Some(answer["result"].clone())
    }

    /// Sends a request and waits for its answer for as long as the host does; `None` if it was given up.
    pub(crate) fn ask(&mut self, method: &str, mut params: Value) -> Option<Value> {
        self.asked += 1;
        let id = self.asked;
        if self.is_modern() {
            let (client, able) = self.habits.client;
            let read = |json| -> Value { serde_json::from_str(json).unwrap() };
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = self.habits.revision.into();
            params["_meta"]["io.modelcontextprotocol/clientInfo"] = read(client);
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = read(able);
        }
        if method == "tools/call" && self.habits.sends_token {
            params["_meta"]["progressToken"] = id.into();
        }
        self.wire.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        let mut since = Instant::now();
        // Nobody's clock but a call's is of interest, and only a hang takes longer than this.
        let patience = if self.habits.clock.is_some() && method == "tools/call" { self.clock } else { HANG };
        loop {
            let Some(message) = self.wire.receive(patience.saturating_sub(since.elapsed())) else {
                assert!(patience < HANG, "{method} is not answered");
                self.give_up(id);
                return None;
            };
            if message["method"] == "notifications/progress" && message["params"]["progressToken"] == id {
                self.progress.push(message["params"]["progress"].as_f64().unwrap());
                if self.habits.progress_resets {
                    since = Instant::now();
                }
            } else if message["id"] == id && message.get("method").is_none() {
                return Some(message);
            } else {
                self.answer(&message);
            }
        }
    }

    /// Waits for a message like this.
    pub(crate) fn hears(&self, is_it: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + HANG;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let message = self.wire.receive(left).expect("it is said");
            if is_it(&message) {
                return message;
            }
            self.answer(&message);
        }
    }

    /// Answers what the server asks of every host.
    fn answer(&self, message: &Value) {
        let id = &message["id"];
        let answer = match message["method"].as_str() {
            Some("ping") => json!({ "jsonrpc": "2.0", "id": id, "result": {} }),
            Some("roots/list") => json!({ "jsonrpc": "2.0", "id": id, "result": { "roots": [] } }),
            _ => return,
        };
        self.wire.send(&answer);
    }

    fn give_up(&self, id: u64) {
        match self.habits.gives_up {
            GivesUp::Cancels(reason) => {
                let params = json!({ "requestId": id, "reason": reason });
                self.wire.send(&json!({
                    "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params,
                }));
            }
            GivesUp::HangsUp => self.wire.hang_up(),
        }
    }

    /// From here on its clock is one that no call is to run out of.
    pub(crate) fn takes_its_time(&mut self) {
        self.clock = HANG;
    }

    /// Lets the command end once so much time has passed.
    pub(crate) fn opens_after(&self, pause: Duration, place: &Place) {
        let open = place.opener();
        thread::spawn(move || {
            thread::sleep(pause);
            open();
        });
    }

    /// Waits for a task as a model does that was told to, until it is over.
    pub(crate) fn until_over(&mut self, id: &str) -> Value {
        self.eventually("the end of the task", |host| {
            let waited = host.call("task_wait", json!({ "id": id, "up_to": 3 })).expect("it is told in time");
            handed_over(&waited).is_none().then_some(waited)
        })
    }

    /// Looks until there is something to see.
    pub(crate) fn eventually<T>(&mut self, what: &str, mut look: impl FnMut(&mut Self) -> Option<T>) -> T {
        eventually(what, || look(self))
    }
}

/// The text of a result.
pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}

/// The task that a result hands its reader over to, as a model finds it: in the text.
pub(crate) fn handed_over(result: &Value) -> Option<String> {
    let (_, rest) = text(result).split_once("as task `")?;
    rest.split('`').next().map(str::to_owned)
}
