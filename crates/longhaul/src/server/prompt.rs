//! Prompts: from a plain function to messages that a user begins with.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use longhaul_proto::dialect::Dialect;
use longhaul_proto::jsonrpc::{ErrorObject, clip};
use longhaul_proto::model::{self, Content, GetPromptParams, GetPromptResult, PromptArgument, PromptMessage};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::answer::{Dispatched, Envelope};
use super::ask::{Topic, when_answered};
use super::audience::Audience;
use super::completion::{Completers, IntoCompletion, Typed};
use super::context::Cx;
use super::dispatch::{Dispatcher, Exchange};
use super::failure::Failure;
use super::shelf::Item;
use super::state::{Need, States};
use super::{BuildError, schema, words};

/// A prompt being filled in.
pub type PromptFuture = Pin<Box<dyn Future<Output = Result<GetPromptResult, ErrorObject>> + Send>>;

/// The arguments of a prompt, by name.
pub type PromptArguments = BTreeMap<String, String>;

type Fill = Arc<dyn Fn(Cx, PromptArguments) -> Result<PromptFuture, ErrorObject> + Send + Sync>;

/// A prompt: what the list shows of it, and what fills it in.
///
/// # Examples
///
/// ```
/// use longhaul::server::Prompt;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Review {
///     /// The language it is written in.
///     language: String,
///     /// What to look at above all.
///     focus: Option<String>,
/// }
///
/// let review = Prompt::typed("review", "Review some code", |_, Review { language, focus }| async move {
///     format!("Review this {language} code. Look at {}.", focus.as_deref().unwrap_or("everything"))
/// })
/// .complete("language", |_, typed| async move {
///     let known = ["C", "Python", "Rust"].into_iter();
///     known.filter(|name| name.starts_with(&typed.value)).collect::<Vec<_>>()
/// });
/// # assert_eq!(review.definition().arguments.len(), 2);
/// ```
#[derive(Clone)]
pub struct Prompt {
    pub(super) definition: model::Prompt,
    fill: Fill,
    pub(super) completers: Completers,
    pub(super) needed: Vec<Need>,
}

impl Prompt {
    /// A prompt whose arguments are read as `A`, a struct; its fields, their descriptions and whether they are
    /// required make the list of arguments.
    ///
    /// Arguments are texts on the wire. A field that is a number or a `bool` is read from the words for it, an
    /// `Option` may be left out. Arguments that are no `A` are answered with `-32602`, and the function does not run.
    pub fn typed<A, F, R>(
        name: impl Into<String>,
        description: impl Into<String>,
        function: impl Fn(Cx, A) -> F + Send + Sync + 'static,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Future<Output = R> + Send + 'static,
        R: IntoPrompt,
    {
        let mut definition = model::Prompt::new(name).with_description(description);
        definition.arguments = schema::members::<A>().into_iter().map(argument).collect();
        let fill = move |cx, arguments| -> Result<PromptFuture, ErrorObject> {
            let arguments = words::read::<A>(&arguments)
                .map_err(|problem| ErrorObject::invalid_params(format!("invalid arguments: {problem}")))?;
            let filling = function(cx, arguments);
            Ok(Box::pin(async move { filling.await.into_prompt() }))
        };
        Self { definition, fill: Arc::new(fill), completers: Completers::default(), needed: Vec::new() }
    }

    /// A prompt described by hand, which gets its arguments by name. Those it requires are there.
    pub fn raw<F, R>(
        definition: model::Prompt,
        function: impl Fn(Cx, PromptArguments) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = R> + Send + 'static,
        R: IntoPrompt,
    {
        let fill = move |cx, arguments| -> Result<PromptFuture, ErrorObject> {
            let filling = function(cx, arguments);
            Ok(Box::pin(async move { filling.await.into_prompt() }))
        };
        Self { definition, fill: Arc::new(fill), completers: Completers::default(), needed: Vec::new() }
    }

    /// Completes an argument while it is typed: `function` gives what could be meant, the likeliest first.
    #[must_use]
    pub fn complete<F, R>(
        mut self,
        argument: impl Into<String>,
        function: impl Fn(Cx, Typed) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = R> + Send + 'static,
        R: IntoCompletion,
    {
        self.completers.add(argument, function);
        self
    }

    /// Completes whatever argument while it is typed, but those that are [completed](Self::complete) by themselves: `function`
    /// is given its name.
    #[must_use]
    pub fn complete_any<F, R>(
        mut self,
        function: impl Fn(Cx, String, Typed) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = R> + Send + 'static,
        R: IntoCompletion,
    {
        self.completers.add_any(function);
        self
    }

    /// What the list shows of it.
    pub fn definition(&self) -> &model::Prompt {
        &self.definition
    }

    pub(super) fn has_argument(&self, name: &str) -> bool {
        self.definition.arguments.iter().any(|argument| argument.name == name)
    }

    /// Whether it has the arguments that it completes, and the server what it needs.
    pub(super) fn check(&self, states: &States) -> Result<(), BuildError> {
        self.check_adorned(states, || format!("prompt {:?}", self.definition.name))?;
        match self.completers.arguments().find(|argument| !self.has_argument(argument)) {
            None => Ok(()),
            Some(argument) => Err(BuildError::NoSuchArgument {
                of: format!("prompt {:?}", self.definition.name),
                argument: argument.to_owned(),
            }),
        }
    }

    fn start(&self, cx: Cx, arguments: &str) -> Result<PromptFuture, ErrorObject> {
        let arguments: PromptArguments = {
            let mut reader = serde_json::Deserializer::from_str(arguments);
            serde_path_to_error::deserialize(&mut reader).map_err(|error| {
                let (path, inner) = (error.path(), error.inner());
                ErrorObject::invalid_params(format!("invalid arguments: `{path}`: {inner}"))
            })?
        };
        let required = self.definition.arguments.iter().filter(|argument| argument.required);
        let missing: Vec<_> = required.filter(|argument| !arguments.contains_key(&argument.name)).collect();
        if !missing.is_empty() {
            let names: Vec<_> = missing.iter().map(|argument| format!("`{}`", argument.name)).collect();
            let message =
                format!("missing arguments of prompt {}: {}", self.definition.name, names.join(", "));
            return Err(ErrorObject::invalid_params(message));
        }
        (self.fill)(cx, arguments)
    }
}

fn argument(member: schema::Member) -> PromptArgument {
    let mut argument = PromptArgument::optional(member.name);
    argument.title = member.title;
    argument.description = member.description;
    argument.required = member.required;
    argument
}

impl Item for Prompt {
    fn key(&self) -> &str {
        &self.definition.name
    }

    fn write(&self, dialect: &Dialect, _: Audience, out: &mut Vec<u8>) {
        dialect.write_prompt(&self.definition, out);
    }
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt").field("definition", &self.definition).finish_non_exhaustive()
    }
}

/// What a prompt's function may return.
#[diagnostic::on_unimplemented(
    message = "a prompt cannot return `{Self}`",
    label = "return a string, a `PromptMessage`, a `Vec` of them, a `GetPromptResult`, or a `Result` of one with an error"
)]
pub trait IntoPrompt: Send + 'static {
    /// Turns it into what the caller gets.
    ///
    /// # Errors
    ///
    /// What the request is answered with instead.
    fn into_prompt(self) -> Result<GetPromptResult, ErrorObject>;
}

impl IntoPrompt for GetPromptResult {
    fn into_prompt(self) -> Result<GetPromptResult, ErrorObject> {
        Ok(self)
    }
}

impl IntoPrompt for Vec<PromptMessage> {
    fn into_prompt(self) -> Result<GetPromptResult, ErrorObject> {
        Ok(GetPromptResult::new(self))
    }
}

impl IntoPrompt for PromptMessage {
    fn into_prompt(self) -> Result<GetPromptResult, ErrorObject> {
        vec![self].into_prompt()
    }
}

/// Something that the user says.
impl IntoPrompt for Content {
    fn into_prompt(self) -> Result<GetPromptResult, ErrorObject> {
        PromptMessage::user(self).into_prompt()
    }
}

/// Something that the user says.
impl IntoPrompt for String {
    fn into_prompt(self) -> Result<GetPromptResult, ErrorObject> {
        Content::text(self).into_prompt()
    }
}

/// Something that the user says.
impl IntoPrompt for &'static str {
    fn into_prompt(self) -> Result<GetPromptResult, ErrorObject> {
        Content::text(self).into_prompt()
    }
}

impl<T: IntoPrompt, E: Into<Failure> + Send + 'static> IntoPrompt for Result<T, E> {
    fn into_prompt(self) -> Result<GetPromptResult, ErrorObject> {
        self.map_err(|error| error.into().into()).and_then(T::into_prompt)
    }
}

pub(super) fn get_prompt(
    dispatcher: &Dispatcher,
    envelope: Envelope,
    exchange: Exchange<'_, '_>,
    out: &mut Vec<u8>,
) -> Dispatched {
    let (its, params) = (exchange.params, GetPromptParams::read(exchange.params));
    let params = match params {
        Ok(params) => params,
        Err(error) => return Dispatched::Answered(envelope.error(out, &error)),
    };
    let cx = Cx::new(
        dispatcher.0.states(),
        exchange.dialect,
        exchange.caller,
        exchange.progress_token,
        exchange.outlet,
        None,
    );
    let (asked, arguments) = ((cx.clone(), its), params.arguments);
    // To fill in a prompt changes nothing, so it may be done again.
    let topic = Topic { method: "prompts/get", name: &params.name, arguments, reentrant: true, asks: false };
    let begin = || match dispatcher.0.offer.prompts.find(&params.name) {
        Some(prompt) => prompt.start(cx, arguments),
        None => Err(ErrorObject::invalid_params(format!("unknown prompt: {}", clip(&params.name)))),
    };
    when_answered(&dispatcher.0.desk, envelope, asked, topic, begin, GetPromptResult::write, out)
}
