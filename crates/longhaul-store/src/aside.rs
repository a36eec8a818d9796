//! Tasks of which time demands what cannot be done to them. Each is left alone for a while, for whatever else is due is behind them.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::Time;

/// Those that this node has met, by what it tells them apart, and until when it leaves each alone.
#[derive(Debug)]
pub(crate) struct Aside<K>(Mutex<HashMap<K, Time>>);

impl<K: Clone + Eq + Hash> Aside<K> {
    /// Leaves a task alone from now on.
    pub(crate) fn put(&self, task: K, now: Time) {
        let mut aside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if aside.len() >= MOST
            && let Some(first) = aside.iter().min_by_key(|(_, until)| **until).map(|(task, _)| task.clone())
        {
            aside.remove(&first);
        }
        aside.insert(task, now.after(AGAIN_AFTER));
    }

    /// Those that are left alone now.
    pub(crate) fn left_alone(&self, now: Time) -> HashMap<K, Time> {
        let mut aside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        aside.retain(|_, until| *until > now);
        aside.clone()
    }
}

impl<K> Default for Aside<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// How long a task is left alone.
const AGAIN_AFTER: Duration = Duration::from_secs(180);

/// How many are left alone at once, at most: what is more is met again.
const MOST: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_so_many_are_left_alone_and_none_for_ever() {
        let (aside, start) = (Aside::default(), Time::from_unix_ms(0));
        for number in 0..=MOST {
            aside.put(number, start.after(Duration::from_millis(number as u64)));
        }
        let last = start.after(Duration::from_millis(MOST as u64));
        let left = aside.left_alone(last);
        assert_eq!((left.len(), left.contains_key(&0)), (MOST, false));
        assert_eq!(aside.left_alone(last.after(AGAIN_AFTER)).len(), 0);
    }
}
