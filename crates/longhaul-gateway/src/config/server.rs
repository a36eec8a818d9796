//! `[server]`: what the server says about itself.

use super::{
    diagnostic::Diagnostic,
    reader::{Reader, Section},
};

/// What the server says about itself to every client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Server {
    /// Its name; `longhaul` unless configured.
    pub name: String,
    /// Its version; the program's own unless configured.
    pub version: String,
    /// A name for people.
    pub title: Option<String>,
    /// How to use the server, in words for a model.
    pub instructions: Option<String>,
    /// Whether calls can become tasks as SEP-1686 drafted them; no unless configured.
    pub drafted_tasks: bool,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            name: "longhaul".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            title: None,
            instructions: None,
            drafted_tasks: false,
        }
    }
}

impl Server {
    pub(super) fn read(reader: &mut Reader<'_>, section: &Section<'_>) -> Self {
        reader.reject_unknown(section, &["name", "version", "title", "instructions", "drafted_tasks"]);
        let default = Self::default();
        let mut filled = |key| {
            let text = reader.text(section, key)?;
            if text.value.trim().is_empty() {
                let message = format!("`{key}` of {} is empty", section.place);
                let help = "leave the key out for the default";
                reader.push(Diagnostic::error(message).at(text.span, "empty").help(help));
            }
            Some(text.value.to_owned())
        };
        Self {
            name: filled("name").unwrap_or(default.name),
            version: filled("version").unwrap_or(default.version),
            title: reader.owned(section, "title"),
            instructions: reader.owned(section, "instructions"),
            drafted_tasks: reader.boolean(section, "drafted_tasks").is_some_and(|drafted| drafted.value),
        }
    }
}
