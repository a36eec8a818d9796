//! JSON Schemas of others, compiled to hold values against.
//!
//! Such a schema may come from anywhere. It is looked at before it is compiled: it fetches nothing, and it may not make
//! the validation of some value grow out of proportion to it.

use std::collections::HashMap;

use jsonschema::{Draft, PatternOptions, Validator};
use longhaul_proto::jsonrpc::clip;
use serde_json::Value;

/// Why a schema cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// It is no JSON Schema.
    #[error("it is no JSON Schema: {0}")]
    Invalid(String),
    /// It refers to something outside itself, or to nothing.
    #[error("it refers to {0:?}: only what it defines itself can be referred to, by `#/…` or `#anchor`")]
    Reference(String),
    /// Holding arguments against it could take too long.
    #[error("it is too costly to hold arguments against: {0}")]
    Costly(&'static str),
}

/// How long a schema may be, in bytes.
const LONGEST: usize = 64 << 10;

/// How deep a value may be.
pub(crate) const DEEPEST: usize = 32;

/// How many parts of a schema may look at one place in the arguments.
const MOST_VISITS: u64 = 256;

/// How large a compiled pattern may be, in bytes.
const LARGEST_PATTERN: usize = 256 << 10;

/// How many faults of a value are named.
const MOST_FAULTS: usize = 5;

/// Whether a value is deeper than what a schema was looked at for.
pub(crate) fn is_too_deep(value: &Value) -> bool {
    depth(value) > DEEPEST
}

/// What is wrong with a value, if anything is.
pub(crate) fn faults(validator: &Validator, value: &Value) -> Option<String> {
    let faults: Vec<String> = validator.iter_errors(value).take(MOST_FAULTS).map(fault).collect();
    (!faults.is_empty()).then(|| faults.join("; "))
}

fn fault(error: jsonschema::ValidationError<'_>) -> String {
    let (path, words) = (error.instance_path().to_string(), error.to_string());
    if path.is_empty() { clip(&words).into_owned() } else { format!("`{}`: {}", clip(&path), clip(&words)) }
}

fn depth(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Looks at a schema, then compiles it.
pub(crate) fn compile(text: &str) -> Result<Validator, SchemaError> {
    if text.len() > LONGEST {
        return Err(SchemaError::Costly("it is longer than 64 KiB"));
    }
    let schema: Value =
        serde_json::from_str(text).map_err(|error| SchemaError::Invalid(error.to_string()))?;
    Graph::of(&schema)?.check()?;
    let patterns = PatternOptions::regex().size_limit(LARGEST_PATTERN).dfa_size_limit(LARGEST_PATTERN);
    let options = jsonschema::options().with_draft(Draft::Draft202012).with_pattern_options(patterns);
    options.build(&schema).map_err(|error| SchemaError::Invalid(error.to_string()))
}

/// The parts of a schema, and which of them look at what.
#[derive(Default)]
struct Graph {
    parts: Vec<Part>,
    by_pointer: HashMap<String, usize>,
    by_anchor: HashMap<String, usize>,
}

/// One schema within a schema.
#[derive(Default)]
struct Part {
    /// Looks at the same place.
    same: Vec<usize>,
    /// Of these at most one looks at each place within.
    one_within: Vec<usize>,
    /// Each of these may look at every place within.
    all_within: Vec<usize>,
    refers: Vec<String>,
    /// What was not looked at is found by looking again.
    looks_twice: bool,
}

impl Graph {
    fn of(schema: &Value) -> Result<Self, SchemaError> {
        let mut graph = Self::default();
        graph.add(schema, String::new())?;
        for index in 0..graph.parts.len() {
            for target in std::mem::take(&mut graph.parts[index].refers) {
                let found = graph.find(&target).ok_or(SchemaError::Reference(target))?;
                graph.parts[index].same.push(found);
            }
        }
        Ok(graph)
    }

    fn find(&self, target: &str) -> Option<usize> {
        let fragment = target.strip_prefix('#')?;
        if fragment.is_empty() || fragment.starts_with('/') {
            self.by_pointer.get(fragment).copied()
        } else {
            self.by_anchor.get(fragment).copied()
        }
    }

    fn add(&mut self, schema: &Value, pointer: String) -> Result<usize, SchemaError> {
        let index = self.parts.len();
        self.parts.push(Part::default());
        let Value::Object(members) = schema else {
            self.by_pointer.insert(pointer, index);
            return Ok(index);
        };
        for (keyword, value) in members {
            let here = format!("{pointer}/{}", keyword.replace('~', "~0").replace('/', "~1"));
            match (keyword.as_str(), value) {
                ("$ref", Value::String(target)) => self.parts[index].refers.push(target.clone()),
                ("$dynamicRef" | "$recursiveRef", Value::String(target)) => {
                    return Err(SchemaError::Reference(target.clone()));
                }
                // Another base would change what references mean.
                ("$id", Value::String(id)) if !pointer.is_empty() => {
                    return Err(SchemaError::Reference(id.clone()));
                }
                ("$anchor", Value::String(name)) => {
                    self.by_anchor.insert(name.clone(), index);
                }
                ("$defs" | "definitions", Value::Object(_)) => {
                    self.add_each(value, &here)?;
                }
                ("allOf" | "anyOf" | "oneOf", Value::Array(_)) | ("dependentSchemas", Value::Object(_)) => {
                    let added = self.add_each(value, &here)?;
                    self.parts[index].same.extend(added);
                }
                ("not" | "if" | "then" | "else", _) => {
                    let added = self.add(value, here)?;
                    self.parts[index].same.push(added);
                }
                ("properties", Value::Object(_)) | ("prefixItems", Value::Array(_)) => {
                    let added = self.add_each(value, &here)?;
                    self.parts[index].one_within.extend(added);
                }
                ("patternProperties", Value::Object(_)) => {
                    let added = self.add_each(value, &here)?;
                    self.parts[index].all_within.extend(added);
                }
                (
                    "additionalProperties" | "propertyNames" | "items" | "contains" | "additionalItems",
                    Value::Object(_),
                ) => {
                    let added = self.add(value, here)?;
                    self.parts[index].all_within.push(added);
                }
                ("unevaluatedProperties" | "unevaluatedItems", _) => {
                    let added = self.add(value, here)?;
                    self.parts[index].all_within.push(added);
                    self.parts[index].looks_twice = true;
                }
                _ => {}
            }
        }
        self.by_pointer.insert(pointer, index);
        Ok(index)
    }

    fn add_each(&mut self, schemas: &Value, pointer: &str) -> Result<Vec<usize>, SchemaError> {
        match schemas {
            Value::Array(items) => {
                let each = items.iter().enumerate();
                each.map(|(index, schema)| self.add(schema, format!("{pointer}/{index}"))).collect()
            }
            Value::Object(members) => {
                let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1");
                let each = members.iter();
                each.map(|(name, schema)| self.add(schema, format!("{pointer}/{}", escaped(name)))).collect()
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Counts for each depth how many parts look at one place there, at most.
    fn check(&self) -> Result<(), SchemaError> {
        let order = self.in_order()?;
        let mut above = vec![0_u64; self.parts.len()];
        for depth in 0..=DEEPEST {
            let mut visits = vec![0_u64; self.parts.len()];
            for &index in &order {
                let part = &self.parts[index];
                let same = part.same.iter().fold(0_u64, |sum, other| sum.saturating_add(visits[*other]));
                let within = if depth == 0 {
                    1
                } else {
                    let one = part.one_within.iter().map(|other| above[*other]).max().unwrap_or(0);
                    part.all_within.iter().fold(one, |sum, other| sum.saturating_add(above[*other]))
                };
                let times = if part.looks_twice { 2 } else { 1 };
                visits[index] = same.saturating_add(within).saturating_mul(times);
            }
            if visits.first().is_some_and(|visits| *visits > MOST_VISITS) {
                return Err(SchemaError::Costly("too many of its parts look at the same value"));
            }
            above = visits;
        }
        Ok(())
    }

    /// Every part behind those that look at the same place for it.
    fn in_order(&self) -> Result<Vec<usize>, SchemaError> {
        let mut order = Vec::with_capacity(self.parts.len());
        let mut waits: Vec<usize> = self.parts.iter().map(|part| part.same.len()).collect();
        let mut wanted = vec![Vec::new(); self.parts.len()];
        for (index, part) in self.parts.iter().enumerate() {
            part.same.iter().for_each(|other| wanted[*other].push(index));
        }
        let mut ready: Vec<usize> = (0..waits.len()).filter(|index| waits[*index] == 0).collect();
        while let Some(index) = ready.pop() {
            order.push(index);
            for &by in &wanted[index] {
                waits[by] -= 1;
                if waits[by] == 0 {
                    ready.push(by);
                }
            }
        }
        if order.len() == self.parts.len() {
            Ok(order)
        } else {
            Err(SchemaError::Costly("it refers to itself without going deeper"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(schema: &Value) -> Result<Validator, SchemaError> {
        compile(&schema.to_string())
    }

    #[test]
    fn schemas_of_every_day_are_taken() {
        let tree = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
            "properties": { "root": { "$ref": "#/$defs/node" }, "zip": { "$ref": "#zip" } },
            "$defs": {
                "node": { "type": "object", "properties": { "children": {
                    "type": "array", "items": { "$ref": "#/$defs/node" } } } },
                "a/b": { "$anchor": "zip", "type": "string", "pattern": "^[0-9]{5}$" },
            },
            "allOf": [{ "anyOf": [{ "required": ["root"] }, { "required": ["zip"] }] }],
            "if": { "required": ["zip"] }, "then": {}, "else": {}, "additionalProperties": false,
        });
        let validator = of(&tree).unwrap();
        assert!(validator.is_valid(&json!({ "root": { "children": [{ "children": [] }] } })));
        assert!(!validator.is_valid(&json!({ "root": { "children": [7] } })));
        assert!(!validator.is_valid(&json!({ "zip": "1234" })));
    }

    /// A8 of `conformance/REQUIREMENTS.md`.
    #[test]
    fn s43_what_reaches_out_is_refused() {
        for target in
            ["https://example.com/s.json", "file:///etc/passwd", "#/$defs/none", "#none", "other.json"]
        {
            let refused = of(&json!({ "properties": { "x": { "$ref": target } } })).unwrap_err();
            assert!(matches!(&refused, SchemaError::Reference(found) if found == target), "{refused}");
        }
        assert!(of(&json!({ "$dynamicRef": "#x" })).is_err());
        assert!(of(&json!({ "$defs": { "a": { "$id": "https://example.com/" } } })).is_err());
    }

    /// A8 of `conformance/REQUIREMENTS.md`.
    #[test]
    fn s43_what_grows_out_of_proportion_is_refused() {
        let mut defs = serde_json::Map::new();
        for n in 0..30 {
            let next = json!({ "$ref": format!("#/$defs/d{}", n + 1) });
            defs.insert(format!("d{n}"), json!({ "allOf": [next, next] }));
        }
        defs.insert("d30".to_owned(), json!({}));
        let in_place = json!({ "$ref": "#/$defs/d0", "$defs": defs });
        let child = json!({ "$ref": "#/$defs/a" });
        let deeper = json!({ "$ref": "#/$defs/a", "$defs": { "a": {
            "properties": { "x": { "anyOf": [child, child] } } } } });
        let itself = json!({ "$ref": "#" });
        let pattern = json!({ "pattern": "(((a{100}){100}){100}){100}" });
        let long = json!({ "description": "x".repeat(LONGEST) });
        for schema in [in_place, deeper, itself, long] {
            assert!(matches!(of(&schema), Err(SchemaError::Costly(_))), "{schema}");
        }
        assert!(of(&pattern).is_err());
    }
}
