//! Buckets of tokens: so many in so long, and as many at once.

use std::time::Duration;

use tokio::time::Instant;

/// How much a bucket holds, and how long it takes to fill.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) tokens: u32,
    pub(crate) every: Duration,
}

/// What is left in a bucket, which fills as time goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    left: f64,
    at: Instant,
    /// How many were taken here, and not given back, since that was last asked.
    taken: i64,
}

impl Bucket {
    pub(crate) fn full(rate: &Rate, now: Instant) -> Self {
        Self { left: f64::from(rate.tokens), at: now, taken: 0 }
    }

    /// Takes so many, or as many as there can ever be.
    ///
    /// # Errors
    ///
    /// How long until there are so many; nothing is taken then.
    pub(crate) fn take(&mut self, tokens: u32, rate: &Rate, now: Instant) -> Result<(), Duration> {
        self.fill(rate, now);
        let taken = tokens.min(rate.tokens).max(1);
        let tokens = f64::from(taken);
        if self.left < tokens {
            let missing = (tokens - self.left) / f64::from(rate.tokens.max(1));
            return Err(rate.every.mul_f64(missing));
        }
        self.left -= tokens;
        self.taken += i64::from(taken);
        Ok(())
    }

    pub(crate) fn give_back(&mut self, tokens: u32, rate: &Rate) {
        self.left = (self.left + f64::from(tokens)).min(f64::from(rate.tokens));
        self.taken -= i64::from(tokens);
    }

    /// Takes so many that are not there: nothing more is taken until as many have come.
    pub(crate) fn owe(&mut self, tokens: u32) {
        self.left -= f64::from(tokens);
        self.taken += i64::from(tokens);
    }

    /// Takes so many that are not there; no more is owed than it holds.
    pub(crate) fn owe_for_a_while(&mut self, tokens: u32, rate: &Rate, now: Instant) {
        self.fill(rate, now);
        self.owe(tokens);
        self.left = self.left.max(-f64::from(rate.tokens));
    }

    /// What was taken, and not given back, since this was last asked.
    pub(crate) fn taken(&mut self) -> i64 {
        std::mem::take(&mut self.taken)
    }

    /// So many were taken of what is the same bucket elsewhere; fewer than none were given back there.
    pub(crate) fn taken_elsewhere(&mut self, tokens: i64, rate: &Rate, now: Instant) {
        self.fill(rate, now);
        let tokens = i32::try_from(tokens).unwrap_or(if tokens < 0 { i32::MIN } else { i32::MAX });
        self.left = (self.left - f64::from(tokens)).min(f64::from(rate.tokens));
    }

    /// Whether there would be so many if these were given back.
    pub(crate) fn lacks_only(&self, given_back: u32, tokens: u32) -> bool {
        self.left + f64::from(given_back) >= f64::from(tokens)
    }

    /// Which part of it is left, from 0 to 1.
    pub(crate) fn part_left(&mut self, rate: &Rate, now: Instant) -> f64 {
        self.fill(rate, now);
        self.left / f64::from(rate.tokens.max(1))
    }

    /// Whether it would be the same if it were made anew.
    pub(crate) fn is_full(&mut self, rate: &Rate, now: Instant) -> bool {
        self.fill(rate, now);
        self.left >= f64::from(rate.tokens)
    }

    fn fill(&mut self, rate: &Rate, now: Instant) {
        let most = f64::from(rate.tokens);
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed / rate.every.as_secs_f64() * most).min(most);
        self.at = now;
    }
}
