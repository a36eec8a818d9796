//! What a server offers beside tools: its resources read, its prompts filled in, its arguments completed, and whatever
//! method it has of its own.

use std::collections::BTreeMap;

use longhaul_proto::dialect::RequestWriter;
use longhaul_proto::jsonrpc::ObjectWriter;
use longhaul_proto::method::Method;
use longhaul_proto::model::{Completion, CompletionReference, GetPromptResult, ReadResourceResult};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Client;
use super::call::object;
use super::error::Error;
use super::link::Outgoing;
use super::list::read;

impl Client {
    /// Reads a resource.
    ///
    /// # Errors
    ///
    /// When the server has none of that URI, for one.
    pub async fn read_resource(&self, uri: &str) -> Result<ReadResourceResult, Error> {
        let asking = self.ask_in_rounds(Method::ReadResource, uri, |params| {
            params.field("uri", uri);
        });
        read(&self.ask_or_remember(Method::ReadResource, uri, asking).await?)
    }

    /// Has a prompt filled in. `arguments` is an object of texts, or nothing.
    ///
    /// # Errors
    ///
    /// When the server has no such prompt, or an argument is missing or wrong.
    pub async fn get_prompt(
        &self,
        name: &str,
        arguments: &(impl Serialize + ?Sized),
    ) -> Result<GetPromptResult, Error> {
        let arguments = object(arguments)?;
        let result = self.ask_in_rounds(Method::GetPrompt, name, |params| {
            params.field("name", name).raw("arguments", &arguments);
        });
        read(&result.await?)
    }

    /// What could be typed next into the argument `name` of a prompt or of a template, of which `value` has been typed
    /// so far. `context` has the other arguments, as far as they are known.
    ///
    /// # Errors
    ///
    /// When the server completes nothing of the kind.
    pub async fn complete(
        &self,
        of: &CompletionReference,
        (name, value): (&str, &str),
        context: &BTreeMap<String, String>,
    ) -> Result<Completion, Error> {
        #[derive(Deserialize)]
        struct Completed {
            completion: Completion,
        }
        let has_context = self.dialect().gives_context();
        let request = self.prepare(Method::Complete, |params| {
            params.field("ref", of).with("argument", |out| {
                let mut argument = ObjectWriter::new(out);
                argument.field("name", name).field("value", value);
                argument.end();
            });
            if has_context && !context.is_empty() {
                params.field("context", &BTreeMap::from([("arguments", context)]));
            }
        })?;
        Ok(read::<Completed>(&self.ask(request).await?.result)?.completion)
    }

    /// Makes a request as it stands: for a method of the server's own, or of an extension that this library does not know.
    /// `params` is an object, or nothing; its `_meta` is this library's to write.
    ///
    /// # Errors
    ///
    /// [`Error::Arguments`] when `params` is no object or has `_meta`, and whatever the server answers.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn run(client: longhaul::client::Client) -> Result<(), longhaul::client::Error> {
    /// let result = client.request("acme/status", &serde_json::json!({ "of": "printer" })).await?;
    /// println!("{result}");
    /// # Ok(()) }
    /// ```
    pub async fn request(
        &self,
        method: &str,
        params: &(impl Serialize + ?Sized),
    ) -> Result<Box<RawValue>, Error> {
        let refuse = |reason: &str| Error::Arguments { reason: reason.to_owned() };
        let text = object(params)?;
        let members: BTreeMap<String, &RawValue> =
            serde_json::from_str(&text).map_err(|error| refuse(&error.to_string()))?;
        if members.contains_key("_meta") {
            return Err(refuse("`_meta` is written by the client: leave it out"));
        }
        let known = self.dialect().request(method).unwrap_or(Method::Own);
        let body = |params: &mut RequestWriter<'_, '_>| {
            for (name, value) in &members {
                params.raw(name, value.get());
            }
        };
        let name = known.named_by().and_then(|member| members.get(member));
        let name = name.and_then(|name| serde_json::from_str::<String>(name.get()).ok());
        let mut request = Outgoing::named(self.dialect(), known, method, self.declaration(), body);
        request.name = name.as_deref();
        request.idle = Some(self.options().request_timeout);
        let result = self.ask(request).await?.result;
        RawValue::from_string(result).map_err(|error| Error::protocol(error.to_string()))
    }
}
