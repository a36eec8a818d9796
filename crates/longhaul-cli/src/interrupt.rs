//! Ctrl-C: once to leave, twice to be gone. And a limit to waiting.

use std::future::Future;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::exit;
use crate::term::note;

/// Hears Ctrl-C from when it is made, whether or not anybody waits at that moment.
#[derive(Debug)]
pub(crate) struct Interrupt(watch::Receiver<bool>);

/// What a wait came to.
pub(crate) enum Waited<T> {
    /// What was waited for.
    For(T),
    /// The user left first.
    Left,
    /// The time was up first.
    TimeUp,
}

impl Interrupt {
    /// From here on the first Ctrl-C is for [`unless_left`](Self::unless_left), and the second ends the process
    /// at once. Where no handler can be installed, the first does that, as it always did.
    pub(crate) fn listen() -> Self {
        let (sender, receiver) = watch::channel(false);
        match signal(SignalKind::interrupt()) {
            Ok(mut presses) => drop(tokio::spawn(async move {
                presses.recv().await;
                sender.send_replace(true);
                presses.recv().await;
                exit::at_once(SignalKind::interrupt());
            })),
            Err(error) => note(&format!("note: Ctrl-C ends this at once: {error}")),
        }
        Self(receiver)
    }

    /// Waits for `future`, unless the user has pressed Ctrl-C or does so first; and no longer than `until`. What
    /// is waited for is large and handed on several times, so it comes boxed.
    pub(crate) async fn unless_left<T>(
        &self,
        until: Option<Instant>,
        future: impl Future<Output = T> + Unpin,
    ) -> Waited<T> {
        let mut pressed = self.0.clone();
        let left = async {
            if pressed.wait_for(|pressed| *pressed).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let time_up = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            output = future => Waited::For(output),
            () = time_up => Waited::TimeUp,
            () = left => Waited::Left,
        }
    }
}
