//! How long to wait before a server is asked again: never less than it says, never all at the same moment, and longer
//! each time nothing comes of it.

use std::time::Duration;

use longhaul_proto::model::Task;

/// How long to wait before a task is looked at again.
pub(super) fn interval(task: &Task) -> Duration {
    let interval = task.poll_interval_ms.map_or(DEFAULT_INTERVAL, Duration::from_millis);
    late(interval.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL))
}

/// Pauses, each twice as long as the one before.
#[derive(Debug)]
pub(super) struct Pauses(Duration);

impl Pauses {
    pub(super) fn new() -> Self {
        Self(FIRST_PAUSE)
    }

    /// How long to wait now; `asked` is how long the server wants to be left alone.
    pub(super) fn next(&mut self, asked: Option<Duration>) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(LONGEST_PAUSE);
        late(asked.unwrap_or(pause).min(LONGEST_INTERVAL))
    }
}

/// A little later, by chance: of many that were sent away at once, not all come back at once.
fn late(pause: Duration) -> Duration {
    let chance = getrandom::u32().unwrap_or_default();
    pause + (pause / MOST_LATE).mul_f64(f64::from(chance) / f64::from(u32::MAX))
}

/// How long to wait between looks at a task that does not say.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// How long to wait between looks at least: a server that says zero is still not asked in a tight loop.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(20);

/// How long to wait between looks at most: a server that says a year is still asked.
const LONGEST_INTERVAL: Duration = Duration::from_secs(3600);

/// How long to wait before a server is asked again that could not be reached, or asked for nothing but to be asked again;
/// then twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// How long such a pause becomes.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What part of a pause may be added to it.
const MOST_LATE: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_proto::model::TaskStatus;

    #[test]
    fn nobody_is_asked_sooner_than_it_says_and_not_much_later() {
        let mut task = Task::new("t", TaskStatus::Working, String::new(), String::new());
        let mut different = std::collections::BTreeSet::new();
        for (said, least) in [(None, 1000), (Some(3000), 3000), (Some(0), 20), (Some(u64::MAX), 3_600_000)] {
            task.poll_interval_ms = said;
            for _ in 0..50 {
                let waited = interval(&task);
                let least = Duration::from_millis(least);
                assert!(waited >= least && waited <= least + least / MOST_LATE, "{said:?}: {waited:?}");
                different.insert(waited);
            }
        }
        assert!(different.len() > 100, "it is left to chance");
    }

    #[test]
    fn pauses_grow_and_a_server_has_its_way() {
        let mut pauses = Pauses::new();
        let asked = Duration::from_secs(30);
        assert!(pauses.next(Some(asked)) >= asked);
        let mut least = FIRST_PAUSE * 2;
        for _ in 0..8 {
            let pause = pauses.next(None);
            assert!(pause >= least && pause <= least + least / MOST_LATE, "{pause:?}");
            least = (least * 2).min(LONGEST_PAUSE);
        }
        assert!(pauses.next(Some(Duration::MAX)) <= LONGEST_INTERVAL + LONGEST_INTERVAL / MOST_LATE);
    }
}
