//! Transcripts: what a host is known to send, line by line, and what it must be answered.
//!
//! A transcript is a text file. `#` begins a comment, `>` a message from the client, `<` one that the
//! server must send next. Expected messages are compared as JSON: an object need only hold the members
//! written, `"*"` stands for any value, and `"$name"` stands for any value the first time and for the same
//! value wherever it is written again, in either direction.

use std::collections::HashMap;

use serde_json::Value;

/// One line of a transcript.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a conversation has two directions")]
pub enum Line {
    /// The client sends this.
    Client(Value),
    /// The server must send this next.
    Server(Value),
}

/// Reads a transcript.
///
/// # Errors
///
/// Names the line that is neither a comment nor a message.
pub fn parse(text: &str) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = |what: &dyn std::fmt::Display| format!("line {}: {what}: {line}", number + 1);
        let line = line.trim();
        let (direction, json) = match line.split_at_checked(1) {
            None | Some(("#", _)) => continue,
            Some((direction @ (">" | "<"), json)) => (direction, json),
            Some(_) => return Err(wrong(&"neither a comment nor a message")),
        };
        let message = serde_json::from_str(json).map_err(|error| wrong(&error))?;
        lines.push(if direction == ">" { Line::Client(message) } else { Line::Server(message) });
    }
    Ok(lines)
}

/// The values that names in a transcript stand for.
#[derive(Clone, Debug, Default)]
pub struct Names(HashMap<String, Value>);

impl Names {
    /// A message with every known name replaced by its value.
    ///
    /// # Errors
    ///
    /// Names the name that stands for nothing yet.
    pub fn fill(&self, message: &Value) -> Result<Value, String> {
        match message {
            Value::String(text) => match text.strip_prefix('$') {
                Some(name) => self.0.get(name).cloned().ok_or_else(|| format!("${name} is not known yet")),
                None => Ok(message.clone()),
            },
            Value::Array(items) => items.iter().map(|item| self.fill(item)).collect(),
            Value::Object(members) => {
                members.iter().map(|(key, value)| Ok((key.clone(), self.fill(value)?))).collect()
            }
            other => Ok(other.clone()),
        }
    }

    /// Whether `message` holds what `expected` says, learning the names it meets.
    ///
    /// # Errors
    ///
    /// Says where they differ.
    pub fn check(&mut self, expected: &Value, message: &Value) -> Result<(), String> {
        self.check_at("", expected, message)
    }

    fn check_at(&mut self, path: &str, expected: &Value, found: &Value) -> Result<(), String> {
        let differ = || {
            Err(format!(
                "at {}: expected {expected}, found {found}",
                if path.is_empty() { "/" } else { path }
            ))
        };
        match (expected, found) {
            (Value::String(any), _) if any == "*" => Ok(()),
            (Value::String(name), _) if name.starts_with('$') => {
                let known = self.0.entry(name[1..].to_owned()).or_insert_with(|| found.clone());
                if known == found { Ok(()) } else { differ() }
            }
            (Value::Object(members), Value::Object(all)) => {
                for (key, value) in members {
                    let path = format!("{path}/{key}");
                    let found = all
                        .get(key)
                        .ok_or_else(|| format!("at {path}: missing in {}", Value::Object(all.clone())))?;
                    self.check_at(&path, value, found)?;
                }
                Ok(())
            }
            (Value::Array(items), Value::Array(all)) if items.len() == all.len() => {
                for (index, (item, found)) in items.iter().zip(all).enumerate() {
                    self.check_at(&format!("{path}/{index}"), item, found)?;
                }
                Ok(())
            }
            (expected, found) if expected == found => Ok(()),
            _ => differ(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_learnt_and_then_held_to() {
        let mut names = Names::default();
        assert_eq!(
            names.check(&json!({"id": 1, "a": "$a", "b": "*"}), &json!({"id": 1, "a": 7, "b": [], "c": 0})),
            Ok(())
        );
        assert_eq!(names.fill(&json!(["$a"])), Ok(json!([7])));
        assert!(names.check(&json!("$a"), &json!(8)).is_err());
        assert!(names.fill(&json!("$b")).is_err());
        assert_eq!(names.check(&json!({"x": 1}), &json!({})).unwrap_err(), "at /x: missing in {}");
        assert!(names.check(&json!([1]), &json!([1, 2])).is_err());
    }

    #[test]
    fn what_is_no_transcript_is_refused() {
        assert_eq!(parse("# c\n\n> {\"a\":1}\n< 2\n").unwrap().len(), 2);
        assert!(parse("hello").unwrap_err().starts_with("line 1: neither"));
        assert!(parse("> {").is_err());
    }
}
