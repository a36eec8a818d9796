//! A question that a task keeps: written once, read by whoever puts it and by whoever takes its answer.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::value::RawValue;

use super::ask::{ELICIT, LIST_ROOTS, SAMPLE};
use super::result::write_related_task;
use super::{Dialect, write_drafted_relation};
use crate::jsonrpc::{ObjectWriter, RequestId, write_request};
use crate::model::{
    CreateMessageResult, ElicitAction, ElicitResult, Form, InputKind, InputRequest, ListRootsResult,
};

/// A question as [`Dialect::write_question_to_store`] has written it.
#[derive(Debug)]
pub struct StoredQuestion<'q> {
    method: &'static str,
    params: HashMap<&'q str, &'q RawValue>,
}

impl<'q> StoredQuestion<'q> {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// When that is no question.
    pub fn read(stored: &'q RawValue) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Stored<'a> {
            method: &'a str,
            #[serde(borrow, default)]
            params: HashMap<&'a str, &'a RawValue>,
        }
        let Stored { method, params } = serde_json::from_str(stored.get())?;
        let known = [ELICIT, SAMPLE, LIST_ROOTS].into_iter().find(|known| *known == method);
        let method = known.ok_or_else(|| serde_json::Error::custom("a question by an unknown method"))?;
        Ok(Self { method, params })
    }

    /// By which method it asks.
    pub fn method(&self) -> &'static str {
        self.method
    }

    /// Which kind of question it is.
    pub fn kind(&self) -> InputKind {
        let says = |name| self.params.contains_key(name);
        match self.method {
            ELICIT if says("requestedSchema") => InputKind::Form,
            ELICIT => InputKind::Url,
            SAMPLE if says("tools") || says("toolChoice") => InputKind::SamplingWithTools,
            SAMPLE => InputKind::Sampling,
            _ => InputKind::Roots,
        }
    }

    /// Appends it as a request of the server's (legacy era).
    pub fn write(&self, out: &mut Vec<u8>, id: &RequestId) {
        write_request(out, id, self.method, |object| {
            for (name, value) in &self.params {
                object.raw(name, value.get());
            }
        });
    }

    /// Whether `answer` answers it, by what was asked: a form is to be filled in as it says.
    ///
    /// # Errors
    ///
    /// What is wrong with it, in words.
    pub fn check(&self, answer: &RawValue) -> Result<(), String> {
        match self.method {
            ELICIT => self.check_filled_in(&reads(answer)?),
            SAMPLE => reads::<CreateMessageResult>(answer).map(drop),
            _ => reads::<ListRootsResult>(answer).map(drop),
        }
    }

    fn check_filled_in(&self, result: &ElicitResult) -> Result<(), String> {
        // Whoever was sent to a page fills in nothing.
        let Some(form) = self.params.get("requestedSchema") else { return Ok(()) };
        if result.action != ElicitAction::Accept {
            return Ok(());
        }
        let form: Form = reads(form)?;
        let content = result.content.as_deref().map_or("{}", RawValue::get);
        form.check(content).map_err(|wrong| wrong.to_string())
    }
}

fn reads<T: DeserializeOwned>(json: &RawValue) -> Result<T, String> {
    serde_json::from_str(json.get()).map_err(|error| error.to_string())
}

impl Dialect {
    /// Appends a question as the task `id` keeps it: as [`StoredQuestion`] reads it again, and as it stands in
    /// `inputRequests` (modern era).
    pub fn write_question_to_store(&self, out: &mut Vec<u8>, question: &InputRequest, id: &str) {
        self.write_related_question(out, question, |params| {
            if self.asks_by_request() {
                write_related_task(params, id);
            }
        });
    }

    /// The same of a drafted task, which its caller calls `id`.
    pub fn write_drafted_question_to_store(&self, out: &mut Vec<u8>, question: &InputRequest, id: &str) {
        self.write_related_question(out, question, |params| write_drafted_relation(params, id));
    }

    fn write_related_question(
        &self,
        out: &mut Vec<u8>,
        question: &InputRequest,
        relate: impl FnOnce(&mut ObjectWriter<'_>),
    ) {
        let mut object = ObjectWriter::new(out);
        object.field("method", question.method());
        let mut params = object.object("params");
        self.write_question_params(question, &mut params);
        relate(&mut params);
        params.end();
        object.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Revision;
    use crate::model::{CreateMessageParams, ElicitForm, ElicitParams, ElicitUrl, SamplingMessage, Tool};

    fn stored(revision: Revision, question: &InputRequest) -> Box<RawValue> {
        let mut text = Vec::new();
        Dialect::of(revision).write_question_to_store(&mut text, question, "t");
        RawValue::from_string(String::from_utf8(text).unwrap()).unwrap()
    }

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn it_is_of_the_kind_that_it_was_asked_as() {
        let form = ElicitParams::Form(ElicitForm::new("Well?", Form::new()));
        let page = ElicitParams::Url(ElicitUrl::new("Sign in", "https://example.com", "1"));
        let plain = CreateMessageParams::new(vec![SamplingMessage::user("Why?")], 10);
        let mut tools = plain.clone();
        tools.tools.push(Tool::new("t", raw("{}")));
        for question in [
            InputRequest::Elicit(form),
            InputRequest::Elicit(page),
            InputRequest::Sample(Box::new(plain)),
            InputRequest::Sample(Box::new(tools)),
            InputRequest::ListRoots,
        ] {
            let stored = stored(Revision::V2026_07_28, &question);
            assert_eq!(StoredQuestion::read(&stored).unwrap().kind(), question.kind());
        }
    }

    #[test]
    fn it_is_put_as_it_was_asked_and_names_its_task_in_a_session() {
        let stored = stored(Revision::V2025_11_25, &InputRequest::ListRoots);
        let question = StoredQuestion::read(&stored).unwrap();
        let mut out = Vec::new();
        question.write(&mut out, &RequestId::from(7));
        let said: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let meta = serde_json::json!({"io.modelcontextprotocol/related-task": {"taskId": "t"}});
        let expected = serde_json::json!(
            {"jsonrpc": "2.0", "id": 7, "method": "roots/list", "params": {"_meta": meta}}
        );
        assert_eq!((said, question.method()), (expected, "roots/list"));
    }

    #[test]
    fn an_answer_is_held_against_what_was_asked() {
        let form = serde_json::from_str(
            r#"{"type":"object","properties":{"go":{"type":"boolean"}},"required":["go"]}"#,
        );
        let form = ElicitForm::new("Go on?", form.unwrap());
        let asks = stored(Revision::V2026_07_28, &InputRequest::Elicit(ElicitParams::Form(form)));
        assert!(!asks.get().contains("_meta"), "{asks}");
        let question = StoredQuestion::read(&asks).unwrap();
        for (answer, fits) in [
            (r#"{"action":"accept","content":{"go":true}}"#, true),
            (r#"{"action":"accept","content":{"go":"maybe"}}"#, false),
            (r#"{"action":"accept"}"#, false),
            (r#"{"action":"decline"}"#, true),
            (r#"{"roots":[]}"#, false),
        ] {
            assert_eq!(question.check(&raw(answer)).is_ok(), fits, "{answer}");
        }
        let roots = stored(Revision::V2026_07_28, &InputRequest::ListRoots);
        let question = StoredQuestion::read(&roots).unwrap();
        assert!(question.check(&raw(r#"{"roots":[]}"#)).is_ok());
        assert!(question.check(&raw(r#"{"action":"decline"}"#)).is_err());
    }

    #[test]
    fn what_is_no_question_is_not_read() {
        for odd in ["null", r#"{"method":"tools/call","params":{}}"#, r#"{"params":{}}"#] {
            assert!(StoredQuestion::read(&raw(odd)).is_err(), "{odd}");
        }
    }
}
