//! What a server may ask of its client while it works on a request.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;

use super::elicitation::ElicitParams;
use super::sampling::CreateMessageParams;
use crate::jsonrpc::{ErrorObject, Params, Text};

/// A question of a server to its client: a request on the stream in a legacy session, an entry of
/// `inputRequests` in the modern era.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "the specification's three")]
pub enum InputRequest {
    /// To the user.
    Elicit(ElicitParams),
    /// To the model.
    Sample(Box<CreateMessageParams>),
    /// Where the server may work.
    ListRoots,
}

/// The kinds of questions, as a client declares that it can be asked them.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "what the specification lets a client declare")]
pub enum InputKind {
    /// To the user, by a form.
    Form,
    /// To the user, by sending them to a page.
    Url,
    /// To the model.
    Sampling,
    /// To the model, which may ask for tools.
    SamplingWithTools,
    /// Where the server may work.
    Roots,
}

impl InputKind {
    /// Every kind. What is stored of kinds is stored in this order: a new one comes last.
    pub const ALL: [Self; 5] = [Self::Form, Self::Url, Self::Sampling, Self::SamplingWithTools, Self::Roots];
}

impl InputRequest {
    /// Which kind of question it is.
    pub fn kind(&self) -> InputKind {
        match self {
            Self::Elicit(ElicitParams::Form(_)) => InputKind::Form,
            Self::Elicit(ElicitParams::Url(_)) => InputKind::Url,
            Self::Sample(params) if params.needs_tools() => InputKind::SamplingWithTools,
            Self::Sample(_) => InputKind::Sampling,
            Self::ListRoots => InputKind::Roots,
        }
    }
}

/// What a request brings that was made before and asked something back (2026-07-28, Multi Round-Trip Requests).
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Retry<'a> {
    /// What the server gave with its questions. It has come through the client, so nothing in it is to be trusted.
    pub state: Option<Cow<'a, str>>,
    /// The answers by their questions' keys, not yet read.
    pub answers: HashMap<Cow<'a, str>, &'a RawValue>,
}

impl<'a> Retry<'a> {
    /// Reads what a request brings; `None` when it is made for the first time.
    ///
    /// # Errors
    ///
    /// `-32602` when `requestState` is no string, or `inputResponses` no object.
    pub fn read(params: &Params<'a>) -> Result<Option<Self>, ErrorObject> {
        let state = params.read::<Text<'a>>("requestState")?.map(|Text(state)| state);
        let answers = params.read::<HashMap<Text<'a>, &'a RawValue>>("inputResponses")?;
        if state.is_none() && answers.is_none() {
            return Ok(None);
        }
        let answers = answers.into_iter().flatten().map(|(Text(key), answer)| (key, answer)).collect();
        Ok(Some(Self { state, answers }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::{Limits, Message};

    fn read<T>(params: &str, check: impl FnOnce(Result<Option<Retry<'_>>, ErrorObject>) -> T) -> T {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        match Message::decode(text.as_bytes(), &Limits::default()) {
            Ok(Message::Request(request)) => check(Retry::read(&request.params)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn answers_and_state_may_come_alone() {
        assert!(read("{}", |read| read.unwrap().is_none()));
        assert!(read(r#"{"inputResponses":null,"requestState":null}"#, |read| read.unwrap().is_none()));
        read(r#"{"inputResponses":{"a":{"action":"decline"},"b":7}}"#, |read| {
            let retry = read.unwrap().unwrap();
            assert_eq!((retry.state, retry.answers.len()), (None, 2));
            assert_eq!(retry.answers["b"].get(), "7");
        });
        read(r#"{"requestState":"x"}"#, |read| assert_eq!(read.unwrap().unwrap().state.unwrap(), "x"));
    }

    #[test]
    fn what_is_neither_is_refused() {
        for wrong in [r#"{"requestState":7}"#, r#"{"inputResponses":[]}"#, r#"{"inputResponses":7}"#] {
            read(wrong, |read| assert_eq!(read.unwrap_err().code.0, -32602, "{wrong}"));
        }
    }
}
