//! A client of the legacy era, over HTTP: a session.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::http::{Answer, request, send};

/// An open session.
#[derive(Debug)]
pub(crate) struct Session {
    address: SocketAddr,
    pub(crate) id: String,
}

/// The parameters that open a session.
pub(crate) fn hello() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "attacker", "version": "1"},
    })
}

impl Session {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello()}).to_string();
        let answer = send(address, &request("POST", "/mcp", &PLAIN, body.as_bytes()));
        let id = answer.header("mcp-session-id").unwrap_or_else(|| panic!("{}", answer.text())).to_owned();
        let session = Self { address, id };
        let body = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
        assert_eq!(session.post(body.as_bytes()).status, 202);
        session
    }

    /// Sends any body in the session.
    pub(crate) fn post(&self, body: &[u8]) -> Answer {
        let mut headers = PLAIN.to_vec();
        headers.extend([("MCP-Protocol-Version", "2025-11-25"), ("Mcp-Session-Id", self.id.as_str())]);
        send(self.address, &request("POST", "/mcp", &headers, body))
    }

    /// Sends a request and reads its answer.
    pub(crate) fn ask(&self, method: &str, params: Value) -> Value {
        self.ask_as(json!(1), method, params)
    }

    /// The same under this id.
    pub(crate) fn ask_as(&self, id: Value, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        self.post(body.as_bytes()).message()
    }

    /// Calls a tool.
    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool as a task; the task's id.
    pub(crate) fn begin(&self, tool: &str, arguments: Value) -> String {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments, "task": {}}));
        let id = answer["result"]["task"]["taskId"].as_str();
        id.unwrap_or_else(|| panic!("no task: {answer}")).to_owned()
    }
}

/// The headers of a POST outside any session.
pub(crate) const PLAIN: [(&str, &str); 2] =
    [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
