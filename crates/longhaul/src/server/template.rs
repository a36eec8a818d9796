//! Families of resources, by URI template.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use longhaul_proto::dialect::Dialect;
use longhaul_proto::model::{self, Annotations};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::audience::Audience;
use super::completion::{Completers, IntoCompletion, Typed};
use super::context::Cx;
use super::resource::{IntoContents, Reading};
use super::shelf::Item;
use super::state::{Need, States};
use super::uri_template::UriTemplate;
use super::{BuildError, schema, words};

type Read = Arc<dyn Fn(Cx, &str, Option<&str>, &BTreeMap<String, String>) -> Option<Reading> + Send + Sync>;

/// A family of resources whose URIs are made by a template (RFC 6570, levels 1 to 3).
///
/// `{x}` stands for characters that are not reserved, `{+x}` for any, also `/`; `{?x,y}` for a query. A URI that the
/// template could not have made is none of the family, and neither is one whose values are not what the function
/// wants: `{id}` of a `u64` does not match `abc`. Values come decoded, so one of them can hold `../`: whoever makes
/// paths of them must look.
///
/// # Examples
///
/// ```
/// use longhaul::server::ResourceTemplate;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Row {
///     table: String,
///     id: u64,
/// }
///
/// let rows = ResourceTemplate::typed("db://{table}/{id}", "rows", |_, Row { table, id }| async move {
///     (table == "users").then(|| format!("user {id}"))
/// })
/// .description("The rows of every table")
/// .complete("table", |_, _| async { vec!["users"] });
/// # assert_eq!(rows.definition().name, "rows");
/// ```
#[derive(Clone)]
pub struct ResourceTemplate {
    pub(super) definition: model::ResourceTemplate,
    template: Result<UriTemplate, String>,
    /// It is listed although it may not be read back.
    is_raw: bool,
    /// What the function cannot do without.
    needs: Vec<String>,
    read: Read,
    pub(super) completers: Completers,
    /// What it needs of what the server's handlers share.
    pub(super) needed: Vec<Need>,
}

impl ResourceTemplate {
    /// The family of `uri_template`, called `name`, whose variables are read as `A`, a struct.
    pub fn typed<A, F, R>(
        uri_template: impl Into<String>,
        name: impl Into<String>,
        function: impl Fn(Cx, A) -> F + Send + Sync + 'static,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Future<Output = R> + Send + 'static,
        R: IntoContents,
    {
        let definition = model::ResourceTemplate::new(uri_template, name);
        let required = schema::members::<A>().into_iter().filter(|member| member.required);
        let needs = required.map(|member| member.name).collect();
        let read = move |cx: Cx, uri: &str, mime_type: Option<&str>, values: &BTreeMap<String, String>| {
            let values = words::read::<A>(values).ok()?;
            Some(Reading::new(function(cx, values), uri, mime_type))
        };
        Self {
            template: UriTemplate::parse(&definition.uri_template),
            definition,
            is_raw: false,
            needs,
            read: Arc::new(read),
            completers: Completers::default(),
            needed: Vec::new(),
        }
    }

    /// A family described by hand, whose resources `function` reads by their URIs. A template that cannot be read back
    /// (`{path*}`) is listed as it is; what is made by it is looked for where no template is.
    pub fn raw<F, R>(
        definition: model::ResourceTemplate,
        function: impl Fn(Cx, String) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = R> + Send + 'static,
        R: IntoContents,
    {
        let read = move |cx: Cx, uri: &str, mime_type: Option<&str>, _: &BTreeMap<String, String>| {
            Some(Reading::new(function(cx, uri.to_owned()), uri, mime_type))
        };
        Self {
            template: UriTemplate::parse(&definition.uri_template),
            definition,
            is_raw: true,
            needs: Vec::new(),
            read: Arc::new(read),
            completers: Completers::default(),
            needed: Vec::new(),
        }
    }

    /// The same with a description.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.definition.description = Some(description.into());
        self
    }

    /// Says what kind of things they are.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.definition.mime_type = Some(mime_type.into());
        self
    }

    /// Says for whom they are.
    #[must_use]
    pub fn annotations(mut self, annotations: Annotations) -> Self {
        self.definition.annotations = Some(annotations);
        self
    }

    /// Completes a variable while it is typed: `function` gives what could be meant, the likeliest first.
    #[must_use]
    pub fn complete<F, R>(
        mut self,
        variable: impl Into<String>,
        function: impl Fn(Cx, Typed) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = R> + Send + 'static,
        R: IntoCompletion,
    {
        self.completers.add(variable, function);
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
    pub fn definition(&self) -> &model::ResourceTemplate {
        &self.definition
    }

    pub(super) fn has_variable(&self, name: &str) -> bool {
        self.template.as_ref().is_ok_and(|template| template.variables().iter().any(|known| known == name))
    }

    /// Whether `uri` could be one of the family.
    pub(super) fn matches(&self, uri: &str) -> bool {
        self.template.as_ref().is_ok_and(|template| template.read(uri).is_some())
    }

    /// Begins to read `uri`, if it is one of the family.
    pub(super) fn start(&self, cx: Cx, uri: &str) -> Option<Reading> {
        let values = self.template.as_ref().ok()?.read(uri)?;
        (self.read)(cx, uri, self.definition.mime_type.as_deref(), &values)
    }

    /// Whether it can be offered.
    pub(super) fn check(&self, states: &States) -> Result<(), BuildError> {
        let of = || format!("template {:?}", self.definition.uri_template);
        self.check_adorned(states, of)?;
        if let (Err(problem), false) = (&self.template, self.is_raw) {
            return Err(BuildError::UriTemplate { of: of(), problem: problem.clone() });
        }
        let names = self.completers.arguments().chain(self.needs.iter().map(String::as_str));
        match names.into_iter().find(|name| !self.has_variable(name)) {
            None => Ok(()),
            Some(name) => Err(BuildError::NoSuchArgument { of: of(), argument: name.to_owned() }),
        }
    }
}

impl Item for ResourceTemplate {
    fn key(&self) -> &str {
        &self.definition.uri_template
    }

    fn write(&self, dialect: &Dialect, _: Audience, out: &mut Vec<u8>) {
        dialect.write_resource_template(&self.definition, out);
    }
}

impl fmt::Debug for ResourceTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceTemplate").field("definition", &self.definition).finish_non_exhaustive()
    }
}
