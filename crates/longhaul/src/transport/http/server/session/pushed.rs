//! What a session was told a moment ago that belongs to no request: what several nodes have for its client it is told once.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// By which way something comes that is for the client of a session.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum By {
    /// This node has it itself.
    Here,
    /// That node has it, and does not reach the client.
    Node(Arc<str>),
}

/// What was told within a moment.
#[derive(Debug, Default)]
pub(super) struct Pushed {
    /// The newest last.
    told: VecDeque<Told>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Told {
    mark: u64,
    at: Instant,
    /// The ways by which it has come.
    by: Vec<By>,
}

impl Pushed {
    /// What tells this message from others.
    pub(super) fn mark(&self, message: &[u8]) -> u64 {
        self.hasher.hash_one(message)
    }

    /// Whether just this was told a moment ago by another way, and has not come by this one yet. What comes by one way twice has
    /// happened twice.
    pub(super) fn is_known(&mut self, mark: u64, by: &By) -> bool {
        let mut recent = self.told.iter_mut().filter(|told| told.at.elapsed() <= TOLD_FOR);
        let double = recent.find(|told| told.mark == mark && !told.by.contains(by));
        double.map(|told| told.by.push(by.clone())).is_some()
    }

    /// It is told now, for it came this way.
    pub(super) fn note(&mut self, mark: u64, by: By) {
        while self.told.len() >= MOST || self.told.front().is_some_and(|told| told.at.elapsed() > TOLD_FOR) {
            self.told.pop_front();
        }
        self.told.push_back(Told { mark, at: Instant::now(), by: vec![by] });
    }
}

/// How much is known: as much as a client watches, all of which may change at once.
const MOST: usize = 1024;

/// For how long: until every other node has said that it has it, too.
const TOLD_FOR: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_comes_by_several_ways_is_told_once_and_what_comes_by_one_twice_is_told_twice() {
        let mut pushed = Pushed::default();
        let [one, other] = ["one", "other"].map(|node| By::Node(node.into()));
        let mut tell = |message: &str, by: &By| {
            let mark = pushed.mark(message.as_bytes());
            let is_new = !pushed.is_known(mark, by);
            if is_new {
                pushed.note(mark, by.clone());
            }
            is_new
        };
        assert_eq!([&By::Here, &one, &other].map(|by| tell("changed", by)), [true, false, false]);
        assert_eq!([&one, &By::Here, &other].map(|by| tell("changed", by)), [true, false, false], "again");
        // A client may watch as much, and all of it changes at once.
        let many: Vec<_> = (0..MOST).map(|number| number.to_string()).collect();
        assert!(many.iter().all(|message| tell(message, &By::Here)));
        assert!(!many.iter().any(|message| tell(message, &other)));
        tokio::time::advance(TOLD_FOR + Duration::from_millis(1)).await;
        assert!(tell("0", &one), "it is a moment no more");
    }
}
