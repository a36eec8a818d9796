//! What the audit trail is told of tasks that were asked after and are not there: who guesses ids makes no entry for each.

use std::time::Duration;

use tokio::time::Instant;

/// What one caller has asked after in vain and no entry tells of yet.
#[derive(Debug, Default)]
pub(super) struct Guesses {
    /// How many.
    untold: u32,
    /// How many in so long are told of.
    from: u32,
    /// Since when they are counted.
    since: Option<Instant>,
    /// When an entry last told of some.
    told: Option<Instant>,
    /// That told of as many as make an entry: what follows within its time is the rest of these, however few.
    goes_on: bool,
}

impl Guesses {
    /// So many more were in vain, of which `from` in so long are told of; how many an entry is to tell of now. There is one in so
    /// long at most, and the next tells of all that came meanwhile.
    pub(super) fn missed(&mut self, more: u32, from: u32, now: Instant) -> Option<u32> {
        if is_over(self.since, now) {
            // A few in so long are a client that was away, and no guesses.
            let kept = if self.are_few() { 0 } else { self.untold };
            (self.untold, self.since) = (kept, Some(now));
        }
        // What an entry told of is long past, and has no rest.
        self.goes_on &= self.untold > 0 || !is_over(self.told, now);
        (self.untold, self.from) = (self.untold.saturating_add(more), from);
        self.due(now)
    }

    /// How many an entry is to tell of now.
    pub(super) fn due(&mut self, now: Instant) -> Option<u32> {
        if is_over(self.told, now) { self.rest(now) } else { None }
    }

    /// How many an entry is to tell of, for there is no later one.
    pub(super) fn rest(&mut self, now: Instant) -> Option<u32> {
        if self.untold == 0 || self.are_few() {
            return None;
        }
        (self.told, self.goes_on) = (Some(now), self.untold >= self.from);
        Some(std::mem::take(&mut self.untold))
    }

    /// Whether nothing is lost if it is forgotten.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        is_over(self.since, now) && is_over(self.told, now) && (self.untold == 0 || self.are_few())
    }

    /// Whether no entry tells of what is untold, unless more comes.
    fn are_few(&self) -> bool {
        self.untold < self.from && !self.goes_on
    }
}

/// Whether what began then is no longer within the time in which there is one entry at most.
pub(super) fn is_over(since: Option<Instant>, now: Instant) -> bool {
    since.is_none_or(|since| now - since >= WITHIN)
}

/// In which time there is one entry at most.
const WITHIN: Duration = Duration::from_secs(600);

/// Tasks that a caller asks after in vain within ten minutes before the audit trail tells of it, one entry in ten minutes at most
/// with their number; all anonymous callers count as one. No more than `in_vain`.
pub(crate) const TOLD_FROM: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn there_is_an_entry_in_so_long_and_none_for_a_few() {
        let mut guesses = Guesses::default();
        let mut missed = |more| guesses.missed(more, 20, Instant::now());
        assert_eq!([missed(19), missed(1), missed(500), missed(1)], [None, Some(20), None, None]);
        tokio::time::advance(WITHIN).await;
        assert_eq!([missed(1), missed(30)], [Some(502), None], "what came meanwhile is told of then");
        tokio::time::advance(2 * WITHIN).await;
        assert_eq!(missed(1), Some(31));
        for minute in 1..=100 {
            tokio::time::advance(WITHIN / 10).await;
            let rest = (minute == 10).then_some(10);
            assert_eq!(missed(1), rest, "one a minute is nobody who guesses, but for the rest of what was");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_follows_an_entry_is_told_of_when_its_time_is_over_though_nothing_more_comes() {
        let mut guesses = Guesses::default();
        let due = |guesses: &mut Guesses| guesses.due(Instant::now());
        let many = |guesses: &mut Guesses| guesses.missed(25, 20, Instant::now());
        for rest in [3, 300] {
            assert_eq!((many(&mut guesses), guesses.missed(rest, 20, Instant::now())), (Some(25), None));
            tokio::time::advance(WITHIN - Duration::from_secs(1)).await;
            assert_eq!(due(&mut guesses), None, "one entry in so long");
            assert!(!guesses.is_over(Instant::now()));
            tokio::time::advance(Duration::from_secs(1)).await;
            assert_eq!((due(&mut guesses), due(&mut guesses)), (Some(rest), None));
            tokio::time::advance(WITHIN).await;
            assert_eq!(due(&mut guesses), None);
            assert!(guesses.is_over(Instant::now()));
        }
        assert_eq!(guesses.missed(19, 20, Instant::now()), None);
        assert_eq!(guesses.rest(Instant::now()), None, "a few alone are none at the end either");
        many(&mut guesses);
        guesses.missed(4, 20, Instant::now());
        assert_eq!(guesses.rest(Instant::now()), Some(4));
    }
}
