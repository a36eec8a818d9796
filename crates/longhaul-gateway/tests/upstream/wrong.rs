//! A server that does things wrong, as its caller, its environment or a file says. It speaks 2025-11-25 over its standard streams.

#![expect(clippy::print_stdout, reason = "its messages go there")]

use std::collections::HashMap;

use longhaul_gateway::config::UpstreamServer;
use serde_json::{Value, json};

use super::rig::as_that_program;

/// It, whose list is as `lists` says, or as the file of that path says when it starts.
pub(crate) fn that_is_wrong(lists: &str, more: &str) -> UpstreamServer {
    let more = format!("env.LISTS = {lists:?}\n{more}");
    as_that_program("wrong::serves_wrongly", "wrong", &more)
}

/// No test, but a server for one.
#[test]
#[ignore = "it is a program that others start"]
fn serves_wrongly() {
    let Ok(mut lists) = std::env::var("LISTS") else { return };
    if lists.starts_with('/') {
        lists = std::fs::read_to_string(lists).unwrap();
    }
    let mut wrong = Wrong {
        lists,
        listed: 0,
        prompts_listed: 0,
        asked: HashMap::new(),
        answered: Value::Null,
        cancelled: Vec::new(),
    };
    for line in std::io::stdin().lines() {
        wrong.take(&serde_json::from_str(&line.unwrap()).unwrap());
    }
    // Nothing more is to be said where messages were.
    std::process::exit(0);
}

struct Wrong {
    lists: String,
    /// How often it was asked for its tools.
    listed: u32,
    /// How often for its prompts.
    prompts_listed: u32,
    /// The calls that wait for answers to questions.
    asked: HashMap<u64, Value>,
    /// What the latest question was answered with.
    answered: Value,
    /// The calls that were cancelled before they were answered, in the order in which that was heard.
    cancelled: Vec<u64>,
}

fn say(message: &Value) {
    println!("{message}");
}

fn text(id: &Value, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}})
}

impl Wrong {
    fn take(&mut self, message: &Value) {
        let id = &message["id"];
        let result = |result: Value| say(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
        match message["method"].as_str() {
            None => {
                let answer = if message["result"].is_null() { &message["error"] } else { &message["result"] };
                self.answered = answer.clone();
                if let Some(call) = id.as_u64().and_then(|id| self.asked.remove(&id)) {
                    say(&text(&call, &answer.to_string()));
                }
            }
            Some("initialize") => result(json!({
                "protocolVersion": "2025-11-25",
                "serverInfo": {"name": "wrong", "version": "1"},
                "capabilities": match &*self.lists {
                    "no prompts" | "prompts at last" => json!({"tools": {"listChanged": true}, "prompts": {}}),
                    _ => json!({"tools": {}}),
                },
            })),
            Some("ping") => result(json!({})),
            Some("tools/list") => self.list(id),
            Some("prompts/list") => {
                self.prompts_listed += 1;
                if self.lists == "prompts at last" && self.prompts_listed > 1 {
                    result(json!({"prompts": [{"name": "greet"}]}));
                } else {
                    say(
                        &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "not now"}}),
                    );
                }
            }
            Some("tools/call") => self.call(id, &message["params"]),
            Some("notifications/cancelled") => {
                let call = message["params"]["requestId"].as_u64().unwrap();
                if self.asked.values().any(|asked| asked.as_u64() == Some(call)) {
                    self.cancelled.push(call);
                }
            }
            Some(_) if id.is_null() => {}
            Some(_) => {
                say(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "unknown"}}));
            }
        }
    }

    fn list(&mut self, id: &Value) {
        self.listed += 1;
        let names = ["who", "long", "said", "silent", "asks", "answered", "cancelled", "ends"];
        let mut tools = names.map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).to_vec();
        match &*self.lists {
            "never" => return,
            "no second list" if self.listed.is_multiple_of(2) => return,
            "no list" => {
                say(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "no list"}}));
                return;
            }
            "bad tools" => {
                let bad = [json!({"name": "bad"}), json!({"name": 7, "inputSchema": {}}), json!("bad")];
                tools.splice(1..1, bad);
                let again =
                    json!({"name": "who", "description": "Another", "inputSchema": {"type": "object"}});
                tools.extend([again.clone(), again]);
            }
            "many bad tools" => {
                tools[0]["description"] = "It turned".into();
                tools.splice(0..0, (0..30).map(|number| json!({ "name": format!("bad {number}") })));
            }
            "all but who" => tools.retain(|tool| tool["name"] != "who"),
            "others each time" => {
                let name = format!("number {}", self.listed);
                tools.push(json!({"name": name, "inputSchema": {"type": "object"}}));
            }
            _ => {}
        }
        say(&json!({"jsonrpc": "2.0", "id": id, "result": {"tools": tools}}));
    }

    fn call(&mut self, id: &Value, params: &Value) {
        let argument = params["arguments"]["as"].as_str().unwrap_or_default();
        match params["name"].as_str().unwrap() {
            "who" => say(&text(id, "wrong")),
            "long" => {
                let long = text(&json!("ID"), &"x".repeat(5 << 20))["result"].to_string();
                println!("{}", argument.replace("ID", &id.to_string()).replace("LONG", &long));
            }
            "said" => println!("{}", argument.replace("ID", &id.to_string())),
            "asks" => {
                let question = u64::try_from(self.asked.len()).unwrap() + 1000 + id.as_u64().unwrap();
                let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
                let params = json!({"message": "Who are you?", "requestedSchema": schema});
                say(
                    &json!({"jsonrpc": "2.0", "id": question, "method": "elicitation/create", "params": params}),
                );
                self.asked.insert(question, id.clone());
            }
            "answered" => say(&text(id, &self.answered.to_string())),
            "cancelled" => say(&text(id, &self.cancelled.len().to_string())),
            "ends" => std::process::exit(0),
            _ => {}
        }
    }
}
