//! Calls of `echo`, and their answers: the first is read, each other must be the same but for its number.

use std::borrow::Cow;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::numbered::{FIRST, Numbered};

/// How long the argument is where nothing else is said.
pub(crate) const SHORT: usize = 27;

/// The argument, of so many bytes, but never fewer than [`SHORT`].
pub(crate) fn message(number: u32, bytes: usize) -> String {
    let text = format!("the message of call {number}");
    let rest = "x".repeat(bytes.saturating_sub(text.len()));
    text + &rest
}

/// A call within a session of revision 2025-11-25, as a line.
pub(crate) fn line() -> Numbered {
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":{FIRST},"method":"tools/call","params":{{"name":"echo","arguments":{{"message":"{}"}}}}}}"#,
        message(FIRST, SHORT)
    );
    Numbered::learn(format!("{line}\n").into_bytes(), FIRST)
}

/// What an answer must be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expected {
    /// The message of the call, of so many bytes.
    Message(usize),
    /// Something under this name.
    Member(&'static str),
}

/// The answers of one server.
#[derive(Debug)]
pub(crate) struct Answers {
    expected: Expected,
    known: Option<Numbered>,
}

impl Answers {
    /// Of a server that has not answered yet.
    pub(crate) fn new(expected: Expected) -> Self {
        Self { expected, known: None }
    }

    /// To which call this is the right answer.
    pub(crate) fn check(&mut self, body: &[u8]) -> Result<u32> {
        let messages = messages(body);
        if let Some(known) = &mut self.known {
            return known
                .number_in(&messages)
                .with_context(|| format!("not the answer to any call: {}", shown(body)));
        }
        let number = self.expected.read(&messages).with_context(|| format!("in {}", shown(body)))?;
        let learned = Numbered::learn(messages.into_owned(), number);
        let places = match self.expected {
            Expected::Message(_) => 2..=3, // with how far it is, which names it too
            Expected::Member(_) => 1..=1,
        };
        ensure!(places.contains(&learned.places()), "a number stands elsewhere too: {}", shown(body));
        self.known = Some(learned);
        Ok(number)
    }

    /// The answer to the first call.
    pub(crate) fn pattern(&self) -> Option<String> {
        self.known.clone().map(Numbered::into_text)
    }
}

/// The messages in a body, a line each: what events are called, and when to come again, is no part of them.
fn messages(body: &[u8]) -> Cow<'_, [u8]> {
    if body.starts_with(b"{") {
        return Cow::Borrowed(body);
    }
    let data = body.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data:"));
    let said: Vec<&[u8]> = data.map(<[u8]>::trim_ascii).filter(|data| !data.is_empty()).collect();
    Cow::Owned(said.join(&b'\n'))
}

#[derive(Deserialize)]
struct Answer {
    jsonrpc: String,
    id: u32,
    result: Map<String, Value>,
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

impl Expected {
    /// Reads an answer as any client would: the last of some messages.
    fn read(self, messages: &[u8]) -> Result<u32> {
        let last = messages.split(|byte| *byte == b'\n').next_back().unwrap_or_default();
        let Answer { jsonrpc, id, result } = serde_json::from_slice(last)?;
        ensure!(jsonrpc == "2.0", "not JSON-RPC 2.0");
        match self {
            Self::Member(name) => ensure!(result.contains_key(name), "a result without {name}"),
            Self::Message(bytes) => {
                let called: Called = serde_json::from_value(Value::Object(result))?;
                match called.content.as_slice() {
                    [Block { r#type, text }]
                        if !called.is_error && r#type == "text" && *text == message(id, bytes) => {}
                    _ => bail!("not the message that call {id} was made with"),
                }
            }
        }
        Ok(id)
    }
}

/// The beginning of a body.
fn shown(body: &[u8]) -> String {
    String::from_utf8_lossy(&body[..body.len().min(1000)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right(id: u32, of: u32) -> String {
        let text = message(of, SHORT);
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#)
    }

    #[test]
    fn a_message_is_as_long_as_it_is_to_be() {
        assert_eq!(message(FIRST, SHORT).len(), SHORT);
        assert_eq!(message(FIRST, 1_000_000).len(), 1_000_000);
        assert_eq!(line().places(), 2);
    }

    #[test]
    fn wrong_answers_are_refused_first_and_later() {
        let mut answers = Answers::new(Expected::Message(SHORT));
        assert!(answers.check(right(FIRST, FIRST + 1).as_bytes()).is_err());
        assert!(answers.check(br#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":""}}"#).is_err());
        assert_eq!(answers.check(right(FIRST + 5, FIRST + 5).as_bytes()).unwrap(), FIRST + 5);
        assert_eq!(answers.check(right(FIRST + 9, FIRST + 9).as_bytes()).unwrap(), FIRST + 9);
        assert!(answers.check(right(FIRST + 9, FIRST + 8).as_bytes()).is_err());
    }

    #[test]
    fn a_result_must_hold_what_was_asked_for() {
        let mut answers = Answers::new(Expected::Member("tools"));
        assert!(answers.check(br#"{"jsonrpc":"2.0","id":1000000,"result":{"prompts":[]}}"#).is_err());
        let tools = |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[]}}}}"#);
        assert_eq!(answers.check(tools(FIRST).as_bytes()).unwrap(), FIRST);
        assert!(answers.check(br#"{"jsonrpc":"2.0","id":1000001,"result":{"tools":[1]}}"#).is_err());
    }

    #[test]
    fn events_are_known_by_what_they_say() {
        let mut answers = Answers::new(Expected::Message(SHORT));
        for (number, id) in [(FIRST, 1), (FIRST + 1, 2)] {
            let answer = right(number, number);
            let body =
                format!(": hello\n\nid: {id}\ndata: \n\nevent: message\nid: {id}-1\ndata: {answer}\n\n");
            assert_eq!(answers.check(body.as_bytes()).unwrap(), number);
        }
        assert_eq!(answers.pattern(), Some(right(FIRST, FIRST)));
    }
}
