//! A server of this process that a client of this process uses.

use std::future::pending;
use std::time::Duration;

use tokio::io::split;

use super::pair;
use crate::client::Target;
use crate::driver;
use crate::server::{Caller, Dispatcher, Principal};

/// Serves `dispatcher` to one client of this process, which calls as `principal`, for as long as the client is there.
///
/// Must be called within a tokio runtime.
///
/// # Examples
///
/// ```
/// use longhaul::server::local_user;
/// use longhaul::transport::memory;
/// use longhaul::{Client, Server, Tool};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Greet {
///     name: String,
/// }
///
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let greet = Tool::typed("greet", "Greet somebody", |_, Greet { name }| async move { format!("Hello, {name}!") });
/// let dispatcher = Server::new("greeter", "1.0.0").tool(greet).dispatcher()?;
///
/// let client = Client::connect(memory::serve(dispatcher, local_user())).await?;
/// let answer = client.call("greet", &serde_json::json!({ "name": "Ann" })).await?;
/// assert_eq!(answer.content[0].as_text(), Some("Hello, Ann!"));
/// # Ok(()) }
/// ```
pub fn serve(dispatcher: Dispatcher, principal: Principal) -> Target {
    serve_caller(dispatcher, Caller::new(Some(principal)))
}

/// The same, for a client that calls as `caller`, with what its credential allows.
///
/// Must be called within a tokio runtime.
pub fn serve_caller(dispatcher: Dispatcher, caller: Caller) -> Target {
    let (ours, theirs) = pair();
    tokio::spawn(async move {
        let (reader, writer) = split(ours);
        let (options, callers) = (driver::Options::default(), driver::Callers::One(caller));
        let served =
            driver::serve_callers(dispatcher, callers, reader, writer, options, pending(), Duration::ZERO)
                .await;
        if let Err(error) = served {
            tracing::debug!(%error, "a connection within the process ended early");
        }
    });
    let (reader, writer) = split(theirs);
    Target::stream(reader, writer)
}
