//! Leases that are prolonged: the operation that there is most of, which needs no look at a task.

use std::sync::LazyLock;

use ::redis::Script;

use super::{Site, link::script_in_want, row::LEASES};
use crate::{Epoch, StoreError, TaskId};

static RENEW: LazyLock<Script> = LazyLock::new(|| script_in_want(include_str!("renew.lua")));

/// Prolongs leases; gives the tasks that are not held as the caller believes. No replica is waited for: to whom a failover
/// gives a task is decided there, and where none can be reached all work would end with its lease.
pub(super) async fn renew(site: &Site, held: &[(TaskId, Epoch)]) -> Result<Vec<TaskId>, StoreError> {
    let mut lost = Vec::new();
    for some in held.chunks(AT_ONCE) {
        let until = site.node.clock.now().after(site.node.settings.lease).unix_ms().to_string();
        let mut keys = vec![site.keys.one(LEASES)];
        let mut args = vec![until.into_bytes(), site.next_version().into_bytes()];
        for (id, epoch) in some {
            keys.push(site.keys.task(id));
            args.extend([id.as_str().as_bytes().to_vec(), epoch.get().to_string().into_bytes()]);
        }
        let found: Result<Vec<String>, _> = site.link.read("renewing leases", &RENEW, &keys, &args).await;
        let found = found.map_err(|fault| site.place.error(fault))?;
        site.recent.forget(some.iter().map(|(id, _)| id));
        lost.extend(
            some.iter()
                .filter(|(id, _)| found.iter().any(|lost| lost == id.as_str()))
                .map(|(id, _)| id.clone()),
        );
    }
    Ok(lost)
}

/// How many at once, for nobody else is served meanwhile.
const AT_ONCE: usize = 1_000;
