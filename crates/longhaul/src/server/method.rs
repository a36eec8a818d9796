//! Methods of a server's own, which no revision knows.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use longhaul_proto::dialect::{Dialect, ResultWriter};
use longhaul_proto::jsonrpc::ErrorObject;
use longhaul_proto::model::Meta;
use longhaul_tasks::store::Json;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::answer::{Dispatched, Envelope, when_done};
use super::call::conversation;
use super::context::Cx;
use super::dispatch::{Dispatcher, Exchange};
use super::failure::Failure;
use super::opened::Opening;
use super::policy::TaskPolicy;

type Working = Pin<Box<dyn Future<Output = Result<Members, ErrorObject>> + Send>>;
type Function = Arc<dyn Fn(Cx, &str) -> Result<Working, ErrorObject> + Send + Sync>;

/// The members of a result.
struct Members(Meta);

/// The methods of one server, by name.
#[derive(Clone, Default)]
pub(super) struct OwnMethods {
    functions: HashMap<String, Function>,
    names: Arc<[String]>,
}

impl OwnMethods {
    pub(super) fn add<P, F, R, E>(
        &mut self,
        name: impl Into<String>,
        function: impl Fn(Cx, P) -> F + Send + Sync + 'static,
    ) where
        P: DeserializeOwned + Send + 'static,
        F: Future<Output = Result<R, E>> + Send + 'static,
        R: Serialize + Send + 'static,
        E: Into<Failure> + Send + 'static,
    {
        let function = move |cx: Cx, params: &str| -> Result<Working, ErrorObject> {
            let params = serde_json::from_str(params)
                .map_err(|error| ErrorObject::invalid_params(format!("invalid params: {error}")))?;
            let working = function(cx, params);
            Ok(Box::pin(async move { Members::of(&working.await.map_err(Into::into)?) }))
        };
        self.functions.insert(name.into(), Arc::new(function));
        self.names = self.functions.keys().cloned().collect();
    }

    /// A name that some revision has a meaning for, or may have: those of tasks are kept for them (SEP-2663).
    pub(super) fn known(&self) -> Option<&str> {
        let kept = |name: &str| ["tasks/", "notifications/tasks/"].iter().any(|kept| name.starts_with(kept));
        let known =
            |name: &&str| kept(name) || Dialect::spoken().any(|dialect| dialect.request(name).is_some());
        self.functions.keys().map(String::as_str).find(known)
    }

    pub(super) fn names(&self) -> Arc<[String]> {
        Arc::clone(&self.names)
    }

    #[cfg(feature = "http")]
    pub(super) fn has(&self, name: &str) -> bool {
        self.functions.contains_key(name)
    }
}

impl fmt::Debug for OwnMethods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.functions.keys()).finish()
    }
}

impl Members {
    fn of(result: &impl Serialize) -> Result<Self, ErrorObject> {
        let text = serde_json::to_string(result).map_err(Failure::from)?;
        serde_json::from_str(&text)
            .map(Self)
            .map_err(|_| ErrorObject::internal("internal error: the result of a method must be an object"))
    }

    fn write(&self, result: &mut ResultWriter<'_>) {
        let mut meta = Meta::new();
        for (name, value) in self.0.iter() {
            match name {
                "_meta" => meta = serde_json::from_str(value.get()).unwrap_or_default(),
                // The dialect says what kind of result it is.
                "resultType" => {}
                _ => result.raw(name, value.get()),
            }
        }
        result.meta(&meta);
    }
}

pub(super) fn own_method(
    dispatcher: &Dispatcher,
    envelope: Envelope,
    exchange: Exchange<'_, '_>,
    out: &mut Vec<u8>,
) -> Dispatched {
    let params = exchange.params.as_str().unwrap_or("{}");
    let name = exchange.name;
    let cx = Cx::new(
        dispatcher.0.states(),
        exchange.dialect,
        exchange.caller,
        exchange.progress_token,
        exchange.outlet,
        None,
    );
    let shared = &dispatcher.0;
    if shared.capabilities.tasks {
        cx.may_open(Opening {
            shared: Arc::clone(shared),
            name: name.into(),
            arguments: Json::parse(params).unwrap_or_else(|_| Json::null()),
            conversation: conversation(exchange.params),
            policy: TaskPolicy::by_hand(),
            stance: None,
            push: None,
            state: Arc::default(),
        });
    }
    let begin = || match dispatcher.0.methods.functions.get(name) {
        Some(function) => function(cx.clone(), params),
        None => Err(ErrorObject::method_not_found(name)),
    };
    when_done(envelope, cx.clone(), begin, Members::write, out)
}
