//! Resources a server lets its clients read.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use longhaul_proto::dialect::Dialect;
use longhaul_proto::jsonrpc::{Code, ErrorObject, Text};
use longhaul_proto::model::{self, Annotations, ReadResourceResult, ResourceContents};
use longhaul_tasks::project::{OUTPUT_SCHEME, OutputAddress};
use serde::Serialize;

use super::BuildError;
use super::answer::{Dispatched, Envelope};
use super::ask::{Topic, when_answered};
use super::audience::Audience;
use super::context::Cx;
use super::dispatch::{Dispatcher, Exchange};
use super::failure::Failure;
use super::shelf::Item;
use super::state::{Need, States};
use super::tool_result::Json;

/// A read under way.
pub type ReadFuture<'a> = Pin<Box<dyn Future<Output = Result<ReadResourceResult, ErrorObject>> + Send + 'a>>;

/// Resources that a type of one's own finds and reads, for those that neither stand in a list nor follow a template
/// that [`ResourceTemplate`](super::ResourceTemplate) can read.
pub trait Resources: fmt::Debug + Send + Sync + 'static {
    /// The templates of their URIs, for the list.
    fn templates(&self) -> Vec<model::ResourceTemplate>;

    /// Whether `uri` is one of theirs.
    fn has(&self, uri: &str) -> bool;

    /// Reads one. What the caller may not see does not exist.
    ///
    /// # Errors
    ///
    /// [`not_found`] for a URI that names nothing.
    fn read<'a>(&'a self, cx: Cx, uri: &'a str) -> ReadFuture<'a>;
}

type Read = Arc<dyn Fn(Cx, &str, Option<&str>) -> Reading + Send + Sync>;

/// A resource with a URI of its own.
///
/// # Examples
///
/// ```
/// use longhaul::server::Resource;
///
/// let motd = Resource::text("app://motd", "motd", "Be kind.").description("The message of the day");
/// let uptime = Resource::new("app://uptime", "uptime", |_| async {
///     std::fs::read_to_string("/proc/uptime")
/// });
/// # assert_eq!((motd.definition().size, uptime.definition().size), (Some(8), None));
/// ```
#[derive(Clone)]
pub struct Resource {
    pub(super) definition: model::Resource,
    pub(super) needed: Vec<Need>,
    read: Read,
}

impl Resource {
    /// The resource at `uri`, called `name`, which `function` reads each time it is asked for.
    pub fn new<F, R>(
        uri: impl Into<String>,
        name: impl Into<String>,
        function: impl Fn(Cx) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = R> + Send + 'static,
        R: IntoContents,
    {
        let read =
            move |cx: Cx, uri: &str, mime_type: Option<&str>| Reading::new(function(cx), uri, mime_type);
        Self { definition: model::Resource::new(uri, name), needed: Vec::new(), read: Arc::new(read) }
    }

    /// A resource described by hand, which `function` reads each time it is asked for.
    pub fn raw<F, R>(definition: model::Resource, function: impl Fn(Cx) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = R> + Send + 'static,
        R: IntoContents,
    {
        Self { definition, ..Self::new("", "", function) }
    }

    /// A text that stays as it is. Its kind is `text/plain` unless it is said.
    pub fn text(uri: impl Into<String>, name: impl Into<String>, text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        let size = text.len();
        let fixed = Self::new(uri, name, move |_| std::future::ready(text.to_string()));
        fixed.mime_type("text/plain").size(size as u64)
    }

    /// Bytes that stay as they are. Their kind is `application/octet-stream` unless it is said.
    pub fn blob(uri: impl Into<String>, name: impl Into<String>, bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        let size = bytes.len();
        let fixed = Self::new(uri, name, move |_| std::future::ready(bytes.to_vec()));
        fixed.mime_type("application/octet-stream").size(size as u64)
    }

    /// The same with a description.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.definition.description = Some(description.into());
        self
    }

    /// Says what kind of thing it is.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.definition.mime_type = Some(mime_type.into());
        self
    }

    /// Says how large it is, in bytes before any encoding.
    #[must_use]
    pub fn size(mut self, size: u64) -> Self {
        self.definition.size = Some(size);
        self
    }

    /// Says for whom it is.
    #[must_use]
    pub fn annotations(mut self, annotations: Annotations) -> Self {
        self.definition.annotations = Some(annotations);
        self
    }

    /// What the list shows of it.
    pub fn definition(&self) -> &model::Resource {
        &self.definition
    }

    /// Whether the server has what it needs.
    pub(super) fn check(&self, states: &States) -> Result<(), BuildError> {
        self.check_adorned(states, || format!("resource {:?}", self.definition.uri))
    }

    fn start(&self, cx: Cx) -> Reading {
        (self.read)(cx, &self.definition.uri, self.definition.mime_type.as_deref())
    }
}

impl Item for Resource {
    fn key(&self) -> &str {
        &self.definition.uri
    }

    fn write(&self, dialect: &Dialect, _: Audience, out: &mut Vec<u8>) {
        dialect.write_resource(&self.definition, out);
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource").field("definition", &self.definition).finish_non_exhaustive()
    }
}

/// What reading a resource may return: `None` when there is no such resource.
#[diagnostic::on_unimplemented(
    message = "reading a resource cannot return `{Self}`",
    label = "return a string, a `Vec<u8>`, a `Json`, `ResourceContents`, or an `Option` or `Result` of one"
)]
pub trait IntoContents: Send + 'static {
    /// Turns it into what the caller gets of `uri`, whose kind is `mime_type` if that is known beforehand.
    ///
    /// # Errors
    ///
    /// What the request is answered with instead.
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<ReadResourceResult, ErrorObject>;
}

impl IntoContents for ReadResourceResult {
    fn into_contents(self, _: &str, _: Option<&str>) -> Result<ReadResourceResult, ErrorObject> {
        Ok(self)
    }
}

impl IntoContents for ResourceContents {
    fn into_contents(self, _: &str, _: Option<&str>) -> Result<ReadResourceResult, ErrorObject> {
        Ok(ReadResourceResult::fresh(self))
    }
}

impl IntoContents for Vec<ResourceContents> {
    fn into_contents(self, _: &str, _: Option<&str>) -> Result<ReadResourceResult, ErrorObject> {
        Ok(ReadResourceResult::new(self))
    }
}

impl IntoContents for String {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<ReadResourceResult, ErrorObject> {
        let mime_type = mime_type.unwrap_or("text/plain");
        Ok(ReadResourceResult::fresh(ResourceContents::text(uri, mime_type, self)))
    }
}

impl IntoContents for &'static str {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<ReadResourceResult, ErrorObject> {
        self.to_owned().into_contents(uri, mime_type)
    }
}

impl IntoContents for Vec<u8> {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<ReadResourceResult, ErrorObject> {
        let mime_type = mime_type.unwrap_or("application/octet-stream");
        Ok(ReadResourceResult::fresh(ResourceContents::blob(uri, mime_type, BASE64.encode(self))))
    }
}

/// Text of the kind `application/json`, unless another is said.
impl<T: Serialize + Send + 'static> IntoContents for Json<T> {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<ReadResourceResult, ErrorObject> {
        let text = serde_json::to_string(&self.0).map_err(Failure::from)?;
        text.into_contents(uri, Some(mime_type.unwrap_or("application/json")))
    }
}

impl<T: IntoContents> IntoContents for Option<T> {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<ReadResourceResult, ErrorObject> {
        self.ok_or_else(|| not_found(uri)).and_then(|found| found.into_contents(uri, mime_type))
    }
}

impl<T: IntoContents, E: Into<Failure> + Send + 'static> IntoContents for Result<T, E> {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<ReadResourceResult, ErrorObject> {
        self.map_err(|error| error.into().into()).and_then(|read| read.into_contents(uri, mime_type))
    }
}

/// A read that has begun.
pub(super) struct Reading(ReadFuture<'static>);

impl Reading {
    pub(super) fn new<R: IntoContents>(
        reading: impl Future<Output = R> + Send + 'static,
        uri: &str,
        mime_type: Option<&str>,
    ) -> Self {
        let (uri, mime_type) = (uri.to_owned(), mime_type.map(str::to_owned));
        Self(Box::pin(async move { reading.await.into_contents(&uri, mime_type.as_deref()) }))
    }
}

pub(super) fn read_resource(
    dispatcher: &Dispatcher,
    envelope: Envelope,
    exchange: Exchange<'_, '_>,
    out: &mut Vec<u8>,
) -> Dispatched {
    let params = exchange.params;
    let Text(uri) = match params.require("uri") {
        Ok(uri) => uri,
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
    let asked = (cx.clone(), params);
    // To read changes nothing, so it may be done again.
    let topic = Topic { method: "resources/read", name: &uri, arguments: "{}", reentrant: true, asks: false };
    let begin = || start(dispatcher, cx, &uri).map(|Reading(reading)| reading);
    when_answered(&dispatcher.0.desk, envelope, asked, topic, begin, ReadResourceResult::write, out)
}

/// A resource is found by its own URI first, then by the templates in their order, then by the families.
fn start(dispatcher: &Dispatcher, cx: Cx, uri: &str) -> Result<Reading, ErrorObject> {
    let offer = &dispatcher.0.offer;
    if let Some(resource) = offer.resources.find(uri) {
        return Ok(resource.start(cx));
    }
    let templates = offer.templates.stock();
    // A template of others may fit what tasks put out as well, which is not theirs.
    if !uri.starts_with(OUTPUT_SCHEME)
        && let Some(reading) = templates.iter().find_map(|template| template.start(cx.clone(), uri))
    {
        return Ok(reading);
    }
    let family = offer.family_of(uri).ok_or_else(|| not_found(uri))?;
    let poll =
        uri.starts_with(OUTPUT_SCHEME).then(|| dispatcher.0.polls.admit(cx.caller(), 1)).transpose()?;
    let asked = poll.map(|poll| (poll, dispatcher.engine().clone()));
    let uri = uri.to_owned();
    Ok(Reading(Box::pin(async move {
        let read = family.read(cx, &uri).await;
        match (asked, &read) {
            (Some((poll, _)), Err(error)) => {
                poll.missed(usize::from(error.code == Code::RESOURCE_NOT_FOUND));
            }
            (Some((_, engine)), Ok(_)) => {
                if let Some(address) = OutputAddress::parse(&uri) {
                    engine.came_back_by_id(&address.task);
                }
            }
            (None, _) => {}
        }
        read
    })))
}

/// There is no such resource; each revision has its own code for that.
pub fn not_found(uri: &str) -> ErrorObject {
    #[derive(serde::Serialize)]
    struct Data<'a> {
        uri: &'a str,
    }
    ErrorObject::new(Code::RESOURCE_NOT_FOUND, "resource not found").with_data(&Data { uri })
}
