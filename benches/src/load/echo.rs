//! Calls of `echo`, and their answers: the first is read, each other must be the same but for its number.

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::http::{Exchange, post};
use super::numbered::{FIRST, Numbered};

/// The argument, 27 bytes.
fn message(number: u32) -> String {
    format!("the message of call {number}")
}

/// A call in the modern era.
pub(crate) fn over_http(host: &str, path: &str) -> Exchange {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{FIRST},"method":"tools/call","params":{{"name":"echo","arguments":{{"message":"{}"}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{{"name":"bench","version":"1.0.0"}},"io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#,
        message(FIRST)
    );
    let answers = Rc::new(RefCell::new(Answers::default()));
    let seen = Rc::clone(&answers);
    Exchange {
        request: Numbered::learn(post(host, path, "echo", &body), FIRST),
        check: Rc::new(move |number, body| {
            let found = answers.borrow_mut().check(body)?;
            ensure!(found == number, "call {number} got the answer to call {found}");
            Ok(())
        }),
        pattern: Rc::new(move || seen.borrow().pattern()),
    }
}

/// A call within a session of revision 2025-11-25, as a line.
pub(crate) fn line() -> Numbered {
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":{FIRST},"method":"tools/call","params":{{"name":"echo","arguments":{{"message":"{}"}}}}}}"#,
        message(FIRST)
    );
    Numbered::learn(format!("{line}\n").into_bytes(), FIRST)
}

/// The answers of one server.
#[derive(Debug, Default)]
pub(crate) struct Answers(Option<Numbered>);

impl Answers {
    /// To which call this is the right answer.
    pub(crate) fn check(&mut self, body: &[u8]) -> Result<u32> {
        if let Some(known) = &mut self.0 {
            return known
                .number_in(body)
                .with_context(|| format!("not the answer to any call: {}", String::from_utf8_lossy(body)));
        }
        let number = read(body).with_context(|| format!("in {}", String::from_utf8_lossy(body)))?;
        let learned = Numbered::learn(body.to_vec(), number);
        ensure!(learned.places() == 2, "a number stands elsewhere too: {}", String::from_utf8_lossy(body));
        self.0 = Some(learned);
        Ok(number)
    }

    /// The answer to the first call.
    pub(crate) fn pattern(&self) -> Option<String> {
        self.0.clone().map(Numbered::into_text)
    }
}

#[derive(Deserialize)]
struct Answer {
    jsonrpc: String,
    id: u32,
    result: Called,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Called {
    content: Vec<Block>,
    #[serde(default)]
    is_error: bool,
}

#[derive(Deserialize)]
struct Block {
    r#type: String,
    text: String,
}

/// Reads an answer as any client would.
fn read(body: &[u8]) -> Result<u32> {
    let Answer { jsonrpc, id, result } = serde_json::from_slice(body)?;
    ensure!(jsonrpc == "2.0" && !result.is_error, "not a success of JSON-RPC 2.0");
    match result.content.as_slice() {
        [Block { r#type, text }] if r#type == "text" && *text == message(id) => Ok(id),
        _ => bail!("not the message that call {id} was made with"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_an_argument_of_27_bytes() {
        assert_eq!(message(FIRST).len(), 27);
        assert_eq!(line().places(), 2);
        assert_eq!(over_http("h", "/mcp").request.places(), 2);
    }

    #[test]
    fn wrong_answers_are_refused_first_and_later() {
        let right = |id: u32, of: u32| {
            let text = message(of);
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#
            )
        };
        let mut answers = Answers::default();
        assert!(answers.check(right(FIRST, FIRST + 1).as_bytes()).is_err());
        assert!(answers.check(br#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":""}}"#).is_err());
        assert_eq!(answers.check(right(FIRST + 5, FIRST + 5).as_bytes()).unwrap(), FIRST + 5);
        assert_eq!(answers.check(right(FIRST + 9, FIRST + 9).as_bytes()).unwrap(), FIRST + 9);
        assert!(answers.check(right(FIRST + 9, FIRST + 8).as_bytes()).is_err());
    }
}
