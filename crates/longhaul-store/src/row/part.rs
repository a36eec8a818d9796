//! A part as a row and back.

use std::fmt;

use super::Cells;
use crate::{Json, Part, PartContent, StoreError, error::corrupt};

/// The kind of a part.
pub(crate) fn kind(content: &PartContent) -> i64 {
    match content {
        PartContent::Text(_) => TEXT,
        PartContent::Json(_) => JSON,
    }
}

/// Reads a part: its kind, then its text.
pub(crate) fn decode(row: &impl Cells) -> Result<PartContent, StoreError> {
    let text = row.text(1).map_err(damaged)?.ok_or_else(|| damaged("null"))?;
    match row.int(0).map_err(damaged)? {
        Some(TEXT) => Ok(PartContent::Text(text.into())),
        Some(JSON) => Json::parse(text).map(PartContent::Json).map_err(damaged),
        other => Err(damaged(format!("kind {other:?}"))),
    }
}

/// The same with its key behind.
pub(crate) fn whole(row: &impl Cells) -> Result<Part, StoreError> {
    let key = row.text(2).map_err(damaged)?.ok_or_else(|| damaged("null"))?;
    Ok(Part::new(key, decode(row)?))
}

fn damaged(why: impl fmt::Display) -> StoreError {
    corrupt(format!("a part of a task: {why}"))
}

// Kinds as they are stored.
const TEXT: i64 = 0;
const JSON: i64 = 1;
