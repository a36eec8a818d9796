//! The call of a task as a command that somebody may paste into a shell.

use std::borrow::Cow;

use longhaul::store::Record;
use longhaul::tasks::open_arguments;
use serde_json::Value;

use crate::{clean, shell};

/// The command.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct CallLine {
    pub(super) text: String,
    /// The arguments that are secret, and left out.
    pub(super) without: Vec<String>,
}

/// The longest command that is shown, in bytes: who has more to say uses a file.
const LONGEST: usize = 4096;

impl CallLine {
    /// That of a task of the server at `endpoint`; `None` where no such command does the same.
    pub(super) fn of(endpoint: &str, record: &Record) -> Option<Self> {
        let (arguments, without) = open_arguments(record)?;
        if endpoint.is_empty() || record.arguments.as_str().len() > LONGEST {
            return None;
        }
        let mut text = format!("longhaul call {} {}", plain(endpoint)?, plain(&record.tool)?);
        for (name, value) in &arguments {
            text.push(' ');
            text += &argument(name, value)?;
        }
        (text.len() <= LONGEST).then_some(Self { text, without })
    }
}

/// A word that is no option, and in which nothing does harm to the terminal that it is pasted into.
fn plain(word: &str) -> Option<Cow<'_, str>> {
    let is_plain = !word.is_empty() && !word.starts_with('-') && clean::line(word, LONGEST) == word;
    is_plain.then(|| shell::word(word))
}

/// An argument as `longhaul call` reads it back: `key=text`, and `key:=json` where the text might be taken for another value.
fn argument(name: &str, value: &Value) -> Option<String> {
    if name.contains('=') || name.ends_with(':') {
        return None;
    }
    let name = plain(name)?;
    Some(match value {
        Value::String(text) if is_itself(text) => format!("{name}={}", shell::word(text)),
        Value::Bool(_) | Value::Number(_) => format!("{name}={value}"),
        other => format!("{name}:={}", shell::word(&clean::json(&other.to_string()))),
    })
}

/// Whether a text is read as this text, whatever else its argument takes.
fn is_itself(text: &str) -> bool {
    let is_word =
        !matches!(text, "yes" | "no" | "on" | "off") && serde_json::from_str::<Value>(text).is_err();
    is_word && !text.starts_with('@') && clean::line(text, LONGEST) == text
}

#[cfg(test)]
mod tests {
    use longhaul::store::{Json, Owner, TaskId, Time};
    use serde_json::json;

    use super::*;

    fn line(tool: &str, arguments: &Value, note: &Value) -> Option<CallLine> {
        let (id, at) = (TaskId::new("t-1").unwrap(), Time::from_unix_ms(0));
        let json = |value: &Value| Json::parse(value.to_string()).unwrap();
        let record = Record::new(id, Owner::Anonymous, tool, json(arguments), json(note), at);
        CallLine::of("http://127.0.0.1:8420/mcp", &record)
    }

    #[test]
    fn a_call_is_a_command_whose_words_a_shell_reads_back() {
        let said = |arguments: &Value| line("test", arguments, &Value::Null).unwrap().text;
        let call = "longhaul call http://127.0.0.1:8420/mcp test";
        assert_eq!(said(&json!({})), call);
        for (arguments, words) in [
            (json!({ "crate": "api", "jobs": 5, "release": true }), "crate=api jobs=5 release=true"),
            (json!({ "what": "it's $(x) `y`" }), r"what='it'\''s $(x) `y`'"),
            (json!({ "n": "5" }), r#"n:='"5"'"#),
            (json!({ "go": "yes" }), r#"go:='"yes"'"#),
            (json!({ "from": "@file" }), r#"from:='"@file"'"#),
            (json!({ "said": "\u{1b}]0;x\u{7}\n" }), r#"said:='"\u001b]0;x\u0007\n"'"#),
            (json!({ "turned": "\u{202e}x" }), r#"turned:='"\u202ex"'"#),
            (
                json!({ "empty": "", "none": null, "rows": [1, "b"] }),
                r#"empty='' none:=null rows:='[1,"b"]'"#,
            ),
        ] {
            assert_eq!(said(&arguments), format!("{call} {words}"));
        }
    }

    #[test]
    fn what_is_secret_is_named_and_not_said() {
        let note = json!({ "begun": true, "secret": ["token"] });
        let told = line("keep", &json!({ "token": "hunter2", "n": 1 }), &note).unwrap();
        assert_eq!(told.text, "longhaul call http://127.0.0.1:8420/mcp keep n=1");
        assert_eq!(told.without, ["token"]);
        assert_eq!(line("keep", &json!({ "token": "hunter2" }), &json!(7)), None, "it may be any of them");
    }

    #[test]
    fn what_no_command_can_say_is_none() {
        for arguments in [
            json!([1]),
            json!({ "a=b": 1 }),
            json!({ "a:": 1 }),
            json!({ "a b:": 1 }),
            json!({ "--json": 1 }),
            json!({ "\u{7}": 1 }),
        ] {
            assert_eq!(line("test", &arguments, &Value::Null), None, "{arguments}");
        }
        assert_eq!(line("--help", &json!({}), &Value::Null), None);
        assert_eq!(line("test", &json!({ "long": "x".repeat(LONGEST) }), &Value::Null), None);
    }
}
