//! Buckets by whose they are.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use crate::bucket::{Bucket, Rate};

/// A bucket for each who has taken of it lately: who has all there can be is forgotten.
#[derive(Debug)]
pub(crate) struct Buckets<K> {
    rate: Rate,
    left: HashMap<K, Bucket>,
    /// With how many they are looked through next.
    sweep_at: usize,
}

/// With how many those that are full are forgotten.
const SWEEP: usize = 1024;

impl<K: Eq + Hash> Buckets<K> {
    /// Full ones.
    pub(crate) fn new(rate: Rate) -> Self {
        Self { rate, left: HashMap::new(), sweep_at: SWEEP }
    }

    pub(crate) fn rate(&self) -> &Rate {
        &self.rate
    }

    /// Takes so many of one's own.
    ///
    /// # Errors
    ///
    /// As [`Bucket::take`].
    pub(crate) fn take(&mut self, whose: K, tokens: u32, now: Instant) -> Result<(), Duration> {
        let rate = self.rate;
        self.of(whose, now).take(tokens, &rate, now)
    }

    pub(crate) fn give_back(&mut self, whose: &K, tokens: u32) {
        if let Some(bucket) = self.left.get_mut(whose) {
            bucket.give_back(tokens, &self.rate);
        }
    }

    /// Takes so many of one's own, though they be not there.
    pub(crate) fn owe(&mut self, whose: K, tokens: u32, now: Instant) {
        let rate = self.rate;
        self.of(whose, now).owe_for_a_while(tokens, &rate, now);
    }

    /// What each has taken since this was last asked, and not given back.
    pub(crate) fn taken(&mut self) -> impl Iterator<Item = (&K, i64)> {
        self.left.iter_mut().map(|(whose, bucket)| (whose, bucket.taken())).filter(|(_, taken)| *taken != 0)
    }

    /// So many were taken elsewhere.
    pub(crate) fn taken_elsewhere(&mut self, whose: K, tokens: i64, now: Instant) {
        let rate = self.rate;
        self.of(whose, now).taken_elsewhere(tokens, &rate, now);
    }

    fn of(&mut self, whose: K, now: Instant) -> &mut Bucket {
        if self.left.len() >= self.sweep_at {
            let rate = &self.rate;
            self.left.retain(|_, bucket| !bucket.is_full(rate, now));
            self.sweep_at = SWEEP.max(2 * self.left.len());
        }
        self.left.entry(whose).or_insert_with(|| Bucket::full(&self.rate, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { tokens: 2, every: Duration::from_secs(2) };

    #[test]
    fn each_has_its_own_and_who_has_all_is_forgotten() {
        let (mut buckets, now) = (Buckets::new(RATE), Instant::now());
        assert!([1, 1, 2].map(|whose| buckets.take(whose, 1, now)).iter().all(Result::is_ok));
        assert_eq!(buckets.take(1, 1, now), Err(Duration::from_secs(1)));
        buckets.give_back(&1, 1);
        buckets.take(1, 1, now).unwrap();
        let later = now + RATE.every;
        for whose in 3..=SWEEP {
            buckets.take(whose, 1, later).unwrap();
        }
        assert_eq!(buckets.left.len(), SWEEP);
        buckets.take(0, 1, later).unwrap();
        assert_eq!(buckets.left.len(), SWEEP - 1, "1 and 2 are full again");
    }

    #[test]
    fn what_is_owed_is_no_more_than_a_bucket_holds() {
        let (mut buckets, now) = (Buckets::new(RATE), Instant::now());
        buckets.owe(1, 1, now);
        buckets.take(1, 1, now).unwrap();
        buckets.owe(1, 1000, now);
        assert_eq!(buckets.take(1, 1, now), Err(RATE.every + RATE.every / 2));
        buckets.take(1, 2, now + 2 * RATE.every).unwrap();
    }

    #[test]
    fn what_was_taken_is_told_once_and_what_was_taken_elsewhere_is_not() {
        let (mut buckets, now) = (Buckets::new(RATE), Instant::now());
        buckets.take("ann", 2, now).unwrap();
        buckets.give_back(&"ann", 1);
        buckets.taken_elsewhere("bob", 5, now);
        assert_eq!(buckets.taken().collect::<Vec<_>>(), [(&"ann", 1)]);
        assert_eq!(buckets.taken().count(), 0);
        // Three more than there were, so that it takes four seconds until there is one again.
        assert_eq!(buckets.take("bob", 1, now), Err(Duration::from_secs(4)));
        buckets.taken_elsewhere("bob", -5, now);
        buckets.take("bob", 2, now).unwrap();
        // It was full again by then, and no fuller.
        buckets.taken_elsewhere("bob", 2, now + 10 * RATE.every);
        buckets.take("bob", 1, now + 10 * RATE.every).unwrap_err();
    }
}
