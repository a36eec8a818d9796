//! Ctrl-C: once to leave, twice to be gone. And a limit to waiting.

use std::future::Future;

use tokio::time::{Instant, sleep_until};

/// What a wait came to.
pub(crate) enum Waited<T> {
    /// What was waited for.
    For(T),
    /// The user left first.
    Left,
    /// The time was up first.
    TimeUp,
}

/// Waits for `future`, unless the user presses Ctrl-C first, from when on another Ctrl-C ends the process at
/// once; and no longer than `until`.
pub(crate) async fn unless_left<T>(until: Option<Instant>, future: impl Future<Output = T>) -> Waited<T> {
    let time_up = async {
        match until {
            Some(until) => sleep_until(until).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        output = future => Waited::For(output),
        () = time_up => Waited::TimeUp,
        () = pressed() => {
            tokio::spawn(async {
                pressed().await;
                std::process::exit(130);
            });
            Waited::Left
        }
    }
}

async fn pressed() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Without a handler the signal ends the process as it always did.
        std::future::pending::<()>().await;
    }
}
