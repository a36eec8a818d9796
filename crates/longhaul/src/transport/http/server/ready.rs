//! Whether the server should be sent more: it is not about to stop, and its store answers and keeps what it is given.

use std::time::Duration;

use http::{Response, StatusCode};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::Endpoint;
use super::answer::{Body, no_room, text};

/// What was found last, and when: who asks again and again costs the store nothing.
#[derive(Debug, Default)]
pub(super) struct Ready(Mutex<Option<(Instant, bool)>>);

/// For how long an answer of the store counts.
const FRESH: Duration = Duration::from_secs(1);

/// How long the store may take.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn answer(endpoint: &Endpoint) -> Response<Body> {
    let engine = endpoint.dispatcher.engine();
    if engine.is_draining() {
        return no_room("stopping");
    }
    let mut found = endpoint.ready.0.lock().await;
    let answers = match *found {
        Some((at, answers)) if at.elapsed() < FRESH => answers,
        _ => {
            let answers = matches!(timeout(PATIENCE, engine.counts()).await, Ok(Ok(_)));
            *found = Some((Instant::now(), answers));
            answers
        }
    };
    match engine.at_risk() {
        _ if !answers => no_room("the store cannot be read"),
        Some(why) => no_room(&format!("the store may lose what it is given: {why}")),
        None => text(StatusCode::OK, "ready".into()),
    }
}
