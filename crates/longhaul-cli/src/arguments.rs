//! `key=value`, `key:=json`, `key=@file` and `-`: from words to the arguments of a call.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value};

use crate::failure::{Failure, Outcome};
use crate::near::nearest;
use crate::signature::{Parameter, Shape, Signature, shown};

/// How the words are explained in `--help`.
pub(crate) const HELP: &str = "\
Arguments:
  key=value    read as the tool's schema wants it: a word, a number, true or false
  key:=json    exactly this JSON
  key=@file    the contents of a file
  -            a JSON object on standard input; what else is given goes on top
  Give a key again to make a list longer.";

/// The most bytes that a file or standard input may hold.
const MOST: u64 = 4 << 20;

/// Reads the words of a call as its arguments.
pub(crate) fn read(words: &[String], signature: &Signature) -> Outcome<Map<String, Value>> {
    let (mut given, mut whole) = (Map::new(), None);
    let repeated = repeated(words);
    for word in words {
        if word != "-" {
            let (key, value) = read_word(word, signature, &repeated)?;
            put(&mut given, key, value, signature)?;
        } else if whole.is_some() {
            return Err(Failure::usage("standard input can be read only once"));
        } else {
            whole = Some(from_stdin()?);
        }
    }
    match whole {
        // What came as a whole is the server's to judge.
        Some(mut whole) => {
            whole.extend(given);
            Ok(whole)
        }
        None => {
            check_required(&given, signature)?;
            Ok(given)
        }
    }
}

/// The keys that are given more than once.
fn repeated(words: &[String]) -> HashSet<&str> {
    let mut seen = HashSet::new();
    let keys = words.iter().filter_map(|word| word.split_once('='));
    let keys = keys.map(|(key, _)| key.strip_suffix(':').unwrap_or(key));
    keys.filter(|key| !seen.insert(*key)).collect()
}

fn read_word<'w>(
    word: &'w str,
    signature: &Signature,
    repeated: &HashSet<&str>,
) -> Outcome<(&'w str, Value)> {
    let Some((key, text)) = word.split_once('=') else {
        return Err(Failure::usage(format!("`{word}` is no argument")).next(format!(
            "write `{}=VALUE`; `longhaul call --help` shows every form",
            key_for(word, signature)
        )));
    };
    if let Some(key) = key.strip_suffix(':') {
        known(key, signature)?;
        let value = serde_json::from_str(text).map_err(|error| {
            Failure::usage(format!("the value of `{key}` is not JSON: {error}"))
                .next(format!("write `{key}={text}` to give it as a plain value"))
        })?;
        return Ok((key, value));
    }
    let parameter = known(key, signature)?;
    let any = Shape::default();
    let shape = parameter.map_or(&any, |parameter| &parameter.shape);
    let text: Cow<'_, str> = match text.strip_prefix('@') {
        Some(path) => from_file(key, path)?.into(),
        None => text.into(),
    };
    let read = if repeated.contains(key) { coerce_part } else { coerce };
    Ok((key, read(key, &text, shape)?))
}

/// What a word without `=` was probably to be.
fn key_for<'a>(word: &str, signature: &'a Signature) -> &'a str {
    let names = signature.parameters.iter().map(|parameter| parameter.name.as_str());
    nearest(word, names.clone()).or_else(|| names.clone().next()).unwrap_or("KEY")
}

/// The parameter of that name; `None` if the tool takes any.
fn known<'s>(key: &str, signature: &'s Signature) -> Outcome<Option<&'s Parameter>> {
    let found = signature.parameter(key);
    if found.is_some() || signature.is_open {
        return Ok(found);
    }
    let failure = Failure::usage(format!("tool `{}` has no argument `{key}`", signature.tool));
    let names = signature.parameters.iter().map(|parameter| parameter.name.as_str());
    Err(match nearest(key, names) {
        Some(near) => failure.next(format!("did you mean `{near}`?    {}", signature.line())),
        None => failure.next(signature.line()),
    })
}

/// Enters a value; a list given again grows.
fn put(arguments: &mut Map<String, Value>, key: &str, value: Value, signature: &Signature) -> Outcome<()> {
    let takes_list = signature.parameter(key).is_some_and(|parameter| parameter.shape.takes("array"));
    match (arguments.get_mut(key), value) {
        (None, value) => drop(arguments.insert(key.to_owned(), value)),
        (Some(Value::Array(list)), Value::Array(more)) if takes_list => list.extend(more),
        _ => {
            return Err(Failure::usage(format!("`{key}` is given twice")).next("it takes one value"));
        }
    }
    Ok(())
}

fn check_required(arguments: &Map<String, Value>, signature: &Signature) -> Outcome<()> {
    let is_missing =
        |parameter: &&Parameter| parameter.is_required && !arguments.contains_key(&parameter.name);
    let missing: Vec<String> = signature
        .parameters
        .iter()
        .filter(is_missing)
        .map(|parameter| format!("`{}`", parameter.name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::usage(format!("tool `{}` needs {}", signature.tool, missing.join(" and ")))
        .next(signature.line()))
}

/// Reads a word by what the schema says it may be: a value by itself rather than a list of one.
fn coerce(key: &str, text: &str, shape: &Shape) -> Outcome<Value> {
    if !shape.values.is_empty() {
        return choose(key, text, shape);
    }
    if shape.takes("array")
        && let Some(list) = list(text)
    {
        return Ok(list);
    }
    if shape.types.is_empty() {
        return Ok(serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())));
    }
    let read = shape.types.iter().filter(|name| *name != "string").find_map(|name| by_type(text, name));
    match read {
        Some(value) => Ok(value),
        None if shape.takes("string") => Ok(Value::String(text.to_owned())),
        None if shape.takes("array") => coerce_part(key, text, shape),
        None => Err(Failure::usage(format!("`{key}` takes {}, not `{text}`", with_article(&shape.name())))),
    }
}

fn by_type(text: &str, name: &str) -> Option<Value> {
    match name {
        "boolean" => match text {
            "true" | "yes" | "on" => Some(Value::Bool(true)),
            "false" | "no" | "off" => Some(Value::Bool(false)),
            _ => None,
        },
        "null" => (text == "null").then_some(Value::Null),
        "integer" => serde_json::from_str(text).ok().filter(|value: &Value| value.is_i64() || value.is_u64()),
        "number" => serde_json::from_str(text).ok().filter(Value::is_number),
        "object" => serde_json::from_str(text).ok().filter(Value::is_object),
        _ => None,
    }
}

/// Reads one of several words of a list.
fn coerce_part(key: &str, text: &str, shape: &Shape) -> Outcome<Value> {
    if !shape.values.is_empty() || !shape.takes("array") {
        return coerce(key, text, shape);
    }
    if let Some(list) = list(text) {
        return Ok(list);
    }
    let any = Shape::default();
    let item = coerce(key, text, shape.items.as_deref().unwrap_or(&any))?;
    Ok(Value::Array(vec![item]))
}

/// A whole list in one word.
fn list(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(Value::is_array)
}

fn choose(key: &str, text: &str, shape: &Shape) -> Outcome<Value> {
    let value = shape.values.iter().find(|value| shown(value) == text);
    value.cloned().ok_or_else(|| {
        let known: Vec<String> = shape.values.iter().map(shown).collect();
        let failure = Failure::usage(format!("`{key}` cannot be `{text}`"));
        match nearest(text, known.iter().map(String::as_str)) {
            Some(near) => failure.next(format!("did you mean `{near}`?    {}", shape.name())),
            None => failure.next(format!("it is one of {}", shape.name())),
        }
    })
}

fn with_article(name: &str) -> String {
    let article = if name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {name}")
}

fn from_file(key: &str, path: &str) -> Outcome<String> {
    let unreadable = |error: std::io::Error| {
        Failure::usage(format!("`{key}`: {path} cannot be read: {error}"))
            .next(format!("write `{key}:=\"@…\"` for a value that begins with `@`"))
    };
    let file = std::fs::File::open(Path::new(path)).map_err(unreadable)?;
    let mut text = String::new();
    file.take(MOST + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MOST {
        return Err(Failure::usage(format!("`{key}`: {path} is longer than {} MiB", MOST >> 20)));
    }
    Ok(text)
}

fn from_stdin() -> Outcome<Map<String, Value>> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(MOST + 1).read_to_string(&mut text);
    read.map_err(|error| Failure::usage(format!("standard input cannot be read: {error}")))?;
    if text.len() as u64 > MOST {
        return Err(Failure::usage(format!("standard input is longer than {} MiB", MOST >> 20)));
    }
    serde_json::from_str(&text)
        .map_err(|error| Failure::usage(format!("standard input is no JSON object: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul::proto::model::Tool;
    use serde_json::json;

    fn signature() -> Signature {
        let schema = json!({
            "type": "object", "required": ["crate"], "additionalProperties": false,
            "properties": {
                "crate": { "type": "string" },
                "release": { "type": "boolean" },
                "jobs": { "type": "integer" },
                "ratio": { "type": ["number", "null"] },
                "mode": { "enum": ["fast", "thorough", 3] },
                "files": { "type": "array", "items": { "type": "string" } },
                "more": { "type": "object" },
                "mixed": { "type": ["integer", "string"] },
                "tags": { "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] },
                "ids": { "type": ["array", "integer"], "items": { "type": "integer" } },
                "maybe": { "type": ["array", "null"], "items": { "type": "string" } },
                "any": {},
            },
        });
        Signature::of(&Tool::new("test", serde_json::value::to_raw_value(&schema).unwrap()))
    }

    fn call(words: &[&str]) -> Result<Value, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        read(&words, &signature()).map(Value::Object).map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn words_become_what_the_schema_wants() {
        let call = call(&[
            "crate=007",
            "release=yes",
            "jobs=4",
            "ratio=0.5",
            "mode=3",
            "files=a",
            "files=b=c",
            "more={\"a\":1}",
            "mixed=12",
            "any=true",
        ]);
        assert_eq!(
            call.unwrap(),
            json!({
                "crate": "007", "release": true, "jobs": 4, "ratio": 0.5, "mode": 3, "files": ["a", "b=c"],
                "more": { "a": 1 }, "mixed": 12, "any": true,
            })
        );
        assert_eq!(call_one("mixed=x"), json!("x"));
        assert_eq!(call_one("ratio=null"), json!(null));
        assert_eq!(call_one("any=just words"), json!("just words"));
        assert_eq!(call_one("files=[\"x\",\"y\"]"), json!(["x", "y"]));
        assert_eq!(call_one("any:={\"x\":[1]}"), json!({ "x": [1] }));
        assert_eq!(call_one("any:=\"@x\""), json!("@x"));
    }

    #[test]
    fn a_word_is_a_list_of_one_only_where_it_cannot_be_a_value_by_itself() {
        for (word, value) in [
            ("tags=x", json!("x")),
            ("tags=[x", json!("[x")),
            ("tags= [\"x\"]", json!(["x"])),
            ("ids=5", json!(5)),
            ("maybe=x", json!(["x"])),
            ("maybe=null", json!(null)),
            ("files=x", json!(["x"])),
        ] {
            assert_eq!(call_one(word), value, "{word}");
        }
        for (words, key, value) in [
            (&["crate=x", "tags=x", "tags=y"][..], "tags", json!(["x", "y"])),
            (&["crate=x", "tags=x", "tags:=[\"y\"]"], "tags", json!(["x", "y"])),
            (&["crate=x", "ids=5", "ids=6"], "ids", json!([5, 6])),
            (&["crate=x", "maybe=null", "maybe=x"], "maybe", json!(["null", "x"])),
        ] {
            assert_eq!(call(words).unwrap()[key], value, "{words:?}");
        }
        assert!(call(&["crate=x", "ids=five"]).is_err());
    }

    fn call_one(word: &str) -> Value {
        let key = word.split([':', '=']).next().unwrap().to_owned();
        call(&["crate=x", word]).unwrap()[key].clone()
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_would() {
        for (words, message) in [
            (&["crat=api"][..], "did you mean `crate`?"),
            (&["crate=x", "mode=fats"], "did you mean `fast`?"),
            (&["crate=x", "mode=zzzzzz"], "it is one of fast|thorough|3"),
            (&["crate=x", "jobs=many"], "`jobs` takes an integer, not `many`"),
            (&["crate=x", "jobs=1.5"], "takes an integer"),
            (&["crate=x", "release=maybe"], "takes a boolean"),
            (&["crate=x", "crate=y"], "`crate` is given twice"),
            (&["crate=x", "any:={"], "is not JSON"),
            (&["crate=x", "release"], "write `release=VALUE`"),
            (&["crate=@/nowhere/at/all"], "cannot be read"),
            (&["jobs=1"], "tool `test` needs `crate`"),
        ] {
            let refused = call(words).unwrap_err();
            assert!(refused.contains(message), "{words:?}: {refused}");
        }
    }

    #[test]
    fn a_file_is_a_value() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "two\nlines").unwrap();
        let word = format!("crate=@{}", file.path().display());
        assert_eq!(call(&[&word]).unwrap()["crate"], "two\nlines");
    }
}
