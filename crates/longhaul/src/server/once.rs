//! Calls that are made once: the key a caller gives its call, and what the key stands for.

use longhaul_proto::jsonrpc::ErrorObject;
use longhaul_proto::model::IDEMPOTENCY_KEY;
use longhaul_tasks::key::{self, LONGEST};
use longhaul_tasks::store::{CallKey, Digest, InvalidCallKey, Once, Owner};
use serde::Serialize;

use super::ask::Binding;
use super::tool::Tool;

/// What a server with tasks says of it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Offer {
    idempotency_key: KeyOffer,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KeyOffer {
    max_length: usize,
    min_length_anonymous: usize,
}

impl Offer {
    pub(super) const OURS: Self =
        Self { idempotency_key: KeyOffer { max_length: LONGEST, min_length_anonymous: SHORTEST_ANONYMOUS } };
}

/// As what a call of `tool` is made once, if it says under which key and that makes a difference.
///
/// # Errors
///
/// `-32602`: there can be no such key.
pub(super) fn once(
    tool: &Tool,
    owner: &Owner,
    key: Option<&str>,
    arguments: &str,
) -> Result<Option<Once>, ErrorObject> {
    // Made again, such a call does no harm, and its result is the newer.
    let Some(key) = key.filter(|_| !tool.is_repeatable()) else { return Ok(None) };
    let name = &tool.definition.name;
    let of = Digest::new(Binding::new(owner, "tools/call", name, arguments).digest());
    key_of(IDEMPOTENCY_KEY, owner, key, key::idempotency).map(|key| Some(Once::new(key, of)))
}

/// The key as a store keeps it, made by `kind`.
///
/// Nobody tells strangers from each other, so that whoever knows the key of one has its task. It must be as hard to
/// guess as an id.
pub(super) fn key_of(
    what: &str,
    owner: &Owner,
    key: &str,
    kind: fn(&str) -> Result<CallKey, InvalidCallKey>,
) -> Result<CallKey, ErrorObject> {
    let invalid = |why: String| ErrorObject::invalid_params(format!("invalid params: `{what}` {why}"));
    let shortest = match owner {
        Owner::Principal(_) => 1,
        Owner::Anonymous => SHORTEST_ANONYMOUS,
    };
    if key.len() < shortest && !key.is_empty() {
        return Err(invalid(format!(
            "of a caller who is not signed in has {SHORTEST_ANONYMOUS} characters at least, that nobody can guess: it \
             is all that keeps others from the task"
        )));
    }
    kind(key).map_err(|_| invalid(format!("has {shortest} to {LONGEST} visible ASCII characters")))
}

/// 128 random bits in base 64.
const SHORTEST_ANONYMOUS: usize = 22;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strangers_key_cannot_be_guessed_and_no_key_is_odd() {
        let (ann, nobody) = (Owner::principal("ann").unwrap(), Owner::Anonymous);
        let of =
            |owner, key: &str| key_of("k", owner, key, key::idempotency).map(|key| key.as_str().to_owned());
        assert_eq!(of(&ann, "1").unwrap(), "key:1");
        assert!(of(&nobody, &"x".repeat(21)).unwrap_err().message.contains("22 characters at least"));
        assert!(of(&nobody, &"x".repeat(22)).is_ok());
        for owner in [&ann, &nobody] {
            assert!(of(owner, &"x".repeat(256)).is_ok());
            let header = format!("{}\r\nHost: evil", "x".repeat(30));
            for odd in ["", &"x".repeat(257), &"é".repeat(30), &header, &"a b".repeat(20)] {
                assert!(of(owner, odd).is_err(), "{odd:?}");
            }
        }
    }
}
