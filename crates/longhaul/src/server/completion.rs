//! Completion: what could come next in an argument of a prompt or a variable of a URI template.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use longhaul_proto::jsonrpc::{ErrorObject, clip};
use longhaul_proto::model::{CompleteParams, Completion, CompletionReference};

use super::answer::{Dispatched, Envelope, when_done};
use super::context::Cx;
use super::dispatch::{Dispatcher, Exchange};
use super::failure::Failure;

/// What has been typed so far.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Typed {
    /// Into the argument that is being completed.
    pub value: String,
    /// Into the others, as far as they are known.
    pub others: BTreeMap<String, String>,
}

/// What a completion may return.
#[diagnostic::on_unimplemented(
    message = "a completion cannot return `{Self}`",
    label = "return a `Vec` of strings, a `Completion`, or a `Result` of one with an error"
)]
pub trait IntoCompletion: Send + 'static {
    /// Turns it into what the caller gets.
    ///
    /// # Errors
    ///
    /// What the request is answered with instead.
    fn into_completion(self) -> Result<Completion, ErrorObject>;
}

impl IntoCompletion for Completion {
    fn into_completion(mut self) -> Result<Completion, ErrorObject> {
        self.has_more |= self.values.len() > Self::MAX_VALUES;
        self.values.truncate(Self::MAX_VALUES);
        Ok(self)
    }
}

impl<T: Into<String> + Send + 'static> IntoCompletion for Vec<T> {
    fn into_completion(self) -> Result<Completion, ErrorObject> {
        Ok(Completion::new(self))
    }
}

impl<T: IntoCompletion, E: Into<Failure> + Send + 'static> IntoCompletion for Result<T, E> {
    fn into_completion(self) -> Result<Completion, ErrorObject> {
        self.map_err(|error| error.into().into()).and_then(T::into_completion)
    }
}

type Completing = Pin<Box<dyn Future<Output = Result<Completion, ErrorObject>> + Send>>;

type CompleteAny = dyn Fn(Cx, String, Typed) -> Completing + Send + Sync;

/// The completions of one prompt or template.
#[derive(Clone, Default)]
pub(super) struct Completers {
    by_argument: HashMap<String, Arc<dyn Fn(Cx, Typed) -> Completing + Send + Sync>>,
    /// Of any other argument.
    any: Option<Arc<CompleteAny>>,
}

impl Completers {
    pub(super) fn add<F, R>(
        &mut self,
        argument: impl Into<String>,
        function: impl Fn(Cx, Typed) -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = R> + Send + 'static,
        R: IntoCompletion,
    {
        let function = move |cx, typed| -> Completing {
            let completing = function(cx, typed);
            Box::pin(async move { completing.await.into_completion() })
        };
        self.by_argument.insert(argument.into(), Arc::new(function));
    }

    pub(super) fn add_any<F, R>(&mut self, function: impl Fn(Cx, String, Typed) -> F + Send + Sync + 'static)
    where
        F: Future<Output = R> + Send + 'static,
        R: IntoCompletion,
    {
        let function = move |cx, argument, typed| -> Completing {
            let completing = function(cx, argument, typed);
            Box::pin(async move { completing.await.into_completion() })
        };
        self.any = Some(Arc::new(function));
    }

    /// The arguments that are completed by themselves.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &str> {
        self.by_argument.keys().map(String::as_str)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_argument.is_empty() && self.any.is_none()
    }

    /// Whether it is asked about arguments that nobody here knows of.
    fn knows_any(&self) -> bool {
        self.any.is_some()
    }

    fn start(&self, cx: Cx, argument: &str, typed: Typed) -> Option<Completing> {
        match (self.by_argument.get(argument), &self.any) {
            (Some(function), _) => Some(function(cx, typed)),
            (None, Some(any)) => Some(any(cx, argument.to_owned(), typed)),
            (None, None) => None,
        }
    }
}

impl fmt::Debug for Completers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_argument.keys()).finish()
    }
}

pub(super) fn complete(
    dispatcher: &Dispatcher,
    envelope: Envelope,
    exchange: Exchange<'_, '_>,
    out: &mut Vec<u8>,
) -> Dispatched {
    let params = CompleteParams::read(exchange.params);
    let cx = Cx::new(
        dispatcher.0.states(),
        exchange.dialect,
        exchange.caller,
        exchange.progress_token,
        exchange.outlet,
        None,
    );
    let begin = || start(dispatcher, cx.clone(), params?);
    when_done(envelope, cx.clone(), begin, Completion::write, out)
}

/// Finds what completes the argument. One that nothing completes has no completions.
fn start(dispatcher: &Dispatcher, cx: Cx, params: CompleteParams) -> Result<Completing, ErrorObject> {
    let offer = &dispatcher.0.offer;
    let argument = params.argument.name;
    let typed = Typed { value: params.argument.value, others: params.context };
    let unknown =
        |what: &str, name: &str| Err(ErrorObject::invalid_params(format!("unknown {what}: {}", clip(name))));
    let completing = match &params.reference {
        CompletionReference::Prompt { name, .. } => match offer.prompts.find(name) {
            None => return unknown("prompt", name),
            Some(prompt) if !prompt.has_argument(&argument) && !prompt.completers.knows_any() => {
                return unknown(&format!("argument of prompt {}", clip(name)), &argument);
            }
            Some(prompt) => prompt.completers.start(cx, &argument, typed),
        },
        CompletionReference::Resource { uri, .. } => match offer.templates.find(uri) {
            Some(template) if !template.has_variable(&argument) && !template.completers.knows_any() => {
                return unknown(&format!("variable of {}", clip(uri)), &argument);
            }
            Some(template) => template.completers.start(cx, &argument, typed),
            None if offer.has_resource(uri) => None,
            None => return unknown("resource", uri),
        },
        _ => {
            return Err(ErrorObject::invalid_params(
                "invalid params: `ref` is of no kind that is known here",
            ));
        }
    };
    let nothing =
        || -> Completing { Box::pin(std::future::ready(Ok(Completion::new(Vec::<String>::new())))) };
    Ok(completing.unwrap_or_else(nothing))
}
