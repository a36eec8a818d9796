//! Lists of a server, page by page: its tools, resources, templates and prompts.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use longhaul_proto::jsonrpc::{Text, clip, without_place};
use longhaul_proto::method::Method;
use longhaul_proto::model::{Prompt, Resource, ResourceTemplate, Tool};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::Client;
use super::error::Error;

/// What a server lists.
pub trait Listed: DeserializeOwned + Send + sealed::Listed {}

mod sealed {
    use longhaul_proto::method::Method;

    /// How it is listed.
    #[expect(unnameable_types, reason = "so that nobody else implements it")]
    pub trait Listed {
        /// By which method.
        const METHOD: Method;
        /// The member of an answer that has it.
        const MEMBER: &'static str;
        /// The member of each by which it is known.
        const KEY: &'static str;
    }
}

macro_rules! listed {
    ($($item:ty: $method:ident, $member:literal, $key:literal;)*) => {$(
        impl Listed for $item {}
        impl sealed::Listed for $item {
            const METHOD: Method = Method::$method;
            const MEMBER: &'static str = $member;
            const KEY: &'static str = $key;
        }
    )*};
}

listed! {
    Tool: ListTools, "tools", "name";
    Resource: ListResources, "resources", "uri";
    ResourceTemplate: ListResourceTemplates, "resourceTemplates", "uriTemplate";
    Prompt: ListPrompts, "prompts", "name";
}

/// A list of a server, which is asked for page by page as it is read. What of it cannot be read is left out, and one WARN a page
/// says how much that was, and names the first of it.
///
/// ```no_run
/// # async fn run(client: longhaul::client::Client) -> Result<(), longhaul::client::Error> {
/// let mut prompts = client.prompts();
/// while let Some(prompt) = prompts.next().await? {
///     println!("{}", prompt.name);
/// }
/// # Ok(()) }
/// ```
pub struct Items<'c, T> {
    client: &'c Client,
    page: VecDeque<T>,
    left_out: Vec<LeftOut>,
    cursor: Option<String>,
    pages: usize,
    items: usize,
    is_over: bool,
}

impl<'c, T: Listed> Items<'c, T> {
    fn new(client: &'c Client) -> Self {
        let (page, left_out) = (VecDeque::new(), Vec::new());
        Self { client, page, left_out, cursor: None, pages: 0, items: 0, is_over: false }
    }

    /// The next item; `None` at the end. Dropping the future gives the page up that it waits for; the next
    /// call asks for it again.
    ///
    /// # Errors
    ///
    /// When the list is longer than [`Options::max_listed`](super::Options) or does not end, or the server
    /// answers with an error.
    pub async fn next(&mut self) -> Result<Option<T>, Error> {
        while self.page.is_empty() && !self.is_over {
            self.turn().await?;
        }
        Ok(self.page.pop_front())
    }

    /// All that is still to come.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    pub async fn collect(self) -> Result<Vec<T>, Error> {
        Ok(self.collect_all().await?.0)
    }

    /// The same, and what of the whole list cannot be read.
    pub(super) async fn collect_all(mut self) -> Result<(Vec<T>, Vec<LeftOut>), Error> {
        while !self.is_over {
            self.turn().await?;
        }
        Ok((self.page.into(), self.left_out))
    }

    /// Asks for the next page.
    async fn turn(&mut self) -> Result<(), Error> {
        let (limit, what) = (self.client.options().max_listed, T::MEMBER);
        if self.pages >= limit {
            return Err(Error::protocol(format!("a list of {what} with more than {limit} pages")));
        }
        let cursor = &self.cursor;
        let request = self.client.prepare(T::METHOD, |params| {
            params.optional("cursor", cursor.as_ref());
        })?;
        let asking = async { Ok(self.client.ask(request).await?.result) };
        let page = cursor.as_deref().unwrap_or_default();
        let answer = self.client.ask_or_remember(T::METHOD, page, asking).await?;
        let Page { items, next } = Page::read(&answer, what)?;
        self.pages += 1;
        self.items += items.len();
        if self.items > limit {
            return Err(Error::protocol(format!("a list of more than {limit} {what}")));
        }
        if next.is_some() && next == self.cursor {
            return Err(Error::protocol(format!("a list of {what} whose cursor does not move on")));
        }
        let (readable, left_out) = read_each::<T>(&items);
        self.page.extend(readable);
        self.left_out.extend(left_out);
        self.is_over = next.is_none();
        self.cursor = next;
        Ok(())
    }
}

impl<T> fmt::Debug for Items<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Items")
            .field("pages", &self.pages)
            .field("is_over", &self.is_over)
            .finish_non_exhaustive()
    }
}

/// A page: its items as they came, and where the next begins.
struct Page<'a> {
    items: Vec<&'a RawValue>,
    next: Option<String>,
}

impl<'a> Page<'a> {
    fn read(answer: &'a str, member: &str) -> Result<Self, Error> {
        let invalid = |error: serde_json::Error| Error::protocol(format!("an invalid answer: {error}"));
        let mut members: HashMap<String, &RawValue> = read(answer)?;
        let items = members.remove(member);
        let items =
            items.ok_or_else(|| Error::protocol(format!("an invalid answer: it has no `{member}`")))?;
        let next = members.remove("nextCursor").map_or(Ok(None), |next| serde_json::from_str(next.get()));
        Ok(Self { items: serde_json::from_str(items.get()).map_err(invalid)?, next: next.map_err(invalid)? })
    }
}

/// Those that can be read, and the others: one that cannot takes none of those along.
fn read_each<T: Listed>(items: &[&RawValue]) -> (Vec<T>, Vec<LeftOut>) {
    let (mut read, mut others) = (Vec::new(), Vec::new());
    for item in items {
        match serde_json::from_str(item.get()) {
            Ok(item) => read.push(item),
            Err(error) => others.push(LeftOut { name: name::<T>(item), why: without_place(&error) }),
        }
    }
    if let Some(LeftOut { why: error, .. }) = others.first() {
        let named: Vec<&str> = others.iter().take(MOST_NAMED).map(|other| other.name.as_str()).collect();
        let (list, left_out, items) = (T::MEMBER, others.len(), named.join(", "));
        tracing::warn!(error, list, left_out, %items, "left out of a list what cannot be read");
    }
    (read, others)
}

/// What a server lists and is left out: it cannot be read, or cannot be called.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct LeftOut {
    /// What it is known by, as the JSON that stands there; or the beginning of all that does.
    pub name: String,
    /// What is wrong with it.
    pub why: String,
}

/// What an item is known by, if it says so, as it stands there.
fn name<T: Listed>(item: &RawValue) -> String {
    let members: HashMap<String, &RawValue> = serde_json::from_str(item.get()).unwrap_or_default();
    clip(members.get(T::KEY).copied().unwrap_or(item).get()).into_owned()
}

/// How many of those that are left out of a page are named.
const MOST_NAMED: usize = 5;

impl Client {
    /// The tools, page by page. [`list_tools`](Self::list_tools) gives them at once, and without those that cannot be
    /// called.
    pub fn tools(&self) -> Items<'_, Tool> {
        Items::new(self)
    }

    /// The resources, page by page.
    pub fn resources(&self) -> Items<'_, Resource> {
        Items::new(self)
    }

    /// The templates of resources, page by page.
    pub fn resource_templates(&self) -> Items<'_, ResourceTemplate> {
        Items::new(self)
    }

    /// The prompts, page by page.
    pub fn prompts(&self) -> Items<'_, Prompt> {
        Items::new(self)
    }
}

/// Reads a result. One that says it is something else, a task for one, is none (SEP-2663, Supported Requests).
pub(super) fn read<'a, T: Deserialize<'a>>(result: &'a str) -> Result<T, Error> {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(default, borrow, rename = "resultType")]
        kind: Option<Text<'a>>,
    }
    if let Ok(Kind { kind: Some(Text(kind)) }) = serde_json::from_str(result)
        && kind != "complete"
    {
        return Err(Error::protocol(format!(
            "an answer of the type {kind:?}, which this request has none of"
        )));
    }
    serde_json::from_str(result).map_err(|error| Error::protocol(format!("an invalid answer: {error}")))
}
