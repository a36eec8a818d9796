//! What is asked over HTTP. Every request of a kind is the same but for its number.

use std::cell::RefCell;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::rc::Rc;

use anyhow::{Context, Result, ensure};

use super::echo::{Answers, Expected, message};
use super::http::{Exchange, post};
use super::numbered::{FIRST, Numbered};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum What {
    /// `tools/call` of `echo`
    Call,
    /// `tools/call` of `tell`, which says how far it is first and so is answered with a stream
    Told,
    /// `tools/call` of `echo` within a session of revision 2025-11-25, if the server has sessions
    Session,
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
            Self::Call | Self::Told | Self::Session => "tools/call",
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
            Self::Resource => (r#""uri":"bench://text""#.to_owned(), Some("bench://text")),
            Self::Prompt => (r#""name":"greet","arguments":{"message":"you"}"#.to_owned(), Some("greet")),
            Self::Tools | Self::Discover => (String::new(), None),
        }
    }

    fn expected(self, bytes: usize) -> Expected {
        match self {
            Self::Call | Self::Told | Self::Session => Expected::Message(bytes),
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
            return Ok(post(host, path, &open_session(host, path)?, &body));
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
            request: Numbered::learn(self.request(host, path, bytes)?, FIRST),
            check: Rc::new(move |number, body| {
                let found = answers.borrow_mut().check(body)?;
                ensure!(found == number, "call {number} got the answer to call {found}");
                Ok(())
            }),
            pattern: Rc::new(move || seen.borrow().pattern()),
        })
    }
}

/// Begins a session; returns the headers of its requests.
fn open_session(host: &str, path: &str) -> Result<String> {
    const REVISION: &str = "MCP-Protocol-Version: 2025-11-25\r\n";
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1.0.0"}}}"#;
    let answer = ask(host, &post(host, path, "Connection: close\r\n", hello))?;
    ensure!(answer.starts_with("HTTP/1.1 200 "), "no session: {answer}");
    let head = answer.split("\r\n\r\n").next().unwrap_or_default();
    let fields = head.lines().filter_map(|line| line.split_once(": "));
    let id = fields.filter(|(name, _)| name.eq_ignore_ascii_case("mcp-session-id")).map(|(_, id)| id).next();
    let headers = match id {
        Some(id) => format!("{REVISION}Mcp-Session-Id: {id}\r\n"),
        None => REVISION.to_owned(),
    };
    let done = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let answer = ask(host, &post(host, path, &format!("Connection: close\r\n{headers}"), done))?;
    ensure!(answer.starts_with("HTTP/1.1 202 "), "the session was not begun: {answer}");
    Ok(headers)
}

/// The answer to a request after which the connection is closed.
fn ask(host: &str, request: &[u8]) -> Result<String> {
    let mut stream = TcpStream::connect(host).context("the server does not listen")?;
    stream.write_all(request)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
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
            assert_eq!(exchange.request.places(), places, "{what:?}");
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
