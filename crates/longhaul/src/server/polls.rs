//! How often callers ask after tasks, and how often in vain.
//!
//! What is too much is refused before the store is read. Each principal has buckets of its own, and so has each stranger, by
//! where it asks from: none is emptied by somebody else. What all may ask together is two buckets, one of principals and one
//! of strangers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_proto::jsonrpc::ErrorObject;
use longhaul_tasks::store::Owner;
use tokio::time::Instant;

use super::dispatch::Caller;
use super::fleet_rates::{Taken, What};
use super::in_all::{InAll, Whose};
use super::party::Asker;
use crate::audit::{TOLD_FROM, Trail};
use crate::bucket::{Bucket, Rate};

/// Bounds on what is asked about tasks: `tasks/get` and its like, the companions, the output of commands, and
/// [what is asked beside the protocol](super::Dispatcher::poll). Sessions that are asked for and are at no node count as well, and
/// answers to what another node has asked.
///
/// Waiting costs nothing: a `tasks/result` or a `task_wait` is one request, however long it takes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PollOptions {
    /// How many requests a second each caller may make about tasks, five times as many at once. While it has less than
    /// half of these left, it is told to ask for each task a quarter as often. Default 200.
    pub each: u32,
    /// How many all principals together, and all other callers together, five times as many at once. Default 10000.
    pub in_all: u32,
    /// How many tasks that are not there for it each caller may ask after in ten minutes, all at once if it likes. Not
    /// counted for callers of this machine without a principal: many may come by one proxy. Default 300.
    pub in_vain: u32,
}

impl PollOptions {
    /// Lets each caller make so many requests a second.
    #[must_use]
    pub fn each(mut self, each: u32) -> Self {
        self.each = each;
        self
    }

    /// Lets all together make so many.
    #[must_use]
    pub fn in_all(mut self, in_all: u32) -> Self {
        self.in_all = in_all;
        self
    }

    /// Lets each ask in vain so often in ten minutes.
    #[must_use]
    pub fn in_vain(mut self, in_vain: u32) -> Self {
        self.in_vain = in_vain;
        self
    }
}

impl Default for PollOptions {
    fn default() -> Self {
        Self { each: 200, in_all: 10_000, in_vain: 300 }
    }
}

/// How much was asked about tasks since the server was put together.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct PollFigures {
    /// Requests that were let through, in sessions that this node did not have as well.
    pub admitted: u64,
    /// Requests that were refused because too many came.
    pub refused: u64,
    /// Tasks that were asked after and were not there for who asked.
    pub in_vain: u64,
    /// Requests that were refused because their callers had asked in vain too often.
    pub refused_look_ups: u64,
}

/// How many seconds of its rate a caller may ask at once.
const BURST: u32 = 5;

/// In which time a caller may ask in vain as often as it may.
const VAIN_WITHIN: Duration = Duration::from_secs(600);

/// How much longer than usual who has hardly anything left is told to wait between two polls.
const SLOWER: u64 = 4;

/// When to come back whose other look-ups are still under way.
const SOON: Duration = Duration::from_secs(1);

/// With how many callers those are forgotten that have all they may ask.
const SWEEP: usize = 1024;

/// What is asked about tasks at one server.
#[derive(Debug)]
pub(super) struct Polls {
    each: Rate,
    in_vain: Rate,
    /// Where it is noted who is refused, if anywhere.
    trail: Option<Trail>,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    askers: HashMap<Asker, Account>,
    /// With how many they are looked through next.
    sweep_at: usize,
    in_all: InAll,
    figures: PollFigures,
}

/// What one of them may still ask.
#[derive(Debug)]
struct Account {
    polls: Bucket,
    in_vain: Bucket,
    /// How many of these are only held until it is known what is there.
    held: u32,
    /// How many were in vain since other nodes were told.
    missed: u32,
    /// It was logged that it asks in vain too often.
    told: bool,
}

impl Polls {
    pub(super) fn new(options: &PollOptions, trail: Option<Trail>) -> Arc<Self> {
        let rate = |a_second: u32| Rate {
            tokens: a_second.max(1).saturating_mul(BURST),
            every: Duration::from_secs(BURST.into()),
        };
        let (each, in_all) = (rate(options.each), rate(options.in_all));
        let in_vain = Rate { tokens: options.in_vain.max(1), every: VAIN_WITHIN };
        let now = Instant::now();
        let known = Known {
            askers: HashMap::new(),
            sweep_at: SWEEP,
            in_all: InAll::new(in_all, now),
            figures: PollFigures::default(),
        };
        Arc::new(Self { each, in_vain, trail, known: Mutex::new(known) })
    }

    pub(super) fn figures(&self) -> PollFigures {
        self.lock().figures
    }

    /// A request about so many tasks, by their ids.
    ///
    /// # Errors
    ///
    /// An overload: its caller asks too often, or has asked after too many tasks that are not there.
    pub(super) fn admit(self: &Arc<Self>, caller: &Caller, ids: usize) -> Result<Poll, ErrorObject> {
        let ids = u32::try_from(ids).unwrap_or(u32::MAX);
        let asker = Asker::of(caller);
        let mut known = self.lock();
        match self.take(&mut known, &Whose::all_like(caller), asker.as_ref(), ids) {
            Ok(hurried) => {
                known.figures.admitted += 1;
                drop(known);
                Ok(Poll { polls: Arc::clone(self), asker, unknown: AtomicU32::new(ids), hurried })
            }
            Err(refused) => {
                match refused {
                    Refused::Often(_) => known.figures.refused += 1,
                    Refused::Vain { .. } => known.figures.refused_look_ups += 1,
                }
                // Nobody waits for a log.
                drop(known);
                if let Refused::Vain { is_new: true, .. } = &refused {
                    tracing::warn!(
                        ?asker,
                        "a caller asks again and again after tasks that are not there for it"
                    );
                    if let Some(trail) = &self.trail {
                        trail.refused(&caller.owner());
                    }
                }
                Err(refused.into())
            }
        }
    }

    /// Takes what the request costs; says whether little is left.
    fn take(&self, known: &mut Known, all: &Whose, asker: Option<&Asker>, ids: u32) -> Result<bool, Refused> {
        let now = Instant::now();
        let Some(asker) = asker else {
            known.in_all.take(all, now).map_err(Refused::Often)?;
            return Ok(false);
        };
        let (account, in_all) = known.account(asker, self, now);
        account.polls.take(1, &self.each, now).map_err(Refused::Often)?;
        in_all.take(all, now).map_err(Refused::Often)?;
        if ids > 0 && asker.is_one() {
            account.look_up(self.at_once(ids), self, now)?;
        }
        Ok(account.polls.part_left(&self.each, now) < 0.5)
    }

    /// What was taken of its buckets since this was last asked.
    pub(super) fn taken(&self) -> Vec<Taken> {
        let mut known = self.lock();
        let Known { askers, in_all, .. } = &mut *known;
        let own = askers.iter_mut().flat_map(|(asker, account)| {
            let missed = i64::from(std::mem::take(&mut account.missed));
            [(What::Polls, account.polls.taken()), (What::InVain, missed)]
                .into_iter()
                .filter(|(_, tokens)| *tokens != 0)
                .map(move |(what, tokens)| Taken { what, whose: Whose::One(asker.clone()), tokens })
        });
        let all = in_all.taken().map(|(whose, tokens)| Taken { what: What::Polls, whose, tokens });
        own.chain(all).collect()
    }

    /// That was taken at another node.
    pub(super) fn taken_elsewhere(&self, taken: &Taken) {
        let (now, mut known) = (Instant::now(), self.lock());
        let Whose::One(asker) = &taken.whose else {
            return known.in_all.taken_elsewhere(&taken.whose, taken.tokens, now);
        };
        let (account, _) = known.account(asker, self, now);
        if taken.what == What::InVain {
            account.in_vain.taken_elsewhere(taken.tokens, &self.in_vain, now);
        } else {
            account.polls.taken_elsewhere(taken.tokens, &self.each, now);
        }
    }

    /// How many of so many ids are held until it is known what is there: no bucket has more.
    fn at_once(&self, ids: u32) -> u32 {
        ids.min(self.in_vain.tokens)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// What this one may still ask, and what all may.
    fn account(&mut self, asker: &Asker, polls: &Polls, now: Instant) -> (&mut Account, &mut InAll) {
        if self.askers.len() >= self.sweep_at {
            self.askers.retain(|_, account| !account.is_whole(polls, now));
            self.sweep_at = SWEEP.max(2 * self.askers.len());
        }
        let account = self.askers.entry(asker.clone()).or_insert_with(|| Account::new(polls, now));
        (account, &mut self.in_all)
    }
}

impl Account {
    fn new(polls: &Polls, now: Instant) -> Self {
        let (polls, in_vain) = (Bucket::full(&polls.each, now), Bucket::full(&polls.in_vain, now));
        Self { polls, in_vain, held: 0, missed: 0, told: false }
    }

    /// Takes what comes back for each task that is there.
    fn look_up(&mut self, ids: u32, polls: &Polls, now: Instant) -> Result<(), Refused> {
        match self.in_vain.take(ids, &polls.in_vain, now) {
            Ok(()) => {
                self.held = self.held.saturating_add(ids);
                self.told &= self.in_vain.part_left(&polls.in_vain, now) < 0.5;
                Ok(())
            }
            // Whoever asks after many tasks at once has asked nothing in vain yet.
            Err(_) if self.in_vain.lacks_only(self.held, ids) => Err(Refused::Often(SOON)),
            Err(wait) => {
                let is_new = !std::mem::replace(&mut self.told, true);
                Err(Refused::Vain { wait, is_new })
            }
        }
    }

    /// Whether nothing is lost if it is forgotten.
    fn is_whole(&mut self, polls: &Polls, now: Instant) -> bool {
        self.polls.is_full(&polls.each, now) && self.in_vain.is_full(&polls.in_vain, now)
    }
}

/// Why a request is refused, and for how long.
enum Refused {
    Often(Duration),
    Vain {
        wait: Duration,
        /// It was not refused so a moment ago.
        is_new: bool,
    },
}

impl From<Refused> for ErrorObject {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Often(wait) => {
                let what = "too much is asked about tasks: ask as often as `pollIntervalMs` says, or wait for the result";
                Self::overloaded(what, wait)
            }
            Refused::Vain { wait, .. } => {
                let what = "too many tasks were asked after that are not there: forget their ids, and come back later";
                Self::overloaded(what, wait)
            }
        }
    }
}

/// A request about tasks that was let through: see [`Dispatcher::poll`](super::Dispatcher::poll). Until it is said whether
/// they are there, it counts as one in vain; one that is dropped has looked for nothing.
#[derive(Debug)]
pub struct Poll {
    polls: Arc<Polls>,
    asker: Option<Asker>,
    /// How many of its tasks may still turn out not to be there.
    unknown: AtomicU32,
    hurried: bool,
}

impl Poll {
    /// So many of its tasks are not there for its caller, and the others are. Only what is said first counts.
    pub fn missed(&self, tasks: usize) {
        let unknown = self.unknown.swap(0, Ordering::Relaxed);
        if unknown == 0 {
            return;
        }
        let missed = u32::try_from(tasks).unwrap_or(u32::MAX).min(unknown);
        let held = self.polls.at_once(unknown);
        let mut known = self.polls.lock();
        known.figures.in_vain += u64::from(missed);
        let asker = self.asker.as_ref().filter(|asker| asker.is_one());
        if let Some(account) = asker.and_then(|asker| known.askers.get_mut(asker)) {
            account.held = account.held.saturating_sub(held);
            account.missed = account.missed.saturating_add(missed);
            account.in_vain.give_back(held.saturating_sub(missed), &self.polls.in_vain);
            // Who asks after more at once than there can ever be owes the rest.
            account.in_vain.owe(missed.saturating_sub(held));
        }
        drop(known);
        if let Some(trail) = self.polls.trail.as_ref().filter(|_| missed > 0) {
            let by = match &self.asker {
                Some(Asker::Principal(principal)) => Owner::Principal(principal.clone()),
                // The trail has one name for all of them.
                _ => Owner::Anonymous,
            };
            trail.guessed(missed, TOLD_FROM.min(self.polls.in_vain.tokens), by);
        }
    }

    /// All of them are there.
    pub fn found(&self) {
        self.missed(0);
    }

    /// It does not count after all: what its caller looked for was there, and is looked for once.
    #[cfg(feature = "http")]
    pub(crate) fn was_none(self) {
        let polls = &self.polls;
        let mut known = polls.lock();
        let Known { askers, in_all, .. } = &mut *known;
        let is_principal = matches!(self.asker, Some(Asker::Principal(_)));
        in_all.give_back(if is_principal { &Whose::Principals } else { &Whose::Strangers });
        if let Some(account) = self.asker.as_ref().and_then(|asker| askers.get_mut(asker)) {
            account.polls.give_back(1, &polls.each);
        }
    }

    /// How long its caller is told to wait until it asks again, in milliseconds.
    pub(super) fn paced(&self, interval_ms: Option<u64>) -> Option<u64> {
        let slower = if self.hurried { SLOWER } else { 1 };
        interval_ms.map(|interval| interval.saturating_mul(slower))
    }
}

impl Drop for Poll {
    /// What was never looked up was not in vain.
    fn drop(&mut self) {
        self.found();
    }
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "http")]
    use super::super::dispatch::Origin;
    use super::super::principal::Principal;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn look_ups_that_are_under_way_are_not_in_vain_yet() {
        let polls = Polls::new(&PollOptions::default().in_vain(20), None);
        let ann = Caller::new(Some(Principal::new("ann").unwrap()));
        let first = polls.admit(&ann, 15).unwrap();
        let refused = polls.admit(&ann, 15).unwrap_err();
        let data = refused.data.as_ref().map(ToString::to_string).unwrap_or_default();
        assert!(data.contains("\"retryAfterMs\":1000"), "{refused:?}");
        assert_eq!((polls.figures().refused, polls.figures().refused_look_ups), (1, 0));
        first.found();
        polls.admit(&ann, 15).unwrap().missed(15);
        polls.admit(&ann, 15).unwrap_err();
        assert_eq!((polls.figures().refused, polls.figures().refused_look_ups), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn more_ids_at_once_than_may_be_in_vain_are_all_counted() {
        let polls = Polls::new(&PollOptions::default().in_vain(20), None);
        let ann = Caller::new(Some(Principal::new("ann").unwrap()));
        polls.admit(&ann, 100).expect("what is there costs nothing").found();
        polls.admit(&ann, 100).unwrap().missed(50);
        assert_eq!(polls.figures().in_vain, 50);
        // Thirty are owed: the first look-up comes back behind them, one in half a minute.
        tokio::time::advance(VAIN_WITHIN).await;
        polls.admit(&ann, 1).expect_err("ten are still owed");
        tokio::time::advance(VAIN_WITHIN / 2).await;
        polls.admit(&ann, 1).expect_err("nothing is owed, and nothing is there");
        tokio::time::advance(VAIN_WITHIN / 10).await;
        polls.admit(&ann, 1).unwrap().missed(1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_asked_at_another_node_counts_here() {
        let options = PollOptions::default().each(1).in_vain(20);
        let [here, there] = [(); 2].map(|()| Polls::new(&options, None));
        let ann = Caller::new(Some(Principal::new("ann").unwrap()));
        there.admit(&ann, 10).unwrap().missed(10);
        there.admit(&ann, 10).unwrap().found();
        for taken in there.taken() {
            here.taken_elsewhere(&taken);
        }
        here.admit(&ann, 11).expect_err("ten were in vain, and those that were there were not");
        for _ in 0..2 {
            here.admit(&ann, 10).unwrap().found();
        }
        here.admit(&ann, 0)
            .expect_err("five at once: two there, and three here with the one that was refused");
        assert_eq!(there.taken(), [], "that was told");
    }

    #[cfg(feature = "http")]
    #[tokio::test(start_paused = true)]
    async fn what_was_there_and_is_looked_for_once_is_free() {
        let polls = Polls::new(&PollOptions::default().each(1), None);
        let ann = Caller::new(Some(Principal::new("ann").unwrap()));
        for _ in 0..20 {
            polls.admit(&ann, 0).expect("it costs nothing").was_none();
        }
        for _ in 0..5 {
            polls.admit(&ann, 0).expect("so many may be in vain");
        }
        polls.admit(&ann, 0).expect_err("and no more");
    }

    #[cfg(feature = "http")]
    #[tokio::test(start_paused = true)]
    async fn strangers_behind_a_proxy_of_this_machine_are_not_refused_for_each_other() {
        let polls = Polls::new(&PollOptions::default().in_vain(5), None);
        let from = |origin| Caller { origin, ..Caller::default() };
        let behind = from(Origin::Connection(1));
        for _ in 0..20 {
            polls.admit(&behind, 1).unwrap().missed(1);
        }
        polls.admit(&behind, 1).expect("another stranger's task may be there");
        assert_eq!(polls.figures().in_vain, 20);
        let far = from(Origin::Network([192, 0, 2, 1].into()));
        polls.admit(&far, 5).unwrap().missed(5);
        polls.admit(&far, 1).expect_err("a network is one caller");
    }

    /// A log that may only be written while nothing is locked.
    #[derive(Clone)]
    struct Unlocked(Arc<Mutex<Option<Arc<Polls>>>>, Arc<AtomicU32>);

    impl std::io::Write for Unlocked {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let polls = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let is_free = polls.is_some_and(|polls| polls.known.try_lock().is_ok());
            self.1.fetch_add(if is_free { 1 } else { 1000 }, Ordering::Relaxed);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_while_a_refusal_is_logged() {
        let log = Unlocked(Arc::default(), Arc::default());
        let writer = log.clone();
        let _logged = tracing::subscriber::set_default(
            tracing_subscriber::fmt().with_writer(move || writer.clone()).finish(),
        );
        let ann = Caller::new(Some(Principal::new("ann").unwrap()));
        // Where another test is refused for the first time just as this log begins, tracing may not know of both yet.
        for _ in 0..1000 {
            tracing::callsite::rebuild_interest_cache();
            let polls = Polls::new(&PollOptions::default().in_vain(1), None);
            *log.0.lock().unwrap() = Some(Arc::clone(&polls));
            polls.admit(&ann, 1).unwrap().missed(1);
            polls.admit(&ann, 1).unwrap_err();
            if log.1.load(Ordering::Relaxed) > 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(log.1.load(Ordering::Relaxed), 1, "said once, while nothing is locked");
    }
}
