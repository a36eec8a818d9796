//! The JSON Schemas of a tool: what it takes, and what its run facts look like.

use serde_json::value::RawValue;

use super::{
    input::{Input, Kind, Presence, Range, Text},
    policy::Output,
    tool::CommandTool,
    value::{Number, quoted},
};

impl CommandTool {
    /// The `inputSchema` of the tool: an object with the inputs in the order of the file and nothing else.
    ///
    /// # Examples
    ///
    /// ```
    /// let text = r#"
    ///     [tools.test]
    ///     description = "Run a crate's tests"
    ///     command = ["cargo", "test", "-p", "{crate}"]
    ///     input.crate = { description = "Package name" }
    /// "#;
    /// let checked = longhaul_gateway::config::check("longhaul.toml", text)?;
    /// assert_eq!(
    ///     checked.config.tools[0].input_schema().get(),
    ///     r#"{"type":"object","properties":{"crate":{"type":"string","description":"Package name"}},"required":["crate"],"additionalProperties":false}"#,
    /// );
    /// # Ok::<(), longhaul_gateway::config::Diagnostics>(())
    /// ```
    #[must_use]
    pub fn input_schema(&self) -> Box<RawValue> {
        input_schema(&self.inputs, |index| self.refuses_dash(index))
    }

    /// The `outputSchema` of the tool, where there is one: the run facts of a tool whose output is text. What a tool
    /// with `output = "json"` returns, only its command knows.
    #[must_use]
    pub fn output_schema(&self) -> Option<Box<RawValue>> {
        match self.output {
            Output::Text => Some(raw(RUN_FACTS.to_owned())),
            Output::Json => None,
        }
    }
}

/// An object with these inputs and nothing else.
pub(super) fn input_schema(inputs: &[Input], refuses_dash: impl Fn(usize) -> bool) -> Box<RawValue> {
    let required = inputs.iter().filter(|input| input.presence == Presence::Required);
    let required: Vec<String> = required.map(|input| quoted(&input.name)).collect();
    let named = |(index, input): (usize, _)| {
        let input: &Input = input;
        (input.name.as_str(), property(input, refuses_dash(index)))
    };
    let properties = object(inputs.iter().enumerate().map(named));
    let mut members = vec![("type", quoted("object")), ("properties", properties)];
    if !required.is_empty() {
        members.push(("required", array(required)));
    }
    members.push(("additionalProperties", "false".to_owned()));
    raw(object(members))
}

/// One input. Where a value below 0 would be refused as an option, the schema promises none.
fn property(input: &Input, refuses_dash: bool) -> String {
    let mut members = vec![("type", quoted(input.kind.name()))];
    if let Some(description) = &input.description {
        members.push(("description", quoted(description)));
    }
    if input.secret {
        members.push(("writeOnly", "true".to_owned()));
    }
    match &input.kind {
        Kind::String(text) => members.extend(text_rules(text)),
        Kind::Array(text) => {
            let items = [("type", quoted("string"))].into_iter().chain(text_rules(text));
            members.push(("items", object(items)));
        }
        Kind::Integer(range) => {
            members.extend(range_rules(range, refuses_dash.then_some(0)));
        }
        Kind::Number(range) => {
            members.extend(range_rules(range, refuses_dash.then(|| Number::from_i64(0))));
        }
        Kind::Boolean => {}
    }
    if let Presence::Default(value) = &input.presence {
        members.push(("default", value.to_json()));
    }
    object(members)
}

fn text_rules(text: &Text) -> Vec<(&'static str, String)> {
    let mut rules = Vec::new();
    if !text.choices.is_empty() {
        rules.push(("enum", array(text.choices.iter().map(|choice| quoted(choice)))));
    }
    if let Some(pattern) = &text.pattern {
        rules.push(("pattern", quoted(pattern.as_str())));
    }
    rules
}

/// The rules of a range, which begins no lower than `least`.
fn range_rules<T: PartialOrd + ToString>(range: &Range<T>, least: Option<T>) -> Vec<(&'static str, String)> {
    let Range { choices, minimum, maximum } = range;
    let mut rules = Vec::new();
    if !choices.is_empty() {
        rules.push(("enum", array(choices.iter().map(T::to_string))));
    }
    let least = least
        .as_ref()
        .filter(|least| choices.is_empty() && minimum.as_ref().is_none_or(|minimum| minimum < least));
    rules.extend(least.or(minimum.as_ref()).map(|minimum| ("minimum", minimum.to_string())));
    rules.extend(maximum.as_ref().map(|maximum| ("maximum", maximum.to_string())));
    rules
}

fn object<'a>(members: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let members: Vec<String> =
        members.into_iter().map(|(name, value)| format!("{}:{value}", quoted(name))).collect();
    format!("{{{}}}", members.join(","))
}

fn array(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(","))
}

fn raw(json: String) -> Box<RawValue> {
    RawValue::from_string(json).expect("it is put together from JSON texts")
}

/// The schema of a command's run facts.
///
/// A command that a signal ended has no exit code, and one that ended itself has no signal.
const RUN_FACTS: &str = concat!(
    r#"{"type":"object","properties":{"#,
    r#""exitCode":{"type":["integer","null"],"description":"Exit code of the command; null when a signal ended it"},"#,
    r#""signal":{"type":["integer","null"],"description":"Number of the signal that ended the command, such as 9"},"#,
    r#""durationMs":{"type":"integer","minimum":0,"description":"How long the command ran, in milliseconds"},"#,
    r#""stdoutBytes":{"type":"integer","minimum":0,"description":"Bytes the command wrote to standard output"},"#,
    r#""stderrBytes":{"type":"integer","minimum":0,"description":"Bytes the command wrote to standard error"},"#,
    r#""truncated":{"type":"boolean","description":"Whether output was dropped because there was too much of it"},"#,
    r#""left":{"type":"integer","minimum":1,"description":"How many processes it left in the background, which were ended"}"#,
    r#"},"required":["exitCode","signal","durationMs","stdoutBytes","stderrBytes","truncated"]}"#,
);
