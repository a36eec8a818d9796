//! What the audit trail is told of tasks that were asked after and are not there: who guesses ids makes no entry for each.

use std::time::Duration;

use tokio::time::Instant;

/// What one caller has asked after in vain and no entry tells of yet.
#[derive(Debug, Default)]
pub(super) struct Guesses {
    /// How many.
    untold: u32,
    /// Since when they are counted.
    since: Option<Instant>,
    /// When an entry last told of some.
    told: Option<Instant>,
}

impl Guesses {
    /// So many more were in vain, of which `from` within `within` are told of; how many an entry is to tell of now. There is one
    /// in so long at most, and the next tells of all that came meanwhile.
    pub(super) fn missed(&mut self, more: u32, from: u32, within: Duration, now: Instant) -> Option<u32> {
        let is_over = |since: &Option<Instant>| since.is_none_or(|since| now - since >= within);
        if is_over(&self.since) {
            // A few in so long are a client that was away, and no guesses.
            let kept = if self.untold < from { 0 } else { self.untold };
            (self.untold, self.since) = (kept, Some(now));
        }
        self.untold = self.untold.saturating_add(more);
        if self.untold < from || !is_over(&self.told) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

/// Tasks that a caller asks after in vain within ten minutes before the audit trail tells of it, one entry in ten minutes at most
/// with their number; all anonymous callers count as one. No more than `in_vain`.
pub(super) const TOLD_FROM: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn there_is_an_entry_in_so_long_and_none_for_a_few() {
        const WITHIN: Duration = Duration::from_secs(600);
        let mut guesses = Guesses::default();
        let mut missed = |more| guesses.missed(more, 20, WITHIN, Instant::now());
        assert_eq!([missed(19), missed(1), missed(500), missed(1)], [None, Some(20), None, None]);
        tokio::time::advance(WITHIN).await;
        assert_eq!([missed(1), missed(30)], [Some(502), None], "what came meanwhile is told of then");
        tokio::time::advance(2 * WITHIN).await;
        assert_eq!(missed(1), Some(31));
        for _ in 0..100 {
            tokio::time::advance(WITHIN / 10).await;
            assert_eq!(missed(1), None, "one a minute is nobody who guesses");
        }
    }
}
