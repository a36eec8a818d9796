//! What a row says of its call for whoever takes it up, or shows it to people.

use longhaul_store::{Json, Record};
use serde::{Deserialize, Serialize};

/// What the store keeps for us beside a task ([`NewTask::caller`](longhaul_store::NewTask::caller)).
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Note {
    /// The work had begun when the row was written.
    pub(crate) begun: bool,
    /// The arguments that nobody is to be shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) secret: Vec<String>,
}

impl Note {
    /// The note of a row; that of a row without one says nothing.
    pub(crate) fn of(record: &Record) -> Self {
        serde_json::from_str(record.caller.as_str()).unwrap_or_default()
    }

    pub(crate) fn json(&self) -> Json {
        serde_json::value::to_raw_value(self).expect("a flag and names are JSON").into()
    }
}

/// The arguments of a task as people may see them. `Record::arguments` is what its work gets, secrets and all.
pub fn shown_arguments(record: &Record) -> Json {
    let secret = Note::of(record).secret;
    if secret.is_empty() {
        return record.arguments.clone();
    }
    let hidden = || serde_json::Value::from(HIDDEN);
    let shown = match serde_json::from_str(record.arguments.as_str()) {
        Ok(serde_json::Value::Object(mut arguments)) => {
            // One that was left out looks like one that was given.
            arguments.extend(secret.iter().map(|name| (name.clone(), hidden())));
            arguments.into()
        }
        _ => hidden(),
    };
    serde_json::value::to_raw_value(&shown).expect("a value is JSON").into()
}

/// Stands for what is not shown.
const HIDDEN: &str = "[hidden]";
