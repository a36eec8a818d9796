//! How long to wait for a job, after what has gone wrong and what has come: it is the same for whoever goes on to follow it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How often in a row something went wrong, and which call of the API was heard.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(super) struct Patience {
    /// How often the API did not know the job, and since when, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<(u32, u64)>,
    /// How often what it said could not be read.
    misread: u32,
    /// How long it was last waited for, as it did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pause: Option<Duration>,
    /// Once it has called: how long to wait until the next look. Some APIs call before they know themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    called: Option<Duration>,
    /// Which of its calls was heard last, counted from 1.
    heard: u32,
}

impl Patience {
    /// It has said how the job stands.
    pub(super) fn hear(&mut self) {
        *self = Self { called: self.called, heard: self.heard, ..Self::default() };
    }

    /// The job is not there, at `now` in milliseconds since 1970: is that believed? A job that was just started may not be seen
    /// at once, nor any while an API is deployed anew: not until that has been said several times, and for so long.
    pub(super) fn lose(&mut self, now: u64, gone_after: Duration) -> bool {
        let (times, since) = self.lost.get_or_insert((0, now));
        *times += 1;
        *times >= LOST && Duration::from_millis(now.saturating_sub(*since)) >= gone_after
    }

    /// What is there cannot be read: is that believed? A proxy may have had its say.
    pub(super) fn misread(&mut self) -> bool {
        self.misread += 1;
        self.misread >= MISREAD
    }

    /// How long to wait for an API that does not answer: twice as long each time.
    pub(super) fn back_off(&mut self, every: Duration) -> Duration {
        let pause = match self.pause {
            Some(pause) => (pause * 2).min(LONGEST_PAUSE.max(every)),
            None => every.max(FIRST_PAUSE),
        };
        self.pause = Some(pause);
        pause
    }

    /// The API has called, as often as this.
    pub(super) fn call(&mut self, nth: u32) {
        (self.called, self.heard) = (Some(FIRST_LOOK), nth);
    }

    /// Whether this is the call that was heard last.
    pub(super) fn has_heard(&self, nth: u32) -> bool {
        self.heard == nth
    }

    /// How long to wait for the next look: from the API's call on twice as long each time, until it is as long as ever.
    pub(super) fn pause(&mut self, every: Duration) -> Duration {
        match &mut self.called {
            Some(after) if *after < every => {
                let pause = *after;
                *after = pause * 2;
                pause
            }
            _ => every,
        }
    }
}

pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(1);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How soon a job is first asked after: many are short.
pub(super) const FIRST_LOOK: Duration = Duration::from_secs(1);
/// How many answers in a row that a job is not known are believed.
const LOST: u32 = 3;
/// How many in a row that cannot be read.
const MISREAD: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    /// The same, as whoever goes on to follow the job finds it.
    fn found(patience: &Patience) -> Patience {
        serde_json::from_str(&serde_json::to_string(patience).unwrap()).unwrap()
    }

    #[test]
    fn a_job_is_gone_when_that_was_said_often_and_for_long() {
        let (mut patience, now, grace) = (Patience::default(), 1_800_000_000_000, Duration::from_secs(30));
        for _ in 0..10 {
            assert!(!patience.lose(now, grace), "an API that is deployed anew");
        }
        assert!(patience.lose(now + 30_000, grace));
        let mut patience = Patience::default();
        assert!(!patience.lose(now, Duration::ZERO) && !patience.lose(now, Duration::ZERO));
        assert!(patience.lose(now, Duration::ZERO));
    }

    #[test]
    fn whoever_goes_on_to_follow_a_job_is_as_patient_as_who_did_before() {
        let (mut patience, now, every) = (Patience::default(), 1_800_000_000_000, Duration::from_secs(20));
        let mut told = Vec::new();
        for look in 0..3 {
            let mut next = found(&patience);
            told.push((next.lose(now + look * 20_000, Duration::from_secs(30)), next.back_off(every)));
            patience = next;
        }
        let seconds = Duration::from_secs;
        assert_eq!(told, [(false, seconds(20)), (false, seconds(40)), (true, seconds(60))]);
        patience.call(3);
        patience.hear();
        assert_eq!(patience.pause(every), seconds(1));
        let mut next = found(&patience);
        assert!(next.has_heard(3) && !next.has_heard(4));
        let pauses: Vec<_> = (0..6).map(|_| next.pause(every).as_secs()).collect();
        assert_eq!(pauses, [2, 4, 8, 16, 20, 20]);
        assert_eq!(serde_json::from_str::<Patience>("{}").unwrap(), Patience::default());
    }
}
