//! What there is where a task is to be made, held against what there may be.

use crate::{Limits, Owner, Quota, Record, StoreError};

/// What a new task would be one more of.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Room {
    /// Open tasks in all.
    pub(crate) open: u64,
    /// Kept ones in all.
    pub(crate) retained: u64,
    /// Open ones of its owner.
    pub(crate) own_open: u64,
    /// Kept ones of its owner.
    pub(crate) own_retained: u64,
    /// Bytes of its owner's, as they [weigh](Record::weight).
    pub(crate) own_bytes: u64,
    /// Open ones of its share, if it has one.
    pub(crate) of_share: u64,
}

impl Limits {
    /// Whether one anonymous caller may have fewer open tasks than all together, so that there is anything to count of each.
    // What is counted costs every create a place in an index that is as scattered as its callers.
    #[must_use]
    pub fn tells_strangers_apart(&self) -> bool {
        self.max_open_per_stranger < self.max_open_anonymous.min(self.max_open)
    }

    /// Refuses one more task where there are these already.
    pub(crate) fn admit(&self, new: &Record, room: Room) -> Result<(), StoreError> {
        let own = match new.owner {
            Owner::Principal(_) => (Quota::OpenPerOwner, self.max_open_per_owner),
            Owner::Anonymous => (Quota::OpenAnonymous, self.max_open_anonymous),
        };
        let of_share = new.share.map(|_| (Quota::OpenPerStranger, room.of_share, self.max_open_per_stranger));
        let quotas = [
            (own.0, room.own_open, own.1),
            (Quota::RetainedPerOwner, room.own_retained, self.max_retained_per_owner),
            (Quota::Open, room.open, self.max_open),
            (Quota::Retained, room.retained, self.max_retained),
        ];
        match of_share.into_iter().chain(quotas).find(|(_, found, limit)| found >= limit) {
            Some((what, _, limit)) => Err(StoreError::Overloaded { what, limit }),
            None => self.admit_bytes(new, room.own_bytes),
        }
    }

    /// Refuses one whose owner would have too many bytes with it.
    fn admit_bytes(&self, new: &Record, own: u64) -> Result<(), StoreError> {
        let limit = self.max_task_bytes_per_owner;
        if own.saturating_add(new.weight()) > limit {
            return Err(StoreError::Overloaded { what: Quota::TaskBytesPerOwner, limit });
        }
        Ok(())
    }
}
