//! Tools: from a plain function to what the catalogue holds.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::http::{InvalidAnnotation, MirroredParameter};
use longhaul_proto::jsonrpc::{ErrorObject, without_place};
use longhaul_proto::model::{self, CallToolResult, InputKind, ToolAnnotations};
use longhaul_tasks::job::ExternalJob;
use longhaul_tasks::store::{Accepts, InvalidToolVersion, Json as StoredJson, Rerun, ToolVersion};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use tokio::task::JoinError;

use super::context::Cx;
use super::grant::Scopes;
use super::policy::{TaskMode, TaskPolicy};
use super::schema;
use super::state::Need;
use super::tool_result::IntoToolResult;

/// A call under way. An error is the protocol's; a tool's own failure is a result with `is_error`.
pub type ToolFuture = Pin<Box<dyn Future<Output = Result<CallToolResult, ErrorObject>> + Send>>;

/// What runs a tool's calls.
pub trait ToolHandler: Send + Sync + 'static {
    /// Reads `arguments`, the JSON text of an object, and gives the call as a future that does nothing
    /// until it is polled.
    ///
    /// The text does not outlive this function. The future is dropped when the caller no longer wants its
    /// result.
    ///
    /// # Errors
    ///
    /// What the model should read to mend its arguments: nothing has run.
    fn call(&self, cx: Cx, arguments: &str) -> Result<ToolFuture, CallToolResult>;
}

/// What a tool's calls are.
#[derive(Clone)]
pub(super) enum Kind {
    /// A function of this process.
    Function(Arc<dyn ToolHandler>),
    /// A job outside this process.
    Job(Arc<dyn JobTool>),
}

/// A tool whose calls are jobs outside this process.
pub trait JobTool: ExternalJob {
    /// Checks `arguments`, the JSON text of an object, before anything runs, and gives the form of them
    /// that the job is started with: equal for equal calls.
    ///
    /// # Errors
    ///
    /// What the model should read to mend its arguments.
    fn check(&self, arguments: &str) -> Result<StoredJson, CallToolResult>;

    /// The names of those arguments that nobody is to be shown, beside those that its schema marks so. They are stored with
    /// the others, for the job.
    fn secret(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A tool: what the list shows of it, and what runs it.
///
/// Arguments whose schema says `writeOnly`, or `format: password`, are stored for the work and shown to nobody who looks at its
/// tasks.
#[derive(Clone)]
pub struct Tool {
    pub(super) definition: model::Tool,
    /// As its definition says: every call that may become a task holds it.
    pub(super) name: Arc<str>,
    pub(super) policy: TaskPolicy,
    /// What a caller needs to call it.
    pub(super) scopes: Scopes,
    pub(super) kind: Kind,
    /// The arguments that headers repeat, or why its schema may not mark them so.
    pub(super) mirrored: Result<Arc<[MirroredParameter]>, InvalidAnnotation>,
    /// The arguments that its schema marks as nobody's to see.
    secret: Arc<[String]>,
    pub(super) asks: Vec<InputKind>,
    /// What a model may be told until a task of it has ended.
    pub(super) immediate_response: Option<Arc<str>>,
    /// A model may answer what its tasks ask.
    pub(super) answer_by_model: bool,
    /// What it needs of what the server's handlers share.
    pub(super) needed: Vec<Need>,
    /// Its annotations are somebody else's: they are listed, and nothing is decided by them.
    is_hearsay: bool,
    reentrant: Option<bool>,
    version: Result<ToolVersion, InvalidToolVersion>,
    accepts: Option<Result<Accepts, InvalidToolVersion>>,
}

impl Tool {
    /// A tool whose arguments are read as `A` and described by its JSON Schema.
    ///
    /// Arguments that are no `A` are answered with a result the model can read, and the function does
    /// not run.
    pub fn typed<A, F, R>(
        name: impl Into<String>,
        description: impl Into<String>,
        function: impl Fn(Cx, A) -> F + Send + Sync + 'static,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Future<Output = R> + Send + 'static,
        R: IntoToolResult,
    {
        Self::described::<A, R>(
            name,
            description,
            Typed { function: Arc::new(function), arguments: PhantomData::<fn(A)> },
        )
    }

    /// The same for a plain function that takes its time: each call runs on a thread of the blocking pool. One that is
    /// no longer wanted is not stopped; [`Cx::is_cancelled`] says so.
    pub fn blocking<A, R>(
        name: impl Into<String>,
        description: impl Into<String>,
        function: impl Fn(Cx, A) -> R + Send + Sync + 'static,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        R: IntoToolResult,
    {
        let function = Arc::new(function);
        Self::typed(name, description, move |cx, arguments| {
            let function = Arc::clone(&function);
            blocking(move || function(cx, arguments))
        })
    }

    /// The same for a plain function that is done at once: it runs where the request was read, and nothing else is read
    /// there meanwhile. It must neither wait nor take long.
    pub fn inline<A, R>(
        name: impl Into<String>,
        description: impl Into<String>,
        function: impl Fn(Cx, A) -> R + Send + Sync + 'static,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        R: IntoToolResult,
    {
        Self::typed(name, description, move |cx, arguments| std::future::ready(function(cx, arguments)))
    }

    fn described<A: JsonSchema, R: IntoToolResult>(
        name: impl Into<String>,
        description: impl Into<String>,
        handler: impl ToolHandler,
    ) -> Self {
        let mut definition = model::Tool::new(name, schema::of_arguments::<A>());
        definition.description = Some(description.into());
        definition.output_schema = R::output_schema();
        Self::of(definition, Kind::Function(Arc::new(handler)))
    }

    /// A tool described by hand: `handler` gets the arguments as JSON text.
    pub fn raw(definition: model::Tool, handler: impl ToolHandler) -> Self {
        Self::of(definition, Kind::Function(Arc::new(handler)))
    }

    /// A tool whose calls are jobs outside this process.
    pub fn job(definition: model::Tool, job: Arc<dyn JobTool>) -> Self {
        Self::of(definition, Kind::Job(job))
    }

    fn of(definition: model::Tool, kind: Kind) -> Self {
        let mirrored = MirroredParameter::of_schema(definition.input_schema.get()).map(Arc::from);
        let secret = schema::secret_arguments(&definition.input_schema).into();
        let (policy, asks, scopes) = (TaskPolicy::default(), Vec::new(), Scopes::default());
        Self {
            name: definition.name.as_str().into(),
            definition,
            policy,
            scopes,
            kind,
            mirrored,
            secret,
            asks,
            immediate_response: None,
            answer_by_model: false,
            needed: Vec::new(),
            is_hearsay: false,
            reentrant: None,
            version: Ok(ToolVersion::default()),
            accepts: None,
        }
    }

    /// Says when its calls become tasks.
    #[must_use]
    pub fn task(mut self, policy: TaskPolicy) -> Self {
        self.definition.task_support = policy.support();
        self.policy = policy;
        self
    }

    /// Lets a model answer the forms that its tasks ask, in its user's place: with `task_answer`, which is listed to callers
    /// that take no tasks. A caller that cannot ask its user is asked so, and is not refused. Off by default, and to stay
    /// so where an answer approves anything: a model must not approve for its user.
    #[must_use]
    pub fn answer_by_model(mut self, answer_by_model: bool) -> Self {
        self.answer_by_model = answer_by_model;
        self
    }

    /// Says what a model may be told when a call has become a task, so that it can go on meanwhile. It is sent where the
    /// caller's revision has a word for it (2025-11-25, `io.modelcontextprotocol/model-immediate-response`); a host may
    /// hand it to its model, or say something of its own.
    ///
    /// # Examples
    ///
    /// ```
    /// use longhaul::Tool;
    /// use longhaul::server::TaskPolicy;
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct NoArguments {}
    ///
    /// let build = Tool::typed("build", "Build", |_, NoArguments {}| async { "built" })
    ///     .task(TaskPolicy::always())
    ///     .immediate_response("The build has begun. It takes some minutes: go on with something else.");
    /// # drop(build);
    /// ```
    #[must_use]
    pub fn immediate_response(mut self, text: impl Into<Arc<str>>) -> Self {
        self.immediate_response = Some(text.into());
        self
    }

    /// Says that its calls ask the client so: one that cannot be asked is refused with `-32021` before anything runs.
    /// What only some calls ask need not be said; see [`Cx::can_ask`].
    #[must_use]
    pub fn asks(mut self, what: InputKind) -> Self {
        self.asks.push(what);
        self
    }

    /// Says whether its function may be run again from its start to go on after a question, the answers so far handed
    /// to it at once. Then a call that waits for its client costs nothing, and any node can go on with it. By default
    /// this is so for tools whose annotations say that they only read, or that once more changes nothing more; any
    /// other waits in memory where it stands, and never runs twice.
    ///
    /// Its questions may depend on its arguments and on earlier answers only.
    #[must_use]
    pub fn reentrant(mut self, reentrant: bool) -> Self {
        self.reentrant = Some(reentrant);
        self
    }

    /// The arguments that nobody is to be shown.
    pub(super) fn secret(&self) -> Vec<String> {
        let mut secret = self.secret.to_vec();
        if let Kind::Job(job) = &self.kind {
            secret.extend(job.secret().into_iter().filter(|name| !self.secret.contains(name)));
        }
        secret
    }

    /// Whether its calls have a row before anything of them runs.
    pub(super) fn starts_with_row(&self) -> bool {
        matches!(&self.kind, Kind::Job(job) if job.row_first())
    }

    pub(super) fn is_reentrant(&self) -> bool {
        // What opens tasks by hand would open them again.
        self.policy.mode != TaskMode::ByHand && self.reentrant.unwrap_or_else(|| self.is_entered_again())
    }

    /// Says which version of its work this is, as semantic versions go: `"2"`, `"2.1.0"`. A task keeps the version that
    /// began it, and is gone on with only by a server whose tool [accepts](Self::accepts) that one. Until there is one
    /// it is queued and its status says so. A tool that says none has version 0.0.0.
    ///
    /// Change it when the function changes such that what an earlier one has recorded no longer fits.
    ///
    /// ```
    /// # use longhaul::{Cx, Tool};
    /// # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Nothing {}
    /// # async fn deploy(_: Cx, _: Nothing) -> &'static str { "deployed" }
    /// let tool = Tool::typed("deploy", "Deploys", deploy).version("2").accepts(">=1, <3");
    /// ```
    #[must_use]
    pub fn version(mut self, version: &str) -> Self {
        self.version = ToolVersion::new(version);
        self
    }

    /// Says in which versions the tasks are that it goes on with: a requirement on semantic versions, which its own must
    /// meet. By default that is [its own](Self::version) alone.
    #[must_use]
    pub fn accepts(mut self, versions: &str) -> Self {
        self.accepts = Some(Accepts::new(versions));
        self
    }

    /// Its version, and those it goes on with.
    ///
    /// # Errors
    ///
    /// What is wrong with what was said of them.
    pub(super) fn versions(&self) -> Result<(ToolVersion, Accepts), InvalidToolVersion> {
        let version = self.version.clone()?;
        let accepts = self.accepts.clone().unwrap_or_else(|| Ok(Accepts::only(&version)))?;
        Ok((version, accepts))
    }

    /// Whether its annotations say that it only reads, or that once more changes nothing more.
    pub(super) fn is_repeatable(&self) -> bool {
        let hints = self.definition.annotations.as_ref().filter(|_| !self.is_hearsay);
        hints.is_some_and(|hints| hints.read_only_hint == Some(true) || hints.idempotent_hint == Some(true))
    }

    /// Whether the engine may enter its function again.
    pub(super) fn is_entered_again(&self) -> bool {
        matches!(self.rerun(), Rerun::Resumable | Rerun::Restart)
    }

    /// For how long its work may go on once it is asked to end. A job is ended as its own rules say.
    pub(super) fn cancel_grace(&self) -> Option<Duration> {
        self.policy.cancel.grace().filter(|_| matches!(self.kind, Kind::Function(_)))
    }

    /// What may be done with a task of it whose process is gone. What only reads, or changes nothing more when it is
    /// done once more, may be run again, whether it says so or not.
    pub(super) fn rerun(&self) -> Rerun {
        match self.policy.rerun {
            Rerun::Never if self.is_repeatable() => Rerun::Restart,
            said => said,
        }
    }

    /// Lets only callers with all these scopes call it, on top of what the server asks of every caller. Callers
    /// that need not sign in may call it all the same, and everybody sees it listed: who lacks a scope is told
    /// which, and can ask for it.
    #[must_use]
    pub fn scopes(mut self, scopes: Scopes) -> Self {
        self.scopes = scopes;
        self
    }

    /// Hints at how the tool behaves.
    #[must_use]
    pub fn annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.definition.annotations = Some(annotations);
        self
    }

    /// Says that its annotations are somebody else's word: they are listed as they are, and decide nothing here, so that
    /// its work is run again only if its [policy](Self::task) says so.
    ///
    /// ```
    /// use longhaul::Tool;
    /// use longhaul::proto::model::ToolAnnotations;
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct NoArguments {}
    ///
    /// let read = Tool::typed("read", "Reads, says its server", |_, NoArguments {}| async { "what was read" })
    ///     .annotations(ToolAnnotations::new().with_read_only(true))
    ///     .untrusted_annotations();
    /// # drop(read);
    /// ```
    #[must_use]
    pub fn untrusted_annotations(mut self) -> Self {
        self.is_hearsay = true;
        self
    }

    /// Says that what it returns as `structuredContent` is a `T`: for tools whose function does not say so by its type.
    #[must_use]
    pub fn output<T: JsonSchema>(mut self) -> Self {
        self.definition.output_schema = schema::of_output::<T>();
        self
    }

    /// What the list shows of it.
    pub fn definition(&self) -> &model::Tool {
        &self.definition
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("definition", &self.definition).finish_non_exhaustive()
    }
}

struct Typed<A, F> {
    function: Arc<F>,
    arguments: PhantomData<fn(A)>,
}

impl<A, F, Fut, R> ToolHandler for Typed<A, F>
where
    A: DeserializeOwned + Send + 'static,
    F: Fn(Cx, A) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = R> + Send + 'static,
    R: IntoToolResult,
{
    fn call(&self, cx: Cx, arguments: &str) -> Result<ToolFuture, CallToolResult> {
        let arguments = serde_json::from_str(arguments).map_err(|_| invalid::<A>(arguments))?;
        let function = Arc::clone(&self.function);
        // Begun when it is first polled, for it may have to wait until it is on disk that it was called.
        Ok(Box::pin(async move { function(cx, arguments).await.into_tool_result() }))
    }
}

/// What `function` returns, which takes its time, on a thread of the blocking pool. A panic goes on in the caller.
pub(crate) async fn blocking<R: Send + 'static>(function: impl FnOnce() -> R + Send + 'static) -> R {
    match tokio::task::spawn_blocking(function).await.map_err(JoinError::try_into_panic) {
        Ok(returned) => returned,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The runtime is going, and whoever waits for this with it.
        Err(Err(_)) => std::future::pending().await,
    }
}

/// The result that says what is wrong with arguments that are no `A`.
pub(super) fn invalid<A: DeserializeOwned>(arguments: &str) -> CallToolResult {
    CallToolResult::error(problem_with::<A>(arguments))
}

/// What is wrong with arguments that are no `A`, naming the one it is. They are read again to find out:
/// good ones need no path.
pub(super) fn problem_with<A: DeserializeOwned>(arguments: &str) -> String {
    let mut reader = serde_json::Deserializer::from_str(arguments);
    let problem = match serde_path_to_error::deserialize::<_, A>(&mut reader) {
        Ok(_) => "unexpected text after them".to_owned(),
        Err(error) if error.path().iter().len() == 0 => without_place(error.inner()),
        Err(error) => format!("`{}`: {}", error.path(), without_place(error.inner())),
    };
    format!("invalid arguments: {problem}")
}
