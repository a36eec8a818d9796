//! Attributes that are sugar over longhaul's builder, and nothing else: what they write, one could write by hand.
//!
//! Use them through `longhaul`, whose feature `macros` exports them.

mod function;
mod options;
mod tool;

use proc_macro::TokenStream;

/// Makes a function a tool.
///
/// The function's name is the tool's, its doc comment the description, its parameters the arguments: doc comments on
/// parameters are their descriptions, and `#[serde(…)]` and `#[schemars(…)]` on them are kept. A parameter of type
/// `Cx` gets the call's context. What the function returns is anything a tool may return
/// (`longhaul::server::IntoToolResult`).
///
/// The function itself is then a value to give to `Server::tool`, and is called as `name::call(…)`.
///
/// | option | means |
/// |---|---|
/// | `name = "…"`, `title = "…"`, `description = "…"` | instead of what the function says |
/// | `task = "never"`, `"always"`, `"after 2s"`, `"required"` | when a call becomes a task |
/// | `ttl = "24h"`, `hold = "50s"` | how long a task is kept, and how long a caller without tasks waits |
/// | `limit = 2` | how many calls run at once |
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
#[proc_macro_attribute]
pub fn tool(options: TokenStream, function: TokenStream) -> TokenStream {
    tool::expand(options.into(), function.into()).unwrap_or_else(|error| error.into_compile_error()).into()
}
