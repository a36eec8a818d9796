//! What is open on one connection, so that one with nothing open can be let go.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// How many requests of a connection are not answered to the end.
#[derive(Clone, Debug)]
pub(super) struct OpenRequests(Arc<watch::Sender<usize>>);

/// One of them.
#[derive(Debug)]
pub(super) struct OpenRequest(Arc<watch::Sender<usize>>);

impl OpenRequests {
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }

    pub(super) fn enter(&self) -> OpenRequest {
        self.0.send_modify(|open| *open += 1);
        OpenRequest(Arc::clone(&self.0))
    }

    /// Completes once none has been open for so long.
    pub(super) async fn idle_for(&self, limit: Duration) {
        let mut open = self.0.subscribe();
        loop {
            // It is never closed: its sender is here.
            let _ = open.wait_for(|open| *open == 0).await;
            if tokio::time::timeout(limit, open.changed()).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}
