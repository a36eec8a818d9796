//! What a task asks, as a form that answers it.

use http::StatusCode;
use longhaul::proto::model::{
    ElicitAction, ElicitParams, ElicitResult, Field, FieldKind, FieldValue, Form, TextFormat,
};
use longhaul::store::{Owner, Question, Record, Time};
use maud::{Markup, html};
use serde_json::value::to_raw_value;
use serde_json::{Map, Number, Value};

use super::form::{encoded, value, values};
use super::frame;
use super::respond::{self, Answer};
use super::route::{Asked, Look};
use super::task;
use crate::admin::{AdminError, Reaction, asked as asked_of, why};
use crate::clean;

/// An answer that did not fit, so that nobody has to type it again.
pub(super) struct Filled {
    key: String,
    problem: String,
    body: Vec<u8>,
}

/// Every question of a task.
pub(super) fn section(record: &Record, now: Time, filled: Option<&Filled>) -> Markup {
    let asked = asked_of(record);
    html! {
        div id="questions" {
            @for (index, question) in record.questions.iter().enumerate() {
                @let found = asked.iter().find(|(key, _)| *key == &*question.key);
                section.question aria-labelledby={ "question-" (index) } {
                    h2 id={ "question-" (index) } { "It asks" }
                    @match found {
                        Some((_, asked)) => (form(record, question, asked, index, filled.filter(|filled| *filled.key == *question.key))),
                        None => p { (why(record, None, now).words) ". The program that called has to answer that." },
                    }
                    p.hint {
                        "Asked " (frame::ago(question.asked_at, now)) "."
                        @if let Some(deadline) = question.deadline { " To be answered " (frame::within(deadline, now)) "." }
                        " The first answer counts, whoever gives it."
                    }
                    @if found.is_some() { p.hint { (answerers(record)) } }
                }
            }
        }
    }
}

/// Who may answer.
fn answerers(record: &Record) -> String {
    let owner = match &record.owner {
        Owner::Principal(principal) => format!("{}, whose task it is,", clean::line(principal.as_str(), 200)),
        Owner::Anonymous => "Whoever has its id".to_owned(),
    };
    format!("{owner} may answer, and so may the operator of the server.")
}

fn form(
    record: &Record,
    question: &Question,
    asked: &ElicitParams,
    index: usize,
    filled: Option<&Filled>,
) -> Markup {
    let place = format!("/tasks/{}/answer", encoded(record.id.as_str()));
    let (message, accept) = match asked {
        ElicitParams::Form(form) => (&form.message, "Send the answer"),
        ElicitParams::Url(page) => (&page.message, "I have been there"),
    };
    html! {
        p.message { (clean::text(message)) }
        @if let Some(filled) = filled { p.problem role="alert" { (clean::line(&filled.problem, 300)) } }
        form.answer method="post" action=(place) {
            input type="hidden" name="key" value=(question.key);
            @match asked {
                ElicitParams::Form(form) => {
                    @for (number, (name, field, is_required)) in form.form.fields().enumerate() {
                        (input(&format!("f-{index}-{number}"), name, field, is_required, filled))
                    }
                }
                ElicitParams::Url(page) => (visit(&page.url)),
            }
            p.buttons {
                button type="submit" name="action" value="accept" { (accept) }
                button.plain type="submit" name="action" value="decline" formnovalidate { "Decline" }
                button.plain type="submit" name="action" value="cancel" formnovalidate { "Dismiss" }
            }
        }
    }
}

/// A page that the user is to visit: a link if it is one of the web, and words if not.
fn visit(url: &str) -> Markup {
    let shown = clean::line(url, 400);
    if url.starts_with("https://") || url.starts_with("http://") {
        html! { p { a href=(url) rel="noopener noreferrer" target="_blank" { (shown) } } }
    } else {
        html! { p { code { (shown) } } }
    }
}

/// The name of a field among those of the form that are ours.
fn named(name: &str) -> String {
    format!("f.{name}")
}

fn input(id: &str, name: &str, field: &Field, is_required: bool, filled: Option<&Filled>) -> Markup {
    let label = clean::line(field.title().unwrap_or(name), 120);
    let help = field.description().map(clean::text);
    let described = help.as_ref().map(|_| format!("{id}-help"));
    let key = named(name);
    let given = filled.map(|filled| values(&filled.body, &key));
    let text = match &given {
        Some(given) => given.first().map(ToString::to_string).unwrap_or_default(),
        None => field.default().map(typed).unwrap_or_default(),
    };
    let chosen: Vec<String> = match &given {
        Some(given) => given.iter().map(ToString::to_string).collect(),
        None => match field.default() {
            Some(FieldValue::Many(values)) => values,
            Some(FieldValue::Text(text)) => vec![text],
            _ => Vec::new(),
        },
    };
    let optional = if is_required { "" } else { " (optional)" };
    let body = match field.kind() {
        FieldKind::Text { format, length } => {
            let kind = match format {
                Some(TextFormat::Email) => "email",
                Some(TextFormat::Uri) => "url",
                Some(TextFormat::Date) => "date",
                _ => "text",
            };
            html! { input id=(id) name=(key) type=(kind) value=(text) required[is_required] minlength=[length.0] maxlength=[length.1] aria-describedby=[described]; }
        }
        FieldKind::Number { whole, range } => html! {
            input id=(id) name=(key) type="number" value=(text) step=(if whole { "1" } else { "any" }) min=[range.0] max=[range.1] required[is_required] aria-describedby=[described];
        },
        FieldKind::Flag => html! {
            select id=(id) name=(key) required[is_required] aria-describedby=[described] {
                option value="" selected[text.is_empty()] { "–" }
                option value="yes" selected[text == "yes"] { "yes" }
                option value="no" selected[text == "no"] { "no" }
            }
        },
        FieldKind::Choice { options } => html! {
            select id=(id) name=(key) required[is_required] aria-describedby=[described] {
                option value="" selected[chosen.is_empty()] { "–" }
                @for option in &options {
                    option value=(option.value) selected[chosen.iter().any(|one| one == option.value)] { (clean::line(option.title.unwrap_or(option.value), 120)) }
                }
            }
        },
        FieldKind::Choices { options, .. } => {
            return html! {
                fieldset.field aria-describedby=[described.clone()] {
                    legend { (label) (optional) }
                    @for (number, option) in options.iter().enumerate() {
                        @let each = format!("{id}-{number}");
                        div.choice {
                            input id=(each) type="checkbox" name=(key) value=(option.value) checked[chosen.iter().any(|one| one == option.value)];
                            label for=(each) { (clean::line(option.title.unwrap_or(option.value), 120)) }
                        }
                    }
                    @if let Some(help) = help { p.hint id={ (id) "-help" } { (help) } }
                }
            };
        }
    };
    html! {
        div.field {
            label for=(id) { (label) (optional) }
            (body)
            @if let Some(help) = help { p.hint id={ (id) "-help" } { (help) } }
        }
    }
}

/// A value as one would type it.
fn typed(value: FieldValue) -> String {
    match value {
        FieldValue::Text(text) => text,
        FieldValue::Number(number) => number.to_string(),
        FieldValue::Flag(true) => "yes".to_owned(),
        FieldValue::Flag(false) => "no".to_owned(),
        FieldValue::Many(values) => values.join(", "),
    }
}

/// What was filled in, as the form wants it. What was left empty is left out.
fn filled_in(form: &Form, body: &[u8]) -> Map<String, Value> {
    let mut content = Map::new();
    for (name, field, is_required) in form.fields() {
        let given = values(body, &named(name));
        let first = given.first().map(|first| &**first).unwrap_or_default();
        let value = match field.kind() {
            FieldKind::Choices { .. } if given.is_empty() && !is_required => continue,
            FieldKind::Choices { .. } => given.iter().map(|one| Value::from(&**one)).collect(),
            FieldKind::Text { .. } if first.is_empty() && is_required => Value::from(""),
            _ if first.is_empty() => continue,
            FieldKind::Number { .. } => number(first),
            FieldKind::Flag => Value::from(first == "yes"),
            FieldKind::Text { .. } | FieldKind::Choice { .. } => Value::from(first),
        };
        content.insert(name.to_owned(), value);
    }
    content
}

/// A number; what is none stays the text that it is, and is refused as such.
fn number(text: &str) -> Value {
    let whole = text.parse::<i64>().ok().map(Value::from);
    let any = || text.parse().ok().and_then(Number::from_f64).map(Value::Number);
    whole.or_else(any).unwrap_or_else(|| text.into())
}

/// Takes an answer.
pub(super) async fn answer(look: Look<'_>, id: &str, asked: &Asked<'_>) -> Result<Answer, AdminError> {
    let record = look.inner.admin.task(look.viewer, id).await?;
    let key = value(asked.body, "key").unwrap_or_default().into_owned();
    let action = value(asked.body, "action").unwrap_or_default();
    let form = asked_of(&record).into_iter().find_map(|(known, asked)| match asked {
        ElicitParams::Form(form) if known == key => Some(form.form),
        _ => None,
    });
    let reaction = match (&*action, form) {
        ("accept", Some(form)) => {
            let content = to_raw_value(&filled_in(&form, asked.body)).expect("what was filled in is JSON");
            Reaction::of(&key, &ElicitResult::accepted(content))
        }
        ("accept", None) => Reaction::without_content(&key, ElicitAction::Accept),
        ("decline", _) => Reaction::without_content(&key, ElicitAction::Decline),
        ("cancel", _) => Reaction::without_content(&key, ElicitAction::Cancel),
        _ => return Err(AdminError::Unreadable("the answer is neither yes nor no".to_owned())),
    };
    match look.inner.admin.react(look.viewer, id, reaction).await {
        Ok(_) => Ok(respond::see_other(&format!("/tasks/{}", encoded(id)))),
        Err(AdminError::Unreadable(problem)) => {
            let filled = Filled { key, problem, body: asked.body.to_vec() };
            task::show(look, id, StatusCode::UNPROCESSABLE_ENTITY, Some(&filled)).await
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_in_is_what_the_form_asks_for() {
        let form = Form::new()
            .with("shards", Field::integer().within(1.0, 64.0))
            .with("go", Field::flag())
            .with("to", Field::choice(["stage", "prod"]))
            .with_optional("note", Field::text())
            .with_optional("on", Field::choices(["a", "b"]));
        let fill = |body: &str| {
            let content = Value::Object(filled_in(&form, body.as_bytes())).to_string();
            let checked = form.check(&content).map_err(|wrong| wrong.to_string());
            checked.map(|()| content)
        };
        let full = fill("key=k&f.shards=8&f.go=yes&f.to=prod&f.note=a+b&f.on=a&f.on=b").unwrap();
        assert_eq!(full, r#"{"go":true,"note":"a b","on":["a","b"],"shards":8,"to":"prod"}"#);
        assert_eq!(
            fill("f.shards=8&f.go=no&f.to=prod&f.note=").unwrap(),
            r#"{"go":false,"shards":8,"to":"prod"}"#
        );
        for wrong in [
            "",
            "f.shards=65&f.go=no&f.to=prod",
            "f.shards=x&f.go=no&f.to=prod",
            "f.shards=8&f.go=no&f.to=moon",
        ] {
            assert!(fill(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_link_leads_to_a_script() {
        assert!(!visit("javascript:alert(1)").into_string().contains("href"));
        assert!(
            visit("https://example.com/?a=\"b")
                .into_string()
                .contains("href=\"https://example.com/?a=&quot;b\"")
        );
    }
}
