//! What becomes of the parts that a task's work gives.

use super::{Kept, fits, touch};
use crate::{Limits, Part, Quota, Record, StoreError, Time};

/// Takes those of a report that were not given before.
pub(super) fn take_parts(
    record: &mut Record,
    parts: &[Part],
    kept: &mut dyn Kept,
    now: Time,
    limits: &Limits,
) -> Result<Vec<Part>, StoreError> {
    let mut taken: Vec<Part> = Vec::new();
    for part in parts {
        if taken.iter().any(|earlier| earlier.key == part.key) || kept.has_part(&part.key)? {
            continue;
        }
        fits("a part", part.size(), limits.max_part)?;
        if record.parts >= limits.max_parts {
            return Err(StoreError::Overloaded { what: Quota::Parts, limit: limits.max_parts.into() });
        }
        let bytes = record.part_bytes + part.size() as u64;
        if bytes > limits.max_part_bytes {
            return Err(StoreError::Overloaded { what: Quota::PartBytes, limit: limits.max_part_bytes });
        }
        (record.parts, record.part_bytes) = (record.parts + 1, bytes);
        taken.push(part.clone());
    }
    if !taken.is_empty() {
        touch(record, now);
    }
    Ok(taken)
}
