//! Asking the client: how a question is written, in a request of its own or in an answer.

use super::Dialect;
use crate::jsonrpc::{ErrorObject, ObjectWriter, RequestId, write_request};
use crate::model::{
    ClientCapabilities, CreateMessageParams, ElicitParams, Elicitation, InputKind, InputRequest,
};

pub(super) const ELICIT: &str = "elicitation/create";
pub(super) const SAMPLE: &str = "sampling/createMessage";
pub(super) const LIST_ROOTS: &str = "roots/list";

impl InputRequest {
    /// The method of the question.
    pub fn method(&self) -> &'static str {
        match self {
            Self::Elicit(_) => ELICIT,
            Self::Sample(_) => SAMPLE,
            Self::ListRoots => LIST_ROOTS,
        }
    }

    /// Whether such a client can be asked, in that dialect.
    ///
    /// # Errors
    ///
    /// `-32021` naming what the client must declare, or `-32603` where its revision has no word for it.
    pub fn check(&self, dialect: &Dialect, client: &ClientCapabilities) -> Result<(), ErrorObject> {
        self.kind().check(dialect, client)?;
        if !dialect.can_ask(self) {
            return Err(dialect.no_word_for(self.method()));
        }
        Ok(())
    }
}

impl InputKind {
    /// Whether such a client can be asked so, in that dialect.
    ///
    /// # Errors
    ///
    /// `-32021` naming what the client must declare, or `-32603` where its revision has no word for it.
    pub fn check(self, dialect: &Dialect, client: &ClientCapabilities) -> Result<(), ErrorObject> {
        let elicits = |by: fn(Elicitation) -> bool| client.elicitation.is_some_and(by);
        let (declared, required, known) = match self {
            Self::Form => (elicits(|by| by.form), r#"{"elicitation":{"form":{}}}"#, dialect.elicits()),
            Self::Url => (elicits(|by| by.url), r#"{"elicitation":{"url":{}}}"#, dialect.elicits_by_url()),
            Self::Sampling => (client.sampling.is_some(), r#"{"sampling":{}}"#, true),
            Self::SamplingWithTools => {
                let declared = client.sampling.is_some_and(|ways| ways.tools);
                (declared, r#"{"sampling":{"tools":{}}}"#, dialect.samples_with_tools())
            }
            Self::Roots => (client.roots, r#"{"roots":{}}"#, true),
        };
        match (declared, known) {
            (false, _) => Err(ErrorObject::missing_capability(required)),
            (true, false) => Err(dialect.no_word_for(match self {
                Self::Form => "form",
                Self::Url => "page",
                _ => "sampling",
            })),
            (true, true) => Ok(()),
        }
    }
}

impl Dialect {
    /// Whether it has words for all of a question of a kind that it knows.
    fn can_ask(&self, question: &InputRequest) -> bool {
        match question {
            InputRequest::Elicit(ElicitParams::Form(form)) => {
                self.names_choices() || !form.form.has_many_choices()
            }
            InputRequest::Sample(params) => {
                self.samples_with_tools() || params.messages.iter().all(|message| message.content.len() == 1)
            }
            InputRequest::Elicit(ElicitParams::Url(_)) | InputRequest::ListRoots => true,
        }
    }

    fn no_word_for(&self, what: &str) -> ErrorObject {
        ErrorObject::internal(format!(
            "revision {} of the client has no word for such a {what}",
            self.revision()
        ))
    }

    /// Appends a question as a request of the server's (legacy era).
    pub fn write_question(&self, out: &mut Vec<u8>, id: &RequestId, question: &InputRequest) {
        write_request(out, id, question.method(), |params| self.write_question_params(question, params));
    }

    /// The same, of which the client is to make a task that it keeps for `ttl_ms` milliseconds, if that is said (2025-11-25,
    /// Tasks).
    pub fn write_question_as_task(
        &self,
        out: &mut Vec<u8>,
        id: &RequestId,
        question: &InputRequest,
        ttl_ms: Option<u64>,
    ) {
        write_request(out, id, question.method(), |params| {
            self.write_question_params(question, params);
            let mut task = params.object("task");
            task.optional("ttl", ttl_ms.as_ref());
            task.end();
        });
    }

    /// Appends a question as it stands in `inputRequests` (modern era).
    pub fn write_input_request(&self, out: &mut Vec<u8>, question: &InputRequest) {
        let mut object = ObjectWriter::new(out);
        object.field("method", question.method());
        let mut params = object.object("params");
        self.write_question_params(question, &mut params);
        params.end();
        object.end();
    }

    pub(super) fn write_question_params(&self, question: &InputRequest, out: &mut ObjectWriter<'_>) {
        match question {
            InputRequest::Elicit(ElicitParams::Form(form)) => {
                if self.elicits_by_url() {
                    out.field("mode", "form");
                }
                out.field("message", &form.message);
                if self.names_choices() {
                    out.field("requestedSchema", &form.form);
                } else {
                    out.field("requestedSchema", &form.form.naming_apart());
                }
            }
            InputRequest::Elicit(ElicitParams::Url(page)) => {
                out.field("mode", "url").field("message", &page.message).field("url", &page.url);
                if self.names_elicitations() {
                    out.field("elicitationId", &page.id);
                }
            }
            InputRequest::Sample(params) => self.write_sampling(params, out),
            InputRequest::ListRoots => {}
        }
    }

    fn write_sampling(&self, params: &CreateMessageParams, out: &mut ObjectWriter<'_>) {
        out.field("messages", &params.messages).field("maxTokens", &params.max_tokens);
        out.optional("systemPrompt", params.system_prompt.as_ref());
        out.optional("temperature", params.temperature.as_ref());
        if !params.stop_sequences.is_empty() {
            out.field("stopSequences", &params.stop_sequences);
        }
        out.optional("modelPreferences", params.model_preferences.as_ref());
        out.optional("includeContext", params.include_context.as_ref());
        if !params.tools.is_empty() {
            out.array("tools", &params.tools, |out, tool| self.write_tool(tool, out));
        }
        out.optional("toolChoice", params.tool_choice.as_ref());
        out.optional("metadata", params.metadata.as_ref());
    }
}
