//! A server that is away is waited for: by a call that has not left, and by one of which it has made a task.

use std::time::Duration;

use longhaul::client::{Client, Error, TaskHandle};
use longhaul::proto::model::CallToolResult;
use tokio::time::{Instant, sleep};

use super::call::{Calling, say};
use super::connection::{Reached, Unreached};
use crate::config::format_duration;

impl Calling {
    /// Asks something of its server over that connection.
    ///
    /// # Errors
    ///
    /// When it cannot be reached. So it is with what never left, where a call may wait.
    pub(super) async fn ask<T, F: Future<Output = Result<T, Error>>>(
        &self,
        reached: Reached,
        ask: impl FnOnce(Client) -> F,
    ) -> Result<(Reached, Result<T, Error>), Unreached> {
        let upstream = &self.parts.upstream;
        upstream.log.ask_for(&self.cx, &reached.client).await;
        match self.waiting(&reached, ask(reached.client.clone())).await {
            Err(error) if self.parts.may_wait && never_left(&error, self.parts.may_repeat) => {
                let retry_after = error.retry_after();
                Err(Unreached { retry_after, ..upstream.unreached(upstream.why(&error)) })
            }
            answered => Ok((reached, answered)),
        }
    }

    /// Waits until it could be called, or somebody has to sign in first; not in its turn, for others may find the server there.
    /// `pauses` are those of the whole call: what passes for being there and is not is asked less and less often.
    pub(super) async fn until_there(&self, away: Unreached, pauses: &mut Pauses) {
        let (upstream, mut why, mut asked) = (&self.parts.upstream, away.why, away.retry_after);
        loop {
            self.wait("waiting to be called, for its server is away", &why, pauses.next(asked)).await;
            (why, asked) = match upstream.reach().await {
                Err(error) if !error.is_denied => (error.why, error.retry_after),
                Err(_) => return,
                // Over HTTP that says nothing yet.
                Ok(reached) => match reached.client.ping().await {
                    Err(error) if never_left(&error, true) => {
                        (upstream.why(&error).into(), error.retry_after())
                    }
                    _ => return,
                },
            };
        }
    }

    /// A connection to the server that knows what was begun there, whenever there is one.
    pub(super) async fn reach_again(&self) -> Reached {
        let mut pauses = Pauses::new();
        loop {
            match self.parts.upstream.reach().await {
                Ok(reached) => return reached,
                Err(error) => self.wait(NO_ANSWER, &error.why, pauses.next(None)).await,
            }
        }
    }

    /// Waits for the end of a task over that connection; while its server is away, for as long as `patience` says.
    pub(super) async fn until_ended(
        &self,
        reached: &Reached,
        task: &TaskHandle,
        patience: Option<Duration>,
    ) -> Result<CallToolResult, Error> {
        let _following = self.parts.upstream.callers.following(&self.caller, task.id());
        loop {
            let mut error = match task.watch(|task| say(&self.cx, task)).await {
                Err(error) if passes(reached, &error) => error,
                ended => return ended,
            };
            let (mut pauses, began) = (Pauses::new(), Instant::now());
            loop {
                if patience.is_some_and(|patience| began.elapsed() >= patience) {
                    return Err(error);
                }
                let why = self.parts.upstream.why(&error);
                self.wait(NO_ANSWER, &why, pauses.next(error.retry_after())).await;
                match task.get().await {
                    Ok(_) => break,
                    Err(again) if passes(reached, &again) => error = again,
                    Err(error) => return Err(error),
                }
            }
            self.cx.status("its server answers again");
        }
    }

    /// Says what is waited for, and waits: so long, or until there is another connection.
    async fn wait(&self, what: &str, why: &str, pause: Duration) {
        let upstream = &self.parts.upstream;
        self.cx.status(format!("{what}: {why}; looking again in {}", format_duration(pause)));
        tokio::select! {
            _ = upstream.opened_after(upstream.openings()) => {}
            () = sleep(pause) => {}
        }
    }
}

/// What is said while nothing is heard of what was begun.
const NO_ANSWER: &str = "its server does not answer";

/// Whether something was not even received, and may be before long. A 503 can be of one between, who has passed it on: it counts only
/// for what may be repeated.
fn never_left(error: &Error, may_repeat: bool) -> bool {
    match error {
        Error::Unreachable { .. } => true,
        Error::Http { status, .. } => *status == 429 || (*status == 503 && may_repeat),
        _ => false,
    }
}

/// Whether an error is about the way to the server, which may be there again, and not about the task that was asked after.
fn passes(reached: &Reached, error: &Error) -> bool {
    let is_away = match error {
        Error::Http { status, .. } => matches!(status, 401 | 403 | 408 | 425 | 429 | 500..),
        Error::SessionLost { .. } | Error::SignIn { .. } | Error::NoAccess { .. } => true,
        error => error.is_retryable() || error.is_timeout(),
    };
    is_away && !reached.client.has_ended()
}

/// Pauses, each twice as long as the one before.
pub(super) struct Pauses(Duration);

impl Pauses {
    pub(super) fn new() -> Self {
        Self(FIRST_PAUSE)
    }

    /// How long to wait now; `asked` is how long the server wants to be left alone.
    fn next(&mut self, asked: Option<Duration>) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(LONGEST_PAUSE);
        asked.unwrap_or_default().clamp(pause, LONGEST_ASKED)
    }
}

/// How long is waited first, then twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// How long such a pause becomes.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How long a server can ask to be left alone.
const LONGEST_ASKED: Duration = Duration::from_secs(3600);

/// How long a call that is no task waits for the task that its server has made of it.
pub(super) const UNSAID: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_minute_and_a_server_that_wants_more_has_its_way() {
        let mut pauses = Pauses::new();
        let waited: Vec<u64> = (0..8).map(|_| pauses.next(None).as_secs()).collect();
        assert_eq!(waited, [1, 2, 4, 8, 16, 32, 60, 60]);
        let hour = Duration::from_secs(3600);
        assert_eq!(Pauses::new().next(Some(hour / 60)), hour / 60);
        assert_eq!(Pauses::new().next(Some(Duration::ZERO)), FIRST_PAUSE);
        assert_eq!(Pauses::new().next(Some(Duration::MAX)), hour);
    }
}
