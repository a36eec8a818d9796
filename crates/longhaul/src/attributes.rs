//! The attributes, and what each is: `longhaul-macros` only carries them out.

/// Makes a function a tool.
///
/// The function's name is the tool's, its doc comment the description, its parameters the arguments: doc comments on
/// parameters are their descriptions, and `#[serde(…)]` and `#[schemars(…)]` on them are kept. A parameter of type
/// `Cx` gets the call's context, one of type `State<T>` what the server's handlers share of that type. What the function
/// returns is anything a tool may return ([`IntoToolResult`](crate::server::IntoToolResult)). An `async fn` is polled where the request was
/// read; a plain `fn` may take its time, for it runs on a thread of the blocking pool.
///
/// The function itself is then a value to give to `Server::tool`, and is called as `name::call(…)`.
///
/// | option | means |
/// |---|---|
/// | `name = "…"`, `title = "…"`, `description = "…"` | instead of what the function says |
/// | `task = "never"`, `"always"`, `"after 2s"`, `"required"` | when a call becomes a task |
/// | `cancel = "cooperative"` | how a task ends that is cancelled: `"immediate"`, or as its work decides within ten seconds, or `"cooperative 30s"` |
/// | `rerun = "resumable"` | what becomes of a task whose process is gone: `"never"`, `"resumable"` (its steps are recorded) or `"restart"` |
/// | `version = "2"`, `accepts = ">=1, <3"` | the version of its work, and those of the tasks it goes on with |
/// | `ttl = "24h"`, `hold = "50s"` | how long a task is kept, and how long a caller without tasks waits |
/// | `limit = 2` | how many calls run at once |
/// | `inline` | a plain `fn` that is done at once runs where the request was read |
/// | `join` | a call equal to an open one of the same principal joins it |
/// | `read_only`, `destructive`, `idempotent`, `open_world` | hints; `read_only = false` says the contrary |
///
/// # Examples
///
/// ```
/// use longhaul::{Cx, Server, tool};
///
/// /// Add two numbers.
/// #[tool(read_only)]
/// async fn add(
///     /// The first.
///     a: i64,
///     /// The second.
///     b: i64,
/// ) -> i64 {
///     a + b
/// }
///
/// let server = Server::new("calculator", "1.0.0").tool(add);
/// # drop(server);
/// ```
pub use longhaul_macros::tool;

/// Makes a function a prompt.
///
/// The function is read as by [`tool`](macro@tool). Its arguments are texts on the wire: a parameter that is a number or a
/// `bool` is read from the words for it, an `Option` may be left out. It returns anything a prompt may
/// ([`IntoPrompt`](crate::server::IntoPrompt)).
///
/// | option | means |
/// |---|---|
/// | `name = "…"`, `title = "…"`, `description = "…"` | instead of what the function says |
/// | `inline` | a plain `fn` that is done at once runs where the request was read |
///
/// # Examples
///
/// ```
/// use longhaul::{Server, prompt};
///
/// /// Review some code.
/// #[prompt]
/// async fn review(
///     /// The language it is written in.
///     language: String,
///     /// What to look at above all.
///     focus: Option<String>,
/// ) -> String {
///     format!("Review this {language} code. Look at {}.", focus.as_deref().unwrap_or("everything"))
/// }
///
/// let server = Server::new("reviews", "1.0.0").prompt(review);
/// # drop(server);
/// ```
pub use longhaul_macros::prompt;

/// Makes a function a resource, or a family of them when its URI has variables.
///
/// The function is read as by [`tool`](macro@tool); its arguments are the variables of the URI (RFC 6570). It returns anything
/// that reading a resource may ([`IntoContents`](crate::server::IntoContents)). A resource is given to `Server::resource`, a family
/// to `Server::resource_template`.
///
/// | option | means |
/// |---|---|
/// | `uri = "…"` | where it is found; needed |
/// | `name = "…"`, `title = "…"`, `description = "…"` | instead of what the function says |
/// | `mime_type = "…"` | what kind of thing it is |
/// | `inline` | a plain `fn` that is done at once runs where the request was read |
///
/// # Examples
///
/// ```
/// use longhaul::{Server, resource};
///
/// /// How long the machine has been up.
/// #[resource(uri = "app://uptime", mime_type = "text/plain")]
/// fn uptime() -> std::io::Result<String> {
///     std::fs::read_to_string("/proc/uptime")
/// }
///
/// /// The rows of every table.
/// #[resource(uri = "db://{table}/{id}")]
/// async fn rows(table: String, id: u64) -> Option<String> {
///     (table == "users").then(|| format!("user {id}"))
/// }
///
/// let server = Server::new("machine", "1.0.0").resource(uptime).resource_template(rows);
/// # drop(server);
/// ```
pub use longhaul_macros::resource;
