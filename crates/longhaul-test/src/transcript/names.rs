//! What stands for what: `"*"` for any value, `"$name"` for the value it was first met with, `"$none"` for no member
//! at all, `"~words"` for a text with these words in it. Of an object only the members written are compared. A member
//! called `"$name"` is the first one that is as written, and the name stands for what it is called. Names can be held to
//! be [`Apart`] from each other.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// How the values of some names must differ.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Apart {
    /// Of these no two stand for the same.
    pub different: Vec<String>,
    /// Nor do two of these, and who knows one of them can guess none of the others.
    pub secret: Vec<String>,
}

/// The values that names in a transcript stand for.
#[derive(Clone, Debug, Default)]
pub struct Names {
    values: HashMap<String, Value>,
    apart: Apart,
}

/// In how many places two secret texts differ at least: a counter or a clock moves in a few, and of 25 letters of base 32
/// that are chosen at random fewer do once in a million million times.
const SECRET_PLACES: usize = 16;

impl Names {
    /// No names yet, of which these will be held apart.
    pub fn new(apart: Apart) -> Self {
        Self { values: HashMap::new(), apart }
    }

    /// Lets `name` stand for `value`.
    pub fn set(&mut self, name: &str, value: Value) {
        self.values.insert(name.to_owned(), value);
    }

    /// A message with every known name replaced by its value. Behind the name of a text more text may stand.
    ///
    /// # Errors
    ///
    /// Names the name that stands for nothing yet.
    pub fn fill(&self, message: &Value) -> Result<Value, String> {
        match message {
            Value::String(text) => match text.strip_prefix('$') {
                Some(named) => self.value_of(named),
                None => Ok(message.clone()),
            },
            Value::Array(items) => items.iter().map(|item| self.fill(item)).collect(),
            Value::Object(members) => {
                members.iter().map(|(key, value)| Ok((self.called(key), self.fill(value)?))).collect()
            }
            other => Ok(other.clone()),
        }
    }

    /// What a member is called.
    fn called(&self, key: &str) -> String {
        let known = key.strip_prefix('$').and_then(|name| self.values.get(name)).and_then(Value::as_str);
        known.unwrap_or(key).to_owned()
    }

    /// What a member of `all` is called that `key` stands for; learns it if it must.
    fn find(&mut self, key: &str, value: &Value, all: &Map<String, Value>) -> String {
        let known = self.called(key);
        let Some(name) = key.strip_prefix('$').filter(|_| known == key && !all.contains_key(key)) else {
            return known;
        };
        for (found, inside) in all {
            if self.values.values().any(|value| value == found) {
                continue;
            }
            let mut learnt = self.clone();
            if learnt.check(value, inside).is_ok() {
                *self = learnt;
                self.set(name, found.clone().into());
                return found.clone();
            }
        }
        known
    }

    /// Whether `name` may stand for `value` beside those that it must differ from.
    fn check_apart(&self, name: &str, value: &Value) -> Result<(), String> {
        let beside = |names: &[String]| {
            let is_one = names.iter().any(|one| one == name);
            let others = names.iter().filter(|other| is_one && *other != name);
            others.filter_map(|other| Some((other.clone(), self.values.get(other)?))).collect::<Vec<_>>()
        };
        for (other, known) in beside(&self.apart.different) {
            if known == value {
                return Err(format!("{value} is ${other} already"));
            }
        }
        for (other, known) in beside(&self.apart.secret) {
            if !is_secret_beside(value, known) {
                return Err(format!("{value} can be guessed by who knows ${other}: {known}"));
            }
        }
        Ok(())
    }

    fn value_of(&self, named: &str) -> Result<Value, String> {
        let end = named.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(named.len());
        let (name, rest) = named.split_at(end);
        match (self.values.get(name), rest) {
            (Some(value), "") => Ok(value.clone()),
            (Some(Value::String(text)), _) => Ok(format!("{text}{rest}").into()),
            (Some(value), _) => Err(format!("${name} is {value}, behind which no text can stand")),
            (None, _) => Err(format!("${name} is not known yet")),
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
            (Value::String(words), Value::String(text)) if words.starts_with('~') => {
                if text.contains(&words[1..]) { Ok(()) } else { differ() }
            }
            (Value::String(name), _) if name.starts_with('$') => {
                let name = &name[1..];
                if let Some(known) = self.values.get(name) {
                    return if known == found { Ok(()) } else { differ() };
                }
                self.check_apart(name, found).map_err(|what| format!("at {path}: {what}"))?;
                self.set(name, found.clone());
                Ok(())
            }
            (Value::Object(members), Value::Object(all)) => {
                for (key, value) in members {
                    let key = &self.find(key, value, all);
                    let path = format!("{path}/{key}");
                    if value == "$none" {
                        match all.get(key) {
                            None => continue,
                            Some(found) => {
                                return Err(format!("at {path}: {found}, which should not be there"));
                            }
                        }
                    }
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

/// Whether two texts differ in as many places as if each were chosen by chance.
fn is_secret_beside(one: &Value, other: &Value) -> bool {
    let (Some(one), Some(other)) = (one.as_str(), other.as_str()) else { return false };
    // From either end, for before and behind what is chosen by chance something else may stand.
    let from_begin = one.bytes().zip(other.bytes()).filter(|(one, other)| one != other);
    let from_end = one.bytes().rev().zip(other.bytes().rev()).filter(|(one, other)| one != other);
    from_begin.count().min(from_end.count()) >= SECRET_PLACES
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
        assert!(names.check(&json!({"a": "$none"}), &json!({"b": 1})).is_ok());
        assert!(names.check(&json!({"a": "$none"}), &json!({"a": null})).is_err());
        assert!(names.check(&json!("~low"), &json!("a flow")).is_ok());
        names.set("state", json!("abc"));
        assert_eq!(names.fill(&json!("$state-x")), Ok(json!("abc-x")));
    }

    #[test]
    fn names_are_held_apart() {
        let words = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let names = || Names::new(Apart { different: words("a b"), secret: words("s t") });
        let learn = |expected: Value, found: Value| names().check(&expected, &found);
        let (ab, st) = (json!(["$a", "$b"]), json!(["$s", "$t"]));
        assert_eq!(learn(ab.clone(), json!([1, 2])), Ok(()));
        assert_eq!(learn(ab, json!([1, 1])).unwrap_err(), "at /1: 1 is $a already");
        assert_eq!(learn(json!(["$c", "$d", "$c"]), json!([1, 1, 1])), Ok(()), "of others nothing is said");
        let (one, two) = ("build-0vdr9j4k2m7qzx3n5t8wy6b1c0", "build-1g5h8p3s6v2b7n4k9d0f1j8l3r");
        assert_eq!(learn(st.clone(), json!([one, two])), Ok(()));
        for guessed in [
            "build-1",
            one,
            "build-0vdr9j4k2m7qzx3n5t8wy6b1c1",
            "soon-0vdr9j4k2m7qzx3n5t8wy6b2d4",
            "build-0vdr9j4k2m7qzx3n5t8wy6b1c0-2",
        ] {
            assert!(
                learn(st.clone(), json!([one, guessed])).unwrap_err().contains("can be guessed"),
                "{guessed}"
            );
        }
        assert!(learn(st, json!([1, 2])).is_err());
    }

    #[test]
    fn a_member_can_have_a_name_that_nobody_knows_beforehand() {
        let mut names = Names::default();
        let found = json!({"k2": {"says": "two"}, "k1": {"says": "one"}});
        let expected = json!({"$one": {"says": "one"}, "$two": {"says": "~t"}});
        assert_eq!(names.check(&expected, &found), Ok(()));
        assert_eq!(names.fill(&json!({"$two": "$one"})), Ok(json!({"k2": "k1"})));
        assert!(names.check(&json!({"$one": "$none", "$two": "*"}), &json!({"k2": 0})).is_ok());
        assert!(names.check(&json!({"$one": "$none"}), &found).is_err());
        assert!(names.check(&json!({"$three": "*"}), &found).is_err(), "each stands for one of its own");
    }
}
