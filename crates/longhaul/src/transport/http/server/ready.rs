//! Whether the server should be sent more: it is not about to stop, and its store answers, takes writes and keeps what it is given.

use std::time::Duration;

use http::{Response, StatusCode};
use longhaul_tasks::runner::Engine;
use longhaul_tasks::store::StoreError;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::Endpoint;
use super::answer::{Body, no_room, text};

/// What was found last, and when: who asks again and again costs the store nothing.
#[derive(Debug, Default)]
pub(super) struct Ready(Mutex<Option<(Instant, Result<(), &'static str>)>>);

/// For how long an answer of the store counts.
const FRESH: Duration = Duration::from_secs(1);

/// How long the store may take.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn answer(endpoint: &Endpoint) -> Response<Body> {
    let engine = endpoint.dispatcher.engine();
    if engine.is_draining() {
        return no_room("stopping");
    }
    let mut last = endpoint.ready.0.lock().await;
    let found = match *last {
        Some((at, found)) if at.elapsed() < FRESH => found,
        _ => {
            let found = look(engine).await;
            *last = Some((Instant::now(), found));
            found
        }
    };
    match (found, engine.at_risk()) {
        (Err(why), _) => no_room(why),
        (Ok(()), Some(why)) => no_room(&format!("the store may lose what it is given: {why}")),
        (Ok(()), None) => text(StatusCode::OK, "ready".into()),
    }
}

/// What keeps the store from being used, in words without its place: anybody may ask.
async fn look(engine: &Engine) -> Result<(), &'static str> {
    if !matches!(timeout(PATIENCE, engine.counts()).await, Ok(Ok(_))) {
        return Err("the store cannot be read");
    }
    match engine.refusal() {
        None => Ok(()),
        Some(StoreError::Gone { .. }) => Err(
            "the store's file was removed or replaced, or cut short: nothing is accepted until it is back",
        ),
        Some(StoreError::Full { .. }) => Err("no space is left for the store: nothing is accepted"),
        Some(_) => Err("the store cannot be written: nothing is accepted"),
    }
}
