//! That a connection has to end, for others need what it has.

use std::sync::OnceLock;

use tokio::sync::Notify;

/// What one connection waits for that may have to make room.
#[derive(Debug, Default)]
pub(super) struct Dismissal {
    why: OnceLock<&'static str>,
    told: Notify,
}

impl Dismissal {
    /// Tells it to end. The first reason counts.
    pub(super) fn tell(&self, why: &'static str) {
        let _ = self.why.set(why);
        self.told.notify_one();
    }

    /// Completes once it has to end, with why.
    pub(super) async fn told(&self) -> &'static str {
        loop {
            if let Some(why) = self.why.get() {
                return why;
            }
            self.told.notified().await;
        }
    }
}
