//! Writing a request: what the caller declares goes where its revision wants it.

use serde::Serialize;

use super::{Dialect, DraftedTask, Era, drafted};
use crate::jsonrpc::{ObjectWriter, ProgressToken, RequestId, write_request};
use crate::model::{ClientCapabilities, IDEMPOTENCY_KEY, Implementation, LoggingLevel};

/// What a client says of itself.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Declaration {
    /// Who it is.
    pub info: Implementation,
    /// What it can do.
    pub capabilities: ClientCapabilities,
    /// The least severe log message it wants.
    pub log_level: Option<LoggingLevel>,
    /// Under which key the request that this stands with is made once ([`IDEMPOTENCY_KEY`]).
    pub idempotency_key: Option<String>,
}

impl Declaration {
    /// A client that says who it is and what it can do.
    pub fn new(info: Implementation, capabilities: ClientCapabilities) -> Self {
        Self { info, capabilities, log_level: None, idempotency_key: None }
    }
}

/// Writes the parameters of one request.
#[derive(Debug)]
pub struct RequestWriter<'o, 'b> {
    params: &'o mut ObjectWriter<'b>,
    drafted: Option<drafted::Said>,
}

impl RequestWriter<'_, '_> {
    /// Writes a member.
    pub fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> &mut Self {
        self.params.field(name, value);
        self
    }

    /// Writes a member if there is a value.
    pub fn optional<T: Serialize>(&mut self, name: &str, value: Option<&T>) -> &mut Self {
        self.params.optional(name, value);
        self
    }

    /// Writes a member whose value `value` appends, as JSON.
    pub fn with(&mut self, name: &str, value: impl FnOnce(&mut Vec<u8>)) -> &mut Self {
        self.params.with(name, value);
        self
    }

    /// Writes a member whose value is JSON text already.
    pub fn raw(&mut self, name: &str, json: &str) -> &mut Self {
        self.params.raw(name, json);
        self
    }

    /// Says that the request is to be this task, as SEP-1686 drafted it.
    pub fn drafted_task(&mut self, task: &DraftedTask) -> &mut Self {
        self.drafted = Some(drafted::Said::Is(task.clone()));
        self
    }

    /// Says that the request is about the task which is called so, as SEP-1686 drafted it.
    pub fn about_drafted_task(&mut self, id: &str) -> &mut Self {
        self.drafted = Some(drafted::Said::About(id.to_owned()));
        self
    }
}

impl Dialect {
    /// Appends a whole request: its parameters by `body`, its `_meta` by the dialect.
    pub fn write_request(
        &self,
        out: &mut Vec<u8>,
        id: &RequestId,
        method: &str,
        declaration: &Declaration,
        progress_token: Option<&ProgressToken>,
        body: impl FnOnce(&mut RequestWriter<'_, '_>),
    ) {
        write_request(out, id, method, |params| {
            let mut writer = RequestWriter { params, drafted: None };
            body(&mut writer);
            let (params, drafted) = (writer.params, writer.drafted);
            let key = declaration.idempotency_key.as_ref();
            if self.era == Era::Legacy && progress_token.is_none() && key.is_none() && drafted.is_none() {
                return;
            }
            let mut meta = params.object("_meta");
            meta.optional("progressToken", progress_token).optional(IDEMPOTENCY_KEY, key);
            if let Some(drafted) = drafted {
                drafted.write(&mut meta);
            }
            if self.era == Era::Modern {
                meta.field("io.modelcontextprotocol/protocolVersion", self.date)
                    .field("io.modelcontextprotocol/clientInfo", &declaration.info)
                    .field("io.modelcontextprotocol/clientCapabilities", &declaration.capabilities)
                    .optional("io.modelcontextprotocol/logLevel", declaration.log_level.as_ref());
            }
            meta.end();
        });
    }
}
