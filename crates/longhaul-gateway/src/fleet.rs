//! What the servers of one store say of themselves to one another: who is there, in which release, and who is about to go.
//!
//! Nothing depends on it but what people are shown: whose work is free is decided by leases, which say no more of a server than the tasks
//! that it holds.

use std::sync::Arc;
use std::time::Duration;

use longhaul::store::{EntryKey, Holder, NodeId, Registry, StoreError, Time, Value};
use longhaul::tasks::runner::Engine;
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};

use crate::config::Role;

/// The servers of a store, one of them this one. Clones are one.
#[derive(Clone, Debug)]
pub struct Fleet(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Arc<dyn Registry>,
    engine: Engine,
    role: Role,
    began: Time,
}

/// What a server says of itself.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Member {
    pub(crate) release: String,
    /// One of the words of [`Role::ALL`], or of a later release.
    pub(crate) role: String,
    #[serde(with = "unix_ms")]
    pub(crate) began: Time,
    /// When it said so.
    #[serde(with = "unix_ms")]
    pub(crate) said: Time,
    /// It takes up nothing more and is about to go.
    pub(crate) is_draining: bool,
}

impl Fleet {
    /// That of the store of `registry` and `engine`, for which this server has begun now in this role.
    pub fn new(registry: Arc<dyn Registry>, engine: Engine, role: Role) -> Self {
        let began = engine.store().now();
        Self(Arc::new(Inner { registry, engine, role, began }))
    }

    /// Says every few seconds that this server is there, from now on, and once it is about to go, for as long as this is polled: what was
    /// said last is shown for up to 15 s more. There is one server for each node of a store, which is what it is known by.
    pub async fn keep_telling(self) {
        let Inner { registry, engine, .. } = &*self.0;
        loop {
            let own = self.own();
            if let Err(error) = own.tell(&**registry, engine.store().node()).await {
                tracing::debug!(%error, "other servers are not told now that this one is there");
            }
            if own.is_draining {
                sleep(EVERY).await;
            } else {
                // Late or about to go: either is to be told.
                let _late = timeout(EVERY, engine.draining()).await;
            }
        }
    }

    /// What this server says of itself.
    fn own(&self) -> Member {
        let Inner { engine, role, began, .. } = &*self.0;
        Member {
            release: env!("CARGO_PKG_VERSION").to_owned(),
            role: Role::ALL.iter().find(|(_, one)| one == role).map_or("", |(word, _)| word).to_owned(),
            began: *began,
            said: engine.store().now(),
            is_draining: engine.is_draining(),
        }
    }

    /// This one, and those others that tell and are there, or were until a moment ago, by their nodes: the first 256.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked.
    pub(crate) async fn members(&self) -> Result<Vec<(NodeId, Member)>, StoreError> {
        let Inner { registry, engine, .. } = &*self.0;
        let names = registry.names(Holder::Server, KIND, None, MOST).await?;
        let mut members = Vec::with_capacity(names.len() + 1);
        for name in names {
            let entry = match registry.entry(EntryKey::of_server(KIND, &name)).await {
                Ok(Some(entry)) => entry,
                Ok(None) => continue,
                Err(error @ StoreError::Corrupt { .. }) => {
                    tracing::error!(name, %error, "what a server says of itself is damaged and is passed over");
                    continue;
                }
                Err(error) => return Err(error),
            };
            // One of a later release may say what this one cannot read.
            if let (Ok(node), Ok(member)) = (NodeId::new(name), serde_json::from_slice(&entry.value)) {
                members.push((node, member));
            }
        }
        // It knows better than what it told last, and one alone with its file tells nobody.
        members.retain(|(node, _)| node != engine.store().node());
        members.push((engine.store().node().clone(), self.own()));
        Ok(members)
    }
}

impl Member {
    async fn tell(&self, registry: &dyn Registry, node: &NodeId) -> Result<(), StoreError> {
        let said = serde_json::to_vec(self).expect("numbers and strings are JSON");
        let key = EntryKey::of_server(KIND, node.as_str());
        registry.put(key, Value::lasting(&said, KEPT)).await.map(drop)
    }
}

/// Times as the store counts them.
mod unix_ms {
    use longhaul::store::Time;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Time, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(time.unix_ms())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        i64::deserialize(deserializer).map(Time::from_unix_ms)
    }
}

/// How often a server says that it is there.
const EVERY: Duration = Duration::from_secs(5);

/// How long what it has said is there: it may be late twice.
const KEPT: Duration = Duration::from_secs(15);

/// How many are looked at: each is a way to the database.
const MOST: usize = 256;

/// What these entries are called.
const KIND: &str = "server";
