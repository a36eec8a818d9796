//! Which era servers turned out to be of, so that the next connection to one does not find out again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul_proto::dialect::Era;

use super::target::{Command, Target};

/// What earlier connections have found out: by URL, or by the program with all it is started with. Clones share it, and so
/// do clones of the [`Options`](super::Options) that hold it.
///
/// A server that turns out to be of the other era by now is asked again (Versioning, "Backward Compatibility with
/// Initialization-Based Versions").
#[derive(Clone, Debug, Default)]
pub struct Eras(Arc<Mutex<HashMap<Key, Era>>>);

/// How many servers are remembered; whichever is forgotten for another is found out about again.
const MOST: usize = 1_000;

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Key {
    Url(String),
    Command(Command),
}

/// What is remembered of one server.
#[derive(Clone, Debug)]
pub(super) struct Remembered {
    eras: Eras,
    /// `None` for one that cannot be told from another.
    key: Option<Key>,
}

impl Eras {
    pub(super) fn of(&self, target: &Target) -> Remembered {
        let key = match target {
            Target::Url(url) => Some(Key::Url(url.clone())),
            Target::Command(command) => Some(Key::Command(command.clone())),
            Target::Stream { .. } => None,
        };
        Remembered { eras: self.clone(), key }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Era>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Remembered {
    pub(super) fn era(&self) -> Option<Era> {
        self.eras.lock().get(self.key.as_ref()?).copied()
    }

    pub(super) fn learn(&self, era: Era) {
        let Some(key) = &self.key else { return };
        let mut eras = self.eras.lock();
        if eras.len() >= MOST
            && !eras.contains_key(key)
            && let Some(other) = eras.keys().next().cloned()
        {
            eras.remove(&other);
        }
        eras.insert(key.clone(), era);
    }

    pub(super) fn forget(&self) {
        if let Some(key) = &self.key {
            self.eras.lock().remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_told_from_another_by_all_it_is_started_with() {
        let eras = Eras::default();
        let shared = eras.clone();
        let build = Command::new("server").args(["build"]);
        eras.of(&build.clone().into()).learn(Era::Legacy);
        assert_eq!(shared.of(&build.clone().into()).era(), Some(Era::Legacy));
        assert_eq!(eras.of(&build.clone().env("NEW", "1").into()).era(), None);
        assert_eq!(eras.of(&build.clone().args(["--new"]).into()).era(), None);
        eras.of(&build.clone().into()).forget();
        assert_eq!(eras.of(&build.into()).era(), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let eras = Eras::default();
        for number in 0..=MOST {
            eras.of(&Target::url(format!("http://{number}/"))).learn(Era::Modern);
        }
        assert_eq!(eras.lock().len(), MOST);
        assert_eq!(eras.of(&Target::url(format!("http://{MOST}/"))).era(), Some(Era::Modern));
    }
}
