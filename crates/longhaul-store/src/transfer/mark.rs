//! The mark by which one of two stores alone is served.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{Place, TransferError};
use crate::{EntryKey, Holder, StoreError, Swap, Value, Version};

/// What a store says of itself that is out of service, for what is in it is in another one, too. Whoever opens it to serve it is
/// refused ([`StoreError::OutOfService`]).
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mark {
    /// It is being copied into this one, or was until that was broken off.
    Copying(String),
    /// It was copied into this one, which is served in its place.
    Moved(String),
    /// It is a copy of this one, and not whole yet.
    CopyOf(String),
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Copying(to) => write!(f, "is being copied to {to}"),
            Self::Moved(to) => write!(f, "has been copied to {to}; use that one"),
            Self::CopyOf(from) => write!(f, "is an unfinished copy of {from}"),
        }
    }
}

impl Mark {
    /// Under which it is kept.
    pub(crate) const KEY: EntryKey<'static> =
        EntryKey { holder: Holder::Server, kind: "transfer", name: "mark" };

    /// Of what is kept.
    pub(crate) fn read(kept: &[u8]) -> Result<Self, StoreError> {
        serde_json::from_slice(kept).map_err(|error| StoreError::Corrupt {
            what: "the mark of a store that is copied".to_owned(),
            source: Some(Arc::new(error)),
        })
    }

    fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("names can be written")
    }
}

/// Refuses whoever would serve a store in which this is kept.
#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
pub(crate) fn heed(kept: Option<&[u8]>) -> Result<(), StoreError> {
    match kept {
        None => Ok(()),
        Some(kept) => Err(StoreError::OutOfService { mark: Mark::read(kept)? }),
    }
}

/// Gives up a copy that is not whole: the store that was to be copied into the one of this name is served again. The other
/// one stays out of service, and need not be there. Tells whether there was such a copy.
///
/// # Errors
///
/// [`TransferError::InUse`] while somebody may still copy; [`TransferError::OutOfService`] for a copy that is whole, since
/// that one may have been served by now, and for a copy into another store; [`TransferError::Store`].
pub async fn abandon(from: Place<'_>, to: &str) -> Result<bool, TransferError> {
    let Some((version, mark)) = read(from).await? else { return Ok(false) };
    if mark != Mark::Copying(to.to_owned()) {
        return Err(from.out_of_service(mark));
    }
    // Of two that come at once, one at least sees the other.
    is_alone(from).await?;
    set(from, Some(version), None).await?;
    Ok(true)
}

/// The marks of both stores while one is copied.
pub(super) struct Marks<'a> {
    from: (Place<'a>, Option<Version>),
    to: (Place<'a>, Option<Version>),
}

impl<'a> Marks<'a> {
    /// Takes both out of service, unless somebody works on one of them.
    pub(super) async fn set(from: Place<'a>, to: Place<'a>) -> Result<Self, TransferError> {
        let (of_from, of_to) = (read(from).await?, read(to).await?);
        let (copying, moved) = (Mark::Copying(to.name.to_owned()), Mark::Moved(to.name.to_owned()));
        let copy = Mark::CopyOf(from.name.to_owned());
        match &of_from {
            None => {}
            Some((_, mark)) if *mark == copying => {}
            // Both are known to be whole, and the one was not put into service.
            Some((_, mark)) if *mark == moved && of_to.is_some() => {}
            Some((_, mark)) => return Err(from.out_of_service(mark.clone())),
        }
        if let Some((_, mark)) = &of_to
            && *mark != copy
        {
            return Err(to.out_of_service(mark.clone()));
        }
        // What is left of a copy that was given up would not be told from what has been done since.
        if (of_from.is_none() || of_to.is_none()) && !is_empty(to).await? {
            return Err(TransferError::NotEmpty { place: to.name.to_owned() });
        }
        let new = (of_from.is_none(), of_to.is_none());
        let (of_from, of_to) = (of_from.map(|found| found.0), of_to.map(|found| found.0));
        let of_to = if new.1 { set(to, None, Some(&copy)).await? } else { of_to };
        let of_from = if new.0 { set(from, None, Some(&copying)).await? } else { of_from };
        let marks = Self { from: (from, of_from), to: (to, of_to) };
        let alone = async {
            is_alone(from).await?;
            is_alone(to).await
        };
        if let Err(refusal) = alone.await {
            for ((place, version), is_new) in [(marks.from, new.0), (marks.to, new.1)] {
                if is_new {
                    set(place, version, None).await?;
                }
            }
            return Err(refusal);
        }
        Ok(marks)
    }

    /// Has the other one served from now on, unless the copy has been given up.
    pub(super) async fn pass(self) -> Result<(), TransferError> {
        let Self { from: (from, of_from), to: (to, of_to) } = self;
        set(from, of_from, Some(&Mark::Moved(to.name.to_owned()))).await?;
        set(to, of_to, None).await.map(drop)
    }
}

/// Whether nobody else is there.
async fn is_alone(place: Place<'_>) -> Result<(), TransferError> {
    match place.store.others().await? {
        0 => Ok(()),
        others => Err(TransferError::InUse { place: place.name.to_owned(), others }),
    }
}

async fn is_empty(place: Place<'_>) -> Result<bool, TransferError> {
    let store = place.store;
    if store.counts().await?.retained > 0 || !store.whole_streams(0).await?.is_empty() {
        return Ok(false);
    }
    let mut after = 0;
    loop {
        let entries = store.whole_entries(after).await?;
        let Some((last, _)) = entries.last() else { return Ok(true) };
        after = *last;
        if entries.iter().any(|(_, entry)| entry.key() != Mark::KEY) {
            return Ok(false);
        }
    }
}

async fn read(place: Place<'_>) -> Result<Option<(Version, Mark)>, StoreError> {
    let Some(entry) = place.store.entry(Mark::KEY).await? else { return Ok(None) };
    Ok(Some((entry.version, Mark::read(&entry.value)?)))
}

/// Puts this mark, or none, in the place of the one of this version.
async fn set(
    place: Place<'_>,
    expected: Option<Version>,
    mark: Option<&Mark>,
) -> Result<Option<Version>, TransferError> {
    let bytes = mark.map(Mark::bytes);
    let value = bytes.as_deref().map(Value::for_ever);
    match place.store.compare_and_set(Mark::KEY, expected, value).await? {
        Swap::Done(entry) => Ok(entry.map(|entry| entry.version)),
        Swap::Found(_) => Err(TransferError::Overtaken { place: place.name.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every later release reads what this one has put there.
    #[test]
    fn marks_of_an_earlier_build_are_read_as_what_they_were() {
        for (kept, mark) in [
            (r#"{"copying":"redis://a"}"#, Mark::Copying("redis://a".to_owned())),
            (r#"{"moved":"redis://a"}"#, Mark::Moved("redis://a".to_owned())),
            (r#"{"copy_of":"sqlite:a"}"#, Mark::CopyOf("sqlite:a".to_owned())),
        ] {
            assert_eq!(Mark::read(kept.as_bytes()).unwrap(), mark);
            assert_eq!(mark.bytes(), kept.as_bytes());
        }
        assert!(matches!(Mark::read(b"{}"), Err(StoreError::Corrupt { .. })));
    }
}
