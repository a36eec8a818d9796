//! Batches: several messages in one array, which only 2025-03-26 has.

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::message::{DecodeError, Limits, not_a_message};
use super::scan::Scanner;

/// The most messages of one batch.
pub const MAX_BATCH: usize = 64;

/// Whether bytes are a batch, if they are anything.
pub fn is_batch(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().first() == Some(&b'[')
}

/// The text of each message of a batch, none of them read yet.
///
/// # Errors
///
/// When the bytes are no array within `limits`, or one of no or too many messages.
pub fn split_batch<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Vec<&'a [u8]>, DecodeError> {
    if bytes.len() > limits.max_bytes {
        return Err(DecodeError::TooLong { limit: limits.max_bytes });
    }
    let text = std::str::from_utf8(bytes).map_err(DecodeError::NotUtf8)?;
    let mut scanner = Scanner::new(text, limits.max_depth + 1);
    scanner.value().and_then(|_| scanner.end()).map_err(DecodeError::NotJson)?;
    let mut reader = serde_json::Deserializer::from_str(text);
    match reader.deserialize_seq(Messages) {
        Ok(messages) if messages.is_empty() => Err(not_a_message("a batch must hold a message", None)),
        Ok(messages) if messages.len() > MAX_BATCH => {
            Err(not_a_message("a batch may hold 64 messages at most", None))
        }
        Ok(messages) => Ok(messages),
        Err(_) => Err(not_a_message("a batch is an array", None)),
    }
}

struct Messages;

impl<'a> Visitor<'a> for Messages {
    type Value = Vec<&'a [u8]>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an array of messages")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut messages = Vec::new();
        while let Some(message) = seq.next_element::<&RawValue>()? {
            // One too many is enough to refuse them all.
            if messages.len() <= MAX_BATCH {
                messages.push(message.get().as_bytes());
            }
        }
        Ok(messages)
    }
}

/// Joins messages to a batch.
pub fn join_batch<M: AsRef<[u8]>>(messages: &[M]) -> Vec<u8> {
    let mut out =
        Vec::with_capacity(2 + messages.iter().map(|message| message.as_ref().len() + 1).sum::<usize>());
    out.push(b'[');
    for (index, message) in messages.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(message.as_ref());
    }
    out.push(b']');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Result<Vec<String>, String> {
        let messages = split_batch(text.as_bytes(), &Limits::default()).map_err(|error| error.to_string())?;
        Ok(messages.into_iter().map(|message| String::from_utf8(message.to_vec()).unwrap()).collect())
    }

    #[test]
    fn messages_are_cut_out_of_a_batch() {
        assert_eq!(split(r#" [ {"a":[1]} , 7 ] "#), Ok(vec![r#"{"a":[1]}"#.into(), "7".into()]));
        assert_eq!(join_batch(&["{}", "7"]), b"[{},7]");
        assert!(is_batch(b" \t[") && !is_batch(b"{}") && !is_batch(b""));
    }

    #[test]
    fn empty_long_and_broken_batches_are_refused() {
        assert!(split("[]").unwrap_err().contains("must hold a message"));
        assert!(split(&format!("[{}]", ["1"; MAX_BATCH].join(","))).is_ok());
        assert!(split(&format!("[{}]", ["1"; MAX_BATCH + 1].join(","))).unwrap_err().contains("at most"));
        for broken in ["[", "[1", "[1,]", "[1] 2", "{}", ""] {
            assert!(split(broken).is_err(), "{broken}");
        }
    }
}
