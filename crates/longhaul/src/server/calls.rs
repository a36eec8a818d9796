//! How many calls of tools callers make.
//!
//! What is too much is refused before anything runs. Each principal has a bucket of its own, and so has each stranger, by where it
//! calls from; what all may call together is two buckets, one of principals and one of strangers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_proto::jsonrpc::ErrorObject;
use tokio::time::Instant;

use super::dispatch::Caller;
use super::fleet_rates::{Taken, What};
use super::in_all::{InAll, Whose};
use super::party::Asker;
use crate::bucket::Rate;
use crate::buckets::Buckets;

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

/// The calls of one server.
#[derive(Debug)]
pub(super) struct Calls {
    /// Else no call has a clock to look at, nor a lock to take.
    is_bounded: bool,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    each: Option<Buckets<Asker>>,
    in_all: Option<InAll>,
}

impl Calls {
    pub(super) fn new(options: &CallOptions) -> Arc<Self> {
        let rate = |calls: u32| Rate { tokens: calls.max(1), every: WITHIN };
        let each = options.each.map(|each| Buckets::new(rate(each)));
        let in_all = options.in_all.map(|in_all| InAll::new(rate(in_all), Instant::now()));
        let is_bounded = each.is_some() || in_all.is_some();
        Arc::new(Self { is_bounded, known: Mutex::new(Known { each, in_all }) })
    }

    /// A call of this caller's.
    ///
    /// # Errors
    ///
    /// An overload: it makes too many, or all together do.
    pub(super) fn admit(&self, caller: &Caller) -> Result<(), ErrorObject> {
        if !self.is_bounded {
            return Ok(());
        }
        let (now, mut known) = (Instant::now(), self.lock());
        let Known { each, in_all } = &mut *known;
        let own = each.as_mut().zip(Asker::of(caller));
        let own = own.map(|(each, asker)| match each.take(asker.clone(), 1, now) {
            Ok(()) => Ok((each, asker)),
            Err(wait) => Err(too_many(each.rate(), "one caller", wait)),
        });
        let own = own.transpose()?;
        let Some(in_all) = in_all else { return Ok(()) };
        let all = Whose::all_like(caller);
        in_all.take(&all, now).map_err(|wait| {
            // It has not been made, so it is none of the caller's own.
            if let Some((each, asker)) = own {
                each.give_back(&asker, 1);
            }
            let whose = match caller.principal {
                Some(_) => "all who have signed in",
                None => "all callers who have not signed in",
            };
            too_many(in_all.rate(), whose, wait)
        })
    }

    /// What was taken of its buckets since this was last asked.
    pub(super) fn taken(&self) -> Vec<Taken> {
        let mut known = self.lock();
        let Known { each, in_all } = &mut *known;
        let own = each.iter_mut().flat_map(Buckets::taken);
        let own = own.map(|(asker, tokens)| (Whose::One(asker.clone()), tokens));
        let all = in_all.iter_mut().flat_map(InAll::taken);
        own.chain(all).map(|(whose, tokens)| Taken { what: What::Calls, whose, tokens }).collect()
    }

    /// That was taken at another node.
    pub(super) fn taken_elsewhere(&self, whose: Whose, tokens: i64) {
        let (now, mut known) = (Instant::now(), self.lock());
        match (whose, &mut *known) {
            (Whose::One(asker), Known { each: Some(each), .. }) => each.taken_elsewhere(asker, tokens, now),
            (all, Known { in_all: Some(in_all), .. }) => in_all.taken_elsewhere(&all, tokens, now),
            _ => {}
        }
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

    #[tokio::test(start_paused = true)]
    async fn what_all_may_not_make_is_none_of_the_callers_own() {
        let calls = Calls::new(&CallOptions::default().each(2).in_all(1));
        calls.admit(&known("ann")).unwrap();
        for _ in 0..5 {
            let refused = calls.admit(&known("ann")).unwrap_err();
            assert!(refused.message.contains("all who have signed in"), "{refused:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_called_at_another_node_counts_here() {
        let [here, there] = [(); 2].map(|()| Calls::new(&CallOptions::default().each(3).in_all(5)));
        for _ in 0..3 {
            there.admit(&known("ann")).unwrap();
        }
        for Taken { whose, tokens, .. } in there.taken() {
            here.taken_elsewhere(whose, tokens);
        }
        here.admit(&known("ann")).unwrap_err();
        for who in ["bob", "cid"] {
            here.admit(&known(who)).unwrap();
        }
        here.admit(&known("dan")).expect_err("five were made in all");
        assert_eq!(there.taken(), [], "that was told");
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
