//! The notebook: who may come in, and what each may do there.

use std::sync::{Arc, Mutex, PoisonError};

use longhaul::auth::{Guard, Protection, Resource, StaticTokens};
use longhaul::server::Scopes;
use longhaul::transport::http::server::Options;
use longhaul::{Cx, Server, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Note {
    /// What to remember.
    text: String,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Nothing {}

/// Everybody who comes in may read; writing takes a scope more.
pub(crate) fn server() -> anyhow::Result<Server> {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let pages = Arc::clone(&notes);
    let read = Tool::typed("read", "Read what was noted", move |_: Cx, _: Nothing| {
        let text = pages.lock().unwrap_or_else(PoisonError::into_inner).join("\n");
        async move { text }
    });
    let write = Tool::typed("write", "Note something", move |cx: Cx, Note { text }: Note| {
        // The guard has seen to it that there is one.
        let who = cx.principal().map(|principal| principal.as_str().to_owned()).unwrap_or_default();
        notes.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{who}: {text}"));
        async { "noted" }
    });
    Ok(Server::new("notebook", "1.0.0").tool(read).tool(write.scopes(Scopes::parse("write")?)))
}

/// Two tokens, which the operator hands out: one for everything, one for reading.
pub(crate) fn options(ann: &str, bob: &str) -> anyhow::Result<Options> {
    Ok(Options::default().guard(guard(ann, bob)?))
}

fn guard(ann: &str, bob: &str) -> anyhow::Result<Guard> {
    let tokens = StaticTokens::new().token("ann", ann, Some(Scopes::parse("read write")?))?.token(
        "bob",
        bob,
        Some(Scopes::parse("read")?),
    )?;
    Ok(Protection::new()
        .resource(Resource::parse("http://localhost:8423/mcp")?)
        .require(Scopes::parse("read")?)
        .tokens(tokens)
        .guard()?)
}
