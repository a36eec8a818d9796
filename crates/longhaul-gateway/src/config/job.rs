//! An HTTP API that runs jobs, served as a tool, after every key has been checked.

use std::{fmt, num::NonZeroU32, time::Duration};

use longhaul::{
    server::{Scopes, TaskMode},
    store::{OrphanRule, Rerun},
};
use reqwest::header::HeaderName;
use serde_json::value::RawValue;

use super::{
    argument::ArgumentErrors,
    bind::{canonical, decode},
    input::Input,
    policy::{Join, Output},
    schema, tool,
    tool::Annotations,
    value::Value,
    versions::Versions,
};

pub(super) mod body;
mod callback;
pub(super) mod read;
pub(super) mod request;
pub(super) mod url;

pub use callback::{Callback, CallbackBody};
pub use request::{BoundHeader, BoundRequest, HeaderError};
use request::{Header, Request};
use url::UrlTemplate;

/// One `[jobs.<name>]`.
///
/// Its requests and inputs depend on each other and can only be read; the rest can be changed.
#[derive(Clone)]
#[non_exhaustive]
pub struct HttpJob {
    /// Its name, as that of any tool.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// What it does, in words for the model that chooses it.
    pub description: Option<String>,
    /// What it says about its own behaviour.
    pub annotations: Annotations,
    /// What a caller needs to call it, on top of what every caller needs.
    pub scopes: Scopes,
    /// When a call becomes a task.
    pub task: TaskMode,
    /// How long its outcome is kept.
    pub ttl: Duration,
    /// When a task of it for which nobody comes back is an orphan, and what becomes of it then.
    pub orphan: OrphanRule,
    /// What becomes of it when the server dies.
    pub rerun: Rerun,
    /// Its version, and those of the tasks that it begins and goes on with.
    pub versions: Versions,
    /// How long a call is held open for a caller that knows no tasks.
    pub hold: Duration,
    /// What a second call with the same arguments does.
    pub join: Join,
    /// How many may run at once; any number when `None`.
    pub limit: Option<NonZeroU32>,
    /// How long it may run before it is cancelled; without a limit when `None`.
    pub timeout: Option<Duration>,
    /// How long one request may take, its answer included.
    pub request_timeout: Duration,
    /// How long a start is tried again while the API cannot be reached or is overloaded.
    pub start_within: Duration,
    /// How long the API has to say that it does not know the job (404, 410) until that is believed.
    pub gone_after: Duration,
    /// The most bytes of one answer.
    pub max_answer: u64,
    /// What its result is.
    pub output: Output,
    /// Whether the API starts one job only for starts with the same key.
    pub idempotent: bool,
    /// The header that carries the key.
    pub key_header: HeaderName,
    /// Where the API can call back, if it is told.
    pub callback: Option<Callback>,
    pub(super) headers: Vec<Header>,
    pub(super) start: Request,
    pub(super) id: Option<String>,
    pub(super) status_url: Option<Place>,
    pub(super) status: Status,
    pub(super) result: ResultFrom,
    pub(super) cancel: Option<Request>,
    pub(super) inputs: Vec<Input>,
}

/// Where an answer says something.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no other part of an answer")]
pub enum Place {
    /// In its body, at this JSON pointer (RFC 6901).
    Pointer(String),
    /// In this header.
    Header(HeaderName),
}

/// How a status is read.
#[derive(Clone, Debug)]
pub(super) struct Status {
    /// Where it is; `None` if the answer to the start says so.
    pub(super) url: Option<UrlTemplate>,
    pub(super) state: String,
    pub(super) done: Vec<String>,
    pub(super) failed: Vec<String>,
    pub(super) progress: Option<String>,
    pub(super) total: Option<String>,
    pub(super) message: Option<String>,
    pub(super) every: Duration,
}

/// Where the result is.
#[derive(Clone, Debug)]
pub(super) enum ResultFrom {
    /// In the last status, at this pointer.
    Status(String),
    /// At a URL of its own, and there at this pointer.
    Url(UrlTemplate, String),
}

impl HttpJob {
    /// The inputs, in the order of the file.
    #[must_use]
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// The tool as one calls it: `train(dataset: string, epochs?: integer = 3)`.
    #[must_use]
    pub fn signature(&self) -> String {
        tool::signature(&self.name, &self.inputs)
    }

    /// The `inputSchema` of the tool.
    #[must_use]
    pub fn input_schema(&self) -> Box<RawValue> {
        schema::input_schema(&self.inputs, |_| false)
    }

    /// Checks the arguments of a call, given as a JSON object, and puts its first request together.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the arguments, at once: nothing has been sent then.
    ///
    /// # Examples
    ///
    /// ```
    /// let text = r#"
    ///     [jobs.train]
    ///     description = "Train a model"
    ///     start = { url = "https://cluster.example/jobs/{queue}", body = { name = "{name}" } }
    ///     id = "/id"
    ///     status = { url = "https://cluster.example/jobs/{job}", state = "/state", done = ["ok"] }
    ///     input.queue = {}
    ///     input.name = {}
    /// "#;
    /// let checked = longhaul_gateway::config::check("longhaul.toml", text)?;
    /// let bound = checked.config.jobs[0].bind(r#"{"queue": "a/../b", "name": "x\"y"}"#)?;
    /// assert_eq!(bound.start.url.as_str(), "https://cluster.example/jobs/a%2F..%2Fb");
    /// assert_eq!(bound.start.body.as_deref(), Some(r#"{"name":"x\"y"}"#));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bind(&self, arguments: &str) -> Result<BoundJob, ArgumentErrors> {
        self.bind_with(arguments, "")
    }

    /// The same, with the token by which the API signs in when it calls back.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind).
    pub fn bind_with(&self, arguments: &str, token: &str) -> Result<BoundJob, ArgumentErrors> {
        let (mut values, mut errors) = decode(&self.inputs, arguments);
        let arguments = if errors.is_empty() { canonical(&self.inputs, &values) } else { String::new() };
        let mut names: Vec<&str> = self.inputs.iter().map(|input| input.name.as_str()).collect();
        if let Some(callback) = &self.callback {
            names.push(CALLBACK);
            values.push(Some(Value::String(callback.address(token))));
        }
        let start = if errors.is_empty() {
            self.start.bind(&self.headers, &names, &values).map_err(|error| errors.push(error)).ok()
        } else {
            None
        };
        match start {
            Some(start) => Ok(BoundJob { arguments, start }),
            None => Err(ArgumentErrors::new(&self.name, self.signature(), errors)),
        }
    }

    /// Where the answer to a start names the job.
    #[must_use]
    pub fn id_at(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Where the answer to a start says where the status is.
    #[must_use]
    pub fn status_url_at(&self) -> Option<&Place> {
        self.status_url.as_ref()
    }

    /// The request for the status of a job: at `url`, if the start said where, or of this id.
    ///
    /// # Errors
    ///
    /// Why the id can stand in no URL.
    pub fn status_request(&self, id: &str, url: Option<&str>) -> Result<BoundRequest, Unfit> {
        match (url, &self.status.url) {
            (Some(url), _) => Ok(BoundRequest::get(self.near_start(url)?, self.headers())),
            (None, Some(template)) => self.get(template, id),
            (None, None) => Err(Unfit("the job has no status URL".to_owned())),
        }
    }

    /// The request for the result of a job, if it is not in its status.
    ///
    /// # Errors
    ///
    /// Why the id can stand in no URL.
    pub fn result_request(&self, id: &str) -> Result<Option<BoundRequest>, Unfit> {
        match &self.result {
            ResultFrom::Status(_) => Ok(None),
            ResultFrom::Url(template, _) => self.get(template, id).map(Some),
        }
    }

    /// Where the result stands in the answer that has it.
    #[must_use]
    pub fn result_at(&self) -> &str {
        let (ResultFrom::Status(pointer) | ResultFrom::Url(_, pointer)) = &self.result;
        pointer
    }

    /// The request that cancels a job, if there is one.
    ///
    /// # Errors
    ///
    /// Why the id can stand in no URL.
    pub fn cancel_request(&self, id: &str) -> Result<Option<BoundRequest>, Unfit> {
        let Some(cancel) = &self.cancel else { return Ok(None) };
        let bound = cancel.bind(&self.headers, &[JOB], &[Some(Value::String(id.to_owned()))]);
        bound.map(Some).map_err(|error| Unfit(error.to_string()))
    }

    /// How often its status is asked for.
    #[must_use]
    pub fn every(&self) -> Duration {
        self.status.every
    }

    /// What a state means, in the answer's own word.
    #[must_use]
    pub fn meaning(&self, state: &str) -> Meaning {
        let is = |words: &[String]| words.iter().any(|word| word == state);
        if is(&self.status.done) {
            Meaning::Done
        } else if is(&self.status.failed) {
            Meaning::Failed
        } else {
            Meaning::Running
        }
    }

    /// Where a status says the state, the progress, its total and a message.
    #[must_use]
    pub fn status_at(&self) -> StatusAt<'_> {
        let Status { state, progress, total, message, .. } = &self.status;
        StatusAt {
            state,
            progress: progress.as_deref(),
            total: total.as_deref(),
            message: message.as_deref(),
        }
    }

    /// A URL that an answer gave, made whole.
    ///
    /// # Errors
    ///
    /// When it leads to another host: what an API says must not choose where our credentials go.
    pub fn near_start(&self, url: &str) -> Result<reqwest::Url, Unfit> {
        let base = self.start.url.base();
        let url = base.join(url).map_err(|error| Unfit(format!("`status_url` gives no URL: {error}")))?;
        if url.origin() == base.origin() {
            Ok(url)
        } else {
            let host = url.host_str().unwrap_or("nowhere");
            Err(Unfit(format!("`status_url` leads to another host, {host}, and is not followed")))
        }
    }

    fn headers(&self) -> Vec<BoundHeader> {
        // They hold no placeholders.
        self.headers.iter().filter_map(|header| header.bind(&[], &[]).ok().flatten()).collect()
    }

    fn get(&self, template: &UrlTemplate, id: &str) -> Result<BoundRequest, Unfit> {
        let values = [Some(Value::String(id.to_owned()))];
        let url = template.bind(&[JOB], &values).map_err(|error| Unfit(error.to_string()))?;
        Ok(BoundRequest::get(url, self.headers()))
    }
}

/// The placeholder for the id of a job that has been started.
pub(super) const JOB: &str = "job";

/// The placeholder for the address at which the API can call back.
pub(super) const CALLBACK: &str = "callback";

/// What a job has been given cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unfit(String);

/// What a state means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a job must be followed in each case")]
pub enum Meaning {
    /// The job goes on.
    Running,
    /// It has ended well.
    Done,
    /// It has failed.
    Failed,
}

/// Where a status says what, as JSON pointers.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct StatusAt<'j> {
    /// Its state.
    pub state: &'j str,
    /// How far it is, a number.
    pub progress: Option<&'j str>,
    /// How far it has to go, a number.
    pub total: Option<&'j str>,
    /// A line for people.
    pub message: Option<&'j str>,
}

/// One call, checked and put together.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BoundJob {
    /// The arguments as one JSON text, equal for equal calls. It holds the values of secret inputs.
    pub arguments: String,
    /// The request that starts it.
    pub start: BoundRequest,
}

/// Leaves out texts that may be secrets.
impl fmt::Debug for HttpJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpJob")
            .field("name", &self.name)
            .field("start", &self.start)
            .field("inputs", &self.inputs)
            .field("task", &self.task)
            .field("rerun", &self.rerun)
            .finish_non_exhaustive()
    }
}

/// The limits and defaults of a job.
mod limits {
    use std::time::Duration;

    pub(super) const EVERY: Duration = Duration::from_secs(5);
    pub(super) const EVERY_MIN: Duration = Duration::from_millis(100);
    pub(super) const EVERY_MAX: Duration = Duration::from_secs(3600);
    pub(super) const REQUEST: Duration = Duration::from_secs(30);
    pub(super) const REQUEST_MIN: Duration = Duration::from_millis(100);
    pub(super) const REQUEST_MAX: Duration = Duration::from_secs(600);
    pub(super) const START_WITHIN: Duration = Duration::from_secs(600);
    pub(super) const START_WITHIN_MAX: Duration = Duration::from_secs(24 * 3600);
    pub(super) const GONE_AFTER: Duration = Duration::from_secs(30);
    pub(super) const GONE_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);
    pub(super) const MAX_ANSWER: u64 = 1 << 20;
    pub(super) const MAX_ANSWER_MIN: u64 = 1 << 10;
    pub(super) const MAX_ANSWER_MAX: u64 = 4 << 20;
}
