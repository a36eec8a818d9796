//! The JSON Schema of a configuration, for editors.

use serde_json::{Map, Value, json};

use super::{
    duration,
    outline::{Form, Keys, Outline},
    size,
};

/// The JSON Schema (draft 4, which is what editors of TOML read) of a configuration, made of the code that reads one and of the
/// comments of [`REFERENCE`](super::REFERENCE).
///
/// Whatever a configuration without mistakes can say is valid by it. Not all that is valid is without mistakes: what depends
/// on other keys, on this machine or on how long a duration is, `longhaul check` finds.
///
/// # Examples
///
/// ```
/// let schema = longhaul_gateway::config::file_schema();
/// assert_eq!(schema["properties"]["http"]["properties"]["http2"]["type"], "boolean");
/// ```
#[must_use]
pub fn file_schema() -> Value {
    let mut schema = Map::new();
    schema.insert("$schema".to_owned(), json!("http://json-schema.org/draft-04/schema#"));
    schema.insert("title".to_owned(), json!("longhaul.toml"));
    schema.insert("description".to_owned(), json!("What longhaul serves, and how."));
    if let Value::Object(root) = of(Outline::of_configuration()) {
        schema.extend(root);
    }
    Value::Object(schema)
}

fn of(outline: Outline) -> Value {
    let mut kinds: Vec<Value> = outline.forms.iter().map(of_form).collect();
    kinds.extend(outline.table.map(of_table));
    let mut schema = match kinds.len() {
        1 => kinds.remove(0),
        _ => json!({ "anyOf": kinds }),
    };
    if let (Some(about), Value::Object(schema)) = (outline.about, &mut schema) {
        schema.insert("description".to_owned(), Value::String(about));
    }
    schema
}

fn of_table(keys: Keys) -> Value {
    match keys {
        Keys::Known(keys) => {
            let properties: Map<String, Value> =
                keys.into_iter().map(|(key, outline)| (key, of(outline))).collect();
            json!({ "type": "object", "properties": properties, "additionalProperties": false })
        }
        // What each of them is, its own comment says.
        Keys::Chosen(each) => {
            let each = Outline { about: None, ..*each };
            json!({ "type": "object", "additionalProperties": of(each) })
        }
    }
}

fn of_form(form: &Form) -> Value {
    match form {
        Form::Text => json!({ "type": "string" }),
        Form::Boolean => json!({ "type": "boolean" }),
        Form::Count(minimum) => json!({ "type": "integer", "minimum": minimum, "maximum": u32::MAX }),
        Form::Number => json!({ "type": "number" }),
        Form::Duration => json!({ "type": "string", "pattern": duration::pattern() }),
        Form::Size => json!({ "type": "string", "pattern": size::pattern() }),
        Form::Word(words) => json!({ "type": "string", "enum": words }),
        Form::Task => json!({
            "anyOf": [
                { "type": "string", "enum": ["never", "always", "required"] },
                { "type": "string", "pattern": r"^\s*(never|always|required|after\s.*)\s*$" },
            ],
        }),
        Form::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Form::Numbers => json!({ "type": "array", "items": { "type": "number" } }),
        Form::Anything => json!({}),
    }
}
