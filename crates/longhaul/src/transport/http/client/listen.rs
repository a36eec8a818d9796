//! The stream of a legacy session for what belongs to no request: progress of tasks, changed lists.

use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::dialect::Dialect;
use reqwest::StatusCode;
use reqwest::header::ACCEPT;

use super::post::handle_event;
use super::read::{Events, Kind, kind};
use super::{PROTOCOL_VERSION, SESSION_ID, Shared};

/// Listens until the session ends or the server says that it has no such stream. Nothing depends on what
/// comes here, so a stream that breaks is opened again and no failure is reported.
pub(super) async fn listen(shared: Arc<Shared>, dialect: &'static Dialect) {
    let mut failures: u32 = 0;
    while failures < MAX_FAILURES {
        match listen_once(&shared, dialect).await {
            Heard::Something => failures = 0,
            Heard::Nothing => failures += 1,
            Heard::NoStream => return,
        }
        tokio::time::sleep(PAUSE * 2u32.saturating_pow(failures)).await;
    }
}

enum Heard {
    Something,
    Nothing,
    NoStream,
}

/// How often in a row the stream may fail before it is given up.
const MAX_FAILURES: u32 = 6;

/// How long to wait before the stream is opened again, at first.
const PAUSE: Duration = Duration::from_millis(500);

async fn listen_once(shared: &Arc<Shared>, dialect: &'static Dialect) -> Heard {
    let Some(session) = shared.session() else { return Heard::NoStream };
    let request = shared.http.get(shared.url.clone()).header(ACCEPT, "text/event-stream");
    let request = request.header(SESSION_ID, session.id);
    let sent = request.header(PROTOCOL_VERSION, dialect.revision().as_str()).send().await;
    let Ok(response) = sent else { return Heard::Nothing };
    if matches!(response.status(), StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_FOUND) {
        return Heard::NoStream;
    }
    if !response.status().is_success() || !matches!(kind(&response), Kind::Events) {
        return Heard::Nothing;
    }
    let mut events = Events::new(response, &shared.table.options().limits);
    let mut heard = Heard::Nothing;
    while let Ok(Some(more)) = events.next().await {
        heard = Heard::Something;
        for event in &more {
            if let Err(error) = handle_event(shared, dialect, event) {
                tracing::debug!(%error, "passed over an event");
            }
        }
    }
    heard
}
