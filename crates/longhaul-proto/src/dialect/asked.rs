//! Questions as a client is asked them: by a request of the server's, or by what it answers.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;

use super::Dialect;
use super::ask::{ELICIT, LIST_ROOTS, SAMPLE};
use super::welcome::invalid;
use crate::jsonrpc::{Code, ErrorObject, Params, Text};
use crate::method::Notice;
use crate::model::{ElicitForm, ElicitParams, ElicitUrl, Form, InputRequest, Task};

/// What a server asks before it answers (modern era): a call is to be made again, with the answers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Asked {
    /// The questions by their keys, each as [`InputRequest::read`] reads it.
    #[serde(default, rename = "inputRequests")]
    pub questions: BTreeMap<String, Box<RawValue>>,
    /// What is to come back with the answers, unread.
    #[serde(default, rename = "requestState")]
    pub state: Option<String>,
}

impl Dialect {
    /// What a result asks before it is one, if it asks.
    ///
    /// # Errors
    ///
    /// `-32603` when it says that it asks, and what it asks cannot be read.
    pub fn read_asked(&self, result: &str) -> Result<Option<Asked>, ErrorObject> {
        #[derive(Deserialize)]
        struct Kind<'a> {
            #[serde(default, borrow, rename = "resultType")]
            kind: Option<Text<'a>>,
        }
        let asks = self.types_results()
            && serde_json::from_str::<Kind<'_>>(result)
                .is_ok_and(|kind| kind.kind.is_some_and(|Text(kind)| kind == "input_required"));
        if asks { serde_json::from_str(result).map(Some).map_err(invalid) } else { Ok(None) }
    }

    /// The pages that an error sends the user to before the request can be made again (2025-11-25, Client, Elicitation);
    /// `None` if it is another error, or names none that can be read.
    pub fn read_pages(&self, error: &ErrorObject) -> Option<Vec<ElicitUrl>> {
        #[derive(Deserialize)]
        struct Required {
            elicitations: Vec<Elicit>,
        }
        let tells_when_done = self.notification(Notice::ElicitationComplete, |_| ()).is_some();
        if error.code != Code::URL_ELICITATION_REQUIRED || !tells_when_done {
            return None;
        }
        let Required { elicitations } = serde_json::from_str(error.data.as_ref()?.get()).ok()?;
        let pages = elicitations.into_iter().map(|elicitation| match elicitation.into_params() {
            Ok(ElicitParams::Url(page)) => Some(page),
            Ok(ElicitParams::Form(_)) | Err(_) => None,
        });
        pages.collect::<Option<Vec<_>>>().filter(|pages| !pages.is_empty())
    }
}

/// What a request that is to be a task says of it (2025-11-25, Tasks).
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[non_exhaustive]
pub struct TaskWanted {
    /// For how many milliseconds whoever asks wants it kept, if it says so.
    #[serde(default, rename = "ttl")]
    pub ttl_ms: Option<u64>,
}

impl Dialect {
    /// Whether a question is to be answered with a task, in a revision that has a word for that.
    ///
    /// # Errors
    ///
    /// `-32602` when what is said of the task is none of its members.
    pub fn task_wanted(&self, params: &Params<'_>) -> Result<Option<TaskWanted>, ErrorObject> {
        if self.asks_for_tasks() { params.read("task") } else { Ok(None) }
    }

    /// The task that the answer to a question is, where one was wanted; `None` if it is the answer itself.
    ///
    /// # Errors
    ///
    /// `-32603` when it is no task that can be read.
    pub fn read_task_created(&self, answer: &str) -> Result<Option<Task>, ErrorObject> {
        #[derive(Deserialize)]
        struct Created<'a> {
            #[serde(borrow, default)]
            task: Option<&'a RawValue>,
        }
        let Created { task } = serde_json::from_str(answer).map_err(invalid)?;
        task.filter(|_| self.asks_for_tasks()).map(|task| self.read_task(task.get())).transpose()
    }

    /// The task that a message names as the one it belongs to, by its parameters (D1, D2).
    pub fn related_task(params: &str) -> Option<String> {
        #[derive(Deserialize)]
        struct Params {
            #[serde(rename = "_meta")]
            meta: Meta,
        }
        #[derive(Deserialize)]
        struct Meta {
            #[serde(
                rename = "io.modelcontextprotocol/related-task",
                alias = "modelcontextprotocol.io/related-task"
            )]
            related: Related,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Related {
            task_id: String,
        }
        serde_json::from_str::<Params>(params).ok().map(|params| params.meta.related.task_id)
    }
}

impl InputRequest {
    /// Reads a question as it stands in `inputRequests` (modern era).
    ///
    /// # Errors
    ///
    /// When it is none that this crate knows.
    pub fn read(entry: &RawValue) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Entry<'a> {
            #[serde(borrow)]
            method: Cow<'a, str>,
            #[serde(borrow, default)]
            params: Option<&'a RawValue>,
        }
        let Entry { method, params } = serde_json::from_str(entry.get())?;
        Self::read_request(&method, params.map_or("{}", RawValue::get))
    }

    /// Reads a question that comes as a request of the server's (legacy era).
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_request(method: &str, params: &str) -> Result<Self, serde_json::Error> {
        match method {
            ELICIT => serde_json::from_str::<Elicit>(params)?.into_params().map(Self::Elicit),
            SAMPLE => serde_json::from_str(params).map(|params| Self::Sample(Box::new(params))),
            LIST_ROOTS => Ok(Self::ListRoots),
            _ => Err(serde_json::Error::custom("a question by an unknown method")),
        }
    }

    /// Whether a request of this method asks something.
    pub fn is_asked_by(method: &str) -> bool {
        [ELICIT, SAMPLE, LIST_ROOTS].contains(&method)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Elicit {
    /// Without it, as older revisions write it, it is a form.
    #[serde(default)]
    mode: Option<String>,
    message: String,
    #[serde(default)]
    requested_schema: Option<Form>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    elicitation_id: Option<String>,
}

impl Elicit {
    fn into_params(self) -> Result<ElicitParams, serde_json::Error> {
        match (self.mode.as_deref(), self.requested_schema, self.url) {
            (None | Some("form"), Some(form), _) => {
                Ok(ElicitParams::Form(ElicitForm::new(self.message, form)))
            }
            (Some("url"), _, Some(url)) => {
                let id = self.elicitation_id.unwrap_or_default();
                Ok(ElicitParams::Url(ElicitUrl::new(self.message, url, id)))
            }
            _ => Err(serde_json::Error::custom("a question to the user in an unknown way")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Dialect, Revision};
    use crate::model::{CreateMessageParams, Field, SamplingMessage};

    #[test]
    fn an_error_names_pages_where_there_is_such_an_error() {
        let named = serde_json::json!({ "elicitations": [
            { "mode": "url", "message": "There", "url": "https://a.example/x", "elicitationId": "7" }
        ] });
        let error = ErrorObject::new(Code::URL_ELICITATION_REQUIRED, "first go there").with_data(&named);
        let pages = Dialect::of(Revision::V2025_11_25).read_pages(&error).unwrap();
        assert!(pages.len() == 1 && pages[0].url == "https://a.example/x" && pages[0].id == "7");
        for (revision, error) in [
            (Revision::V2026_07_28, error.clone()),
            (Revision::V2025_06_18, error),
            (Revision::V2025_11_25, ErrorObject::invalid_params("x").with_data(&named)),
            (Revision::V2025_11_25, ErrorObject::new(Code::URL_ELICITATION_REQUIRED, "x")),
        ] {
            assert!(Dialect::of(revision).read_pages(&error).is_none(), "{revision} {error}");
        }
    }

    #[test]
    fn what_a_server_writes_its_client_reads() {
        let form = ElicitForm::new("Who?", Form::new().with("name", Field::text()));
        let page = ElicitUrl::new("There", "https://a.example/x", "7");
        let sample = CreateMessageParams::new(vec![SamplingMessage::user("Why?")], 10);
        let questions = [
            InputRequest::Elicit(ElicitParams::Form(form)),
            InputRequest::Elicit(ElicitParams::Url(page)),
            InputRequest::Sample(Box::new(sample.with_system_prompt("Be short"))),
            InputRequest::ListRoots,
        ];
        for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
            for question in &questions {
                let written = |question: &InputRequest| {
                    let mut out = Vec::new();
                    Dialect::of(revision).write_input_request(&mut out, question);
                    String::from_utf8(out).unwrap()
                };
                let text = written(question);
                let read = InputRequest::read(&RawValue::from_string(text.clone()).unwrap()).unwrap();
                assert_eq!(written(&read), text);
            }
        }
        for odd in
            ["null", "{}", r#"{"method":"tools/call"}"#, r#"{"method":"elicitation/create","params":{}}"#]
        {
            assert!(InputRequest::read(&RawValue::from_string(odd.to_owned()).unwrap()).is_err(), "{odd}");
        }
    }
}
