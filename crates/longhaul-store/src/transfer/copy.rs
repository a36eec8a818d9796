//! Copying, and holding the copy against what it was made of.

use super::{
    Copied, Place, Transfer, TransferError, WholeStream, WholeTask,
    mark::{FROM, KIND, begin, unmark},
};
use crate::{Event, StoreError, Value};

/// Copies all of one store into another, which holds nothing or what an earlier call has left unfinished. `tell` is told how much
/// is done, of how much: first of the copying, then of holding the copy against what it was made of.
///
/// Dropping the future breaks it off.
///
/// # Errors
///
/// [`TransferError`], with nothing changed unless it is [`Store`](TransferError::Store) or
/// [`Differs`](TransferError::Differs): then the copy is unfinished.
pub async fn copy(
    from: Place<'_>,
    to: Place<'_>,
    tell: &mut (dyn FnMut(u64, u64) + Send),
) -> Result<Copied, TransferError> {
    let new_marks = begin(from, to).await?;
    for place in [from, to] {
        let others = place.store.others().await?;
        if others > 0 {
            for (place, which) in new_marks {
                unmark(place, which).await?;
            }
            return Err(TransferError::InUse { place: place.name.to_owned(), others });
        }
    }
    let total = from.store.counts().await?.retained * 2;
    let entries = copy_entries(from, to).await?;
    let streams = copy_streams(from, to).await?;
    let tasks = copy_tasks(from, to, &mut |done| tell(done, total)).await?;
    compare(from, to, &mut |done| tell(tasks + done, total)).await?;
    unmark(to, FROM).await?;
    Ok(Copied { tasks, entries, streams })
}

/// Copies the entries that are still there; tells how many.
async fn copy_entries(from: Place<'_>, to: Place<'_>) -> Result<u64, TransferError> {
    let (mut after, mut copied) = (0, 0);
    loop {
        let some = from.store.whole_entries(after).await?;
        let Some((last, _)) = some.last() else { return Ok(copied) };
        after = *last;
        for (_, entry) in &some {
            let now = from.store.now();
            if entry.kind == KIND || entry.expires_at.is_some_and(|at| at <= now) {
                continue;
            }
            let ttl = entry.expires_at.map(|at| at.since(now));
            to.store.put(entry.key(), Value { bytes: &entry.value, ttl }).await?;
            copied += 1;
        }
    }
}

/// Copies the streams that are still there; tells how many.
async fn copy_streams(from: Place<'_>, to: Place<'_>) -> Result<u64, TransferError> {
    let (mut after, mut copied) = (0, 0);
    loop {
        let some = from.store.whole_streams(after).await?;
        let Some((last, _)) = some.last() else { return Ok(copied) };
        after = *last;
        for (_, stream) in &some {
            copied += u64::from(copy_stream(from, to, stream).await?);
        }
    }
}

/// Copies what is not there yet of a stream, and holds all of it against what it was made of; whether there is such a stream.
async fn copy_stream(from: Place<'_>, to: Place<'_>, stream: &WholeStream) -> Result<bool, TransferError> {
    let (name, mut after) = (stream.stream(), stream.begins_after);
    let mut is_begun = to.store.replay(name, after, 1).await?.is_some();
    while after < stream.last {
        // Its time may be up by now.
        let Some(events) = from.store.replay(name, after, 1_000).await? else { return Ok(false) };
        for event in &events {
            if !is_begun {
                to.store.begin_stream(stream).await?;
                is_begun = true;
            }
            let there = to.store.replay(name, after, 1).await?.unwrap_or_default().into_iter().next();
            let there = match there {
                Some(there) => there,
                None => Event::new(to.store.append(name, &event.text).await?, &*event.text),
            };
            if there != *event {
                let what = format!("event {} of a stream of session {}", event.number, stream.session);
                return Err(TransferError::Differs { place: to.name.to_owned(), what });
            }
            after = event.number;
        }
    }
    Ok(is_begun)
}

async fn copy_tasks(
    from: Place<'_>,
    to: Place<'_>,
    tell: &mut (dyn FnMut(u64) + Send),
) -> Result<u64, TransferError> {
    let (mut after, mut copied) = (0, 0);
    loop {
        let some = from.store.whole_tasks(after).await?;
        let Some((last, _)) = some.last() else { return Ok(copied) };
        after = *last;
        copied += some.len() as u64;
        let tasks: Vec<WholeTask> = some.into_iter().map(|(_, task)| task).collect();
        match to.store.take_tasks(tasks.clone()).await {
            // Some were copied before this was broken off.
            Err(StoreError::AlreadyExists { .. }) => {
                for task in tasks {
                    match to.store.take_tasks(vec![task]).await {
                        Ok(()) | Err(StoreError::AlreadyExists { .. }) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            taken => taken?,
        }
        tell(copied);
    }
}

/// Holds all of the copy against what it was made of.
async fn compare(
    from: Place<'_>,
    to: Place<'_>,
    tell: &mut (dyn FnMut(u64) + Send),
) -> Result<(), TransferError> {
    let differs = |what: String| TransferError::Differs { place: to.name.to_owned(), what };
    let (mut these, mut those) = (Tasks::of(from.store), Tasks::of(to.store));
    let mut done = 0;
    loop {
        match (these.next().await?, those.next().await?) {
            (None, None) => break,
            (Some(this), Some(that)) if this == that => {}
            (Some(other), _) | (None, Some(other)) => {
                return Err(differs(format!("task {}", other.record.id)));
            }
        }
        done += 1;
        if done % 1_000 == 0 {
            tell(done);
        }
    }
    tell(done);
    let mut after = 0;
    loop {
        let some = from.store.whole_entries(after).await?;
        let Some((last, _)) = some.last() else { return Ok(()) };
        after = *last;
        for (_, entry) in some.iter().filter(|(_, entry)| entry.kind != KIND) {
            let found = to.store.entry(entry.key()).await?;
            let is_gone = entry.expires_at.is_some_and(|at| at <= from.store.now());
            if !is_gone && found.is_none_or(|found| found.value != entry.value) {
                return Err(differs(format!("entry {} of kind {}", entry.name, entry.kind)));
            }
        }
    }
}

/// All tasks of a store, one by one.
struct Tasks<'a> {
    store: &'a dyn Transfer,
    after: u64,
    some: std::vec::IntoIter<(u64, WholeTask)>,
}

impl<'a> Tasks<'a> {
    fn of(store: &'a dyn Transfer) -> Self {
        Self { store, after: 0, some: Vec::new().into_iter() }
    }

    async fn next(&mut self) -> Result<Option<WholeTask>, StoreError> {
        if self.some.as_slice().is_empty() {
            self.some = self.store.whole_tasks(self.after).await?.into_iter();
        }
        let Some((place, task)) = self.some.next() else { return Ok(None) };
        self.after = place;
        Ok(Some(task.into_copied()))
    }
}
