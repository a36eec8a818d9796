//! The marks by which one of two stores alone is served.

use super::{Place, TransferError};
use crate::{EntryKey, Registry, StoreError, Swap, Value};

/// Takes the marks of an unfinished copy from the store that was to be copied, so that it is served again. The other one stays
/// marked, and can be thrown away.
///
/// # Errors
///
/// [`TransferError::Moved`] if the copy is finished, for that one may have been served since; [`TransferError::Store`].
pub async fn abandon(from: Place<'_>, to: Place<'_>) -> Result<(), TransferError> {
    if mark(to, FROM).await?.as_deref() != Some(from.name) {
        return match mark(from, TO).await? {
            Some(to) => Err(TransferError::Moved { place: from.name.to_owned(), to }),
            None => Ok(()),
        };
    }
    unmark(from, TO).await
}

/// Why this store is not to be served, if it is not: it was copied into another one, or is an unfinished copy.
///
/// # Errors
///
/// Those of reading it.
pub async fn refusal(name: &str, store: &dyn Registry) -> Result<Option<TransferError>, StoreError> {
    let place = || name.to_owned();
    if let Some(to) = read_mark(store, TO).await? {
        return Ok(Some(TransferError::Moved { place: place(), to }));
    }
    Ok(read_mark(store, FROM).await?.map(|from| TransferError::Unfinished { place: place(), from }))
}

/// Marks both; gives the marks that are new.
pub(super) async fn begin<'a>(
    from: Place<'a>,
    to: Place<'a>,
) -> Result<Vec<(Place<'a>, &'static str)>, TransferError> {
    let unfinished =
        |place: Place<'_>, from| Err(TransferError::Unfinished { place: place.name.to_owned(), from });
    let moved = |place: Place<'_>, to| Err(TransferError::Moved { place: place.name.to_owned(), to });
    if let Some(other) = mark(from, FROM).await? {
        return unfinished(from, other);
    }
    if let Some(other) = mark(to, TO).await? {
        return moved(to, other);
    }
    match (mark(from, TO).await?, mark(to, FROM).await?) {
        (Some(other), _) if other != to.name => moved(from, other),
        (_, Some(other)) if other != from.name => unfinished(to, other),
        // Finished, or broken off as it was given up: what is there would not be told from what came later.
        (Some(other), None) if !is_empty(to).await? => moved(from, other),
        (_, None) if !is_empty(to).await? => Err(TransferError::NotEmpty { place: to.name.to_owned() }),
        (of_from, of_to) => {
            let mut new = Vec::new();
            if of_to.is_none() {
                set_mark(to, FROM, from.name).await?;
                new.push((to, FROM));
            }
            if of_from.is_none() {
                set_mark(from, TO, to.name).await?;
                new.push((from, TO));
            }
            Ok(new)
        }
    }
}

async fn is_empty(place: Place<'_>) -> Result<bool, TransferError> {
    let store = place.store;
    Ok(store.counts().await?.retained == 0
        && store.whole_entries(0).await?.is_empty()
        && store.whole_streams(0).await?.is_empty())
}

async fn mark(place: Place<'_>, which: &'static str) -> Result<Option<String>, StoreError> {
    read_mark(place.store, which).await
}

async fn read_mark(
    store: &(impl Registry + ?Sized),
    which: &'static str,
) -> Result<Option<String>, StoreError> {
    let found = store.entry(EntryKey::of_server(KIND, which)).await?;
    Ok(found.map(|entry| String::from_utf8_lossy(&entry.value).into_owned()))
}

async fn set_mark(place: Place<'_>, which: &'static str, name: &str) -> Result<(), StoreError> {
    let value = Value { bytes: name.as_bytes(), ttl: None };
    place.store.put(EntryKey::of_server(KIND, which), value).await.map(drop)
}

pub(super) async fn unmark(place: Place<'_>, which: &'static str) -> Result<(), TransferError> {
    let key = EntryKey::of_server(KIND, which);
    let Some(found) = place.store.entry(key).await? else { return Ok(()) };
    match place.store.compare_and_set(key, Some(found.version), None).await? {
        Swap::Done(_) | Swap::Found(None) => Ok(()),
        Swap::Found(Some(_)) => Err(TransferError::InUse { place: place.name.to_owned(), others: 1 }),
    }
}

/// The kind of the marks.
pub(super) const KIND: &str = "transfer";

/// On a store that is copied, or was: into which.
const TO: &str = "to";

/// On an unfinished copy: of which.
pub(super) const FROM: &str = "from";
