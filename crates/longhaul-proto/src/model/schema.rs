//! JSON Schemas of results, as far as they are put together here.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// The schema of an object that is one or the other.
///
/// What they define stands at the root, where their references look for it.
pub fn either_schema(one: &RawValue, other: &RawValue) -> Box<RawValue> {
    let mut defined = Map::new();
    let of = [one, other].map(|schema| apart(schema, &mut defined));
    together(json!({ "type": "object", "anyOf": of }), defined)
}

/// The schema of results where only objects may be: those that are not stand under `value`, as
/// [`ResultWriter::structured`](crate::dialect::ResultWriter::structured) writes them. `None` when the schema is of
/// objects already.
pub(crate) fn object_schema(schema: &RawValue) -> Option<Box<RawValue>> {
    let read: Map<String, Value> = serde_json::from_str(schema.get()).ok()?;
    if read.get("type").is_some_and(|kind| kind == "object") {
        return None;
    }
    let mut defined = Map::new();
    let own = apart(schema, &mut defined);
    let under_value = json!({ "type": "object", "properties": { "value": own }, "required": ["value"] });
    let schema = match read.get("type") {
        Some(Value::String(_)) => under_value,
        // It may be of objects, or of others.
        _ => json!({ "type": "object", "anyOf": [own, under_value] }),
    };
    Some(together(schema, defined))
}

/// A schema of objects where the schema of a member must be an object itself: `{}` says what `true` says. `None` when it
/// is written so already.
pub(crate) fn spelled_out(schema: &RawValue) -> Option<Box<RawValue>> {
    let mut read: Map<String, Value> = serde_json::from_str(schema.get()).ok()?;
    let members = read.get_mut("properties")?.as_object_mut()?.values_mut();
    let mut changed = false;
    for member in members {
        if let Value::Bool(anything) = *member {
            *member = if anything { json!({}) } else { json!({ "not": {} }) };
            changed = true;
        }
    }
    changed.then(|| together(Value::Object(read), Map::new()))
}

/// A schema without what it defines, which goes to `defined`.
fn apart(schema: &RawValue, defined: &mut Map<String, Value>) -> Value {
    let mut schema: Value = serde_json::from_str(schema.get()).unwrap_or(Value::Bool(true));
    if let Some(Value::Object(definitions)) = schema.as_object_mut().and_then(|own| own.remove("$defs")) {
        defined.extend(definitions);
    }
    schema
}

fn together(mut schema: Value, defined: Map<String, Value>) -> Box<RawValue> {
    if !defined.is_empty() {
        schema["$defs"] = Value::Object(defined);
    }
    serde_json::value::to_raw_value(&schema).expect("a schema is JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(schema: Value) -> Option<Value> {
        let raw = serde_json::value::to_raw_value(&schema).unwrap();
        object_schema(&raw).map(|schema| serde_json::from_str(schema.get()).unwrap())
    }

    #[test]
    fn a_member_that_may_be_anything_or_nothing_is_said_so_by_an_object() {
        let spelled = |schema: &str| {
            let schema = RawValue::from_string(schema.to_owned()).unwrap();
            spelled_out(&schema).map(|schema| schema.get().to_owned())
        };
        let expected = r#"{"properties":{"a":{},"b":{"not":{}},"c":{"items":true}},"type":"object"}"#;
        let boolean = r#"{"properties":{"a":true,"b":false,"c":{"items":true}},"type":"object"}"#;
        assert_eq!(spelled(boolean).as_deref(), Some(expected));
        assert_eq!(spelled(expected), None);
        assert_eq!(spelled(r#"{"type":"object"}"#), None);
    }

    #[test]
    fn what_is_no_object_stands_under_a_name_and_definitions_at_the_root() {
        assert_eq!(object(json!({ "type": "object", "properties": {} })), None);
        let list = json!({ "type": "array", "items": { "$ref": "#/$defs/P" }, "$defs": { "P": { "type": "string" } } });
        let items = json!({ "type": "array", "items": { "$ref": "#/$defs/P" } });
        let expected = json!({
            "type": "object", "properties": { "value": items }, "required": ["value"],
            "$defs": { "P": { "type": "string" } },
        });
        assert_eq!(object(list), Some(expected));
        let either = object(json!({ "oneOf": [{ "type": "object" }, { "type": "null" }] })).unwrap();
        assert_eq!((&either["type"], either["anyOf"].as_array().unwrap().len()), (&json!("object"), 2));
    }
}
