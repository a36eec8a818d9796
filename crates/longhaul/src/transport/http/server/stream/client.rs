//! Clients that have come back to a stream.

use std::ops::ControlFlow;

use longhaul_tasks::store::Event;
use tokio::sync::mpsc;

use super::super::answer::Sent;
use super::{EventId, goes_on, is_last};

/// A client that has come back, and what it was sent last.
pub(super) struct Client {
    pub(super) last: EventId,
    pub(super) sender: mpsc::Sender<Box<Sent>>,
}

impl Client {
    /// Sends an event. It breaks if that is the last: it is the answer, where no event `after` one counts, or the client is gone.
    pub(super) async fn send(&mut self, event: &Event, after: bool) -> ControlFlow<()> {
        self.last.number = event.number.max(self.last.number);
        if goes_on(event) {
            return ControlFlow::Continue(());
        }
        let is_last = after && is_last(&self.last.stream, event);
        match self.sender.send(Box::new(Sent::of(&self.last.stream, event))).await {
            Ok(()) if !is_last => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }

    /// Sends what comes in the stream.
    pub(super) async fn follow(self, mut live: mpsc::Receiver<Box<Sent>>) {
        loop {
            let sent = tokio::select! {
                sent = live.recv() => sent,
                () = self.sender.closed() => None,
            };
            let Some(sent) = sent else { return };
            let is_new = sent
                .id
                .as_ref()
                .is_none_or(|id| id.stream != self.last.stream || id.number > self.last.number);
            if is_new && self.sender.send(sent).await.is_err() {
                return;
            }
        }
    }
}
