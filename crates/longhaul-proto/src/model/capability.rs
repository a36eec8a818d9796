//! What a client declares it can do.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::meta::Meta;
use crate::jsonrpc::Text;

/// The identifier of the tasks extension (SEP-2663).
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// What a client declares: for its session (legacy era) or for one request (modern era).
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ClientCapabilities {
    /// It can ask its user. An empty object means forms.
    #[serde(deserialize_with = "elicitation", skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<Elicitation>,
    /// It can sample a model.
    #[serde(deserialize_with = "sampling", skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
    /// It can list roots.
    #[serde(
        deserialize_with = "present",
        serialize_with = "write_present",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub roots: bool,
    /// Which requests of its server it makes tasks of when it is asked to (2025-11-25, Tasks). Only `initialize` has a word for
    /// it: elsewhere it is not written.
    #[serde(deserialize_with = "tasks", skip_serializing)]
    pub tasks: ClientTasks,
    /// The extensions it declares.
    pub extensions: ClientExtensions,
}

/// What a client hosts as tasks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct ClientTasks {
    /// What is asked of its model.
    pub sampling: bool,
    /// What is asked of its user.
    pub elicitation: bool,
    /// They can be listed.
    pub list: bool,
    /// They can be cancelled.
    pub cancel: bool,
    /// They can be as SEP-1686 drafted them, too. It is written, and never read: a server of ours asks nothing so.
    pub drafted: bool,
}

impl ClientTasks {
    /// Tasks that can be listed and cancelled, of what is asked so.
    pub fn new(sampling: bool, elicitation: bool) -> Self {
        Self { sampling, elicitation, list: true, cancel: true, drafted: false }
    }

    /// What the draft has of them, by category and request (SEP-1686, Capabilities).
    pub(crate) fn as_drafted(&self) -> BTreeMap<&'static str, BTreeMap<&'static str, bool>> {
        let requests =
            [(self.sampling, "sampling", "createMessage"), (self.elicitation, "elicitation", "create")];
        let there = requests.into_iter().filter(|(there, ..)| self.drafted && *there);
        there.map(|(_, category, request)| (category, BTreeMap::from([(request, true)]))).collect()
    }

    /// Whether anything can be a task.
    pub fn is_empty(&self) -> bool {
        !self.sampling && !self.elicitation
    }
}

/// How a client can ask its user.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Elicitation {
    /// By a form.
    pub form: bool,
    /// By sending the user to a URL.
    pub url: bool,
}

impl Elicitation {
    /// By these ways.
    pub fn new(form: bool, url: bool) -> Self {
        Self { form, url }
    }
}

/// How a client can sample its model.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Sampling {
    /// The model may ask for tools.
    pub tools: bool,
    /// The client can add what it knows from servers.
    pub context: bool,
}

impl Sampling {
    /// With these.
    pub fn new(tools: bool, context: bool) -> Self {
        Self { tools, context }
    }
}

/// The extensions a client declares.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ClientExtensions {
    /// It can be answered with a task.
    pub tasks: bool,
    /// Others, by identifier, each with what it says of itself: an object.
    pub others: Meta,
}

/// How many extensions a client may declare.
pub const MAX_EXTENSIONS: usize = 32;

/// How many bytes of JSON a client may say of its extensions in all.
pub const MAX_EXTENSION_BYTES: usize = 16 << 10;

impl ClientCapabilities {
    /// The same, declaring the tasks extension.
    #[must_use]
    pub fn with_tasks(mut self) -> Self {
        self.extensions.tasks = true;
        self
    }
}

/// A capability is declared by an object being there; `null` and `false` declare nothing.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    #[derive(Deserialize)]
    struct Anything {}
    Ok(Option::<Anything>::deserialize(deserializer)?.is_some())
}

impl<'de> Deserialize<'de> for ClientExtensions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = ClientExtensions;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ClientExtensions, A::Error> {
                let mut extensions = ClientExtensions::default();
                let (mut count, mut bytes) = (0, 0);
                while let Some(Text(id)) = map.next_key()? {
                    let payload: &RawValue = map.next_value()?;
                    if !payload.get().starts_with('{') {
                        // Nothing else declares anything.
                        continue;
                    }
                    if id == TASKS_EXTENSION {
                        extensions.tasks = true;
                        continue;
                    }
                    (count, bytes) = (count + 1, bytes + id.len() + payload.get().len());
                    if count > MAX_EXTENSIONS || bytes > MAX_EXTENSION_BYTES {
                        return Err(A::Error::custom(format_args!(
                            "at most {MAX_EXTENSIONS} extensions and {MAX_EXTENSION_BYTES} bytes of them are taken"
                        )));
                    }
                    extensions.others = extensions.others.with(id.into_owned(), &payload);
                }
                Ok(extensions)
            }
            fn visit_unit<E>(self) -> Result<ClientExtensions, E> {
                Ok(ClientExtensions::default())
            }
        }
        deserializer.deserialize_any(Entries)
    }
}

impl Serialize for ClientExtensions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if self.tasks {
            // Exactly `{}`: peers read any other value as "no tasks".
            map.serialize_entry(TASKS_EXTENSION, &Meta::new())?;
        }
        for (id, payload) in self.others.iter() {
            map.serialize_entry(id, payload)?;
        }
        map.end()
    }
}

/// A capability that is there: an object.
fn write_present<S: Serializer>(_: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    write_parts(&[], serializer)
}

/// An object with an empty one for each part that is there.
fn write_parts<S: Serializer>(parts: &[(&str, bool)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    for (name, _) in parts.iter().filter(|(_, there)| *there) {
        map.serialize_entry(name, &Meta::new())?;
    }
    map.end()
}

impl Serialize for Elicitation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write_parts(&[("form", self.form), ("url", self.url)], serializer)
    }
}

impl Serialize for Sampling {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write_parts(&[("tools", self.tools), ("context", self.context)], serializer)
    }
}

impl Serialize for ClientTasks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Requests {
            #[serde(skip_serializing_if = "Option::is_none")]
            sampling: Option<BTreeMap<&'static str, Meta>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            elicitation: Option<BTreeMap<&'static str, Meta>>,
        }
        #[derive(Serialize)]
        struct Written {
            #[serde(skip_serializing_if = "Option::is_none")]
            list: Option<Meta>,
            #[serde(skip_serializing_if = "Option::is_none")]
            cancel: Option<Meta>,
            requests: Requests,
            #[serde(flatten)]
            drafted: BTreeMap<&'static str, BTreeMap<&'static str, bool>>,
        }
        let method = |there: bool, name| there.then(|| BTreeMap::from([(name, Meta::new())]));
        let requests = Requests {
            sampling: method(self.sampling, "createMessage"),
            elicitation: method(self.elicitation, "create"),
        };
        let there = |there: bool| there.then(Meta::new);
        let drafted = self.as_drafted();
        Written { list: there(self.list), cancel: there(self.cancel), requests, drafted }
            .serialize(serializer)
    }
}

fn tasks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ClientTasks, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Written {
        #[serde(deserialize_with = "present")]
        list: bool,
        #[serde(deserialize_with = "present")]
        cancel: bool,
        requests: Option<Requests>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Requests {
        sampling: Option<Sampled>,
        elicitation: Option<Elicited>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Sampled {
        #[serde(deserialize_with = "present")]
        create_message: bool,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Elicited {
        #[serde(deserialize_with = "present")]
        create: bool,
    }
    let written = Option::<Written>::deserialize(deserializer)?.unwrap_or_default();
    let requests = written.requests.unwrap_or_default();
    Ok(ClientTasks {
        sampling: requests.sampling.is_some_and(|sampled| sampled.create_message),
        elicitation: requests.elicitation.is_some_and(|elicited| elicited.create),
        list: written.list,
        cancel: written.cancel,
        drafted: false,
    })
}

fn sampling<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Sampling>, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Ways {
        #[serde(deserialize_with = "present")]
        tools: bool,
        #[serde(deserialize_with = "present")]
        context: bool,
    }
    let ways = Option::<Ways>::deserialize(deserializer)?;
    Ok(ways.map(|ways| Sampling { tools: ways.tools, context: ways.context }))
}

fn elicitation<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Elicitation>, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Modes {
        #[serde(deserialize_with = "present")]
        form: bool,
        #[serde(deserialize_with = "present")]
        url: bool,
    }
    let modes = Option::<Modes>::deserialize(deserializer)?;
    Ok(modes.map(|m| Elicitation { form: m.form || !m.url, url: m.url }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presence_declares() {
        let read = |text| serde_json::from_str::<ClientCapabilities>(text).unwrap();
        assert_eq!(read("{}"), ClientCapabilities::default());
        let all = read(
            r#"{"elicitation":{},"sampling":{"tools":{}},"roots":{"listChanged":true},"x":1,
                "extensions":{"io.modelcontextprotocol/tasks":{},"y":{}}}"#,
        );
        assert_eq!(all.elicitation, Some(Elicitation { form: true, url: false }));
        assert_eq!(all.sampling, Some(Sampling { tools: true, context: false }));
        assert!(all.roots && all.extensions.tasks);
        assert_eq!(all.extensions.others.find("y").map(RawValue::get), Some("{}"));
        assert_eq!(
            read(r#"{"extensions":{"x":1,"io.modelcontextprotocol/tasks":null}}"#),
            ClientCapabilities::default()
        );
        assert_eq!(
            read(r#"{"elicitation":{"url":{}}}"#).elicitation,
            Some(Elicitation { form: false, url: true })
        );
        assert!(serde_json::from_str::<ClientCapabilities>(r#"{"sampling":1}"#).is_err());
    }

    #[test]
    fn the_extension_is_declared_by_an_empty_object() {
        let text = serde_json::to_string(&ClientCapabilities::default().with_tasks()).unwrap();
        assert_eq!(text, r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#);
    }

    #[test]
    fn what_is_hosted_as_tasks_is_read_as_it_is_written_in_a_handshake_alone() {
        let text = r#"{"list":{},"cancel":{},"requests":{"sampling":{"createMessage":{}},"elicitation":{"create":{}}}}"#;
        let both = ClientTasks::new(true, true);
        assert_eq!(serde_json::to_string(&both).unwrap(), text);
        let read = |tasks: &str| {
            serde_json::from_str::<ClientCapabilities>(&format!(r#"{{"tasks":{tasks}}}"#)).unwrap().tasks
        };
        assert_eq!(read(text), both);
        let one = ClientTasks { list: false, ..ClientTasks::new(false, true) };
        assert_eq!(read(r#"{"cancel":{},"requests":{"elicitation":{"create":{}},"sampling":{}}}"#), one);
        for nothing in ["null", "{}", r#"{"requests":null}"#] {
            assert!(read(nothing).is_empty(), "{nothing}");
        }
        let declared = ClientCapabilities { tasks: both, ..ClientCapabilities::default() };
        assert_eq!(serde_json::to_string(&declared).unwrap(), r#"{"extensions":{}}"#);
    }

    #[test]
    fn extensions_beyond_the_bounds_are_refused() {
        let declare = |many: usize, long: usize| {
            let one = |number| format!(r#""x.example/{number}":{{"y":"{}"}}"#, "z".repeat(long));
            let all = (0..many).map(one).collect::<Vec<_>>().join(",");
            serde_json::from_str::<ClientCapabilities>(&format!(r#"{{"extensions":{{{all}}}}}"#))
        };
        assert_eq!(declare(MAX_EXTENSIONS, 100).unwrap().extensions.others.iter().count(), MAX_EXTENSIONS);
        for refused in [declare(MAX_EXTENSIONS + 1, 1), declare(2, MAX_EXTENSION_BYTES / 2)] {
            assert!(refused.unwrap_err().to_string().contains("at most 32 extensions and 16384 bytes"));
        }
    }
}
