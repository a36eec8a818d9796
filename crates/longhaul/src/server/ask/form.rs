//! The form that asks for a type, as far as there is one: flat, of texts, numbers, yes or no, and choices.

use longhaul_proto::model::{Field, FieldValue, Form, TextFormat};
use schemars::JsonSchema;
use serde_json::{Map, Value};

type Object = Map<String, Value>;

/// The form that asks for a `T`.
///
/// # Errors
///
/// The field that no form can ask for, and why.
pub(super) fn of<T: JsonSchema>() -> Result<Form, String> {
    let schema = schemars::schema_for!(T).to_value();
    let Value::Object(schema) = &schema else { return Err("it may be anything".to_owned()) };
    let definitions = schema.get("$defs").and_then(Value::as_object);
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("it has no named fields".to_owned());
    }
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut form = Form::new();
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let wrong = |what: String| format!("`{name}` {what}");
        let property = property.as_object().ok_or_else(|| wrong("may be anything".to_owned()))?;
        let field = field(&plain(property, definitions)).map_err(wrong)?;
        form = if required.contains(&name.as_str()) {
            form.with(name, field)
        } else {
            form.with_optional(name, field)
        };
    }
    Ok(form)
}

/// The schema without what points elsewhere, and without `null`, which a form says by leaving a field out.
fn plain(schema: &Object, definitions: Option<&Object>) -> Object {
    let is_null = |schema: &Value| schema.get("type").and_then(Value::as_str) == Some("null");
    let mut schema = schema.clone();
    let inner = schema.remove("anyOf").or_else(|| schema.remove("allOf"));
    if let Some(Value::Array(mut schemas)) = inner {
        schemas.retain(|schema| !is_null(schema));
        if let [Value::Object(only)] = &schemas[..] {
            add(&mut schema, only);
        }
    }
    if let Some(Value::String(path)) = schema.remove("$ref")
        && let Some(Value::Object(definition)) =
            path.strip_prefix("#/$defs/").and_then(|name| definitions?.get(name))
    {
        add(&mut schema, definition);
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    if let Some(Value::Object(items)) = schema.get("items") {
        let items = plain(items, definitions);
        schema.insert("items".to_owned(), items.into());
    }
    schema
}

/// What the schema itself says goes first.
fn add(schema: &mut Object, other: &Object) {
    for (key, value) in other {
        schema.entry(key).or_insert_with(|| value.clone());
    }
}

fn field(schema: &Object) -> Result<Field, String> {
    let text = |key: &str| schema.get(key).and_then(Value::as_str);
    let number = |key: &str| schema.get(key).and_then(Value::as_f64);
    let mut field = match (choices(schema)?, text("type")) {
        (Some(Choices::Plain(values)), _) => Field::choice(values),
        (Some(Choices::Named(values)), _) => Field::named_choice(values),
        (None, Some("boolean")) => Field::flag(),
        (None, Some("integer")) => Field::integer().within(number("minimum"), number("maximum")),
        (None, Some("number")) => Field::number().within(number("minimum"), number("maximum")),
        (None, Some("string")) => {
            let field = Field::text().within(number("minLength"), number("maxLength"));
            match text("format") {
                Some("email") => field.formatted(TextFormat::Email),
                Some("uri") => field.formatted(TextFormat::Uri),
                Some("date") => field.formatted(TextFormat::Date),
                Some("date-time") => field.formatted(TextFormat::DateTime),
                _ => field,
            }
        }
        (None, Some("array")) => {
            let items = schema.get("items").and_then(Value::as_object);
            let field = match items.map(choices).transpose()?.flatten() {
                Some(Choices::Plain(values)) => Field::choices(values),
                Some(Choices::Named(values)) => Field::named_choices(values),
                None => return Err("is a list of something else than choices".to_owned()),
            };
            field.within(number("minItems"), number("maxItems"))
        }
        _ => return Err("is neither a text, a number, a yes or no, nor a choice".to_owned()),
    };
    if let Some(title) = text("title") {
        field = field.titled(title);
    }
    if let Some(description) = text("description") {
        field = field.described(description);
    }
    Ok(match schema.get("default").and_then(value) {
        Some(default) => field.defaulting_to(default),
        None => field,
    })
}

enum Choices {
    Plain(Vec<String>),
    Named(Vec<(String, String)>),
}

/// The choices of a schema, if it has any: a list of texts, or of constants that may have names.
fn choices(schema: &Object) -> Result<Option<Choices>, String> {
    let not_text = || "has choices that are no texts".to_owned();
    if let Some(Value::Array(values)) = schema.get("enum") {
        let values = values.iter().map(|value| value.as_str().map(str::to_owned));
        return values
            .collect::<Option<Vec<_>>>()
            .map(|values| Some(Choices::Plain(values)))
            .ok_or_else(not_text);
    }
    let Some(Value::Array(options)) = schema.get("oneOf") else { return Ok(None) };
    let mut named = Vec::with_capacity(options.len());
    for option in options {
        let text = |key: &str| option.get(key).and_then(Value::as_str).map(str::to_owned);
        match (text("const"), option.get("enum")) {
            (Some(value), _) => {
                let name = text("title").or_else(|| text("description")).unwrap_or_else(|| value.clone());
                named.push((value, name));
            }
            // Variants without words of their own stand together.
            (None, Some(Value::Array(values))) => {
                for value in values {
                    let value = value.as_str().ok_or_else(not_text)?;
                    named.push((value.to_owned(), value.to_owned()));
                }
            }
            _ => return Err(not_text()),
        }
    }
    Ok(Some(Choices::Named(named)))
}

fn value(default: &Value) -> Option<FieldValue> {
    match default {
        Value::String(text) => Some(FieldValue::Text(text.clone())),
        Value::Number(number) => number.as_f64().map(FieldValue::Number),
        Value::Bool(flag) => Some(FieldValue::Flag(*flag)),
        Value::Array(values) => {
            let texts = values.iter().map(|value| value.as_str().map(str::to_owned));
            texts.collect::<Option<_>>().map(FieldValue::Many)
        }
        Value::Null | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "read by its schema only")]
    enum Size {
        Small,
        Large,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "read by its schema only")]
    enum Colour {
        /// As the sky
        Blue,
        /// As grass
        Green,
    }

    fn size() -> String {
        "Small".to_owned()
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "read by its schema only")]
    struct Order {
        /// Who orders.
        #[schemars(title = "Name", length(min = 1, max = 40))]
        name: String,
        #[schemars(email)]
        mail: Option<String>,
        #[schemars(range(min = 1, max = 9))]
        count: u8,
        weight: Option<f64>,
        #[serde(default)]
        gift: bool,
        #[serde(default = "size")]
        named_size: String,
        size: Size,
        colour: Option<Colour>,
        sizes: Vec<Size>,
    }

    #[test]
    fn a_type_becomes_a_form() {
        let form = serde_json::to_value(of::<Order>().unwrap()).unwrap();
        let properties = &form["properties"];
        let expected = json!({
            "name": {"type": "string", "title": "Name", "description": "Who orders.", "minLength": 1, "maxLength": 40},
            "mail": {"type": "string", "format": "email"},
            "count": {"type": "integer", "minimum": 1, "maximum": 9},
            "weight": {"type": "number"},
            "gift": {"type": "boolean", "default": false},
            "named_size": {"type": "string", "default": "Small"},
            "size": {"type": "string", "enum": ["Small", "Large"]},
            "colour": {"type": "string", "oneOf": [
                {"const": "Blue", "title": "As the sky"}, {"const": "Green", "title": "As grass"}]},
            "sizes": {"type": "array", "items": {"type": "string", "enum": ["Small", "Large"]}},
        });
        assert_eq!(properties, &expected, "{form:#}");
        let mut required: Vec<_> =
            form["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        required.sort_unstable();
        assert_eq!(required, ["count", "name", "size", "sizes"]);
    }

    #[test]
    fn what_no_form_can_ask_for_is_named() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "read by its schema only")]
        struct Nested {
            order: Order,
        }
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "read by its schema only")]
        struct Listing {
            names: Vec<String>,
        }
        assert!(of::<Nested>().unwrap_err().starts_with("`order` is neither"));
        assert!(of::<Listing>().unwrap_err().starts_with("`names` is a list"));
        assert_eq!(of::<String>().unwrap_err(), "it has no named fields");
    }
}
