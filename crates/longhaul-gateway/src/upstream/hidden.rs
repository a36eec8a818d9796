//! Text that people do not see and models read: a tool that has any is not served.

use longhaul::proto::model::{Meta, Tool};
use serde_json::Value;

/// The first character of what a tool says of itself that nobody would see, or that turns what comes after it.
pub(super) fn hidden_in(tool: &Tool) -> Option<char> {
    let texts = [Some(&tool.name), tool.title.as_ref(), tool.description.as_ref()];
    let titles = tool.annotations.as_ref().and_then(|hints| hints.title.as_ref());
    let schemas = [Some(&tool.input_schema), tool.output_schema.as_ref()];
    let schemas = schemas.into_iter().flatten().filter_map(|schema| serde_json::from_str(schema.get()).ok());
    let in_text = texts.into_iter().flatten().chain(titles).find_map(|text| in_text(text));
    in_text.or_else(|| schemas.into_iter().find_map(|schema: Value| in_value(&schema))).or_else(|| {
        // Some host may know what nobody here does.
        let hints = tool.annotations.as_ref().map(|hints| &hints.others);
        [Some(&tool.others), hints].into_iter().flatten().find_map(in_members)
    })
}

fn in_members(members: &Meta) -> Option<char> {
    members.iter().find_map(|(name, value)| {
        in_text(name)
            .or_else(|| serde_json::from_str(value.get()).ok().and_then(|value: Value| in_value(&value)))
    })
}

fn in_value(value: &Value) -> Option<char> {
    match value {
        Value::String(text) => in_text(text),
        Value::Array(items) => items.iter().find_map(in_value),
        Value::Object(members) => {
            members.iter().find_map(|(name, value)| in_text(name).or_else(|| in_value(value)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn in_text(text: &str) -> Option<char> {
    text.chars().find(|c| is_hidden(*c))
}

/// Tags, which spell letters; what turns the direction of text over; variation selectors that no script needs; terminal
/// sequences. Joiners and marks of direction stay: languages are written with them.
fn is_hidden(c: char) -> bool {
    let is_control = c.is_control() && !matches!(c, '\t' | '\n' | '\r');
    is_control
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{206a}'..='\u{206f}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e01ef}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, description: &str, schema: &str) -> Tool {
        let mut tool = Tool::new(name, serde_json::from_str(schema).unwrap());
        tool.description = Some(description.to_owned());
        tool
    }

    #[test]
    fn s37_what_nobody_sees_is_found_wherever_it_stands() {
        let plain = r#"{"type": "object"}"#;
        for seen in ["Reads a file.\n\tLines end.\r\n", "\u{5d0}\u{200f}", "\u{915}\u{94d}\u{200d}\u{937}"] {
            assert_eq!(hidden_in(&tool("read", seen, plain)), None, "{seen:?}");
        }
        for hidden in ['\u{e0041}', '\u{e0100}', '\u{202e}', '\u{1b}', '\u{2062}', '\u{9b}'] {
            let text = format!("a{hidden}b");
            assert_eq!(hidden_in(&tool("read", &text, plain)), Some(hidden));
            assert_eq!(hidden_in(&tool(&text, "Reads", plain)), Some(hidden));
            let mut unknown = tool("read", "Reads", plain);
            unknown.others = Meta::new().with("hint", &[&text]);
            assert_eq!(hidden_in(&unknown), Some(hidden));
        }
        for schema in [
            r#"{"type": "object", "properties": {"a": {"description": "x\udb40\udc41"}}}"#,
            r#"{"type": "object", "properties": {"a\udb40\udc41": {}}}"#,
            r#"{"type": "object", "properties": {"a": {"enum": ["\udb40\udc41"]}}}"#,
        ] {
            assert_eq!(hidden_in(&tool("read", "Reads", schema)), Some('\u{e0041}'), "{schema}");
        }
    }
}
