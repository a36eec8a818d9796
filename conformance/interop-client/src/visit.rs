//! A connection to a server, and an application that answers whatever it is asked and remembers what it was.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use longhaul::client::{Client, Hosting, LogMessage, Options, Target};
use longhaul::proto::dialect::Revision;
use longhaul::proto::model::{
    CallToolResult, Content, CreateMessageResult, ElicitAction, ElicitForm, ElicitResult, ElicitUrl,
    InvalidAnswer, LoggingLevel, Root,
};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// The form that nobody answers.
pub(crate) const NEVER_MIND: &str = "Never mind";

/// One connection, with what its application was asked and told.
pub(crate) struct Visit {
    pub(crate) client: Client,
    pub(crate) user: Arc<User>,
}

/// What the application was asked and told.
#[derive(Debug, Default)]
pub(crate) struct User {
    pub(crate) forms: Mutex<Vec<String>>,
    pub(crate) pages: Mutex<Vec<String>>,
    pub(crate) samples: Mutex<Vec<String>>,
    pub(crate) logs: Mutex<Vec<String>>,
    /// Where it says that the server may work.
    pub(crate) roots: Mutex<Vec<String>>,
}

impl Visit {
    /// Connects.
    pub(crate) async fn begin(target: Target, revision: Option<Revision>) -> Result<Self> {
        let user = Arc::new(User::default());
        note(&user.roots, "file:///work".to_owned());
        let mut options = answering(&user);
        options.revision = revision;
        Ok(Self { client: Client::connect_with(target, options).await?, user })
    }

    /// Calls a tool that must not fail, and gives its texts.
    pub(crate) async fn text_of(&self, tool: &str, arguments: &Value) -> Result<String> {
        text(tool, &self.client.call(tool, arguments).await?)
    }
}

/// The texts of a result that must not be a failure.
pub(crate) fn text(tool: &str, result: &CallToolResult) -> Result<String> {
    let texts: Vec<&str> = result.content.iter().filter_map(Content::as_text).collect();
    ensure!(!result.is_error, "{tool} failed: {texts:?}");
    Ok(texts.join("\n"))
}

/// Options of an application that says yes to everything.
fn answering(user: &Arc<User>) -> Options {
    let remembering = || Arc::clone(user);
    let (its, forms) = (remembering(), remembering());
    let hosting = Hosting::default().poll_interval(Duration::from_millis(50));
    let options = Options::default().host_tasks(hosting).on_form(move |form| {
        note(&forms.forms, form.message.clone());
        async move {
            if form.message == NEVER_MIND {
                std::future::pending::<()>().await;
            }
            ElicitResult::accepted(filled_in(&form))
        }
    });
    let options = options.on_page(move |page: ElicitUrl| {
        note(&its.pages, page.url);
        async { ElicitAction::Accept }
    });
    let its = remembering();
    let options = options.on_sample_with_tools(move |params| {
        let asked = params.messages.iter().flat_map(|message| &message.content);
        let asked: Vec<&str> = asked.filter_map(|content| content.as_text()).collect();
        note(&its.samples, asked.join("\n"));
        async { Ok(CreateMessageResult::new("a-model", "a sample")) }
    });
    let its = remembering();
    let options = options.on_log(LoggingLevel::Debug, move |LogMessage { data, .. }| {
        note(&its.logs, data.get().to_owned());
    });
    let its = remembering();
    options.on_roots(move || {
        let roots = noted(&its.roots).into_iter().map(Root::new).collect();
        async { roots }
    })
}

/// What a user sends who leaves each field as it is and puts the first thing that fits into those that must be filled in.
fn filled_in(form: &ElicitForm) -> Box<RawValue> {
    let defaults = form.form.defaults();
    let mut content: Map<String, Value> = serde_json::from_str(defaults.get()).unwrap_or_default();
    let written = |content: &Map<String, Value>| Value::Object(content.clone()).to_string();
    while let Err(InvalidAnswer { field: Some(field), .. }) = form.form.check(&written(&content)) {
        let fits = |value: &Value| {
            let mut content = content.clone();
            content.insert(field.clone(), value.clone());
            !matches!(form.form.check(&written(&content)), Err(wrong) if wrong.field.as_ref() == Some(&field))
        };
        let things = [json!("Ada"), json!("technical"), json!(true), json!(7)];
        let Some(thing) = things.into_iter().find(fits) else { break };
        content.insert(field, thing);
    }
    RawValue::from_string(written(&content)).expect("what was just written is JSON")
}

/// Notes one thing more.
pub(crate) fn note(list: &Mutex<Vec<String>>, item: String) {
    list.lock().unwrap_or_else(PoisonError::into_inner).push(item);
}

/// What was noted so far.
pub(crate) fn noted(list: &Mutex<Vec<String>>) -> Vec<String> {
    list.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
