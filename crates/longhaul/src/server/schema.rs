//! JSON Schemas of Rust types, and what is read from them.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The JSON Schema of `A`, as an object schema without the noise of a stand-alone document.
pub(super) fn of_arguments<A: JsonSchema>() -> Box<RawValue> {
    let mut schema = plain::<A>();
    schema.insert("type".to_owned(), "object".into());
    raw(&schema)
}

/// The JSON Schema of what a tool returns; `None` when it says nothing.
pub(super) fn of_output<T: JsonSchema>() -> Option<Box<RawValue>> {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = without_noise(settings.into_generator().into_root_schema_for::<T>());
    (!schema.is_empty()).then(|| raw(&schema))
}

/// Whether a schema says at its root that it is of objects.
pub(super) fn is_of_objects(schema: &RawValue) -> bool {
    #[derive(serde::Deserialize)]
    struct Root {
        #[serde(rename = "type")]
        kind: Value,
    }
    serde_json::from_str::<Root>(schema.get()).is_ok_and(|root| root.kind == "object")
}

/// The arguments that a schema marks as nobody's to see: `writeOnly`, or of the format `password`.
pub(super) fn secret_arguments(schema: &RawValue) -> Vec<String> {
    // Schemas can be long, and hardly one has any.
    let marks = |mark: &str| memchr::memmem::find(schema.get().as_bytes(), mark.as_bytes()).is_some();
    if !marks("writeOnly") && !marks("password") {
        return Vec::new();
    }
    let schema: Value = serde_json::from_str(schema.get()).unwrap_or_default();
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let is_secret = |property: &Value| property["writeOnly"] == true || property["format"] == "password";
    properties.filter(|(_, property)| is_secret(property)).map(|(name, _)| name.clone()).collect()
}

/// A member of a struct, as its schema describes it.
pub(super) struct Member {
    pub(super) name: String,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    pub(super) required: bool,
}

/// The members of `A`, a struct: those it requires first.
pub(super) fn members<A: JsonSchema>() -> Vec<Member> {
    let mut schema = plain::<A>();
    let Some(Value::Object(properties)) = schema.remove("properties") else { return Vec::new() };
    let required: Vec<&str> = match schema.get("required") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let member = |(name, property): (String, Value)| {
        let words = |key: &str| property.get(key).and_then(Value::as_str).map(str::to_owned);
        let required = required.contains(&name.as_str());
        Member { title: words("title"), description: words("description"), required, name }
    };
    let mut members: Vec<Member> = properties.into_iter().map(member).collect();
    members.sort_by_key(|member| required.iter().position(|name| *name == member.name).unwrap_or(usize::MAX));
    members
}

fn plain<A: JsonSchema>() -> Map<String, Value> {
    without_noise(schemars::schema_for!(A))
}

fn without_noise(schema: Schema) -> Map<String, Value> {
    let mut schema = match schema.to_value() {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    schema.remove("$schema");
    schema.remove("title");
    schema
}

fn raw(schema: &Map<String, Value>) -> Box<RawValue> {
    serde_json::value::to_raw_value(schema).expect("a JSON Schema is JSON")
}
