//! Who shows tokens that do not count, again and again: a client that will not learn, or somebody who guesses.
//!
//! Neither is kept from showing one that does: behind a proxy everybody has one address, and nobody is to be locked
//! out by a neighbour. Tokens are too long to be guessed; what this saves is the work of those who are told to wait.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::transport::http::server::network;

/// Failed attempts by address.
#[derive(Debug, Default)]
pub(super) struct Attempts(Mutex<HashMap<IpAddr, Failed>>);

/// How often, since when.
#[derive(Clone, Copy, Debug)]
struct Failed {
    times: u32,
    since: Instant,
}

/// How many may fail within the time before the next is told to wait for its end.
const MOST: u32 = 30;
const WITHIN: Duration = Duration::from_secs(60);

/// How many addresses are remembered. When there are more, who comes new is not counted until some are forgotten.
const MAX_KNOWN: usize = 4096;

impl Attempts {
    /// Counts one more; how long to wait, if there were too many.
    pub(super) fn failed(&self, peer: IpAddr) -> Option<Duration> {
        let now = Instant::now();
        let over = |failed: &Failed| now.duration_since(failed.since) >= WITHIN;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_KNOWN {
            known.retain(|_, failed| !over(failed));
        }
        let peer = network(peer);
        if known.len() >= MAX_KNOWN && !known.contains_key(&peer) {
            return None;
        }
        let failed = known.entry(peer).or_insert(Failed { times: 0, since: now });
        if over(failed) {
            *failed = Failed { times: 0, since: now };
        }
        failed.times = failed.times.saturating_add(1);
        match failed.times {
            0..=MOST => None,
            times => {
                if times == MOST + 1 {
                    tracing::warn!(%peer, "tokens that do not count come again and again");
                }
                Some(WITHIN.saturating_sub(now.duration_since(failed.since)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[tokio::test(start_paused = true)]
    async fn who_fails_too_often_is_told_to_wait_until_the_minute_is_over() {
        let attempts = Attempts::default();
        for _ in 0..MOST {
            assert_eq!(attempts.failed(address(1)), None);
        }
        tokio::time::advance(Duration::from_secs(20)).await;
        assert_eq!(attempts.failed(address(1)), Some(Duration::from_secs(40)));
        assert_eq!(attempts.failed(address(2)), None, "it is not everybody's");
        tokio::time::advance(Duration::from_secs(40)).await;
        assert_eq!(attempts.failed(address(1)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn however_many_come_few_are_remembered() {
        let attempts = Attempts::default();
        for number in 0..100_000_u32 {
            let peer = IpAddr::from(number.to_be_bytes());
            assert_eq!(attempts.failed(peer), None);
        }
        assert_eq!(attempts.0.lock().unwrap_or_else(PoisonError::into_inner).len(), MAX_KNOWN);
        tokio::time::advance(WITHIN).await;
        assert_eq!(attempts.failed(address(1)), None);
        assert_eq!(attempts.0.lock().unwrap_or_else(PoisonError::into_inner).len(), 1);
    }
}
