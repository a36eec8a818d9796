//! A configuration as its author wrote it.

use std::collections::BTreeSet;
use std::fmt;

/// The file as it was written, by which it is told what has changed: two texts that mean the same are the same.
#[derive(Clone, Default)]
pub(super) struct Written(toml::Table);

impl Written {
    /// That of a text that was read without mistakes.
    pub(super) fn of(text: &str) -> Self {
        Self(toml::from_str(text).unwrap_or_default())
    }

    /// The names of its sections.
    pub(super) fn sections(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// A section, unless it says nothing.
    pub(super) fn section(&self, name: &str) -> Option<&toml::Value> {
        self.0.get(name).filter(|section| section.as_table().is_none_or(|table| !table.is_empty()))
    }

    /// The entries of a section, by their names.
    pub(super) fn entries(&self, section: &str) -> impl Iterator<Item = (&String, &toml::Value)> {
        self.0.get(section).and_then(toml::Value::as_table).into_iter().flatten()
    }

    /// The variables that something in it is read from, wherever that stands.
    pub(super) fn variables(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        self.0.values().for_each(|section| collect(section, &mut found));
        let keys = self.entry("store", "keys").and_then(toml::Value::as_array);
        found.extend(keys.into_iter().flatten().filter_map(variable));
        found
    }

    /// Has an entry be as it was `before`, when there may have been none.
    pub(super) fn put_back(&mut self, section: &str, name: &str, before: &Self) {
        let mut entries = self.0.get(section).and_then(toml::Value::as_table).cloned().unwrap_or_default();
        match before.entry(section, name) {
            Some(entry) => entries.insert(name.to_owned(), entry.clone()),
            None => entries.remove(name),
        };
        self.0.insert(section.to_owned(), toml::Value::Table(entries));
    }

    /// One of them.
    pub(super) fn entry(&self, section: &str, name: &str) -> Option<&toml::Value> {
        self.0.get(section)?.get(name)
    }
}

fn collect(value: &toml::Value, found: &mut BTreeSet<String>) {
    match value {
        toml::Value::Table(table) => {
            found.extend(table.get("from").and_then(variable));
            table.values().for_each(|value| collect(value, found));
        }
        toml::Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        _ => {}
    }
}

fn variable(source: &toml::Value) -> Option<String> {
    source.as_str()?.strip_prefix("env:").map(str::to_owned)
}

/// Leaves all of it out: there may be secrets in it.
impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Written")
    }
}
