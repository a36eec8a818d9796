//! What callers call their calls: keys under which one is made once, the ids of drafted tasks, and the states of calls in
//! rounds.
//!
//! A store keeps all of them in one place, so that each kind has a prefix of its own.

use longhaul_store::{CallKey, InvalidCallKey, Record};

/// The longest name that a caller may give a call, in characters.
pub const LONGEST: usize = 256;

const IDEMPOTENCY: &str = "key:";
const DRAFTED: &str = "task:";
const STATE: &str = "state:";

/// A key under which a call is made once.
///
/// # Errors
///
/// When there can be no such key.
pub fn idempotency(key: &str) -> Result<CallKey, InvalidCallKey> {
    of_kind(IDEMPOTENCY, key)
}

/// The id that the caller of a drafted task has given it.
///
/// # Errors
///
/// When there can be no such id.
pub fn drafted(id: &str) -> Result<CallKey, InvalidCallKey> {
    of_kind(DRAFTED, id)
}

/// What the states of one call in rounds are called: whichever of them is brought, and however often, one task is begun.
///
/// # Errors
///
/// When there can be no such name.
pub fn state(name: &str) -> Result<CallKey, InvalidCallKey> {
    of_kind(STATE, name)
}

/// What the caller of this task calls it, if it is a drafted one.
pub fn drafted_id(record: &Record) -> Option<&str> {
    record.once.as_ref()?.key.as_str().strip_prefix(DRAFTED)
}

fn of_kind(kind: &str, name: &str) -> Result<CallKey, InvalidCallKey> {
    if !(1..=LONGEST).contains(&name.len()) {
        return Err(InvalidCallKey::default());
    }
    CallKey::new(format!("{kind}{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_apart_and_no_name_is_odd() {
        assert_ne!(idempotency("a").unwrap(), drafted("a").unwrap());
        assert_ne!(idempotency("a").unwrap(), state("a").unwrap());
        for odd in ["", "a b", "a\r\nb", "\u{e9}", &"x".repeat(LONGEST + 1)] {
            assert!(idempotency(odd).is_err() && drafted(odd).is_err(), "{odd:?}");
        }
        assert!(drafted(&"x".repeat(LONGEST)).is_ok());
    }
}
