//! `_meta`: what a request says about itself, and what anybody may attach to a result.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::capability::ClientCapabilities;
use super::logging::LoggingLevel;
use super::trace_parent::TraceParent;
use crate::jsonrpc::{ErrorObject, ProgressToken, Text};

/// Named values attached to a result, kept in the order they were added.
#[derive(Clone, Debug, Default)]
pub struct Meta(Vec<(Cow<'static, str>, Box<RawValue>)>);

impl Meta {
    /// Nothing attached.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The same with `value` under `key`. A value that cannot be written as JSON is left out.
    #[must_use]
    pub fn with(mut self, key: impl Into<Cow<'static, str>>, value: &impl Serialize) -> Self {
        if let Ok(value) = serde_json::value::to_raw_value(value) {
            self.0.push((key.into(), value));
        }
        self
    }

    /// The same without what is under `key`.
    #[must_use]
    pub fn without(mut self, key: &str) -> Self {
        self.0.retain(|(known, _)| known != key);
        self
    }

    /// The JSON text under `key`.
    pub fn find(&self, key: &str) -> Option<&RawValue> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| &**value)
    }

    /// Every key with its JSON text.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(key, value)| (key.as_ref(), &**value))
    }

    /// Whether nothing is attached.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl PartialEq for Meta {
    fn eq(&self, other: &Self) -> bool {
        let texts = |meta: &Self| {
            meta.iter().map(|(key, value)| (key.to_owned(), value.get().to_owned())).collect::<Vec<_>>()
        };
        texts(self) == texts(other)
    }
}

impl Eq for Meta {}

impl Serialize for Meta {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Meta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Meta;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Meta, A::Error> {
                let mut meta = Meta::new();
                while let Some((key, value)) = map.next_entry::<String, _>()? {
                    meta.0.push((key.into(), value));
                }
                Ok(meta)
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// What a request says about itself. Members this crate does not know are skipped, not kept.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RequestMeta<'a> {
    /// The caller wants progress under this token.
    pub progress_token: Option<ProgressToken>,
    /// The revision the request is written in (modern era).
    pub protocol_version: Option<Cow<'a, str>>,
    /// What the caller can do for this request (modern era).
    pub client_capabilities: Option<ClientCapabilities>,
    /// The least severe log message the caller wants (modern era).
    pub log_level: Option<LoggingLevel>,
    /// The caller's own name for this call, under which it is made once: [`IDEMPOTENCY_KEY`].
    pub idempotency_key: Option<Cow<'a, str>>,
    /// Which trace of the caller's it belongs to.
    pub trace_parent: Option<TraceParent>,
    /// Who the caller says it is (modern era), unread: see [`Implementation::said`](super::Implementation::said).
    pub client_info: Option<&'a RawValue>,
    /// Which conversation with its user the caller made it in: [`CONVERSATION`].
    pub conversation: Option<Cow<'a, str>>,
}

/// The member of `_meta` that says which trace a request belongs to (W3C Trace Context).
const TRACE_PARENT: &str = "traceparent";

fn lenient(text: &RawValue) -> Option<TraceParent> {
    serde_json::from_str(text.get()).ok()
}

/// What is no name of a conversation says nothing, and is no reason to refuse the request.
fn named(text: &RawValue) -> Option<Cow<'_, str>> {
    let Text(name) = serde_json::from_str(text.get()).ok()?;
    let is_name = (1..=LONGEST_CONVERSATION).contains(&name.len()) && !name.contains(char::is_control);
    is_name.then_some(name)
}

/// The member of `_meta` in which VS Code names the conversation that a call is part of.
pub const CONVERSATION: &str = "vscode.conversationId";

/// How long the name of a conversation may be, in bytes; what is longer says nothing.
const LONGEST_CONVERSATION: usize = 128;

/// The member of `_meta` in which a caller says under which key its call is made once.
pub const IDEMPOTENCY_KEY: &str = "dev.longhaul/idempotencyKey";

/// The extension under which a server says that it knows such keys, and what it adds to tasks besides. It is not the tasks
/// extension's to say: peers read any value of that one but `{}` as "no tasks".
pub const DURABLE_TASKS: &str = "dev.longhaul/durable-tasks";

impl<'a> RequestMeta<'a> {
    /// Takes up the key that a transport says beside the message.
    ///
    /// # Errors
    ///
    /// `-32602`: the message itself says another.
    pub fn add_idempotency_key(&mut self, key: impl Into<Cow<'a, str>>) -> Result<(), ErrorObject> {
        let key = key.into();
        match &self.idempotency_key {
            Some(own) if *own != key => Err(ErrorObject::invalid_params(format!(
                "invalid params: `{IDEMPOTENCY_KEY}` and the header Idempotency-Key differ: send one, or the same twice"
            ))),
            _ => {
                self.idempotency_key = Some(key);
                Ok(())
            }
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RequestMeta<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = RequestMeta<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut meta = RequestMeta::default();
                let mut seen = [false; 8];
                while let Some(Text(key)) = map.next_key()? {
                    let member = match key.as_ref() {
                        "progressToken" => 0,
                        "io.modelcontextprotocol/protocolVersion" => 1,
                        "io.modelcontextprotocol/clientCapabilities" => 2,
                        "io.modelcontextprotocol/logLevel" => 3,
                        IDEMPOTENCY_KEY => 4,
                        TRACE_PARENT => 5,
                        "io.modelcontextprotocol/clientInfo" => 6,
                        CONVERSATION => 7,
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    // Which of the two counts would depend on who reads them.
                    if std::mem::replace(&mut seen[member], true) {
                        if key.as_ref() == CONVERSATION {
                            // Nothing depends on it: it is not said, and no reason to refuse the request.
                            map.next_value::<IgnoredAny>()?;
                            meta.conversation = None;
                            continue;
                        }
                        return Err(A::Error::custom(format_args!("`{key}` appears twice")));
                    }
                    match member {
                        0 => meta.progress_token = map.next_value()?,
                        1 => meta.protocol_version = map.next_value::<Option<Text<'de>>>()?.map(|t| t.0),
                        2 => meta.client_capabilities = map.next_value()?,
                        3 => meta.log_level = map.next_value()?,
                        4 => meta.idempotency_key = map.next_value::<Option<Text<'de>>>()?.map(|t| t.0),
                        // What is wrong with it is no reason to refuse the request.
                        5 => meta.trace_parent = lenient(map.next_value::<&RawValue>()?),
                        6 => meta.client_info = Some(map.next_value()?),
                        _ => meta.conversation = named(map.next_value::<&'de RawValue>()?),
                    }
                }
                Ok(meta)
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_that_is_named_twice_is_not_named_and_refuses_nothing() {
        for names in [&["c-1"][..], &["c-1", "c-2"], &["c-1", "c-2", "c-3"]] {
            let members: Vec<_> = names.iter().map(|name| format!(r#""{CONVERSATION}":"{name}""#)).collect();
            let text = format!("{{{}}}", members.join(","));
            let meta: RequestMeta<'_> = serde_json::from_str(&text).unwrap();
            let only = names.first().filter(|_| names.len() == 1);
            assert_eq!(meta.conversation.as_deref(), only.copied(), "{text}");
        }
        let twice = format!(r#"{{"{IDEMPOTENCY_KEY}":"a","{IDEMPOTENCY_KEY}":"a"}}"#);
        serde_json::from_str::<RequestMeta<'_>>(&twice).unwrap_err();
    }
}
