//! What a row says of its call for whoever takes it up, or shows it to people.

use std::sync::Arc;

use longhaul_store::{Json, Record, TaskId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// What the store keeps for us beside a task ([`NewTask::caller`](longhaul_store::NewTask::caller)).
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Note {
    /// The work had begun when the row was written.
    pub(crate) begun: bool,
    /// Nobody ran it before the row was written, nor is about to: whoever claims it begins it, unless somebody has before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) again: bool,
    /// The task whose call this is, made again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) again_of: Option<TaskId>,
    /// What the server wrote of the caller, for work that is entered again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) caller: Option<Box<RawValue>>,
    /// Which client called, in a line for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<Arc<str>>,
    /// In which conversation of its user's it called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) conversation: Option<Arc<str>>,
    /// The arguments that nobody is to be shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) secret: Vec<String>,
}

impl Note {
    /// The note of a row; one that cannot be read says nothing.
    pub(crate) fn of(record: &Record) -> Self {
        Self::read(record).unwrap_or_default()
    }

    /// That of a row without one says nothing.
    fn read(record: &Record) -> serde_json::Result<Self> {
        serde_json::from_str(record.caller.as_str()).map(Option::unwrap_or_default)
    }

    pub(crate) fn json(&self) -> Json {
        serde_json::value::to_raw_value(self).expect("a flag and names are JSON").into()
    }
}

/// The arguments of a task as people may see them. `Record::arguments` is what its work gets, secrets and all.
pub fn shown_arguments(record: &Record) -> Json {
    let secret = Note::read(record).map(|note| note.secret);
    if secret.as_ref().is_ok_and(Vec::is_empty) {
        return record.arguments.clone();
    }
    let hidden = || Value::from(HIDDEN);
    let shown = match (secret, serde_json::from_str(record.arguments.as_str())) {
        (Ok(secret), Ok(Value::Object(mut arguments))) => {
            // One that was left out looks like one that was given.
            arguments.extend(secret.into_iter().map(|name| (name, hidden())));
            arguments.into()
        }
        // A note that cannot be read, of a later release perhaps, may name any of them.
        _ => hidden(),
    };
    serde_json::value::to_raw_value(&shown).expect("a value is JSON").into()
}

/// The arguments of a task but for those that nobody is to be shown, and the names of those, whether they were given or not;
/// `None` where it is not known which they are, or there is no object of them.
pub fn open_arguments(record: &Record) -> Option<(Map<String, Value>, Vec<String>)> {
    let secret = Note::read(record).ok()?.secret;
    let mut arguments: Map<String, Value> = serde_json::from_str(record.arguments.as_str()).ok()?;
    arguments.retain(|name, _| !secret.contains(name));
    Some((arguments, secret))
}

/// The task whose call this one is, [made again](crate::runner::Engine::again).
pub fn made_again_of(record: &Record) -> Option<TaskId> {
    Note::of(record).again_of
}

/// Which client made the call of a task, as it named itself then: its name, and its version. Nobody has checked that.
pub fn calling_client(record: &Record) -> Option<Arc<str>> {
    Note::of(record).client
}

/// In which conversation with its user a client made the call of a task, as it named that itself. Nobody has checked it.
pub fn calling_conversation(record: &Record) -> Option<Arc<str>> {
    Note::of(record).conversation
}

/// What a server wrote of the caller of a task ([`Call::context`](crate::runner::Call::context)), if it wrote anything.
pub fn written_caller(record: &Record) -> Option<Box<RawValue>> {
    Note::of(record).caller
}

/// Stands for what is not shown.
const HIDDEN: &str = "[hidden]";

#[cfg(test)]
mod tests {
    use longhaul_store::{Memory, NewTask, Owner, Scope, TaskId, TaskStore};

    use super::*;

    async fn shown(caller: &str) -> String {
        let (store, id) = (Memory::new(), TaskId::new("t").unwrap());
        let arguments = Json::parse(r#"{"token":"hunter2","n":1}"#).unwrap();
        let mut task = NewTask::new(id.clone(), Owner::Anonymous, "tool", arguments);
        task.caller = Json::parse(caller).unwrap();
        store.create(task).await.unwrap();
        let record = store.get(Scope::Operator, &id).await.unwrap().unwrap();
        shown_arguments(&record).as_str().to_owned()
    }

    #[tokio::test]
    async fn a_note_that_cannot_be_read_hides_every_argument() {
        let all = r#"{"token":"hunter2","n":1}"#;
        assert_eq!(shown("null").await, all);
        assert_eq!(shown(r#"{"begun":true}"#).await, all);
        assert!(!shown(r#"{"begun":true,"secret":["token"]}"#).await.contains("hunter2"));
        for unreadable in [r#"{"secret":["token"]}"#, r#"{"begun":true,"secret":{"token":"all"}}"#, "7"] {
            assert_eq!(shown(unreadable).await, r#""[hidden]""#, "{unreadable}");
        }
    }

    #[test]
    fn what_is_secret_is_left_out_and_named() {
        let of = |caller: &str, arguments: &str| {
            let (id, arguments) = (TaskId::new("t").unwrap(), Json::parse(arguments).unwrap());
            let at = longhaul_store::Time::from_unix_ms(0);
            let caller = Json::parse(caller).unwrap();
            open_arguments(&Record::new(id, Owner::Anonymous, "tool", arguments, caller, at))
        };
        let given = r#"{"token":"hunter2","n":1}"#;
        let (open, secret) = of(r#"{"begun":true,"secret":["token","pin"]}"#, given).unwrap();
        assert_eq!(
            (Value::from(open).to_string().as_str(), secret.join(" ").as_str()),
            (r#"{"n":1}"#, "token pin")
        );
        assert!(of("null", given).is_some_and(|(open, secret)| open.len() == 2 && secret.is_empty()));
        for (caller, arguments) in [(r#"{"secret":7}"#, given), ("7", given), ("null", "[1]")] {
            assert_eq!(of(caller, arguments), None, "{caller} {arguments}");
        }
    }
}
