//! Sealing a store that is not sealed yet, for which nobody may be there who has no keys.
//!
//! Who comes with keys says so under the name of its node before it looks who else is there; who comes without any is there before it
//! looks whether somebody has [said so](is_being_sealed). So one of two that come at once sees the other, and two with keys know
//! each other.

use std::{
    thread,
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use super::{
    keys::SealingKeys,
    shared::{self, is_sealed},
};
use crate::{EntryKey, Holder, Registry, StoreError, Value, transfer::Transfer};

/// Whether somebody is about to seal a store, or was a minute ago, so that nobody who has no keys should begin to use it.
///
/// # Errors
///
/// What reading it gives.
pub async fn is_being_sealed(store: &dyn Registry) -> Result<bool, StoreError> {
    Ok(!store.names(Holder::Server, COMING, None, 1).await?.is_empty())
}

/// Makes these the keys of the store if it has none yet. Nothing has changed if that is refused.
pub(super) async fn seal(store: &dyn Transfer, keys: &SealingKeys) -> Result<(), StoreError> {
    if is_sealed(store).await? {
        return shared::prove(store, keys).await;
    }
    let coming = EntryKey::of_server(COMING, store.node().as_str());
    let said = store.put(coming, Value::lasting(&shared::sealed_nothing(keys), LONGEST_SAID)).await?;
    let sealed = match is_alone(store).await {
        Ok(()) => shared::prove(store, keys).await,
        refused => refused,
    };
    let unsaid = store.compare_and_set(coming, Some(said.version), None).await;
    sealed?;
    unsaid.map(drop)
}

/// Waits until nobody else is there but who has keys, too, or the store is sealed. Who has them may just not have said so yet.
async fn is_alone(store: &dyn Transfer) -> Result<(), StoreError> {
    let patience = Instant::now() + PATIENCE;
    loop {
        let coming = store.names(Holder::Server, COMING, None, EntryKey::LONGEST_NAMES).await?;
        let others = store.other_nodes().await?;
        let others = others.iter().filter(|node| coming.iter().all(|name| name != node.as_str())).count();
        if others == 0 || is_sealed(store).await? {
            return Ok(());
        }
        if Instant::now() >= patience {
            return Err(StoreError::InUse { others });
        }
        pause().await;
    }
}

/// On whatever runtime waits for it.
async fn pause() {
    let (over, is_over) = oneshot::channel();
    thread::spawn(move || {
        thread::sleep(PAUSE);
        over.send(())
    });
    let _over_either_way = is_over.await;
}

/// Of which kind the entries are that say so.
const COMING: &str = "sealing";

/// How long it stays said by who is killed then.
const LONGEST_SAID: Duration = Duration::from_secs(60);

/// How long somebody may be there without having said that it has keys.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often it is looked.
const PAUSE: Duration = Duration::from_millis(50);
