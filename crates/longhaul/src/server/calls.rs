//! How many calls of tools callers make.
//!
//! What is too much is refused before anything runs. Each principal has a bucket of its own, and so has each stranger, by where it
//! calls from; what all may call together is two buckets, one of principals and one of strangers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_proto::jsonrpc::ErrorObject;
use tokio::time::Instant;

use super::dispatch::Caller;
use super::party::Asker;
use crate::bucket::{Bucket, Rate};

/// Bounds on calls of tools, and so on the tasks that are made of them. A round of a call counts as a call; the companions of tasks
/// (`task_wait` and its like) count as [questions about tasks](super::PollOptions).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CallOptions {
    /// How many calls a minute each caller may make, all at once if it likes. `None`, the default, for any number.
    pub each: Option<u32>,
    /// How many all principals together, and all other callers together. `None`, the default, for any number.
    pub in_all: Option<u32>,
}

impl CallOptions {
    /// Lets each caller make so many calls a minute.
    #[must_use]
    pub fn each(mut self, each: u32) -> Self {
        self.each = Some(each);
        self
    }

    /// Lets all together make so many.
    #[must_use]
    pub fn in_all(mut self, in_all: u32) -> Self {
        self.in_all = Some(in_all);
        self
    }
}

/// In which time a caller may make as many calls as it may.
const WITHIN: Duration = Duration::from_secs(60);

/// With how many callers those are forgotten that may make all they may.
const SWEEP: usize = 1024;

/// The calls of one server.
#[derive(Debug)]
pub(super) struct Calls {
    each: Option<Rate>,
    in_all: Option<Rate>,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    callers: HashMap<Asker, Bucket>,
    /// With how many they are looked through next.
    sweep_at: usize,
    principals: Option<Bucket>,
    strangers: Option<Bucket>,
}

impl Calls {
    pub(super) fn new(options: &CallOptions) -> Arc<Self> {
        let rate = |calls: u32| Rate { tokens: calls.max(1), every: WITHIN };
        let (each, in_all) = (options.each.map(rate), options.in_all.map(rate));
        let full = || in_all.as_ref().map(|rate| Bucket::full(rate, Instant::now()));
        let known = Known { callers: HashMap::new(), sweep_at: SWEEP, principals: full(), strangers: full() };
        Arc::new(Self { each, in_all, known: Mutex::new(known) })
    }

    /// A call of this caller's.
    ///
    /// # Errors
    ///
    /// An overload: it makes too many, or all together do.
    pub(super) fn admit(&self, caller: &Caller) -> Result<(), ErrorObject> {
        if self.each.is_none() && self.in_all.is_none() {
            return Ok(());
        }
        let (now, mut known) = (Instant::now(), self.lock());
        let Known { callers, sweep_at, principals, strangers } = &mut *known;
        let mut own = None;
        if let (Some(rate), Some(asker)) = (&self.each, Asker::of(caller)) {
            if callers.len() >= *sweep_at {
                callers.retain(|_, bucket| !bucket.is_full(rate, now));
                *sweep_at = SWEEP.max(2 * callers.len());
            }
            let bucket = callers.entry(asker).or_insert_with(|| Bucket::full(rate, now));
            bucket.take(1, rate, now).map_err(|wait| too_many(rate, "one caller", wait))?;
            own = Some((bucket, rate));
        }
        let (together, whose) = match caller.principal {
            Some(_) => (principals, "all who have signed in"),
            None => (strangers, "all callers who have not signed in"),
        };
        if let (Some(rate), Some(together)) = (&self.in_all, together) {
            together.take(1, rate, now).map_err(|wait| {
                // It has not been made, so it is none of the caller's own.
                if let Some((bucket, rate)) = own {
                    bucket.give_back(1, rate);
                }
                too_many(rate, whose, wait)
            })?;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn too_many(rate: &Rate, whose: &str, wait: Duration) -> ErrorObject {
    let what = format!("too many calls: {} a minute, the limit of {whose}; come back later", rate.tokens);
    ErrorObject::overloaded(what, wait)
}

#[cfg(test)]
mod tests {
    use super::super::principal::Principal;
    use super::*;

    fn known(name: &str) -> Caller {
        Caller::new(Some(Principal::new(name).unwrap()))
    }

    /// When to come back.
    fn wait(refused: Result<(), ErrorObject>) -> Duration {
        refused.unwrap_err().retry_after().expect("it is a refusal for now")
    }

    #[tokio::test(start_paused = true)]
    async fn each_caller_makes_as_many_calls_as_it_may_and_takes_nobody_elses() {
        let calls = Calls::new(&CallOptions::default().each(3));
        for _ in 0..3 {
            calls.admit(&known("ann")).unwrap();
        }
        assert_eq!(wait(calls.admit(&known("ann"))), WITHIN / 3);
        calls.admit(&known("bob")).unwrap();
        tokio::time::advance(WITHIN / 3).await;
        calls.admit(&known("ann")).unwrap();
        calls.admit(&known("ann")).unwrap_err();
        // Nothing tells them apart, so that one would empty it for all.
        for _ in 0..100 {
            calls.admit(&Caller::default()).unwrap();
        }
    }

    #[cfg(feature = "http")]
    #[tokio::test(start_paused = true)]
    async fn strangers_have_a_bucket_each_and_none_with_principals() {
        use super::super::dispatch::Origin;
        let calls = Calls::new(&CallOptions::default().each(2).in_all(5));
        let from = |number| Caller { origin: Origin::Connection(number), ..Caller::default() };
        let may = |number| calls.admit(&from(number)).is_ok();
        assert_eq!([1, 1, 1, 2, 2, 3].map(may), [true, true, false, true, true, true]);
        assert_eq!(wait(calls.admit(&from(4))), WITHIN / 5, "all strangers have made theirs");
        calls.admit(&Caller::default()).expect_err("whoever they are");
        calls.admit(&known("ann")).expect("principals have made none");
    }
}
