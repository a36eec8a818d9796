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
    /// What it does among the servers that share its store; everything unless configured.
    pub role: Role,
}

/// What a server does among those that share its store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "whoever serves must know each")]
pub enum Role {
    /// `all`: it answers, and works on tasks.
    #[default]
    All,
    /// `front`: it answers; what is called becomes a task of a worker.
    Front,
    /// `worker`: it works on tasks, and answers nobody.
    Worker,
}

impl Role {
    /// Every role by its word.
    pub const ALL: [(&str, Self); 3] = [("all", Self::All), ("front", Self::Front), ("worker", Self::Worker)];
}

impl Default for Server {
    fn default() -> Self {
        Self {
            name: "longhaul".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            title: None,
            instructions: None,
            drafted_tasks: false,
            role: Role::All,
        }
    }
}

impl Server {
    pub(super) fn read(reader: &mut Reader<'_>, section: &Section<'_>) -> Self {
        let keys = ["name", "version", "title", "instructions", "drafted_tasks", "role"];
        reader.reject_unknown(section, &keys);
        let default = Self::default();
        let role = reader.word(section, "role", &Role::ALL).unwrap_or_default();
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
            role,
        }
    }
}
