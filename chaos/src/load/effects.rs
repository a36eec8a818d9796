//! What the work of tasks does to the world: a line in a file for each time, whatever becomes of its process.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// A folder with a file for each order.
#[derive(Clone, Debug)]
pub(super) struct Effects {
    pub(super) folder: PathBuf,
    /// The node that works, or whoever reads.
    who: Arc<str>,
    /// When nodes stood still.
    stops: Vec<Stop>,
}

/// A node that stood still, from then until then, in milliseconds.
#[derive(Clone, Debug)]
pub(super) struct Stop {
    pub(super) node: String,
    pub(super) from: i64,
    pub(super) until: i64,
    /// It did not stand still: only its way to the store was bad.
    pub(super) is_cut_off: bool,
}

impl Stop {
    /// Whether it came over a node that was about to have its effect. What allowed that was true when it was asked, and
    /// nothing that only writes to the store can take it back.
    fn delayed(&self, who: &str, when: i64) -> bool {
        !self.is_cut_off && self.node == who && (self.from - 200..self.until + 1000).contains(&when)
    }

    /// Whether it can have come over a node in the middle of the write by which a task ended, which so was dated and not to be
    /// seen: at `open` the task was still seen open, and it is `gone` no sooner than `kept` after that date.
    pub(super) fn held_back(&self, open: i64, gone: i64, kept: i64) -> bool {
        let dated = self.from - 200;
        (dated..self.until + 1000).contains(&open) && gone >= dated + kept
    }

    /// Whether it came over a node that could not know that others had taken its work. What is pure begins without a word to the
    /// store; anything else is recorded first.
    fn hid(&self, who: &str, when: i64) -> bool {
        self.node == who && (self.from - 200..self.until + 3000).contains(&when)
    }
}

/// One line: what happened, at which word of the order, and what came of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Line {
    pub(super) what: String,
    pub(super) at: usize,
    pub(super) came: String,
    /// It was about to happen when its node was stopped.
    pub(super) delayed: bool,
    /// Its node could not know that others had taken its work.
    pub(super) unaware: bool,
}

/// The effect was had.
pub(super) const DID: &str = "did";
/// The work was told that, as what its step came to or its user said.
pub(super) const TOLD: &str = "told";
/// The effect was undone.
pub(super) const UNDID: &str = "undid";

impl Effects {
    /// Those of a node's work, or for whoever reads.
    pub(super) fn of(folder: PathBuf, who: &str) -> Self {
        Self { folder, who: who.into(), stops: Vec::new() }
    }

    /// Where the commands of all nodes keep their run files.
    pub(super) fn state(&self) -> PathBuf {
        self.folder.with_extension("state")
    }

    /// The same, now that is known who stood still and when.
    pub(super) fn with_stops(self, stops: Vec<Stop>) -> Self {
        Self { stops, ..self }
    }

    /// Writes a line at once: nobody who is killed leaves half of one.
    pub(super) fn note(&self, key: &str, what: &str, at: usize, came: &str) -> io::Result<()> {
        let line = format!("{what} {at} {} {} {came}\n", self.who, moment());
        let mut file = OpenOptions::new().create(true).append(true).open(self.folder.join(key))?;
        file.write_all(line.as_bytes())
    }

    /// All that was written for an order, in its order.
    pub(super) fn lines(&self, key: &str) -> io::Result<Vec<Line>> {
        let text = match fs::read_to_string(self.folder.join(key)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let line = |line: &str| {
            let mut parts = line.splitn(5, ' ');
            let (what, at) = (parts.next()?, parts.next()?.parse().ok()?);
            let (who, when, came) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?);
            let delayed = self.stops.iter().any(|stop| stop.delayed(who, when));
            let unaware = self.stops.iter().any(|stop| stop.hid(who, when));
            Some(Line { what: what.to_owned(), at, came: came.to_owned(), delayed, unaware })
        };
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, format!("{key}: {text}"));
        text.lines().map(|text| line(text).ok_or_else(invalid)).collect()
    }

    /// How often this has happened at a place.
    pub(super) fn count(&self, key: &str, what: &str, at: usize) -> io::Result<usize> {
        Ok(self.lines(key)?.iter().filter(|line| line.what == what && line.at == at).count())
    }
}

/// Milliseconds since the machine was started, whatever a process believes the date is.
pub(super) fn moment() -> i64 {
    let since = clock_gettime(ClockId::Boottime);
    since.tv_sec * 1000 + since.tv_nsec / 1_000_000
}

/// Milliseconds, as the store counts them.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let effects = Effects::of(folder.path().to_owned(), "n");
        effects.note("t", DID, 1, "key/1").unwrap();
        effects.note("t", TOLD, 1, "in doubt").unwrap();
        assert_eq!(effects.count("t", DID, 1).unwrap(), 1);
        assert_eq!(effects.lines("t").unwrap()[1].came, "in doubt");
        assert_eq!(effects.lines("another").unwrap(), []);
        let of = |node: &str, is_cut_off| Stop {
            node: node.to_owned(),
            from: moment() - 9,
            until: moment(),
            is_cut_off,
        };
        let line = |stop| effects.clone().with_stops(vec![stop]).lines("t").unwrap().remove(0);
        assert!(line(of("n", false)).delayed && !line(of("another", false)).delayed);
        assert!(line(of("n", true)).unaware && !line(of("n", true)).delayed);
    }
}
