//! How much is fetched for strangers at once: so much in all, and from one host no more than leaves room for others. A
//! host that is slow to answer keeps nobody from the rest.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is being fetched.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashMap<String, usize>>);

/// One fetch, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn<'t> {
    all: &'t Turns,
    host: String,
}

/// How many fetches there are at once.
const MOST: usize = 32;

/// How many of them are of one host.
const OF_ONE: usize = 4;

impl Turns {
    /// A turn to fetch from `host`, if there is one now.
    pub(super) fn take(&self, host: &str) -> Option<Turn<'_>> {
        let mut hosts = self.lock();
        if hosts.values().sum::<usize>() >= MOST || hosts.get(host).is_some_and(|taken| *taken >= OF_ONE) {
            return None;
        }
        *hosts.entry(host.to_owned()).or_default() += 1;
        Some(Turn { all: self, host: host.to_owned() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut hosts = self.all.lock();
        if let Some(taken) = hosts.get_mut(&self.host) {
            *taken -= 1;
            if *taken == 0 {
                hosts.remove(&self.host);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_is_slow_leaves_turns_to_others() {
        let turns = Turns::default();
        let slow: Vec<_> = std::iter::from_fn(|| turns.take("slow.example")).collect();
        assert_eq!(slow.len(), OF_ONE);
        let mut others = Vec::new();
        for host in 0..MOST - OF_ONE {
            others.push(turns.take(&format!("{host}.example")).unwrap());
        }
        assert!(turns.take("last.example").is_none(), "all of them have a bound as well");
        drop((slow, others));
        assert!(turns.lock().is_empty());
        assert!(turns.take("slow.example").is_some());
    }
}
