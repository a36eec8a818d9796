//! Writing a server: what it offers, and how a request finds its handler.

mod address;
mod adorn;
#[cfg(feature = "http")]
mod again;
mod answer;
mod ask;
mod audience;
mod by_hand;
mod call;
mod calls;
mod catalogue;
mod caught;
mod changes;
mod checkpoint;
mod child;
mod client;
mod companion;
mod completion;
mod context;
mod dispatch;
mod drafted;
#[cfg(feature = "http")]
mod elsewhere;
mod emit;
mod extension;
mod failure;
mod fleet_rates;
mod followed;
mod grant;
mod hand_over;
mod in_all;
mod kind;
mod layered;
mod listen;
mod method;
mod observer;
mod offer;
mod once;
mod opened;
mod outlet;
mod own_stream;
mod parts;
mod parts_news;
mod party;
mod places;
mod policy;
mod polls;
mod principal;
mod prompt;
mod rationed;
mod resource;
mod resumed;
mod schema;
mod scope;
mod serve;
mod shelf;
mod slots;
mod state;
mod step;
mod subscriptions;
mod task_list;
mod tasks;
mod template;
mod told_progress;
mod tool;
mod tool_result;
mod uri_template;
#[cfg(feature = "schema-validation")]
mod validated;
mod watched;
mod words;

use std::sync::Arc;

use longhaul_proto::http::InvalidAnnotation;
use longhaul_proto::model::{Implementation, InvalidToolName, ServerCapabilities};
use longhaul_tasks::environment::{Environment, Tokio};
use longhaul_tasks::runner::{Engine, Pace};
use longhaul_tasks::store::{Accepts, InvalidToolVersion, Memory, Registry, Rerun, TaskStore, ToolVersion};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tower_layer::Layer;
use tower_service::Service;

pub use crate::hosted::failed as store_failed;
#[cfg(feature = "schema-validation")]
pub use crate::schema::SchemaError;
#[cfg(feature = "http")]
pub(crate) use again::{Again, Follow};
pub use answer::{Answered, CallCanceller, Delivery, Dispatched, PendingAnswer};
pub(crate) use answer::{Envelope, Write};
#[cfg(feature = "client")]
pub(crate) use answer::{contained, refused};
pub use ask::{Ask, AskError, ByDefault, Elicited, RoundOptions};
pub(crate) use ask::{Kept, Line};
#[cfg(feature = "client")]
pub(crate) use call::not_begun;
pub use calls::CallOptions;
pub use catalogue::{Catalogue, ChangeError, Offered};
#[cfg(feature = "http")]
pub(crate) use changes::{Elsewhere, News};
pub use checkpoint::Checkpoint;
pub use child::{Child, ChildError, SpawnCall, SpawnError};
pub(crate) use client::Client;
pub use completion::{IntoCompletion, Typed};
pub use context::Cx;
#[cfg(feature = "http")]
pub(crate) use dispatch::Origin;
pub use dispatch::{Caller, Dispatcher, Exchange};
pub use emit::IntoPart;
pub use failure::Failure;
pub use grant::{Grant, InvalidScope, Scopes};
pub use opened::{FinishError, OpenError, OpenedTask};
pub(crate) use outlet::HeldPush;
pub use outlet::{Carrier, ConnectionPush, Outgoing, Outlet, OwnStream, Push, Reach, Taken};
pub use own_stream::StreamReceiver;
#[cfg(feature = "http")]
pub(crate) use own_stream::{StreamSender, own_stream};
pub(crate) use party::Party;
#[cfg(feature = "http")]
pub(crate) use party::Shares;
pub use policy::{CancelPolicy, TaskMode, TaskPolicy, TtlFrom};
pub use polls::{Poll, PollFigures, PollOptions};
#[cfg(all(unix, feature = "http"))]
pub(crate) use principal::local_principal;
pub use principal::{Principal, local_user};
pub use prompt::{IntoPrompt, Prompt, PromptArguments, PromptFuture};
pub use resource::{IntoContents, ReadFuture, Resource, Resources, not_found};
pub use serve::ServeError;
pub use slots::{TaskAnswers, TaskPage, TaskSlots};
pub use state::State;
pub use step::{StepCall, StepName};
pub use subscriptions::SubscriptionOptions;
pub use template::ResourceTemplate;
#[cfg(feature = "macros")]
pub(crate) use tool::blocking;
pub use tool::{JobTool, Tool, ToolFuture, ToolHandler};
pub use tool_result::{IntoToolResult, Json, ToolError};
pub use watched::ToWatch;

pub use longhaul_tasks::project::{OUTPUT_SCHEME, output_uri};
use offer::Parts;

use crate::audit::{Audit, Audited, Trail};
use crate::driver;
use crate::service::{BoxError, Layers, Level, Next, Request, Response};

/// How many things one page of a list has at most.
const PAGE_SIZE: usize = 500;

/// A server being put together. Give it tools, then serve it.
#[derive(Debug)]
pub struct Server {
    info: Implementation,
    instructions: Option<String>,
    parts: Parts,
    herald: watched::Herald,
    methods: method::OwnMethods,
    slots: TaskSlots,
    /// What it says of each extension, if that is JSON.
    extensions: Vec<(String, Option<Box<RawValue>>)>,
    layers: Layers,
    page_size: usize,
    drafted_tasks: bool,
    /// Who may change it while it serves.
    catalogue: Option<Catalogue>,
    store: Option<Arc<dyn TaskStore>>,
    registry: Option<Arc<dyn Registry>>,
    rounds: RoundOptions,
    subscriptions: SubscriptionOptions,
    polls: PollOptions,
    calls: CallOptions,
    fleet_rates: bool,
    audit: Option<Arc<dyn Audit>>,
    pace: Pace,
    front: bool,
    environment: Arc<dyn Environment>,
    options: driver::Options,
}

/// Why a server cannot be put together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A tool has a name no tool may have.
    #[error(transparent)]
    ToolName(#[from] InvalidToolName),
    /// A tool has the name of a companion.
    #[error("the name {name:?} is taken by the tool that follows tasks: rename yours")]
    #[non_exhaustive]
    ReservedTool {
        /// The name.
        name: String,
    },
    /// No client may be asked to fetch an icon.
    #[error("{of} has an icon that no client should fetch: {what}")]
    #[non_exhaustive]
    Icon {
        /// Whose.
        of: String,
        /// What is wrong with its address.
        what: &'static str,
    },
    /// The schema of a tool's arguments is not one of objects, as clients ask for before they take any tool.
    #[error("the input schema of the tool {name:?} must say \"type\": \"object\" at its root")]
    #[non_exhaustive]
    InputSchema {
        /// The tool.
        name: String,
    },
    /// A tool's schema marks an argument for a header as none may be marked, so that clients would leave the tool out.
    #[error("the tool {name:?} marks an argument for a header that cannot have one")]
    #[non_exhaustive]
    Annotation {
        /// The tool.
        name: String,
        /// Which mark, and why.
        #[source]
        source: InvalidAnnotation,
    },
    /// Two tools have one name.
    #[error("two tools are named {name:?}: rename one")]
    DuplicateTool {
        /// The name.
        name: String,
    },
    /// Something needs what the server's handlers share, and the server was given none of that type.
    #[error("{of} needs state of type `{state}`: give it to the server with `Server::state`")]
    #[non_exhaustive]
    NoState {
        /// What needs it.
        of: String,
        /// The type.
        state: &'static str,
    },
    /// An extension cannot be declared so.
    #[error("extension {id:?}: {problem}")]
    #[non_exhaustive]
    Extension {
        /// Its identifier.
        id: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// Two things of another kind have one name or URI.
    #[error("two {kind} have the name {name:?}: rename one")]
    #[non_exhaustive]
    Duplicate {
        /// What they are.
        kind: &'static str,
        /// Their name or URI.
        name: String,
    },
    /// A prompt or a template completes or needs an argument it does not have.
    #[error("{of} has no argument {argument:?}: check how it is spelt")]
    #[non_exhaustive]
    NoSuchArgument {
        /// Which prompt or template.
        of: String,
        /// The argument.
        argument: String,
    },
    /// A template cannot be read.
    #[error("{of} cannot be read: {problem}")]
    #[non_exhaustive]
    UriTemplate {
        /// Which template.
        of: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A tool whose calls become tasks joins a server that has declared none.
    #[error(
        "calls of {name:?} become tasks, and the server began without such a tool: give it one, or say `tasks_to_come`"
    )]
    #[non_exhaustive]
    NoTasks {
        /// The tool.
        name: String,
    },
    /// A method of the server's own has a name that the protocol has a meaning for, or keeps for tasks.
    #[error("{name:?} is a name of the protocol: name yours otherwise")]
    #[non_exhaustive]
    KnownMethod {
        /// The method.
        name: String,
    },
    /// A tool opens its tasks by hand and has a policy that says otherwise.
    #[error(
        "{name:?} opens its tasks by hand: it is a function, and its policy has no `limit`, `join` or `rerun`"
    )]
    #[non_exhaustive]
    ByHand {
        /// The tool.
        name: String,
    },
    /// What a tool says of its version is not understood.
    #[error("the version of {name:?}")]
    #[non_exhaustive]
    Version {
        /// The tool.
        name: String,
        /// What is wrong with it.
        source: InvalidToolVersion,
    },
    /// A tool does not go on with its own tasks.
    #[error("{name:?} has version {version} and accepts {accepts}: let it accept its own version too")]
    #[non_exhaustive]
    OwnVersion {
        /// The tool.
        name: String,
        /// Its version.
        version: ToolVersion,
        /// Those it accepts.
        accepts: Accepts,
    },
    /// A tool's policy says of lost tasks what cannot be done with them.
    #[error(
        "the `rerun` of {name:?} is {rerun:?}: a function's can be `Never`, `Resumable` or `Restart`, a job's `Never` or `Reattach`"
    )]
    #[non_exhaustive]
    Rerun {
        /// The tool.
        name: String,
        /// What its policy says.
        rerun: Rerun,
    },
}

impl Server {
    /// A server that calls itself `name`, at `version`.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            info: Implementation::new(name, version),
            instructions: None,
            parts: Parts::default(),
            herald: watched::Herald::default(),
            methods: method::OwnMethods::default(),
            slots: TaskSlots::default(),
            extensions: Vec::new(),
            layers: Layers::default(),
            page_size: PAGE_SIZE,
            drafted_tasks: false,
            catalogue: None,
            store: None,
            registry: None,
            rounds: RoundOptions::default(),
            subscriptions: SubscriptionOptions::default(),
            polls: PollOptions::default(),
            calls: CallOptions::default(),
            fleet_rates: false,
            audit: None,
            pace: Pace::default(),
            front: false,
            environment: Arc::new(Tokio::new()),
            options: driver::Options::default(),
        }
    }

    /// Names the server for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.info.title = Some(title.into());
        self
    }

    /// Tells the model how to use the server as a whole.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Gives the handlers a value to share; one of its type takes its place.
    ///
    /// See [`State`].
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.parts.states.put(value);
        self
    }

    /// Offers a tool.
    #[must_use]
    pub fn tool(mut self, tool: impl Into<Tool>) -> Self {
        self.parts.tools.push(tool.into());
        self
    }

    /// Offers a prompt.
    #[must_use]
    pub fn prompt(mut self, prompt: impl Into<Prompt>) -> Self {
        self.parts.prompts.push(prompt.into());
        self
    }

    /// Offers a resource.
    #[must_use]
    pub fn resource(mut self, resource: impl Into<Resource>) -> Self {
        self.parts.resources.push(resource.into());
        self
    }

    /// Offers a family of resources, by a template of their URIs.
    #[must_use]
    pub fn resource_template(mut self, template: impl Into<ResourceTemplate>) -> Self {
        self.parts.templates.push(template.into());
        self
    }

    /// Offers resources that a type of one's own finds and reads; those with a URI or a template of their own are
    /// looked for first.
    #[must_use]
    pub fn resources(mut self, resources: Arc<dyn Resources>) -> Self {
        self.parts.families.push(resources);
        self
    }

    /// Has `tell` tell of resources that change elsewhere. It is asked for each client of a [dynamic](Self::dynamic) server
    /// that is about to watch one, within [bounds](Self::subscriptions). What it gives for the first of them runs until nobody
    /// watches that any more, and says [`Catalogue::resource_updated`] each time it has changed; so it must not depend on whose
    /// client that is. `None` says that this client will not hear of it, which it is told; of what is told of without this,
    /// give a future that waits for ever.
    ///
    /// ```
    /// # use longhaul::Server;
    /// # use longhaul::server::Scopes;
    /// let needed = Scopes::parse("files")?;
    /// let (server, catalogue) = Server::new("files", "1.0.0").dynamic();
    /// let server = server.tell_of_resources(move |what| {
    ///     let may_hear = what.grant.is_none_or(|grant| grant.allows(&needed));
    ///     let (uri, catalogue) = (what.uri.to_owned(), catalogue.clone());
    ///     may_hear.then_some(async move {
    ///         # let changed = async || {};
    ///         changed().await;
    ///         let _ = catalogue.resource_updated(&uri);
    ///     })
    /// });
    /// # Ok::<_, longhaul::server::InvalidScope>(())
    /// ```
    #[must_use]
    pub fn tell_of_resources<F>(
        mut self,
        tell: impl Fn(ToWatch<'_>) -> Option<F> + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.herald = watched::Herald::by(tell);
        self
    }

    /// Answers a method that no revision knows, such as that of an extension: `params` are read as `P`, and the result
    /// is an object.
    ///
    /// # Examples
    ///
    /// ```
    /// use longhaul::Server;
    /// use longhaul::server::Failure;
    /// use serde_json::{Value, json};
    ///
    /// let server = Server::new("weather", "1.0.0").method("weather/now", |_, params: Value| async move {
    ///     let city = params["city"].as_str().ok_or_else(|| Failure::invalid("`city` is missing"))?;
    ///     Ok::<_, Failure>(json!({ "city": city, "sky": "clear" }))
    /// });
    /// # assert!(server.dispatcher().is_ok());
    /// ```
    #[must_use]
    pub fn method<P, F, R, E>(
        mut self,
        name: impl Into<String>,
        function: impl Fn(Cx, P) -> F + Send + Sync + 'static,
    ) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        F: Future<Output = Result<R, E>> + Send + 'static,
        R: Serialize + Send + 'static,
        E: Into<Failure> + Send + 'static,
    {
        self.methods.add(name, function);
        self
    }

    /// Answers by these what is asked about tasks, before its store does. It declares tasks then, whatever its tools do.
    #[must_use]
    pub fn task_slots(mut self, slots: TaskSlots) -> Self {
        self.slots = slots;
        self
    }

    /// Declares an extension that its methods, tools and resources speak, with what it says of itself: an object.
    /// Clients read it where they learn what the server offers, in the revisions that know extensions; what they say of
    /// it themselves is [`Cx::extension`].
    ///
    /// # Examples
    ///
    /// ```
    /// use longhaul::{Cx, Server};
    /// use longhaul::server::Failure;
    /// use serde_json::{Value, json};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Units {
    ///     metric: bool,
    /// }
    ///
    /// let server = Server::new("weather", "1.0.0")
    ///     .extension("com.example/weather", &json!({ "units": ["metric", "imperial"] }))
    ///     .method("weather/now", |cx: Cx, _: Value| async move {
    ///         let metric = cx.extension::<Units>("com.example/weather")?.is_none_or(|units| units.metric);
    ///         Ok::<_, Failure>(json!({ "temperature": if metric { 21 } else { 70 } }))
    ///     });
    /// # assert!(server.dispatcher().is_ok());
    /// ```
    #[must_use]
    pub fn extension(mut self, id: impl Into<String>, payload: &impl Serialize) -> Self {
        self.extensions.push((id.into(), serde_json::value::to_raw_value(payload).ok()));
        self
    }

    /// Sends the requests of `level` through a layer of `tower`. The first that is given is the outermost.
    #[must_use]
    pub fn layer<L>(mut self, level: Level, layer: L) -> Self
    where
        L: Layer<Next> + Send + Sync + 'static,
        L::Service: Service<Request, Response = Response> + Clone + Send + Sync + 'static,
        <L::Service as Service<Request>>::Error: Into<BoxError>,
        <L::Service as Service<Request>>::Future: Send,
    {
        self.layers.add(level, layer);
        self
    }

    /// Lets callers of every revision with sessions make their calls tasks as SEP-1686 drafted them, where a tool's calls
    /// become tasks. Off by default: no revision has such tasks, and whoever is not signed in shares their ids with all
    /// others who are not.
    ///
    /// # Examples
    ///
    /// ```
    /// use longhaul::server::TaskPolicy;
    /// use longhaul::{Server, Tool};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct NoArguments {}
    ///
    /// let build = Tool::typed("build", "Build", |_, NoArguments {}| async { "built" }).task(TaskPolicy::always());
    /// let server = Server::new("builds", "1.0.0").tool(build).drafted_tasks(true);
    /// # assert!(server.dispatcher().is_ok());
    /// ```
    #[must_use]
    pub fn drafted_tasks(mut self, drafted_tasks: bool) -> Self {
        self.drafted_tasks = drafted_tasks;
        self
    }

    /// Lists at most so many things on one page. Default 500.
    #[must_use]
    pub fn page_size(mut self, page_size: usize) -> Self {
        self.page_size = page_size;
        self
    }

    /// The same, with the [`Catalogue`] that changes what it offers while it serves.
    ///
    /// It declares tools, prompts and resources, whatever it begins with, and tells clients that want to know when a
    /// list or a resource has changed.
    #[must_use]
    pub fn dynamic(mut self) -> (Self, Catalogue) {
        let catalogue = self.catalogue.get_or_insert_default().clone();
        (self, catalogue)
    }

    /// Says that calls of tools which join while it serves may become tasks, though of none that it begins with can they.
    ///
    /// What a server declares cannot change while clients are connected, so a [dynamic](Self::dynamic) one says it at the start.
    #[must_use]
    pub fn tasks_to_come(mut self, tasks_to_come: bool) -> Self {
        self.parts.tasks_to_come = tasks_to_come;
        self
    }

    /// Keeps tasks in `store`, which may be shared in an [`Arc`]. Without one they are kept in memory and end with
    /// the process.
    #[must_use]
    pub fn store(mut self, store: impl TaskStore + 'static) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Shares with the other nodes on `registry` what they must have in common: the key that seals the states of calls
    /// that are made in rounds, and which of them are spent. Without one, each process has its own.
    #[must_use]
    pub fn registry(mut self, registry: impl Registry + 'static) -> Self {
        self.registry = Some(Arc::new(registry));
        self
    }

    /// Bounds calls that are made in rounds.
    #[must_use]
    pub fn rounds(mut self, rounds: RoundOptions) -> Self {
        self.rounds = rounds;
        self
    }

    /// Bounds subscriptions: the resources that they watch, and those that follow tasks.
    #[must_use]
    pub fn subscriptions(mut self, subscriptions: SubscriptionOptions) -> Self {
        self.subscriptions = subscriptions;
        self
    }

    /// Bounds what callers ask about tasks.
    #[must_use]
    pub fn polls(mut self, polls: PollOptions) -> Self {
        self.polls = polls;
        self
    }

    /// Bounds how many calls of tools callers make.
    #[must_use]
    pub fn calls(mut self, calls: CallOptions) -> Self {
        self.calls = calls;
        self
    }

    /// Has the bounds on [polls](Self::polls) and on [calls](Self::calls) hold for all nodes of the [registry](Self::registry) together: once a
    /// second each tells the others what callers have used up at it. Not by default. Who asks several nodes within one second may have
    /// as much at once at each; it is owed from then on.
    #[must_use]
    pub fn fleet_rates(mut self, fleet_rates: bool) -> Self {
        self.fleet_rates = fleet_rates;
        self
    }

    /// Notes in `audit` what becomes of tasks, and who did it.
    #[must_use]
    pub fn audit(mut self, audit: impl Audit + 'static) -> Self {
        self.audit = Some(Arc::new(audit));
        self
    }

    /// Paces the engine.
    #[must_use]
    pub fn pace(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// Answers and works on nothing, if `front`: each call of a tool is queued in the [store](Self::store) for a node that
    /// works, and its caller is answered from there, whatever its revision. What a tool asks is then asked as its task's. A
    /// tool that opens tasks by hand, prompts and resources are of this process as ever.
    #[must_use]
    pub fn front(mut self, front: bool) -> Self {
        self.front = front;
        self
    }

    /// Runs tasks in other surroundings than the tokio runtime and the system's randomness, so that a simulator can step
    /// their time and repeat their choices. What belongs to a connection needs the runtime all the same.
    #[must_use]
    pub fn environment(mut self, environment: Arc<dyn Environment>) -> Self {
        self.environment = environment;
        self
    }

    /// Bounds what one connection may ask of the server.
    #[must_use]
    pub fn options(mut self, options: driver::Options) -> Self {
        self.options = options;
        self
    }

    /// Finishes the server: from here on every transport can use it, at once and from many threads.
    ///
    /// # Errors
    ///
    /// When a tool's name is invalid or taken, or its policy asks for what cannot be done.
    pub fn dispatcher(mut self) -> Result<Dispatcher, BuildError> {
        let dynamic = self.catalogue.is_some();
        let store = self.store.unwrap_or_else(|| Arc::new(Memory::new()));
        if self.parts.can_give_parts(dynamic) {
            // First, for a family of one's own may have every output of tasks.
            self.parts.families.insert(0, Arc::new(parts::PartsOfTasks::new(Arc::clone(&store))));
        }
        let offer = self.parts.finish(!self.slots.is_empty())?;
        if let Some(name) = self.methods.known() {
            return Err(BuildError::KnownMethod { name: name.to_owned() });
        }
        let extensions = extension::declared(self.extensions, offer.has_tasks)?;
        let capabilities = ServerCapabilities::default()
            .with_tools(dynamic || !offer.tools.stock().is_empty())
            .with_resources(dynamic || offer.has_resources())
            .with_prompts(dynamic || !offer.prompts.stock().is_empty())
            .with_completions(dynamic || offer.completes())
            .with_changes(dynamic)
            .with_logging(true)
            .with_tasks(offer.has_tasks)
            .with_drafted_tasks(offer.has_tasks && self.drafted_tasks)
            .with_extensions(extensions);
        let trail = self.audit.map(|audit| Trail::new(audit, Arc::clone(&store)));
        let store = trail.clone().map_or(store, |trail| Arc::new(Audited(trail)));
        let store = rationed::Rationed::around(store);
        let workers = offer.workers(self.methods.names());
        let engine = if self.front { Engine::front } else { Engine::new };
        let engine = engine(store, self.environment, self.pace, workers);
        let info_json: Arc<str> = serde_json::to_string(&self.info).expect("strings are JSON").into();
        let desk = ask::Desk::new(self.rounds, self.registry, Arc::clone(&info_json), trail.clone());
        let shared = Arc::new(dispatch::Shared {
            info: self.info,
            info_json,
            instructions: self.instructions,
            capabilities,
            offer,
            changes: dynamic.then(|| Arc::new(changes::Changes::new(self.subscriptions.max_resources))),
            watched: watched::Watched::new(self.herald, self.subscriptions.watched()),
            methods: self.methods,
            slots: self.slots,
            way: self.layers.finish(),
            page_size: self.page_size,
            subscriptions: subscriptions::Subscriptions::new(self.subscriptions),
            polls: polls::Polls::new(&self.polls, trail.clone()),
            calls: calls::Calls::new(&self.calls),
            trail,
            engine,
            desk: Arc::new(desk),
            fleet_rates: self.fleet_rates.into(),
        });
        if let Some(catalogue) = &self.catalogue {
            catalogue.open(&shared);
        }
        Ok(Dispatcher(shared))
    }
}
