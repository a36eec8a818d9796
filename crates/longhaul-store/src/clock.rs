//! Where the store's time comes from, and how it is kept from jumping.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::Time;

/// The two clocks of a machine, from which a store makes its own time.
pub trait Clock: fmt::Debug + Send + Sync {
    /// What the machine believes the date is; anyone may set it to anything at any moment.
    fn wall(&self) -> Time;

    /// Time since some fixed moment, sleep of the machine included; never runs backwards.
    fn steady(&self) -> Duration;

    /// Names the moment [`Clock::steady`] counts from: readings compare only under the same name.
    fn boot(&self) -> &str;
}

/// The machine's own clocks.
#[derive(Debug)]
pub struct SystemClock {
    boot: String,
    #[cfg(not(unix))]
    origin: std::time::Instant,
}

impl SystemClock {
    /// The clocks of this machine, as of this boot.
    #[must_use]
    pub fn new() -> Self {
        #[cfg(target_os = "linux")]
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned());
        #[cfg(not(target_os = "linux"))]
        let boot: Result<String, ()> = Err(());
        Self {
            // A name nobody else has means "do not compare", which is always safe.
            boot: boot.unwrap_or_else(|_| format!("process-{}-{:?}", std::process::id(), SystemTime::now())),
            #[cfg(not(unix))]
            origin: std::time::Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn wall(&self) -> Time {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time::from_unix_ms(0).after(since_1970)
    }

    // A laptop that slept all night must find the night in its steady clock, or the wall clock would seem to
    // have been stepped; `Instant` leaves sleep out on Linux and macOS.
    #[cfg(unix)]
    fn steady(&self) -> Duration {
        use rustix::time::{ClockId, clock_gettime};
        #[cfg(target_os = "linux")]
        let now = clock_gettime(ClockId::Boottime);
        #[cfg(not(target_os = "linux"))]
        let now = clock_gettime(ClockId::Monotonic);
        Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
    }

    #[cfg(not(unix))]
    fn steady(&self) -> Duration {
        self.origin.elapsed()
    }

    fn boot(&self) -> &str {
        &self.boot
    }
}

/// A reading of the store's time beside the steady clock, as a store keeps it for the next process.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) time: Time,
    pub(crate) steady: Duration,
    pub(crate) boot: String,
}

/// The store's time: the greatest time stored plus the steady time since, or the wall clock when that is later
/// by less than an hour.
///
/// A larger step of the wall clock (a mistyped date, a broken battery) is not followed: it would expire every
/// task at once. It is logged, and the store's time goes on at the pace of the steady clock.
#[derive(Debug)]
pub(crate) struct StoreClock {
    source: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    time: Time,
    steady: Duration,
    /// The date that the wall clock shows and that is not followed.
    refused: Option<Time>,
}

impl StoreClock {
    /// Continues from `last`, the newest mark a store holds.
    ///
    /// Under the same boot the steady clock has measured the gap. Across a boot nothing has, so a later wall
    /// clock is believed whatever the distance: the machine was off over the week-end.
    pub(crate) fn resume(source: Arc<dyn Clock>, last: Option<Mark>) -> Self {
        let (wall, steady) = (source.wall(), source.steady());
        let (time, steady) = match last {
            None => (wall, steady),
            Some(mark) if mark.boot == source.boot() && mark.steady <= steady => (mark.time, mark.steady),
            Some(mark) => {
                if wall.since(mark.time) >= LARGEST_STEP {
                    tracing::info!(
                        last_write = mark.time.unix_ms(),
                        now = wall.unix_ms(),
                        "the machine was restarted since the store was last written; its wall clock is followed"
                    );
                }
                (wall.max(mark.time), steady)
            }
        };
        Self { source, state: Mutex::new(State { time, steady, refused: None }) }
    }

    pub(crate) fn now(&self) -> Time {
        self.read(&mut self.lock()).0
    }

    /// The date of the machine, while it is not followed.
    pub(crate) fn refused(&self) -> Option<Time> {
        let mut state = self.lock();
        self.read(&mut state);
        state.refused
    }

    /// Never falls behind a time that another process has stored.
    #[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
    pub(crate) fn observe(&self, stored: Time) {
        // Under one guard: whoever reads meanwhile may already have been told a later time than `stored`.
        let mut state = self.lock();
        let (now, steady) = self.read(&mut state);
        if stored > now {
            state.time = stored;
            state.steady = steady;
        }
    }

    #[cfg(feature = "sqlite")]
    pub(crate) fn mark(&self) -> Mark {
        let (time, steady) = self.read(&mut self.lock());
        Mark { time, steady, boot: self.source.boot().to_owned() }
    }

    /// The time, and the steady clock at that time.
    fn read(&self, state: &mut State) -> (Time, Duration) {
        let (wall, steady) = (self.source.wall(), self.source.steady());
        let measured = state.time.after(steady.saturating_sub(state.steady));
        if wall <= measured {
            state.refused = None;
            return (measured, steady);
        }
        if wall.since(measured) < LARGEST_STEP {
            *state = State { time: wall, steady, refused: None };
            return (wall, steady);
        }
        if state.refused.replace(wall).is_none() {
            tracing::warn!(
                wall = wall.unix_ms(),
                store = measured.unix_ms(),
                "the wall clock is an hour or more ahead of the store's time and is not followed; \
                 if the date is right now, stop every process on this store and start it after a reboot"
            );
        }
        (measured, steady)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The step of the wall clock from which on it is not followed.
pub(crate) const LARGEST_STEP: Duration = Duration::from_secs(3600);

/// A clock that stands still until a test moves it.
#[cfg(any(test, feature = "conformance"))]
#[derive(Clone, Debug)]
pub struct StepClock(Arc<Mutex<Steps>>);

#[cfg(any(test, feature = "conformance"))]
#[derive(Debug)]
struct Steps {
    wall: Time,
    steady: Duration,
}

#[cfg(any(test, feature = "conformance"))]
impl StepClock {
    /// A clock that shows `wall`.
    #[must_use]
    pub fn at(wall: Time) -> Self {
        Self(Arc::new(Mutex::new(Steps { wall, steady: Duration::from_secs(1000) })))
    }

    /// Lets `by` pass, on both clocks.
    pub fn advance(&self, by: Duration) {
        let mut steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        steps.wall = steps.wall.after(by);
        steps.steady += by;
    }

    /// Sets the date, as an administrator would: no time passes.
    pub fn step_wall(&self, to: Time) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).wall = to;
    }
}

#[cfg(any(test, feature = "conformance"))]
impl Clock for StepClock {
    fn wall(&self) -> Time {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).wall
    }

    fn steady(&self) -> Duration {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).steady
    }

    fn boot(&self) -> &str {
        "step-clock"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_unix_ms(1_800_000_000_000);

    fn clock(last: Option<Mark>) -> (StepClock, StoreClock) {
        let source = StepClock::at(START);
        (source.clone(), StoreClock::resume(Arc::new(source), last))
    }

    fn mark(time: Time, steady: u64, boot: &str) -> Option<Mark> {
        Some(Mark { time, steady: Duration::from_secs(steady), boot: boot.into() })
    }

    #[test]
    fn small_steps_ahead_are_followed_and_steps_back_are_not() {
        let (source, clock) = clock(None);
        source.step_wall(START.after(Duration::from_secs(3599)));
        assert_eq!(clock.now(), START.after(Duration::from_secs(3599)));
        source.step_wall(START);
        source.advance(Duration::from_secs(2));
        assert_eq!(clock.now(), START.after(Duration::from_secs(3601)));
    }

    /// T1 of `conformance/REQUIREMENTS.md`.
    #[test]
    fn an_hour_ahead_is_not_followed() {
        let (source, clock) = clock(None);
        source.step_wall(START.after(Duration::from_secs(3600)));
        source.advance(Duration::from_millis(1500));
        assert_eq!(clock.now(), START.after(Duration::from_millis(1500)));
        source.advance(Duration::from_millis(500));
        assert_eq!(clock.now(), START.after(Duration::from_secs(2)));
        assert_eq!(clock.refused(), Some(START.after(Duration::from_secs(3602))));
        source.step_wall(START);
        assert_eq!(clock.refused(), None, "the date is right again");
    }

    /// T3 of `conformance/REQUIREMENTS.md`.
    #[test]
    fn a_night_asleep_is_measured_and_not_a_step() {
        let (source, clock) = clock(None);
        source.advance(Duration::from_secs(8 * 3600));
        assert_eq!(clock.now(), START.after(Duration::from_secs(8 * 3600)));
    }

    #[test]
    fn under_one_boot_a_refused_step_stays_refused_for_the_next_process() {
        let day = Duration::from_secs(86_400);
        let (_, clock) = clock(mark(Time::from_unix_ms(START.unix_ms() - 86_400_000), 990, "step-clock"));
        assert_eq!(clock.now().after(day), START.after(Duration::from_secs(10)));
    }

    #[test]
    fn across_a_boot_the_wall_clock_is_believed_forwards_only() {
        let long_ago = Time::from_unix_ms(START.unix_ms() - 86_400_000);
        assert_eq!(clock(mark(long_ago, 990, "another boot")).1.now(), START);
        let ahead = START.after(Duration::from_secs(60));
        assert_eq!(clock(mark(ahead, 990, "another boot")).1.now(), ahead);
    }

    #[test]
    fn sub_millisecond_calls_add_up() {
        let (source, clock) = clock(None);
        source.step_wall(Time::from_unix_ms(0));
        for _ in 0..1000 {
            source.advance(Duration::from_micros(10));
            clock.now();
        }
        assert_eq!(clock.now(), START.after(Duration::from_millis(10)));
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn time_never_runs_backwards_while_another_process_is_a_little_ahead() {
        use std::sync::atomic::{AtomicBool, Ordering};

        let (source, clock) = clock(None);
        // A wall clock far behind, which would otherwise make up for it at once.
        source.step_wall(Time::from_unix_ms(0));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    clock.observe(clock.now().after(Duration::from_millis(1)));
                }
            });
            let backwards = (0..1_000_000).find(|_| {
                source.advance(Duration::from_millis(2));
                clock.now() > clock.now()
            });
            done.store(true, Ordering::Relaxed);
            assert_eq!(backwards, None);
        });
    }
}
