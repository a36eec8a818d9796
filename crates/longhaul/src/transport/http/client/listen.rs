//! The stream of a legacy session for what belongs to no request: progress of tasks, questions, changed lists.

use std::sync::Arc;

use longhaul_proto::dialect::Dialect;
use tokio::sync::oneshot;

use super::Shared;
use super::post::handle_event;
use super::resume::{Opened, Position, open};

/// Listens until the session ends or the server says that it has no such stream, and says once whether it `stands`.
/// Nothing depends on what comes here, so a stream that breaks is opened again and no failure is reported.
pub(super) async fn listen(shared: Arc<Shared>, dialect: &'static Dialect, stands: oneshot::Sender<()>) {
    let mut position = Position::default();
    let mut stands = Some(stands);
    while shared.session().is_some() {
        match open(&shared, dialect, &position).await {
            Opened::Stream(mut events) => {
                if let Some(stands) = stands.take() {
                    // Whoever waited for it may have stopped.
                    let _ = stands.send(());
                }
                while let Ok(Some(more)) = events.next().await {
                    for event in &more {
                        position.note(event);
                        if let Err(error) = handle_event(&shared, dialect, event) {
                            tracing::debug!(%error, "passed over an event");
                        }
                    }
                }
            }
            Opened::Refused(error) => {
                tracing::debug!(%error, "the server has no stream for what belongs to no request");
                return;
            }
            Opened::Failed(error) => tracing::debug!(%error, "a stream was not opened"),
        }
        if !position.fail() {
            shared.table.may_have_changed();
            return;
        }
        tokio::time::sleep(position.pause()).await;
    }
}
