//! A form filled in field by field, in plain lines: they work on any terminal, and for who is read to.

use longhaul::proto::model::{ElicitForm, ElicitResult, Field, FieldKind, FieldOption};
use serde_json::{Map, Value};

use super::field;
use crate::term::clean;

/// Where a person is asked, and answers line by line.
pub(super) trait Dialogue: Send {
    /// Shows a line.
    fn say(&mut self, line: &str);

    /// Asks for a line; `None` once none will come.
    fn ask(&mut self, prompt: &str) -> impl Future<Output = Option<String>> + Send;
}

/// What a person said.
enum Said {
    /// This, or nothing.
    Line(String),
    /// That the field is left out.
    Skip,
    /// An answer to the whole.
    Whole(ElicitResult),
}

/// How a person gets out of a form.
const WAYS_OUT: &str = "Enter takes what stands in [ ]; !decline, !cancel; Ctrl-C leaves";

/// Asks for each field in its turn; `None` if nobody is there any more.
pub(super) async fn fill_in(asked: &ElicitForm, to: &mut impl Dialogue) -> Option<ElicitResult> {
    to.say(&format!("  {WAYS_OUT}"));
    let fields: Vec<(&str, &Field, bool)> = asked.form.fields().collect();
    if fields.is_empty() {
        return go_ahead(to).await;
    }
    let mut values = Map::new();
    for field in &fields {
        if let Some(whole) = ask(field, &mut values, to).await? {
            return Some(whole);
        }
    }
    // One answer needs no second look.
    while fields.len() > 1 {
        review(&fields, &values, to);
        match said(to, "  send it? [Y, or a field to change]: ").await? {
            Said::Whole(whole) => return Some(whole),
            Said::Line(line) if matches!(line.to_lowercase().as_str(), "" | "y" | "yes") => break,
            Said::Line(name) if fields.iter().any(|(known, ..)| *known == name) => {
                for field in fields.iter().filter(|(known, ..)| *known == name) {
                    if let Some(whole) = ask(field, &mut values, to).await? {
                        return Some(whole);
                    }
                }
            }
            Said::Line(_) | Said::Skip => to.say("  ! y sends it; the name of a field asks for it again"),
        }
    }
    Some(accepted(&values))
}

/// An answer of these values.
pub(crate) fn accepted(values: &Map<String, Value>) -> ElicitResult {
    match serde_json::value::to_raw_value(values) {
        Ok(content) => ElicitResult::accepted(content),
        Err(_) => ElicitResult::cancelled(),
    }
}

/// A form without fields: a yes or no.
async fn go_ahead(to: &mut impl Dialogue) -> Option<ElicitResult> {
    loop {
        match said(to, "  go ahead? [y/n]: ").await? {
            Said::Whole(whole) => return Some(whole),
            Said::Line(line) => match line.to_lowercase().as_str() {
                "y" | "yes" => return Some(accepted(&Map::new())),
                "n" | "no" => return Some(ElicitResult::declined()),
                _ => to.say("  ! y or n"),
            },
            Said::Skip => to.say("  ! y or n"),
        }
    }
}

/// Asks for one field until there is a value that fits it, which goes among the others.
async fn ask(
    &(name, field, is_required): &(&str, &Field, bool),
    values: &mut Map<String, Value>,
    to: &mut impl Dialogue,
) -> Option<Option<ElicitResult>> {
    // What was typed before is not to be typed again.
    let before = values.get(name).map(as_typed).or_else(|| field::default(field));
    describe(name, field, to);
    let prompt = prompt(name, field, is_required, before.as_deref());
    loop {
        let typed = match said(to, &prompt).await? {
            Said::Whole(whole) => return Some(Some(whole)),
            Said::Skip if is_required => {
                to.say("  ! it has to be filled in");
                continue;
            }
            Said::Skip => {
                values.remove(name);
                return Some(None);
            }
            Said::Line(line) if line.is_empty() => match &before {
                Some(before) => before.clone(),
                None if is_required => {
                    to.say("  ! it has to be filled in");
                    continue;
                }
                None => return Some(None),
            },
            Said::Line(line) => line,
        };
        match field::read(field, &typed) {
            Ok(value) => {
                values.insert(name.to_owned(), value);
                return Some(None);
            }
            Err(expected) => to.say(&format!("  ! it takes {expected}")),
        }
    }
}

/// What is to be read before its field is asked for.
fn describe(name: &str, field: &Field, to: &mut impl Dialogue) {
    let title = field.title().filter(|title| *title != name);
    for words in title.into_iter().chain(field.description()) {
        for line in clean::text(words).lines().take(LINES) {
            to.say(&format!("  {}", clean::line(line, 400)));
        }
    }
    if let FieldKind::Choice { options } | FieldKind::Choices { options, .. } = field.kind() {
        let is_numbered = field::is_numbered(&options);
        for (at, option) in options.iter().enumerate() {
            let number = if is_numbered { format!("{:>4}  ", at + 1) } else { "      ".to_owned() };
            to.say(&format!("{number}{}", shown(option)));
        }
    }
}

/// How many lines of a description are shown.
const LINES: usize = 20;

fn shown(option: &FieldOption<'_>) -> String {
    match option.title {
        Some(title) if title != option.value => clean::line(&format!("{title} ({})", option.value), 120),
        _ => clean::line(option.value, 120),
    }
}

fn prompt(name: &str, field: &Field, is_required: bool, before: Option<&str>) -> String {
    let mut prompt = format!("  {}", clean::line(name, 60));
    let takes = field::takes(field);
    if !takes.is_empty() {
        prompt += &format!(", {takes}");
    }
    match before {
        Some(before) => prompt += &format!(" [{}]", clean::line(before, 80)),
        None if !is_required => prompt += " (or nothing)",
        None => {}
    }
    prompt + ": "
}

/// What was filled in, before it goes.
fn review(fields: &[(&str, &Field, bool)], values: &Map<String, Value>, to: &mut impl Dialogue) {
    to.say("");
    for (name, ..) in fields {
        let value = values.get(*name).map_or_else(|| "(nothing)".to_owned(), as_typed);
        to.say(&format!("  {} = {}", clean::line(name, 60), clean::line(&value, 200)));
    }
}

/// A value as one would type it.
fn as_typed(value: &Value) -> String {
    match value {
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(as_typed).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

async fn said(to: &mut impl Dialogue, prompt: &str) -> Option<Said> {
    loop {
        let line = to.ask(prompt).await?;
        let line = line.trim();
        let Some(command) = line.strip_prefix('!') else {
            if line.chars().any(char::is_control) {
                to.say("  ! there is a key in it that is no letter; type it again");
                continue;
            }
            return Some(Said::Line(line.to_owned()));
        };
        match command {
            "d" | "decline" => return Some(Said::Whole(ElicitResult::declined())),
            "c" | "cancel" => return Some(Said::Whole(ElicitResult::cancelled())),
            "s" | "skip" => return Some(Said::Skip),
            // What begins with the sign itself has it twice.
            text if text.starts_with('!') => return Some(Said::Line(text.to_owned())),
            _ => to.say("  ! there are !decline, !cancel and !skip; write !! for a value that begins with !"),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use longhaul::proto::model::{ElicitAction, Form};
    use serde_json::json;

    use super::*;

    /// A person who says these lines, and what they were shown.
    pub(in crate::ask) struct Person {
        lines: std::collections::VecDeque<&'static str>,
        pub(in crate::ask) shown: String,
    }

    impl Person {
        pub(in crate::ask) fn who_says(lines: &[&'static str]) -> Self {
            Self { lines: lines.iter().copied().collect(), shown: String::new() }
        }
    }

    impl Dialogue for Person {
        fn say(&mut self, line: &str) {
            self.shown += &format!("{line}\n");
        }

        async fn ask(&mut self, prompt: &str) -> Option<String> {
            let line = self.lines.pop_front()?;
            self.shown += &format!("{prompt}{line}\n");
            Some(line.to_owned())
        }
    }

    async fn fill(form: Form, lines: &[&'static str]) -> (Option<(ElicitAction, Value)>, String) {
        let mut person = Person::who_says(lines);
        let asked = ElicitForm::new("?", form);
        let result = fill_in(&asked, &mut person).await;
        assert_eq!(person.lines.pop_front(), None, "a line is left over: {}", person.shown);
        let result = result.map(|result| {
            let content = result.content.map_or(Value::Null, |raw| serde_json::from_str(raw.get()).unwrap());
            if result.action == ElicitAction::Accept {
                assert_eq!(asked.form.check(&content.to_string()), Ok(()));
            }
            (result.action, content)
        });
        (result, person.shown)
    }

    fn deploy() -> Form {
        Form::new()
            .with("shards", Field::integer().titled("How many at once").within(1.0, 64.0).defaulting_to(8))
            .with("to", Field::named_choice([("stage", "Staging"), ("prod", "Production")]))
            .with_optional("note", Field::text().described("For the log\u{1b}[31m"))
            .with("go", Field::flag())
    }

    /// A8 of `conformance/REQUIREMENTS.md`.
    #[tokio::test]
    async fn a_form_is_filled_in_line_by_line_and_looked_at_before_it_goes() {
        let lines = ["", "2", "", "maybe", "y", "shards", "65", "4", "send", "y"];
        let (result, shown) = fill(deploy(), &lines).await;
        assert_eq!(result, Some((ElicitAction::Accept, json!({ "shards": 4, "to": "prod", "go": true }))));
        assert_eq!(
            shown,
            "  Enter takes what stands in [ ]; !decline, !cancel; Ctrl-C leaves\n\
             \x20 How many at once\n\
             \x20 shards, 1 to 64 [8]: \n\
             \x20  1  Staging (stage)\n\
             \x20  2  Production (prod)\n\
             \x20 to, 1 to 2: 2\n\
             \x20 For the log\n\
             \x20 note (or nothing): \n\
             \x20 go, y/n: maybe\n\
             \x20 ! it takes yes or no\n\
             \x20 go, y/n: y\n\
             \n\
             \x20 shards = 8\n  to = prod\n  note = (nothing)\n  go = yes\n\
             \x20 send it? [Y, or a field to change]: shards\n\
             \x20 How many at once\n\
             \x20 shards, 1 to 64 [8]: 65\n\
             \x20 ! it takes a whole number, 1 to 64\n\
             \x20 shards, 1 to 64 [8]: 4\n\
             \n\
             \x20 shards = 4\n  to = prod\n  note = (nothing)\n  go = yes\n\
             \x20 send it? [Y, or a field to change]: send\n\
             \x20 ! y sends it; the name of a field asks for it again\n\
             \n\
             \x20 shards = 4\n  to = prod\n  note = (nothing)\n  go = yes\n\
             \x20 send it? [Y, or a field to change]: y\n"
        );
    }

    #[tokio::test]
    async fn whoever_is_asked_may_say_no_set_it_aside_or_go() {
        assert_eq!(fill(deploy(), &["!decline"]).await.0, Some((ElicitAction::Decline, Value::Null)));
        assert_eq!(fill(deploy(), &["", "!c"]).await.0, Some((ElicitAction::Cancel, Value::Null)));
        assert_eq!(fill(deploy(), &["3"]).await.0, None, "nobody is there any more");
        let text = || Form::new().with("t", Field::text());
        let (result, shown) = fill(text(), &["", "!skip", "!what", "a\u{1b}[A", "!!x"]).await;
        assert_eq!(result, Some((ElicitAction::Accept, json!({ "t": "!x" }))));
        assert!(shown.contains("it has to be filled in") && shown.contains("no letter"), "{shown}");
        let optional = Form::new().with_optional("t", Field::text().defaulting_to("x"));
        assert_eq!(fill(optional.clone(), &[""]).await.0, Some((ElicitAction::Accept, json!({ "t": "x" }))));
        assert_eq!(fill(optional, &["!skip"]).await.0, Some((ElicitAction::Accept, json!({}))));
        assert_eq!(fill(Form::new(), &["?", "y"]).await.0, Some((ElicitAction::Accept, json!({}))));
        assert_eq!(fill(Form::new(), &["n"]).await.0, Some((ElicitAction::Decline, Value::Null)));
    }
}
