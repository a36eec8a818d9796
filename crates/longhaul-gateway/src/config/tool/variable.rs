//! `[tools.<name>.env]`: the variables a tool sets.

use toml::de::DeValue;

use super::{command, read::Context};
use crate::config::{
    diagnostic::{Diagnostic, Edit},
    environment::{EnvSource, Variable, VariableValue, source},
    input::read::Declared,
    outline::Form,
    reader::{At, Entry, Reader, Section},
};

/// Reads the variables of one tool; `None` when one has a mistake.
pub(super) fn read(
    reader: &mut Reader<'_>,
    tool: &Section<'_>,
    inputs: &mut [Declared],
    context: Context<'_>,
) -> Option<Vec<Variable>> {
    if tool.entry("env").is_none() {
        return Some(Vec::new());
    }
    let section = reader.section(tool, "env", format!("the environment of {}", tool.place))?;
    let mut variables = Vec::new();
    for entry in section.entries() {
        check_name(reader, &entry);
        reader.asks(&section, entry.key, || Form::Text);
        let value = match entry.value {
            DeValue::String(value) => {
                let text = At { value: value.as_ref(), span: entry.span.clone() };
                let template = command::template(reader, &tool.place, &text, inputs);
                template.map(|template| {
                    command::reject_lists(reader, &tool.place, "a variable", &text, &template, inputs);
                    VariableValue::Template(template)
                })
            }
            DeValue::Table(_) => {
                let fails = "it is read when a call starts, and calls fail until it is there";
                env_source(reader, &tool.place, &entry, context, fails).map(VariableValue::From)
            }
            _ => {
                let diagnostic = reader.wrong_type(&entry, &section.place, "a string or `{ from = … }`");
                let fixed = format!("\"{}\"", &reader.source()[entry.span.clone()]);
                let scalar = !matches!(entry.value, DeValue::Array(_));
                let edits = if scalar { vec![Edit::new(entry.span.clone(), fixed)] } else { Vec::new() };
                reader.push(if scalar { diagnostic.fix("write it as a string", edits) } else { diagnostic });
                None
            }
        };
        variables.push(value.map(|value| Variable { name: entry.key.to_owned(), value }));
    }
    variables.into_iter().collect()
}

/// Whether a variable can have that name.
pub(in crate::config) fn check_name(reader: &mut Reader<'_>, entry: &Entry<'_>) {
    if entry.key.is_empty() || entry.key.contains(['=', '\0']) {
        let message = format!("`{}` cannot be the name of a variable", entry.key.escape_debug());
        let help = "a name is not empty and has no `=` and no NUL character";
        reader.push(Diagnostic::error(message).at(entry.key_span.clone(), "not a name").help(help));
    }
}

/// A variable whose value is read elsewhere; what `fails` where it is not there.
pub(in crate::config) fn env_source(
    reader: &mut Reader<'_>,
    of: &str,
    entry: &Entry<'_>,
    context: Context<'_>,
    fails: &str,
) -> Option<EnvSource> {
    let place = format!("variable `{}` of {of}", entry.key.escape_debug());
    let section = reader.table(entry, place)?;
    reader.reject_unknown(&section, &["from"]);
    source(reader, &section, entry.span.clone(), context, fails)
}
