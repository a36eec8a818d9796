//! A journal as bytes: it travels with a request, so that every one of them counts.
//!
//! A byte for the version, then each entry: its key, the fingerprint, and what was learnt as JSON text, or nothing.
//! Texts stand behind their length, of seven bits a byte.

use longhaul_store::Json;

use super::{Entry, Fingerprint, Journal};

const VERSION: u8 = 1;

/// Bytes that are no journal, or one of another version.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("these bytes are no journal that this version reads")]
#[non_exhaustive]
pub struct Damaged;

impl Journal {
    /// Appends it as bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        for (key, entry) in &self.entries {
            text(out, key);
            out.extend_from_slice(entry.of.as_bytes());
            // No JSON value is empty.
            text(out, entry.learnt.as_ref().map_or("", Json::as_str));
        }
    }

    /// Reads it back.
    ///
    /// # Errors
    ///
    /// [`Damaged`], whatever the bytes are.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damaged> {
        let Some((&VERSION, rest)) = bytes.split_first() else { return Err(Damaged) };
        let (mut rest, mut journal) = (rest, Self::new());
        while !rest.is_empty() {
            let key = read_text(&mut rest)?;
            let (of, after) = rest.split_first_chunk::<{ Fingerprint::LEN }>().ok_or(Damaged)?;
            rest = after;
            let learnt = match read_text(&mut rest)? {
                "" => None,
                json => Some(Json::parse(json).map_err(|_| Damaged)?),
            };
            if journal.entry(key).is_some() {
                return Err(Damaged);
            }
            journal.entries.push((key.into(), Entry { of: Fingerprint::new(*of), learnt }));
        }
        Ok(journal)
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    let mut length = text.len();
    while length > 0x7f {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(text.as_bytes());
}

fn read_text<'b>(bytes: &mut &'b [u8]) -> Result<&'b str, Damaged> {
    let mut length = 0_usize;
    for shift in (0..28).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or(Damaged)?;
        *bytes = rest;
        length |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            let (text, rest) = bytes.split_at_checked(length).ok_or(Damaged)?;
            *bytes = rest;
            return std::str::from_utf8(text).map_err(|_| Damaged);
        }
    }
    Err(Damaged)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes_of(journal: &Journal) -> Vec<u8> {
        let mut bytes = Vec::new();
        journal.encode(&mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn a_journal_is_read_back(
            entries in prop::collection::hash_map(".{0,200}", (any::<[u8; 16]>(), prop::option::of(".*")), 0..5),
        ) {
            let mut journal = Journal::new();
            for (key, (of, learnt)) in &entries {
                let of = Fingerprint::new(*of);
                match learnt {
                    None => journal.ask(key, of),
                    Some(text) => {
                        let json = serde_json::to_string(text).unwrap();
                        journal.learn(key, of, Json::parse(json).unwrap());
                    }
                }
            }
            let bytes = bytes_of(&journal);
            let read = Journal::decode(&bytes).unwrap();
            prop_assert_eq!(read.len(), entries.len());
            prop_assert_eq!(bytes_of(&read), bytes);
        }

        #[test]
        fn any_bytes_are_a_journal_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            for bytes in [bytes.clone(), [&[VERSION], &bytes[..]].concat()] {
                if let Ok(journal) = Journal::decode(&bytes) {
                    prop_assert_eq!(Journal::decode(&bytes_of(&journal)).unwrap().len(), journal.len());
                }
            }
        }
    }

    #[test]
    fn a_journal_that_is_cut_or_of_another_version_is_refused() {
        let mut journal = Journal::new();
        journal.learn("key", Fingerprint::new([7; 16]), Json::parse(r#"{"a":1}"#).unwrap());
        let bytes = bytes_of(&journal);
        assert_eq!(bytes.len(), 1 + 4 + 16 + 8);
        for end in 2..bytes.len() {
            assert_eq!(Journal::decode(&bytes[..end]).unwrap_err(), Damaged, "{end}");
        }
        assert!(Journal::decode(&[]).is_err() && Journal::decode(&[2]).is_err());
        assert!(Journal::decode(&[&bytes[..], &bytes[1..]].concat()).is_err(), "a key stands once");
    }
}
