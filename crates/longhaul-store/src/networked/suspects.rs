//! Who is alive: each node holds something on a session of its own, which its end gives back however it comes: in PostgreSQL
//! an advisory lock, in Redis a subscription.
//!
//! One that is not held proves nobody dead at once: with the server all sessions end, and their nodes live on. So a node that
//! has not said that it goes is dead once nothing of its own has been held for a while, in which it would have come back.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::NodeId;

/// Nodes that hold nothing, as long as this node has seen it.
#[derive(Debug)]
pub(crate) struct Suspects {
    grace: Duration,
    since: Mutex<HashMap<NodeId, Instant>>,
}

impl Suspects {
    pub(crate) fn new(grace: Duration) -> Self {
        Self { grace, since: Mutex::default() }
    }

    /// How long one that holds nothing lives on.
    pub(crate) fn grace(&self) -> Duration {
        self.grace
    }

    /// Which of those that hold nothing now are dead.
    pub(crate) fn dead_of(&self, free: Vec<NodeId>) -> Vec<NodeId> {
        self.dead_at(free, Instant::now())
    }

    fn dead_at(&self, free: Vec<NodeId>, now: Instant) -> Vec<NodeId> {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        since.retain(|node, _| free.contains(node));
        let mut is_dead = |node: &NodeId| {
            let first = *since.entry(node.clone()).or_insert(now);
            now.saturating_duration_since(first) >= self.grace
        };
        free.into_iter().filter(|node| is_dead(node)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_dead_once_its_lock_has_been_free_for_a_while() {
        let suspects = Suspects::new(Duration::from_secs(1));
        let (node, start) = (NodeId::new("n").unwrap(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let free = || vec![node.clone()];
        assert!(suspects.dead_at(free(), at(0)).is_empty());
        assert!(suspects.dead_at(free(), at(999)).is_empty());
        assert_eq!(suspects.dead_at(free(), at(1000)), free());
    }

    #[test]
    fn whoever_takes_its_lock_again_lives() {
        let suspects = Suspects::new(Duration::from_secs(1));
        let (node, start) = (NodeId::new("n").unwrap(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        assert!(suspects.dead_at(vec![node.clone()], at(0)).is_empty());
        assert!(suspects.dead_at(Vec::new(), at(500)).is_empty());
        assert!(suspects.dead_at(vec![node], at(1200)).is_empty());
    }
}
