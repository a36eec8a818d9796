//! An entry as it waits in line for a database.

use std::time::Duration;

use crate::{EntryKey, Owner, Value};

/// A key, which outlives whoever asked by it.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// Its account.
    pub(crate) owner: Option<Owner>,
    pub(crate) kind: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn of(key: EntryKey<'_>) -> Self {
        Self { owner: key.holder.account(), kind: key.kind.to_owned(), name: key.name.to_owned() }
    }
}

/// What is to be kept under it.
#[derive(Clone)]
pub(crate) struct Bytes {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ttl: Option<Duration>,
}

impl Bytes {
    pub(crate) fn of(value: Value<'_>) -> Self {
        Self { bytes: value.bytes.to_owned(), ttl: value.ttl }
    }
}
