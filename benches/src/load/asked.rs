//! What is asked over HTTP. Every request of a kind is the same but for its number.

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::{Result, ensure};

use super::echo::{Answers, Expected, message};
use super::http::{Exchange, post};
use super::numbered::{FIRST, Numbered};
use super::session;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum What {
    /// `tools/call` of `echo`
    Call,
    /// `tools/call` of `tell`, which says how far it is first and so is answered with a stream
    Told,
    /// `tools/call` of `echo` within a session of revision 2025-11-25, if the server has sessions
    Session,
    /// `tools/call` of `step`, which takes a hundred steps
    Steps,
    /// `tools/list`
    Tools,
    /// `resources/read`
    Resource,
    /// `prompts/get`
    Prompt,
    /// `server/discover`
    Discover,
}

impl What {
    /// Its method.
    fn method(self) -> &'static str {
        match self {
            Self::Call | Self::Told | Self::Session | Self::Steps => "tools/call",
            Self::Tools => "tools/list",
            Self::Resource => "resources/read",
            Self::Prompt => "prompts/get",
            Self::Discover => "server/discover",
        }
    }

    /// Its parameters but for `_meta`, and what the header names of them.
    fn params(self, bytes: usize) -> (String, Option<&'static str>) {
        let text = message(FIRST, bytes);
        match self {
            Self::Told => (format!(r#""name":"tell","arguments":{{"message":"{text}"}}"#), Some("tell")),
            Self::Call | Self::Session => {
                (format!(r#""name":"echo","arguments":{{"message":"{text}"}}"#), Some("echo"))
            }
            Self::Steps => (r#""name":"step","arguments":{"steps":100}"#.to_owned(), Some("step")),
            Self::Resource => (r#""uri":"bench://text""#.to_owned(), Some("bench://text")),
            Self::Prompt => (r#""name":"greet","arguments":{"message":"you"}"#.to_owned(), Some("greet")),
            Self::Tools | Self::Discover => (String::new(), None),
        }
    }

    fn expected(self, bytes: usize) -> Expected {
        match self {
            Self::Call | Self::Told | Self::Session => Expected::Message(bytes),
            Self::Steps => Expected::Member("content"),
            Self::Tools => Expected::Member("tools"),
            Self::Resource => Expected::Member("contents"),
            Self::Prompt => Expected::Member("messages"),
            Self::Discover => Expected::Member("supportedVersions"),
        }
    }

    /// The request of the first call, with what its argument has of bytes.
    fn request(self, host: &str, path: &str, bytes: usize) -> Result<Vec<u8>> {
        let (method, (params, name)) = (self.method(), self.params(bytes));
        if self == Self::Session {
            let body =
                format!(r#"{{"jsonrpc":"2.0","id":{FIRST},"method":"{method}","params":{{{params}}}}}"#);
            return Ok(post(host, path, &session::open(host, path)?, &body));
        }
        let token = if self == Self::Told { format!(r#""progressToken":{FIRST},"#) } else { String::new() };
        let comma = if params.is_empty() { "" } else { "," };
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{FIRST},"method":"{method}","params":{{{params}{comma}"_meta":{{{token}"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{{"name":"bench","version":"1.0.0"}},"io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
        );
        let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
        let headers = format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}");
        Ok(post(host, path, &headers, &body))
    }

    /// What is asked, and what must be answered.
    pub(crate) fn exchange(self, host: &str, path: &str, bytes: usize) -> Result<Exchange> {
        let answers = Rc::new(RefCell::new(Answers::new(self.expected(bytes))));
        let seen = Rc::clone(&answers);
        Ok(Exchange {
            requests: vec![Numbered::learn(self.request(host, path, bytes)?, FIRST)],
            check: Rc::new(move |number, body| {
                let found = answers.borrow_mut().check(body)?;
                ensure!(found == number, "call {number} got the answer to call {found}");
                Ok(())
            }),
            pattern: Rc::new(move || seen.borrow().pattern()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::echo::SHORT;

    #[test]
    fn requests_are_numbered_where_their_answers_are() {
        for (what, places) in
            [(What::Call, 2), (What::Told, 3), (What::Tools, 1), (What::Prompt, 1), (What::Discover, 1)]
        {
            let exchange = what.exchange("h", "/mcp", SHORT).unwrap();
            assert_eq!(exchange.requests[0].places(), places, "{what:?}");
        }
    }

    #[test]
    fn requests_are_json() {
        for what in [What::Call, What::Told, What::Tools, What::Resource, What::Prompt, What::Discover] {
            let request = String::from_utf8(what.request("h", "/mcp", 100).unwrap()).unwrap();
            let (_, body) = request.split_once("\r\n\r\n").unwrap();
            let body: serde_json::Value = serde_json::from_str(body).unwrap();
            assert_eq!(body["method"], what.method());
        }
    }
}
