//! The paces of those that come back for a list again and again, without a stream.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use longhaul::store::Owner;

use crate::admin::{Pace, Viewer};

/// How many are kept at once.
const MOST: usize = 256;

/// Who comes back for which list: an operator sees more than the tasks that are its own.
type Key = (Owner, bool, String);

/// The paces that are kept, until all may be read again.
#[derive(Default)]
pub(super) struct Paces(Mutex<HashMap<Key, Pace>>);

impl Paces {
    /// The pace at which `viewer` reads the list of this query.
    pub(super) fn take(&self, viewer: &Viewer, query: &str) -> Pace {
        self.lock().remove(&key(viewer, query)).unwrap_or_default()
    }

    /// Keeps it for when they come back.
    pub(super) fn keep(&self, viewer: &Viewer, query: &str, pace: Pace) {
        let mut paces = self.lock();
        paces.retain(|_, pace| !pace.is_over());
        if paces.len() < MOST && !pace.is_over() {
            paces.insert(key(viewer, query), pace);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Pace>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(viewer: &Viewer, query: &str) -> Key {
    (viewer.owner().clone(), viewer.is_operator(), query.to_owned())
}
