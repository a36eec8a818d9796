//! The world outside: what tools have done to it, whichever process they ran in.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex};

use longhaul_store::wrap::Faults;

/// Of an effect that is had without a key.
pub(crate) const NO_KEY: &str = "no key";

/// What has happened, for all processes of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct World(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Under which keys each effect was had, in order.
    effects: BTreeMap<String, Vec<String>>,
    /// What handlers were told, by what they call it.
    told: BTreeMap<String, Vec<String>>,
}

impl World {
    /// How often each effect was had.
    pub(crate) fn effects(&self) -> BTreeMap<String, usize> {
        self.0.lock().unwrap().effects.iter().map(|(name, keys)| (name.clone(), keys.len())).collect()
    }

    /// What breaks a promise about what handlers are told: I4, I7 and the effect's key.
    pub(crate) fn contradictions(&self) -> Vec<String> {
        let state = self.0.lock().unwrap();
        let unequal = |of: &BTreeMap<String, Vec<String>>, what: &str| -> Vec<String> {
            let several = of.iter().filter(|(_, said)| said.iter().any(|one| *one != said[0]));
            several.map(|(name, said)| format!("{what} {name:?}: {said:?}")).collect()
        };
        let mut of_key: BTreeMap<&str, &str> = BTreeMap::new();
        let mut shared = Vec::new();
        for (name, keys) in &state.effects {
            for key in keys.iter().filter(|key| *key != NO_KEY) {
                let other = *of_key.entry(key).or_insert(name);
                if other != name {
                    shared.push(format!("I7: {name:?} and {other:?} have one key, {key:?}"));
                }
            }
        }
        let mut found = unequal(&state.effects, "I7: an effect has several keys,");
        found.extend(unequal(&state.told, "I7: a handler was told different things of"));
        found.extend(shared);
        found
    }
}

/// The world as one process reaches it: once the process has ended, nothing of it touches the world any more.
#[derive(Clone, Debug)]
pub(crate) struct Hands {
    world: World,
    faults: Faults,
}

impl Hands {
    pub(crate) fn new(world: World, faults: Faults) -> Self {
        Self { world, faults }
    }

    /// Has an effect under this key; says how many times it was had.
    pub(crate) async fn effect(&self, name: &str, key: &str) -> usize {
        self.living().await;
        let mut state = self.world.0.lock().unwrap();
        let keys = state.effects.entry(name.to_owned()).or_default();
        keys.push(key.to_owned());
        keys.len()
    }

    /// How many times it was had under this key; `None` for never.
    pub(crate) async fn had(&self, name: &str, key: &str) -> Option<usize> {
        self.living().await;
        let state = self.world.0.lock().unwrap();
        let times = state.effects.get(name)?.iter().filter(|known| *known == key).count();
        (times > 0).then_some(times)
    }

    /// A handler was told this.
    pub(crate) async fn told(&self, name: &str, what: impl ToString + Send) {
        self.living().await;
        self.world.0.lock().unwrap().told.entry(name.to_owned()).or_default().push(what.to_string());
    }

    /// Takes the process along.
    pub(crate) async fn crash(&self) {
        self.faults.crash();
        pending().await
    }

    async fn living(&self) {
        if self.faults.has_crashed() {
            pending().await
        }
    }
}
