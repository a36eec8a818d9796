//! Asking the client: how a question is written, in a request of its own or in an answer.

use super::Dialect;
use crate::jsonrpc::{ErrorObject, ObjectWriter, RequestId, write_request};
use crate::model::{ClientCapabilities, CreateMessageParams, ElicitParams, InputRequest};

impl InputRequest {
    /// The method of the question.
    pub fn method(&self) -> &'static str {
        match self {
            Self::Elicit(_) => "elicitation/create",
            Self::Sample(_) => "sampling/createMessage",
            Self::ListRoots => "roots/list",
        }
    }

    /// Whether such a client can be asked, in that dialect.
    ///
    /// # Errors
    ///
    /// `-32021` naming what the client must declare, or `-32603` where its revision has no word for it.
    pub fn check(&self, dialect: &Dialect, client: &ClientCapabilities) -> Result<(), ErrorObject> {
        if let Some(required) = self.lacking(client) {
            return Err(ErrorObject::missing_capability(required));
        }
        if !dialect.can_ask(self) {
            return Err(ErrorObject::internal(format!(
                "revision {} of the client has no word for such a {}",
                dialect.revision(),
                self.method()
            )));
        }
        Ok(())
    }

    /// The capabilities that the question needs and the client lacks, as JSON.
    fn lacking(&self, client: &ClientCapabilities) -> Option<&'static str> {
        let (declared, required) = match self {
            Self::Elicit(ElicitParams::Form(_)) => {
                (client.elicitation.is_some_and(|modes| modes.form), r#"{"elicitation":{"form":{}}}"#)
            }
            Self::Elicit(ElicitParams::Url(_)) => {
                (client.elicitation.is_some_and(|modes| modes.url), r#"{"elicitation":{"url":{}}}"#)
            }
            Self::Sample(params) if params.needs_tools() => {
                (client.sampling.is_some_and(|ways| ways.tools), r#"{"sampling":{"tools":{}}}"#)
            }
            Self::Sample(_) => (client.sampling.is_some(), r#"{"sampling":{}}"#),
            Self::ListRoots => (client.roots, r#"{"roots":{}}"#),
        };
        (!declared).then_some(required)
    }
}

impl Dialect {
    fn can_ask(&self, question: &InputRequest) -> bool {
        match question {
            InputRequest::Elicit(ElicitParams::Form(form)) => {
                self.elicits() && (self.names_choices() || !form.form.has_many_choices())
            }
            InputRequest::Elicit(ElicitParams::Url(_)) => self.elicits_by_url(),
            InputRequest::Sample(params) => {
                self.samples_with_tools()
                    || (!params.needs_tools()
                        && params.messages.iter().all(|message| message.content.len() == 1))
            }
            InputRequest::ListRoots => true,
        }
    }

    /// Appends a question as a request of the server's (legacy era).
    pub fn write_question(&self, out: &mut Vec<u8>, id: &RequestId, question: &InputRequest) {
        write_request(out, id, question.method(), |params| self.write_question_params(question, params));
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

    fn write_question_params(&self, question: &InputRequest, out: &mut ObjectWriter<'_>) {
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
