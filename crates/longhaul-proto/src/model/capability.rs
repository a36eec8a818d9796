//! What a client declares it can do.

use serde::{Deserialize, Deserializer, Serialize};

/// The identifier of the tasks extension (SEP-2663).
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// What a client declares: for its session (legacy era) or for one request (modern era).
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ClientCapabilities {
    /// It can ask its user. An empty object means forms.
    #[serde(deserialize_with = "elicitation", skip_serializing)]
    pub elicitation: Option<Elicitation>,
    /// It can sample a model.
    #[serde(deserialize_with = "sampling", skip_serializing)]
    pub sampling: Option<Sampling>,
    /// It can list roots.
    #[serde(deserialize_with = "present", skip_serializing)]
    pub roots: bool,
    /// The extensions it declares.
    pub extensions: ClientExtensions,
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

/// How a client can sample its model.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Sampling {
    /// The model may ask for tools.
    pub tools: bool,
    /// The client can add what it knows from servers.
    pub context: bool,
}

/// The extensions a client declares, as far as they matter here.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ClientExtensions {
    /// It can be answered with a task.
    #[serde(
        rename = "io.modelcontextprotocol/tasks",
        deserialize_with = "present",
        serialize_with = "as_empty_object",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub tasks: bool,
}

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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn as_empty_object<S: serde::Serializer>(_: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    serde::ser::SerializeMap::end(serializer.serialize_map(Some(0))?)
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
}
