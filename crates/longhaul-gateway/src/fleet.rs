//! What the servers of one store say of themselves to one another: who is there, in which release, and who is about to go.
//!
//! Nothing depends on it but what people are shown: whose work is free is decided by leases, which say no more of a server than the tasks
//! that it holds.

use std::sync::Arc;
use std::time::Duration;

use longhaul::store::{EntryKey, Holder, Registry, StoreError, Time, Value};
use longhaul::tasks::runner::Engine;
use serde::{Deserialize, Serialize};

use crate::config::Role;

/// The servers of a store. Clones are one.
#[derive(Clone, Debug)]
pub struct Fleet(Arc<dyn Registry>);

/// What a server says of itself.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Member {
    /// The node that it is in the store.
    pub(crate) node: String,
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
    /// That of the store whose registry this is.
    pub fn new(registry: Arc<dyn Registry>) -> Self {
        Self(registry)
    }

    /// Says every few seconds that the server of this engine is there, and once it is about to go, as long as the process lives. It began
    /// just now.
    pub fn join(&self, engine: Engine, role: Role) {
        let Self(registry) = self.clone();
        let store = Arc::clone(engine.store());
        let word = Role::ALL.iter().find(|(_, one)| *one == role).map_or("", |(word, _)| word);
        let mut member = Member {
            node: store.node().to_string(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            role: word.to_owned(),
            began: store.now(),
            said: store.now(),
            is_draining: false,
        };
        tokio::spawn(async move {
            loop {
                (member.said, member.is_draining) = (store.now(), engine.is_draining());
                if let Err(error) = member.tell(&*registry).await {
                    tracing::debug!(%error, "other servers are not told now that this one is there");
                }
                if member.is_draining {
                    tokio::time::sleep(EVERY).await;
                } else {
                    // Late or about to go: either is to be told.
                    let _late = tokio::time::timeout(EVERY, engine.draining()).await;
                }
            }
        });
    }

    /// Those that are there, or were until a moment ago, by their nodes' names.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked.
    pub(crate) async fn members(&self) -> Result<Vec<Member>, StoreError> {
        let names = self.0.names(Holder::Server, KIND, None, EntryKey::LONGEST_NAMES).await?;
        let mut members = Vec::with_capacity(names.len());
        for name in names {
            let entry = self.0.entry(EntryKey::of_server(KIND, &name)).await?;
            // One of a later release may say what this one cannot read.
            members.extend(entry.and_then(|entry| serde_json::from_slice::<Member>(&entry.value).ok()));
        }
        Ok(members)
    }
}

impl Member {
    async fn tell(&self, registry: &dyn Registry) -> Result<(), StoreError> {
        let said = serde_json::to_vec(self).expect("numbers and strings are JSON");
        let key = EntryKey::of_server(KIND, &self.node);
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

/// What these entries are called.
const KIND: &str = "server";
