//! What a state is bound to, and what tells one question from another.

use longhaul_proto::dialect::Dialect;
use longhaul_proto::model::InputRequest;
use longhaul_tasks::journal::Fingerprint;
use longhaul_tasks::store::Owner;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The request a state was given for: whoever brings the state must be the same caller, asking for the same.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) struct Binding(pub(super) [u8; 32]);

impl Binding {
    /// `arguments` is JSON text, whose members may come in any order.
    pub(in crate::server) fn new(owner: &Owner, method: &str, name: &str, arguments: &str) -> Self {
        let mut hash = Sha256::new();
        match owner {
            Owner::Anonymous => part(&mut hash, 0, ""),
            Owner::Principal(principal) => part(&mut hash, 1, principal.as_str()),
        }
        part(&mut hash, 2, method);
        part(&mut hash, 3, name);
        match serde_json::from_str(arguments) {
            Ok(value) => feed(&mut hash, &value),
            Err(_) => part(&mut hash, 4, arguments),
        }
        Self(hash.finalize().into())
    }

    pub(in crate::server) fn digest(self) -> [u8; 32] {
        self.0
    }
}

/// Tells a question from any other.
pub(super) fn fingerprint(dialect: &Dialect, question: &InputRequest) -> Fingerprint {
    let mut text = Vec::with_capacity(256);
    dialect.write_input_request(&mut text, question);
    let digest: [u8; 32] = Sha256::digest(&text).into();
    let mut first = [0; Fingerprint::LEN];
    first.copy_from_slice(&digest[..Fingerprint::LEN]);
    Fingerprint::new(first)
}

/// A part of what is hashed: what it is, its length and its text, so that no two ways of cutting are the same.
fn part(hash: &mut Sha256, what: u8, text: &str) {
    hash.update([what]);
    hash.update((text.len() as u64).to_le_bytes());
    hash.update(text);
}

fn feed(hash: &mut Sha256, value: &Value) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(key, _)| key.as_str());
            hash.update([5]);
            hash.update((members.len() as u64).to_le_bytes());
            for (key, value) in members {
                part(hash, 6, key);
                feed(hash, value);
            }
        }
        Value::Array(items) => {
            hash.update([7]);
            hash.update((items.len() as u64).to_le_bytes());
            items.iter().for_each(|item| feed(hash, item));
        }
        Value::String(text) => part(hash, 8, text),
        Value::Null | Value::Bool(_) | Value::Number(_) => part(hash, 9, &value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_the_same_however_its_arguments_are_written() {
        let (ann, bob) = (Owner::principal("ann").unwrap(), Owner::principal("bob").unwrap());
        let of = |owner, method, name, arguments| Binding::new(owner, method, name, arguments);
        let one = of(&ann, "tools/call", "t", r#"{"a":1,"b":{"c":[1,"x"],"d":null}}"#);
        assert_eq!(one, of(&ann, "tools/call", "t", r#"{ "b": {"d":null, "c":[1, "\u0078"]}, "a": 1 }"#));
        for other in [
            of(&bob, "tools/call", "t", r#"{"a":1,"b":{"c":[1,"x"],"d":null}}"#),
            of(&Owner::Anonymous, "tools/call", "t", r#"{"a":1,"b":{"c":[1,"x"],"d":null}}"#),
            of(&ann, "prompts/get", "t", r#"{"a":1,"b":{"c":[1,"x"],"d":null}}"#),
            of(&ann, "tools/call", "tt", r#"{"a":1,"b":{"c":[1,"x"],"d":null}}"#),
            of(&ann, "tools/call", "t", r#"{"a":"1","b":{"c":[1,"x"],"d":null}}"#),
            of(&ann, "tools/call", "t", r#"{"a":1,"b":{"c":["x",1],"d":null}}"#),
            of(&ann, "tools/call", "t", r#"{"a":1,"b":{"c":[1,"x","d"],"n":null}}"#),
        ] {
            assert_ne!(one, other);
        }
    }
}
