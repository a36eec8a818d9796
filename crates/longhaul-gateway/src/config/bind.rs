//! From the arguments of a call to the command line that runs: everything is checked, then everything is put
//! together, and nothing a caller sends can become another argument, an option or code.

use std::{ffi::OsString, fmt, path::PathBuf};

use serde_json::value::RawValue;

use super::{
    argument::{ArgumentError, ArgumentErrors, Members},
    environment::{self, EnvError, Setting, Sources, VariableValue, Withheld},
    input::{Input, MAX_VALUE, Presence, json_type},
    spelling::nearest,
    template::{Piece, Template},
    tool::CommandTool,
    value::{Value, quoted},
    violation::{Rule, Violation},
};

impl CommandTool {
    /// Checks the arguments of a call, given as a JSON object, and puts the command line together.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the arguments, at once: unknown, missing and repeated names, values of the wrong
    /// type or outside the rules of their input, values that would be read as an option, and values too long to
    /// pass. Nothing has run then.
    ///
    /// # Examples
    ///
    /// ```
    /// let text = r#"
    ///     [tools.test]
    ///     description = "Run a crate's tests"
    ///     command = ["cargo", "test", "-p", "{crate}", "{filter}"]
    ///     input.crate = {}
    ///     input.filter = { required = false }
    /// "#;
    /// let checked = longhaul_gateway::config::check("longhaul.toml", text)?;
    /// let bound = checked.config.tools[0].bind(r#"{"crate": "api"}"#)?;
    /// assert_eq!(bound.argv, ["cargo", "test", "-p", "api"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bind(&self, arguments: &str) -> Result<Bound, ArgumentErrors> {
        let fail = |errors| ArgumentErrors::new(&self.name, self.signature(), errors);
        let (values, mut errors) = decode(&self.inputs, arguments);
        let mut writer = Writer { tool: self, values: &values, errors: Vec::new(), shown: Vec::new() };
        let argv = writer.argv();
        let env = writer.env();
        let stdin = writer.stdin();
        let Writer { errors: written, shown, .. } = writer;
        errors.extend(written);
        if !errors.is_empty() {
            return Err(fail(errors));
        }
        Ok(Bound {
            argv,
            cwd: self.cwd.clone(),
            stdin,
            arguments: canonical(&self.inputs, &values),
            shown_argv: shown,
            env,
            withheld: self.withheld.clone(),
        })
    }
}

/// The value of every input, `None` where it is left out or wrong, and what is wrong.
pub(super) fn decode(inputs: &[Input], arguments: &str) -> (Vec<Option<Value>>, Vec<ArgumentError>) {
    let mut errors = Vec::new();
    let mut values: Vec<Option<Value>> = vec![None; inputs.len()];
    let Ok(Members(members)) = serde_json::from_str(arguments) else {
        let found = match serde_json::from_str::<&RawValue>(arguments) {
            Ok(json) if !json.get().starts_with('{') => json_type(json.get()),
            _ => "broken JSON",
        };
        return (values, vec![ArgumentError::NotAnObject { found }]);
    };
    let mut passed = vec![false; inputs.len()];
    for (name, json) in members {
        let Some(index) = inputs.iter().position(|input| input.name == name) else {
            let names = inputs.iter().map(|input| input.name.as_str());
            let suggestion = nearest(&name, names).map(str::to_owned);
            errors.push(ArgumentError::Unknown { name: name.into_owned(), suggestion });
            continue;
        };
        if std::mem::replace(&mut passed[index], true) {
            errors.push(ArgumentError::Repeated { name: name.into_owned() });
            continue;
        }
        match inputs[index].decode(json) {
            Ok(value) => values[index] = Some(value),
            Err(violations) => errors.extend(
                violations
                    .into_iter()
                    .map(|violation| ArgumentError::Value { name: name.clone().into_owned(), violation }),
            ),
        }
    }
    for (index, input) in inputs.iter().enumerate().filter(|(index, _)| !passed[*index]) {
        match &input.presence {
            Presence::Required => errors
                .push(ArgumentError::Missing { name: input.name.clone(), expected: input.kind.described() }),
            Presence::Optional => {}
            Presence::Default(value) => values[index] = Some(value.clone()),
        }
    }
    (values, errors)
}

/// The arguments as one JSON text: declared order, defaults filled in, one spelling for each value.
pub(super) fn canonical(inputs: &[Input], values: &[Option<Value>]) -> String {
    let members: Vec<String> = inputs
        .iter()
        .zip(values)
        .filter_map(|(input, value)| Some(format!("{}:{}", quoted(&input.name), value.as_ref()?.to_json())))
        .collect();
    format!("{{{}}}", members.join(","))
}

/// One call, checked and put together: all that is needed to run its command.
///
/// `Debug` shows no value of a secret input and no variable.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bound {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The folder it runs in.
    pub cwd: PathBuf,
    /// What it reads from standard input; `None` is `/dev/null`.
    pub stdin: Option<String>,
    /// The arguments as one JSON text, equal for equal calls: declared order, defaults filled in, one spelling for each
    /// value. It holds the values of secret inputs.
    pub arguments: String,
    shown_argv: Vec<String>,
    env: Vec<(String, Setting)>,
    withheld: Withheld,
}

impl Bound {
    /// The command line as a person may see it: values of secret inputs are hidden.
    #[must_use]
    pub fn shown_argv(&self) -> &[String] {
        &self.shown_argv
    }

    /// The whole environment of the command: the server's own without its secrets (`LONGHAUL_*`, what the configuration
    /// reads or [withholds](super::Config::withhold), passwords of stores, headers for a collector), with the tool's variables on top. Values that are kept elsewhere are read now, so a
    /// changed secret is seen by the next call.
    ///
    /// # Errors
    ///
    /// When such a value is not there.
    pub fn environment(&self, sources: &dyn Sources) -> Result<Vec<(OsString, OsString)>, EnvError> {
        environment::environment(&self.env, &self.withheld, sources)
    }
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bound")
            .field("argv", &self.shown_argv)
            .field("cwd", &self.cwd)
            .field("env", &self.env.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("stdin", &self.stdin.as_ref().map(String::len))
            .finish_non_exhaustive()
    }
}

/// Puts texts together from values, collecting what cannot be passed.
struct Writer<'t> {
    tool: &'t CommandTool,
    values: &'t [Option<Value>],
    errors: Vec<ArgumentError>,
    shown: Vec<String>,
}

impl Writer<'_> {
    fn argv(&mut self) -> Vec<String> {
        let mut argv = Vec::with_capacity(self.tool.command.len());
        let mut total = 0;
        let mut ended = false;
        for (index, template) in self.tool.command.iter().enumerate() {
            ended |= template.as_literal() == Some("--");
            for (text, shown) in self.arguments(template, index > 0 && !ended) {
                total += text.len() + 1;
                self.check_length(template, "an argument", text.len(), MAX_ARGUMENT);
                argv.push(text);
                self.shown.push(shown);
            }
        }
        if total > MAX_COMMAND_LINE {
            let place = "the command line".to_owned();
            self.errors.push(ArgumentError::TooLong {
                names: Vec::new(),
                place,
                bytes: total,
                limit: MAX_COMMAND_LINE,
            });
        }
        argv
    }

    /// The arguments that one template becomes, each with the form a person may see.
    fn arguments(&mut self, template: &Template, options: bool) -> Vec<(String, String)> {
        if let Some(index) = template.sole_input()
            && self.tool.is_list(index)
        {
            let Some(Value::Array(items)) = &self.values[index] else { return Vec::new() };
            let secret = self.tool.inputs[index].secret;
            let mut arguments = Vec::with_capacity(items.len());
            for (item, text) in items.iter().enumerate() {
                if options && text.starts_with('-') {
                    self.refuse_dash(index, Some(item), text);
                }
                arguments.push((text.clone(), if secret { HIDDEN.to_owned() } else { text.clone() }));
            }
            return arguments;
        }
        let Some((text, shown)) = self.text(template) else { return Vec::new() };
        if options && text.starts_with('-') {
            // The first piece that is not empty begins the argument; when the author wrote it, the dash is theirs.
            let first = template.pieces().iter().find(|piece| match piece {
                Piece::Literal(text) => !text.is_empty(),
                Piece::Input(index) => self.value_text(*index).is_some_and(|text| !text.is_empty()),
            });
            if let Some(Piece::Input(index)) = first {
                let value = self.value_text(*index).unwrap_or_default();
                self.refuse_dash(*index, None, &value);
            }
        }
        vec![(text, shown)]
    }

    fn env(&mut self) -> Vec<(String, Setting)> {
        let tool = self.tool;
        let mut settings = Vec::with_capacity(tool.env.len());
        for variable in &tool.env {
            let setting = match &variable.value {
                VariableValue::From(source) => Setting::From(source.clone()),
                VariableValue::Template(template) => {
                    let Some((text, _)) = self.text(template) else { continue };
                    let limit = MAX_ARGUMENT - variable.name.len().min(MAX_ARGUMENT - 1) - 1;
                    self.check_length(
                        template,
                        &format!("the variable `{}`", variable.name),
                        text.len(),
                        limit,
                    );
                    Setting::Value(text)
                }
            };
            settings.push((variable.name.clone(), setting));
        }
        settings
    }

    fn stdin(&self) -> Option<String> {
        let template = self.tool.stdin.as_ref()?;
        if let Some(index) = template.sole_input() {
            return self.value_text(index);
        }
        // A text around an input that is left out is still to be read; only its place stays empty.
        let piece = |piece: &Piece| match piece {
            Piece::Literal(text) => text.clone(),
            Piece::Input(index) => self.value_text(*index).unwrap_or_default(),
        };
        Some(template.pieces().iter().map(piece).collect())
    }

    /// The text of a template with the form a person may see; `None` when an input in it is left out.
    fn text(&self, template: &Template) -> Option<(String, String)> {
        let mut text = String::new();
        let mut shown = String::new();
        for piece in template.pieces() {
            match piece {
                Piece::Literal(literal) => {
                    text.push_str(literal);
                    shown.push_str(literal);
                }
                Piece::Input(index) => {
                    let value = self.value_text(*index)?;
                    shown.push_str(if self.tool.inputs[*index].secret { HIDDEN } else { &value });
                    text.push_str(&value);
                }
            }
        }
        Some((text, shown))
    }

    fn value_text(&self, index: usize) -> Option<String> {
        self.values[index].as_ref().and_then(Value::text)
    }

    fn refuse_dash(&mut self, index: usize, item: Option<usize>, value: &str) {
        let input = &self.tool.inputs[index];
        if input.allow_dash {
            return;
        }
        let mut violation = Violation::new(Rule::NoDash, Some(quoted(value)));
        if let Some(item) = item {
            violation = violation.of_item(item);
        }
        if input.secret {
            violation.redact();
        }
        let error = ArgumentError::Value { name: input.name.clone(), violation };
        // An input may stand in several arguments, and is told once.
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    fn check_length(&mut self, template: &Template, place: &str, bytes: usize, limit: usize) {
        if bytes > limit {
            let mut names: Vec<String> =
                template.inputs().map(|index| self.tool.inputs[index].name.clone()).collect();
            names.sort();
            names.dedup();
            self.errors.push(ArgumentError::TooLong { names, place: place.to_owned(), bytes, limit });
        }
    }
}

/// What stands for the value of a secret input wherever a person looks.
const HIDDEN: &str = "[hidden]";

/// The most bytes one argument may have: Linux counts its closing NUL as well.
const MAX_ARGUMENT: usize = MAX_VALUE - 1;

/// The most bytes all arguments together may have, so that they fit beside the environment in what Linux grants.
pub const MAX_COMMAND_LINE: usize = 1 << 20;
