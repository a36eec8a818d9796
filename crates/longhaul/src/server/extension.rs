//! Extensions of one's own: what a server declares, and what its client has declared of them.

use longhaul_proto::jsonrpc::{ErrorObject, clip, without_place};
use longhaul_proto::model::{DURABLE_TASKS, Meta, TASKS_EXTENSION};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::BuildError;
use super::context::Cx;
use super::once::Offer;

impl Cx {
    /// What the caller has declared of the extension `id`, read as `T`; `None` when it has not declared it. In the legacy
    /// era a client declares its extensions once for its session, if at all.
    ///
    /// # Errors
    ///
    /// `-32602` when it has declared something that is no `T`.
    pub fn extension<T: DeserializeOwned>(&self, id: &str) -> Result<Option<T>, ErrorObject> {
        let now = self.now();
        let Some(payload) = now.caller().capabilities.extensions.others.find(id) else { return Ok(None) };
        serde_json::from_str(payload.get()).map(Some).map_err(|error| {
            let problem = without_place(&error);
            ErrorObject::invalid_params(format!("the capability of extension {}: {problem}", clip(id)))
        })
    }
}

/// The extensions of a server, as it declares them.
pub(super) fn declared(
    extensions: Vec<(String, Option<Box<RawValue>>)>,
    has_tasks: bool,
) -> Result<Meta, BuildError> {
    let mut declared = Meta::new();
    if has_tasks {
        declared = declared.with(DURABLE_TASKS, &Offer::OURS);
    }
    for (id, payload) in extensions {
        let problem = if id == TASKS_EXTENSION || id == DURABLE_TASKS {
            Some("is declared when there are tasks, and not otherwise")
        } else if !is_identifier(&id) {
            Some("is no identifier: write a prefix and a name, as `com.example/weather`")
        } else if declared.find(&id).is_some() {
            Some("is declared twice")
        } else {
            None
        };
        if let Some(problem) = problem {
            return Err(BuildError::Extension { id, problem });
        }
        match payload {
            Some(payload) if payload.get().starts_with('{') => declared = declared.with(id, &payload),
            _ => {
                return Err(BuildError::Extension {
                    id,
                    problem: "says something of itself that is no JSON object",
                });
            }
        }
    }
    Ok(declared)
}

/// The rules of `_meta` keys (2026-07-28, Base Protocol, `_meta`), by which the prefix is not optional here.
fn is_identifier(id: &str) -> bool {
    let Some((prefix, name)) = id.split_once('/') else { return false };
    let ends = |text: &str, from: fn(u8) -> bool| match text.as_bytes() {
        [first, .., last] => from(*first) && last.is_ascii_alphanumeric(),
        [only] => from(*only),
        [] => false,
    };
    let within =
        |text: &str, others: &[u8]| text.bytes().all(|b| b.is_ascii_alphanumeric() || others.contains(&b));
    prefix.split('.').all(|label| ends(label, |first| first.is_ascii_alphabetic()) && within(label, b"-"))
        && (name.is_empty() || ends(name, |first| first.is_ascii_alphanumeric()) && within(name, b"-_."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_a_prefix_and_a_name() {
        for good in ["com.example/weather", "io.modelcontextprotocol/skills", "a/b", "a-b.c9/", "x.y/a_b.c-d"]
        {
            assert!(is_identifier(good), "{good}");
        }
        for bad in ["weather", "/weather", "9a/b", "a-/b", "a..b/c", "a/b/c", "a/-b", "a b/c", ""] {
            assert!(!is_identifier(bad), "{bad}");
        }
    }
}
