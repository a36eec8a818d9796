//! Bounds on how often callers ask and call that hold for all nodes together.
//!
//! No request waits for another node: each lets through what its own buckets have, says once a second what was taken of them, and takes from
//! its own what others say that they have let through, below nothing if need be. So the rate holds over a fleet, and what is let through beyond
//! it are the buckets of the other nodes, once, by a caller that empties them all within the first second.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use longhaul_tasks::store::{EntryKey, Holder, Registry, StoreError, Value};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::dispatch::Shared;
use super::in_all::Whose;
use super::party::Asker;
use super::principal::Principal;
use crate::hex::hex;
use crate::seal::random;

/// What was taken of a bucket that every node has.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Taken {
    pub(super) what: What,
    pub(super) whose: Whose,
    /// How much; below nothing it was given back.
    pub(super) tokens: i64,
}

/// Of which bucket.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) enum What {
    /// Questions about tasks.
    Polls,
    /// Those about tasks that are not there.
    InVain,
    /// Calls of tools.
    Calls,
}

/// The same as nodes tell it each other.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Told {
    what: What,
    who: Who,
    tokens: i64,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
enum Who {
    Principal(String),
    Network(IpAddr),
    Principals,
    Strangers,
}

impl Told {
    /// A connection is one node's alone.
    fn of(taken: Taken) -> Option<Self> {
        let who = match taken.whose {
            Whose::One(Asker::Principal(principal)) => Who::Principal(principal.as_str().to_owned()),
            Whose::One(stranger) => Who::Network(stranger.network()?),
            Whose::Principals => Who::Principals,
            Whose::Strangers => Who::Strangers,
        };
        Some(Self { what: taken.what, who, tokens: taken.tokens })
    }

    fn read(self) -> Option<Taken> {
        let whose = match self.who {
            Who::Principal(name) => Whose::One(Asker::Principal(Principal::new(name).ok()?)),
            Who::Network(network) => Whose::One(Asker::of_network(network)?),
            Who::Principals => Whose::Principals,
            Who::Strangers => Whose::Strangers,
        };
        Some(Taken { what: self.what, whose, tokens: self.tokens })
    }

    /// How many bytes it takes to say it.
    fn size(&self) -> usize {
        serde_json::to_string(self).map_or(usize::MAX, |said| said.len() + 1)
    }
}

/// What was taken within one second, by its number.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Second {
    number: u64,
    taken: Vec<Told>,
}

/// One node's part of it.
#[derive(Debug)]
struct Node {
    name: String,
    /// The second that goes on.
    number: u64,
    /// The last ones: whoever looks late misses none.
    seconds: VecDeque<Second>,
    /// Of each other node, up to which it was heard, and in which second of one's own.
    heard: HashMap<String, (u64, u64)>,
}

/// Has what is taken here count at every node on the registry, and what is taken there count here, for as long as the server is there.
pub(super) fn keep(server: &Arc<Shared>) {
    let server = Arc::downgrade(server);
    tokio::spawn(async move {
        let mut node = Node::new();
        while node.turn(&server).await.is_some() {
            sleep(EVERY).await;
        }
    });
}

impl Node {
    fn new() -> Self {
        let name = hex(&random::<16>());
        Self { name, number: 0, seconds: VecDeque::new(), heard: HashMap::new() }
    }

    /// Tells and hears once; `None` when the server is gone.
    async fn turn(&mut self, server: &Weak<Shared>) -> Option<()> {
        let server = server.upgrade()?;
        let registry = &**server.desk.registry()?;
        self.note(server.taken());
        if let Err(error) = self.tell(registry).await {
            tracing::debug!(%error, "other nodes are not told now what callers do at this one");
        }
        let mut taken = Vec::new();
        if let Err(error) = self.hear(registry, &mut taken).await {
            tracing::debug!(%error, "what callers do at other nodes is not known now");
        }
        server.taken_elsewhere(taken);
        Some(())
    }

    /// A second is over in which this was taken.
    fn note(&mut self, taken: Vec<Taken>) {
        self.number += 1;
        let mut told: Vec<Told> = taken.into_iter().filter_map(Told::of).collect();
        // Who takes little is not near any bound.
        told.sort_by_key(|told| std::cmp::Reverse(told.tokens.unsigned_abs()));
        let mut size = 0;
        told.retain(|told| {
            size += told.size();
            size <= LARGEST
        });
        if !told.is_empty() {
            self.seconds.push_back(Second { number: self.number, taken: told });
        }
        self.seconds.retain(|second| self.number - second.number < SECONDS);
    }

    async fn tell(&self, registry: &dyn Registry) -> Result<(), StoreError> {
        if self.seconds.is_empty() {
            return Ok(());
        }
        let seconds = serde_json::to_vec(&self.seconds).expect("numbers and strings are JSON");
        let key = EntryKey::of_server(KIND, &self.name);
        registry.put(key, Value::lasting(&seconds, KEPT)).await.map(drop)
    }

    /// Adds what was taken at the others since they were heard last.
    async fn hear(&mut self, registry: &dyn Registry, taken: &mut Vec<Taken>) -> Result<(), StoreError> {
        let names = registry.names(Holder::Server, KIND, None, EntryKey::LONGEST_NAMES).await?;
        // One that stood still says the same once more when it goes on.
        self.heard.retain(|_, (_, last)| self.number - *last < REMEMBERED);
        for name in names.into_iter().filter(|name| *name != self.name) {
            let Some(entry) = registry.entry(EntryKey::of_server(KIND, &name)).await? else { continue };
            // One of another release may say more than this one can read.
            let Ok(seconds) = serde_json::from_slice::<Vec<Second>>(&entry.value) else { continue };
            let (heard, last) = self.heard.entry(name).or_default();
            let before = *heard;
            *last = self.number;
            for second in seconds.into_iter().filter(|second| second.number > before) {
                *heard = (*heard).max(second.number);
                taken.extend(second.taken.into_iter().filter_map(Told::read));
            }
        }
        Ok(())
    }
}

/// How often nodes tell each other.
const EVERY: Duration = Duration::from_secs(1);

/// How many seconds back each tells.
const SECONDS: u64 = 5;

/// For how many seconds it is remembered how far another was heard.
const REMEMBERED: u64 = 600;

/// How long what one has told is there.
const KEPT: Duration = Duration::from_secs(10);

/// How many bytes of one second are told at most, of those who take most.
const LARGEST: usize = 10 << 10;

/// What these entries are called.
const KIND: &str = "taken";

#[cfg(test)]
mod tests {
    use longhaul_tasks::store::Memory;

    use super::*;

    fn taken(name: &str, tokens: i64) -> Taken {
        let whose = Whose::One(Asker::Principal(Principal::new(name).unwrap()));
        Taken { what: What::Polls, whose, tokens }
    }

    async fn heard(node: &mut Node, registry: &Memory) -> Vec<Taken> {
        let mut taken = Vec::new();
        node.hear(registry, &mut taken).await.unwrap();
        taken
    }

    #[tokio::test]
    async fn each_node_hears_once_what_was_taken_at_the_others() {
        let registry = Memory::new();
        let [mut one, mut two, mut late] = [(); 3].map(|()| Node::new());
        one.note(vec![taken("ann", 3), taken("bob", -1)]);
        one.tell(&registry).await.unwrap();
        assert_eq!(heard(&mut two, &registry).await, [taken("ann", 3), taken("bob", -1)]);
        assert_eq!(heard(&mut two, &registry).await, []);
        assert_eq!(heard(&mut one, &registry).await, [], "its own it has counted");
        one.note(vec![taken("ann", 1)]);
        one.tell(&registry).await.unwrap();
        assert_eq!(heard(&mut two, &registry).await, [taken("ann", 1)]);
        assert_eq!(heard(&mut late, &registry).await.len(), 3, "who looks late misses none");
    }

    #[tokio::test]
    async fn what_is_told_has_a_bound_and_those_who_take_most_are_in_it() {
        let registry = Memory::new();
        let (mut one, mut two) = (Node::new(), Node::new());
        for _ in 0..2 * SECONDS {
            one.note((1..=1000).map(|number| taken(&format!("{number:0>100}"), number)).collect());
        }
        one.tell(&registry).await.unwrap();
        let heard = heard(&mut two, &registry).await;
        assert!(heard.len() < 500, "{}", heard.len());
        assert!(heard.iter().all(|taken| taken.tokens > 900), "{heard:?}");
        for _ in 0..SECONDS {
            one.note(Vec::new());
        }
        assert!(one.seconds.is_empty(), "what is long past is told no more");
    }

    #[cfg(feature = "http")]
    #[test]
    fn a_connection_is_one_nodes_alone() {
        use super::super::dispatch::Origin;
        let whose = Whose::One(Asker::Stranger(Origin::Connection(1)));
        assert!(Told::of(Taken { what: What::Calls, whose, tokens: 1 }).is_none());
        let network = Whose::One(Asker::Stranger(Origin::Network([192, 0, 2, 1].into())));
        let taken = Taken { what: What::Calls, whose: network, tokens: 1 };
        assert_eq!(Told::of(taken.clone()).and_then(Told::read), Some(taken));
    }
}
