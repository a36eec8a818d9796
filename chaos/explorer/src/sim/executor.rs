//! One thread, and a time of its own: whatever a run does follows from its seed.
//!
//! What is ready is polled in an order that the seed chooses, one at a time. When nothing is, time goes on to the next
//! timer. Each future has a home: what a home holds stands still while it is paused, and is dropped when it goes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::random::Random;
use longhaul::tasks::environment::{BoxFuture, Environment};
use longhaul_store::{Clock, Time};

/// Where a future lives: in the world, which is no process, or in one of the processes there have ever been.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Home(usize);

/// Clients, and what befalls them all.
pub(crate) const WORLD: Home = Home(0);

/// The only thread. Clones are the same.
#[derive(Clone)]
pub(crate) struct Executor(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    ready: Arc<Mutex<BTreeSet<u64>>>,
}

struct State {
    /// In microseconds since the run began.
    now: u64,
    random: Random,
    homes: Vec<Place>,
    futures: BTreeMap<u64, Spawned>,
    last: u64,
    /// By when they are due, and their number.
    timers: BTreeMap<(u64, u64), Arc<Timer>>,
    /// What was ready in a home that is paused.
    stalled: Vec<u64>,
    /// Processes that end as soon as nothing of them is being polled.
    doomed: Vec<Home>,
    /// By how much the machine's wall clock is wrong, in milliseconds.
    wall_off: i64,
    /// Since when nothing has happened but looks that found nothing.
    quiet_since: u64,
}

struct Place {
    paused: bool,
    gone: bool,
    /// How much its clock gains in a million.
    drift: i64,
    /// How often what lives here looks whether there is anything to do.
    looks: Vec<Duration>,
}

struct Spawned {
    home: Home,
    future: Option<BoxFuture<'static, ()>>,
    waker: Waker,
}

struct Ready {
    id: u64,
    ready: Arc<Mutex<BTreeSet<u64>>>,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.lock().unwrap().insert(self.id);
    }
}

impl Executor {
    pub(crate) fn new(random: Random) -> Self {
        let state = State {
            now: 0,
            random,
            homes: Vec::new(),
            futures: BTreeMap::new(),
            last: 0,
            timers: BTreeMap::new(),
            stalled: Vec::new(),
            doomed: Vec::new(),
            wall_off: 0,
            quiet_since: 0,
        };
        let this = Self(Arc::new(Shared { state: Mutex::new(state), ready: Arc::default() }));
        this.settle(0, Vec::new());
        this
    }

    /// A home of its own, whose clock gains so much in a million, and which looks for work so often.
    pub(crate) fn settle(&self, drift: i64, looks: Vec<Duration>) -> Home {
        let mut state = self.lock();
        state.homes.push(Place { paused: false, gone: false, drift, looks });
        Home(state.homes.len() - 1)
    }

    pub(crate) fn now(&self) -> Duration {
        Duration::from_micros(self.lock().now)
    }

    pub(crate) fn spawn(&self, home: Home, future: BoxFuture<'static, ()>) {
        let mut state = self.lock();
        if state.homes[home.0].gone {
            drop(state);
            return drop(future);
        }
        state.last += 1;
        let id = state.last;
        let waker = Waker::from(Arc::new(Ready { id, ready: Arc::clone(&self.0.ready) }));
        state.futures.insert(id, Spawned { home, future: Some(future), waker: waker.clone() });
        drop(state);
        waker.wake();
    }

    /// Completes after so long, as the clock of `home` has it.
    pub(crate) fn sleep(&self, home: Home, duration: Duration) -> Sleep {
        let mut state = self.lock();
        let place = &state.homes[home.0];
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4);
        let wrong = i128::from(micros) * i128::from(place.drift) / 1_000_000;
        let lasts = u64::try_from(i128::from(micros) - wrong).unwrap_or(0);
        let looks = place.looks.contains(&duration);
        let at = state.now + lasts;
        state.last += 1;
        let number = state.last;
        let timer = Arc::new(Timer {
            at: AtomicU64::new(at),
            fired: AtomicBool::new(lasts == 0),
            period: looks.then_some(lasts),
            waker: Mutex::new(None),
        });
        if lasts > 0 {
            state.timers.insert((at, number), Arc::clone(&timer));
        }
        Sleep { executor: self.clone(), number, timer }
    }

    pub(crate) async fn pass(&self, duration: Duration) {
        self.sleep(WORLD, duration).await;
    }

    /// Stops everything in a home, or lets it go on.
    pub(crate) fn pause(&self, home: Home, paused: bool) {
        let mut state = self.lock();
        state.homes[home.0].paused = paused;
        let stalled = std::mem::take(&mut state.stalled);
        drop(state);
        self.0.ready.lock().unwrap().extend(stalled);
    }

    /// Drops everything in a home.
    pub(crate) fn clear(&self, home: Home) {
        let mut state = self.lock();
        state.homes[home.0].gone = true;
        let theirs: Vec<u64> =
            state.futures.iter().filter(|(_, spawned)| spawned.home == home).map(|(id, _)| *id).collect();
        let gone: Vec<Spawned> = theirs.iter().filter_map(|id| state.futures.remove(id)).collect();
        drop(state);
        drop(gone);
    }

    /// Lets a process end as soon as nothing of it is being polled.
    pub(crate) fn doom(&self, home: Home) {
        self.lock().doomed.push(home);
    }

    pub(crate) fn doomed(&self) -> Option<Home> {
        self.lock().doomed.pop()
    }

    /// Sets the machine's wall clock wrong.
    pub(crate) fn set_wall(&self, off: i64) {
        self.lock().wall_off = off;
    }

    /// A moment passes, so that no two operations happen at the same one.
    pub(crate) fn tick(&self) {
        self.lock().now += 1000;
    }

    /// Something has happened: looks may find more than they did.
    pub(crate) fn stir(&self) {
        let mut state = self.lock();
        state.quiet_since = state.now;
    }

    /// Since when nothing has happened.
    pub(crate) fn quiet_for(&self) -> Duration {
        let state = self.lock();
        Duration::from_micros(state.now - state.quiet_since)
    }

    /// A number for whoever needs one that the seed chooses.
    pub(crate) fn random(&self) -> u64 {
        self.lock().random.bits()
    }

    /// Polls one of what is ready; says whether anything was.
    pub(crate) fn turn(&self) -> bool {
        let Some(id) = self.choose() else { return false };
        let mut state = self.lock();
        let Some(spawned) = state.futures.get_mut(&id) else { return true };
        let home = spawned.home;
        if state.homes[home.0].paused {
            state.stalled.push(id);
            return true;
        }
        let Some(spawned) = state.futures.get_mut(&id) else { return true };
        let Some(mut future) = spawned.future.take() else { return true };
        let waker = spawned.waker.clone();
        drop(state);
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        let mut state = self.lock();
        let left = match state.futures.get_mut(&id) {
            Some(spawned) if polled.is_pending() => {
                spawned.future = Some(future);
                None
            }
            _ => state.futures.remove(&id).map(|_| future),
        };
        drop(state);
        drop(left);
        true
    }

    fn choose(&self) -> Option<u64> {
        let mut ready = self.0.ready.lock().unwrap();
        let place = match ready.len() {
            0 => return None,
            1 => 0,
            many => self.lock().random.below(many as u64),
        };
        let id = *ready.iter().nth(place as usize)?;
        ready.remove(&id);
        Some(id)
    }

    /// Lets time go on to the next timer, if there is one. With `until` nothing that only looks finds anything before
    /// then, so that its looks are left out.
    pub(crate) fn advance(&self, until: Option<Duration>) -> bool {
        let mut state = self.lock();
        if let Some(until) = until {
            state.leave_out(u64::try_from(until.as_micros()).unwrap_or(u64::MAX));
        }
        let Some((&(at, _), _)) = state.timers.first_key_value() else { return false };
        state.now = state.now.max(at);
        let mut due = Vec::new();
        while let Some(entry) = state.timers.first_entry()
            && entry.key().0 <= at
        {
            due.push(entry.remove());
        }
        drop(state);
        for timer in due {
            timer.fired.store(true, Ordering::Relaxed);
            if let Some(waker) = timer.waker.lock().unwrap().take() {
                waker.wake();
            }
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }
}

impl State {
    /// Moves looks that come before `until` behind it, or behind the first timer that is none.
    fn leave_out(&mut self, until: u64) {
        let first = self.timers.iter().find(|(_, timer)| timer.period.is_none()).map(|((at, _), _)| *at);
        let until = until.min(first.unwrap_or(u64::MAX));
        // Without an end there is nothing to wait for.
        if until == u64::MAX {
            return;
        }
        let early: Vec<(u64, u64)> = self.timers.range(..(until, 0)).map(|(key, _)| *key).collect();
        for (at, number) in early {
            let Some(timer) = self.timers.remove(&(at, number)) else { continue };
            let period = timer.period.unwrap_or(1).max(1);
            let later = at + (until - at).div_ceil(period) * period;
            timer.at.store(later, Ordering::Relaxed);
            self.timers.insert((later, number), timer);
        }
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Executor")
    }
}

/// The machine's clocks.
impl Clock for Executor {
    fn wall(&self) -> Time {
        let state = self.lock();
        Time::from_unix_ms(START + i64::try_from(state.now / 1000).unwrap_or(i64::MAX) + state.wall_off)
    }

    fn steady(&self) -> Duration {
        // Not from zero on, for a clock that was never read would look like one that stands still.
        Duration::from_secs(1000) + self.now()
    }

    fn boot(&self) -> &str {
        "one boot"
    }
}

/// When every run begins.
const START: i64 = 1_800_000_000_000;

struct Timer {
    at: AtomicU64,
    fired: AtomicBool,
    /// How long it lasts, if it is of something that only looks.
    period: Option<u64>,
    waker: Mutex<Option<Waker>>,
}

/// A wait.
pub(crate) struct Sleep {
    executor: Executor,
    number: u64,
    timer: Arc<Timer>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.timer.fired.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        *self.timer.waker.lock().unwrap() = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if !self.timer.fired.load(Ordering::Relaxed) {
            let mut state = self.executor.lock();
            state.timers.remove(&(self.timer.at.load(Ordering::Relaxed), self.number));
        }
    }
}

/// The surroundings of an engine that lives in a home.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    executor: Executor,
    home: Home,
}

impl Surroundings {
    pub(crate) fn new(executor: Executor, home: Home) -> Self {
        Self { executor, home }
    }
}

impl Environment for Surroundings {
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(self.executor.sleep(self.home, duration))
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) {
        self.executor.spawn(self.home, future);
    }

    fn random(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.executor.random().to_le_bytes()[..chunk.len()]);
        }
    }
}
