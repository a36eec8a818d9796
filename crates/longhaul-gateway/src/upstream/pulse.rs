//! Whether a server still lives: when it was heard last, how many wait for it, and a ping where that leaves a doubt.
//!
//! A server that works in one thread answers no ping meanwhile. So one that says nothing is ended only when a clock of its operator's
//! has run out, or nobody waits for it; otherwise whoever waits is told.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use longhaul::Cx;
use longhaul::client::{Client, Error};
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::connection::{Reached, Upstream};
use crate::config::{Reach, format_duration};

/// What is known of the life of a server over its connection.
#[derive(Debug)]
pub(super) struct Pulse {
    beat: watch::Sender<Beat>,
    /// Held by whoever pings it.
    pinging: Mutex<()>,
}

#[derive(Clone, Copy, Debug)]
struct Beat {
    /// When anything came from it last.
    heard: Instant,
    /// When it was last found to answer no ping.
    mute: Option<Instant>,
    /// How many wait for an answer.
    waiting: usize,
    /// Nothing has come since somebody gave up waiting.
    is_doubted: bool,
}

/// Somebody waits for an answer, until dropped.
pub(super) struct Waiting<'p> {
    pulse: &'p Pulse,
    is_answered: bool,
}

impl Pulse {
    pub(super) fn new() -> Self {
        let beat = Beat { heard: Instant::now(), mute: None, waiting: 0, is_doubted: false };
        Self { beat: watch::Sender::new(beat), pinging: Mutex::default() }
    }

    /// Something has come from it.
    pub(super) fn hear(&self) {
        self.beat.send_modify(|beat| {
            beat.heard = Instant::now();
            beat.is_doubted = false;
        });
    }

    fn wait(&self) -> Waiting<'_> {
        self.beat.send_modify(|beat| beat.waiting += 1);
        Waiting { pulse: self, is_answered: false }
    }

    fn is_waited_for(&self) -> bool {
        self.beat.borrow().waiting > 0
    }

    fn heard(&self) -> Instant {
        self.beat.borrow().heard
    }

    /// Whether it says anything within that time, or has since this was asked.
    async fn answers(&self, client: &Client, within: Duration) -> bool {
        let (asked, mut beats) = (Instant::now(), self.beat.subscribe());
        // One ping does for all who are in doubt.
        let _alone = self.pinging.lock().await;
        let beat = *beats.borrow_and_update();
        if beat.heard > asked || beat.mute.is_some_and(|mute| mute > asked) {
            return beat.heard > asked;
        }
        let answers = tokio::select! {
            () = word(client, within) => true,
            _ = beats.wait_for(|beat| beat.heard > asked) => true,
            () = sleep(within) => false,
        };
        if answers {
            self.hear();
        } else {
            self.beat.send_modify(|beat| beat.mute = Some(Instant::now()));
        }
        answers
    }
}

impl Beat {
    /// Whether it has to answer a ping before it is called.
    fn leaves_doubt(&self, now: Instant, is_program: bool) -> bool {
        let is_silent = is_program && now.duration_since(self.heard) >= SILENCE;
        self.waiting == 0 && (self.is_doubted || is_silent)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.pulse.beat.send_modify(|beat| {
            beat.waiting -= 1;
            beat.is_doubted |= !self.is_answered;
        });
    }
}

impl Upstream {
    /// Asks something of it; until it has answered, somebody waits for it.
    pub(super) async fn waiting<T>(
        &self,
        asking: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let mut waiting = self.pulse.wait();
        let answered = asking.await;
        waiting.is_answered = !matches!(&answered, Err(error) if error.is_timeout());
        if waiting.is_answered {
            self.pulse.hear();
        }
        answered
    }

    /// Whether it answers no ping although it has to, before anybody else calls it.
    pub(super) async fn is_mute(&self, client: &Client) -> bool {
        let beat = *self.pulse.beat.borrow();
        let is_program = matches!(self.config().reach, Reach::Command(_));
        beat.leaves_doubt(Instant::now(), is_program)
            && !self.pulse.answers(client, self.config().ping_within).await
    }

    /// Whether nothing comes over this connection any more. Where it lives and answers no ping, it is ended, if `by_clock` (a clock of its
    /// operator's has run out on it) or if nobody waits for it.
    pub(super) async fn is_over(self: &Arc<Self>, reached: &Reached, by_clock: bool) -> bool {
        let (this, reached) = (Arc::clone(self), reached.clone());
        // Apart, so that who goes away meanwhile leaves nothing half ended.
        let looked = tokio::spawn(async move {
            if reached.client.has_ended() {
                return true;
            }
            if this.pulse.answers(&reached.client, this.config().ping_within).await {
                return reached.client.has_ended();
            }
            let ends = by_clock || !this.pulse.is_waited_for();
            if ends {
                this.end(&reached).await;
            }
            ends
        });
        looked.await.unwrap_or_else(|error| {
            tracing::error!(server = self.config().name, %error, "whether a server lives was not found out");
            false
        })
    }

    /// Says on the task of a call that its server is silent and answers no ping, for as long as that is so: whoever waits
    /// can tell it from work.
    pub(super) async fn tell_of_silence(&self, cx: &Cx) -> Infallible {
        // Before the call it had nothing to say.
        let began = Instant::now();
        let heard = || self.pulse.heard().max(began);
        loop {
            sleep_until(heard() + SILENCE).await;
            if heard().elapsed() < SILENCE {
                continue;
            }
            // Where it has asked somebody, it may do nothing but wait for them.
            if !self.callers.are_asked()
                && let Some(Reached { client, .. }) = self.current().await
                && !self.pulse.answers(&client, self.config().ping_within).await
            {
                let silent = format_duration(Duration::from_secs(heard().elapsed().as_secs()));
                cx.status(format!(
                    "its server has said nothing for {silent}, and answers no ping: it is busy, or hangs"
                ));
            }
            sleep(SILENCE).await;
        }
    }
}

/// Completes once it says anything, be it an error. Some servers pass over pings: what tools it has any of them has said before.
async fn word(client: &Client, within: Duration) {
    tokio::select! {
        () = said(|| client.ping()) => {}
        () = async {
            sleep(MOMENT.min(within / 2)).await;
            if client.capabilities().tools {
                said(|| client.list_tools()).await;
            } else {
                std::future::pending::<()>().await;
            }
        } => {}
    }
}

/// Asks until it says anything.
async fn said<T, F: Future<Output = Result<T, Error>>>(ask: impl Fn() -> F) {
    while matches!(ask().await, Err(error) if error.is_timeout()) {}
}

/// How long a server may say nothing before it is pinged: a program before it is called, any while a call waits for it.
const SILENCE: Duration = Duration::from_secs(60);

/// How long a ping is the only thing that is asked.
const MOMENT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_in_doubt_when_nobody_waits_and_it_was_given_up_or_is_a_silent_program() {
        let now = Instant::now();
        let beat = Beat { heard: now, mute: None, waiting: 0, is_doubted: false };
        assert!(!beat.leaves_doubt(now + SILENCE / 2, true));
        assert!(beat.leaves_doubt(now + SILENCE, true));
        assert!(!beat.leaves_doubt(now + SILENCE, false), "a server over HTTP is no process of ours");
        let given_up = Beat { is_doubted: true, ..beat };
        assert!(given_up.leaves_doubt(now, false) && given_up.leaves_doubt(now, true));
        // It may work in its one thread on what another waits for.
        assert!(!Beat { waiting: 1, ..given_up }.leaves_doubt(now + SILENCE, true));
    }
}
