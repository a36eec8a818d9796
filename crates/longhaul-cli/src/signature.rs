//! A tool's arguments, read from its JSON Schema: how they are shown, and what a word can mean.

use longhaul::proto::model::Tool;
use serde_json::{Map, Value};

use crate::term::clean;

/// What is known of a tool's arguments.
#[derive(Debug)]
pub(crate) struct Signature {
    pub(crate) tool: String,
    pub(crate) parameters: Vec<Parameter>,
    /// Other arguments than these are taken too.
    pub(crate) is_open: bool,
}

/// One argument of a tool.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) is_required: bool,
    /// Nobody is to be shown its values.
    pub(crate) is_secret: bool,
    pub(crate) default: Option<Value>,
    pub(crate) shape: Shape,
}

/// What a value may be, as far as a word of a command line can be read by it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    /// The JSON types; empty means any.
    pub(crate) types: Vec<String>,
    /// The only values there are; empty means no such list.
    pub(crate) values: Vec<Value>,
    /// What a list holds.
    pub(crate) items: Option<Box<Self>>,
}

/// How deep references and alternatives are followed.
const DEPTH: usize = 8;

impl Signature {
    pub(crate) fn of(tool: &Tool) -> Self {
        let schema: Value = serde_json::from_str(tool.input_schema.get()).unwrap_or_default();
        let empty = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let parameter = |(name, part): (&String, &Value)| Parameter {
            name: name.clone(),
            description: described(part, &schema),
            is_required: required.contains(&name.as_str()),
            is_secret: part["writeOnly"] == true || part["format"] == "password",
            default: part.get("default").filter(|value| !value.is_null()).cloned(),
            shape: Shape::of(part, &schema, DEPTH),
        };
        let mut parameters: Vec<Parameter> = properties.iter().map(parameter).collect();
        parameters.sort_by_key(|parameter| !parameter.is_required);
        let additional = schema.get("additionalProperties");
        let is_open = additional.is_some_and(|value| *value != Value::Bool(false))
            || schema.get("patternProperties").is_some()
            || (properties.is_empty() && additional.is_none());
        Self { tool: tool.name.clone(), parameters, is_open }
    }

    pub(crate) fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }

    /// `test(crate: string, release?: boolean = false)`
    pub(crate) fn line(&self) -> String {
        let parameters: Vec<String> = self.parameters.iter().map(Parameter::line).collect();
        clean::line(&format!("{}({})", self.tool, parameters.join(", ")), 400)
    }
}

impl Parameter {
    pub(crate) fn line(&self) -> String {
        let optional = if self.is_required { "" } else { "?" };
        let default = self.default.as_ref().map(|value| format!(" = {value}")).unwrap_or_default();
        format!("{}{optional}: {}{default}", self.name, self.shape.name())
    }
}

impl Shape {
    fn of(schema: &Value, root: &Value, depth: usize) -> Self {
        let mut shape = Self::default();
        shape.add(schema, root, depth);
        shape
    }

    fn add(&mut self, schema: &Value, root: &Value, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else { return };
        if let Some(target) = referred(schema, root) {
            self.add(target, root, depth);
        }
        match schema.get("type") {
            Some(Value::String(name)) => self.add_type(name),
            Some(Value::Array(names)) => {
                names.iter().filter_map(Value::as_str).for_each(|name| self.add_type(name))
            }
            _ => {}
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            self.values.extend(values.iter().cloned());
        }
        if let Some(value) = schema.get("const") {
            self.values.push(value.clone());
        }
        for alternatives in ["anyOf", "oneOf", "allOf"] {
            for each in schema.get(alternatives).and_then(Value::as_array).into_iter().flatten() {
                self.add(each, root, depth);
            }
        }
        if let Some(items) = schema.get("items") {
            self.items = Some(Box::new(Self::of(items, root, depth)));
        }
    }

    fn add_type(&mut self, name: &str) {
        if !self.types.iter().any(|known| known == name) {
            self.types.push(name.to_owned());
        }
    }

    pub(crate) fn takes(&self, name: &str) -> bool {
        self.types.iter().any(|known| known == name)
    }

    /// How the shape is written for a person.
    pub(crate) fn name(&self) -> String {
        if !self.values.is_empty() {
            let values: Vec<String> = self.values.iter().take(12).map(shown).collect();
            let more = if self.values.len() > 12 { "|…" } else { "" };
            return format!("{}{more}", values.join("|"));
        }
        let types: Vec<String> = self
            .types
            .iter()
            .filter(|name| *name != "null")
            .map(|name| match (name.as_str(), &self.items) {
                ("array", Some(items)) => format!("{}[]", items.name()),
                (name, _) => name.to_owned(),
            })
            .collect();
        if types.is_empty() { "any".to_owned() } else { types.join("|") }
    }
}

/// A value as one would write it on a command line.
pub(crate) fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What a `$ref` within the schema points at.
fn referred<'s>(schema: &Value, root: &'s Value) -> Option<&'s Value> {
    let pointer = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
    root.pointer(pointer)
}

fn described(schema: &Value, root: &Value) -> Option<String> {
    let own = schema.get("description").and_then(Value::as_str);
    let other = referred(schema, root).and_then(|target| target.get("description")).and_then(Value::as_str);
    own.or(other).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(schema: Value) -> Signature {
        Signature::of(&Tool::new("test", serde_json::value::to_raw_value(&schema).unwrap()))
    }

    #[test]
    fn required_arguments_come_first_and_defaults_are_shown() {
        let signature = signature(serde_json::json!({
            "type": "object", "required": ["crate"],
            "properties": {
                "release": { "type": "boolean", "default": false },
                "crate": { "type": "string" },
                "mode": { "enum": ["fast", "slow", 3] },
                "files": { "type": "array", "items": { "type": "string" } },
                "limit": { "anyOf": [{ "type": "integer" }, { "type": "null" }] },
                "where": { "$ref": "#/$defs/Place" },
                "what": {},
            },
            "$defs": { "Place": { "type": "object", "description": "Where it is" } },
        }));
        assert_eq!(
            signature.line(),
            "test(crate: string, files?: string[], limit?: integer, mode?: fast|slow|3, \
             release?: boolean = false, what?: any, where?: object)"
        );
        assert_eq!(signature.parameter("where").unwrap().description.as_deref(), Some("Where it is"));
        assert!(!signature.is_open);
    }

    #[test]
    fn a_schema_that_bites_its_own_tail_is_read_to_an_end() {
        let signature = signature(serde_json::json!({
            "properties": { "a": { "$ref": "#/properties/a" }, "b": { "anyOf": [{ "$ref": "#" }], "items": { "$ref": "#/properties/b" } } },
        }));
        assert_eq!(signature.parameters.len(), 2);
    }
}
