//! What all callers together may: a bucket of those who have signed in, and one of those who have not.

use std::time::Duration;

use tokio::time::Instant;

use super::dispatch::Caller;
use super::party::Asker;
use crate::bucket::{Bucket, Rate};

#[derive(Debug)]
pub(super) struct InAll {
    rate: Rate,
    principals: Bucket,
    strangers: Bucket,
}

/// Who has a bucket.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Whose {
    /// One caller.
    One(Asker),
    /// All who have signed in.
    Principals,
    /// All who have not.
    Strangers,
}

impl Whose {
    /// Of all to whom this caller belongs.
    pub(super) fn all_like(caller: &Caller) -> Self {
        if caller.principal.is_some() { Self::Principals } else { Self::Strangers }
    }
}

impl InAll {
    pub(super) fn new(rate: Rate, now: Instant) -> Self {
        let full = || Bucket::full(&rate, now);
        Self { rate, principals: full(), strangers: full() }
    }

    pub(super) fn rate(&self) -> &Rate {
        &self.rate
    }

    /// Takes one of theirs; of one caller, nothing.
    ///
    /// # Errors
    ///
    /// As [`Bucket::take`].
    pub(super) fn take(&mut self, whose: &Whose, now: Instant) -> Result<(), Duration> {
        let rate = self.rate;
        self.of(whose).map_or(Ok(()), |bucket| bucket.take(1, &rate, now))
    }

    #[cfg(feature = "http")]
    pub(super) fn give_back(&mut self, whose: &Whose) {
        let rate = self.rate;
        if let Some(bucket) = self.of(whose) {
            bucket.give_back(1, &rate);
        }
    }

    /// What they have taken since this was last asked.
    pub(super) fn taken(&mut self) -> impl Iterator<Item = (Whose, i64)> {
        let taken =
            [(Whose::Principals, self.principals.taken()), (Whose::Strangers, self.strangers.taken())];
        taken.into_iter().filter(|(_, taken)| *taken != 0)
    }

    /// So many of theirs were taken elsewhere.
    pub(super) fn taken_elsewhere(&mut self, whose: &Whose, tokens: i64, now: Instant) {
        let rate = self.rate;
        if let Some(bucket) = self.of(whose) {
            bucket.taken_elsewhere(tokens, &rate, now);
        }
    }

    fn of(&mut self, whose: &Whose) -> Option<&mut Bucket> {
        match whose {
            Whose::Principals => Some(&mut self.principals),
            Whose::Strangers => Some(&mut self.strangers),
            Whose::One(_) => None,
        }
    }
}
