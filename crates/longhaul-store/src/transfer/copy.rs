//! Copying, and holding the copy against what it was made of.

use std::time::Duration;

use super::{
    Copied, Place, Progress, Transfer, TransferError, WholeStream, WholeTask,
    mark::{Mark, Marks},
};
use crate::{Event, StoreError, Time, Value};

/// Copies all of one store into another, which holds nothing or what an earlier call has left unfinished. `tell` is told how far
/// it is, time and again.
///
/// Dropping the future breaks it off.
///
/// # Errors
///
/// [`TransferError`]. With [`Store`](TransferError::Store), [`Differs`](TransferError::Differs) and
/// [`Overtaken`](TransferError::Overtaken) the copy may be there, and is unfinished; with all others nothing has changed.
pub async fn copy(
    from: Place<'_>,
    to: Place<'_>,
    tell: &mut (dyn FnMut(Progress) + Send),
) -> Result<Copied, TransferError> {
    let marks = Marks::set(from, to).await?;
    let tasks = from.store.counts().await?.retained;
    let mut work =
        Work { from, to, progress: Progress { done: Copied::default(), tasks, is_copied: false }, tell };
    work.copy_entries().await?;
    work.copy_streams().await?;
    work.copy_tasks().await?;
    let copied = work.progress.done;
    work.progress = Progress { done: Copied::default(), tasks, is_copied: true };
    work.compare_entries().await?;
    work.compare_streams().await?;
    work.compare_tasks().await?;
    marks.pass().await?;
    Ok(copied)
}

/// A copy that is being made.
struct Work<'a> {
    from: Place<'a>,
    to: Place<'a>,
    progress: Progress,
    tell: &'a mut (dyn FnMut(Progress) + Send),
}

impl Work<'_> {
    fn tell(&mut self) {
        (self.tell)(self.progress);
    }

    fn differs(&self, what: impl Into<String>) -> TransferError {
        TransferError::Differs { place: self.to.name.to_owned(), what: what.into() }
    }

    /// Those that are still there.
    async fn copy_entries(&mut self) -> Result<(), TransferError> {
        let (from, to) = (self.from.store, self.to.store);
        let mut after = 0;
        loop {
            let some = from.whole_entries(after).await?;
            let Some((last, _)) = some.last() else { return Ok(()) };
            after = *last;
            for (_, entry) in &some {
                let left = left(entry.expires_at, from);
                if entry.key() == Mark::KEY || left == Some(Duration::ZERO) {
                    continue;
                }
                to.put(entry.key(), Value { bytes: &entry.value, ttl: left }).await?;
                self.progress.done.entries += 1;
            }
            self.tell();
        }
    }

    async fn compare_entries(&mut self) -> Result<(), TransferError> {
        for (one, other) in [(self.from, self.to), (self.to, self.from)] {
            let (one, other) = (one.store, other.store);
            let mut after = 0;
            loop {
                let some = one.whole_entries(after).await?;
                let Some((last, _)) = some.last() else { break };
                after = *last;
                for (_, entry) in some.iter().filter(|(_, entry)| entry.key() != Mark::KEY) {
                    let left = left(entry.expires_at, one);
                    if is_short(left) {
                        continue;
                    }
                    let found = other.entry(entry.key()).await?.filter(|found| found.value == entry.value);
                    if !found.is_some_and(|found| is_alike(left, self::left(found.expires_at, other))) {
                        return Err(self.differs(format!("an entry of kind {}", entry.kind)));
                    }
                    self.progress.done.entries += 1;
                }
                self.tell();
            }
        }
        Ok(())
    }

    async fn copy_streams(&mut self) -> Result<(), TransferError> {
        let mut after = 0;
        loop {
            let some = self.from.store.whole_streams(after).await?;
            let Some((last, _)) = some.last() else { return Ok(()) };
            after = *last;
            for (_, stream) in &some {
                self.copy_stream(stream).await?;
                self.progress.done.streams += 1;
                self.tell();
            }
        }
    }

    /// Copies what is not there yet, and holds the rest against what it was made of.
    async fn copy_stream(&mut self, stream: &WholeStream) -> Result<(), TransferError> {
        let (from, to, name) = (self.from.store, self.to.store, stream.stream());
        let mut after = stream.begins_after;
        while after < stream.last {
            // Its time may be up by now.
            let Some(events) = events(from, stream, after).await? else { break };
            let there = to.replay(name, after, MOST_EVENTS).await?.unwrap_or_default();
            let alike = there.iter().zip(&events).take_while(|(this, that)| this == that).count();
            if alike < there.len().min(events.len()) {
                return Err(self.differs(of_session(stream)));
            }
            let many = if there.is_empty() { events.len() } else { alike };
            if there.is_empty() {
                let left = left(Some(stream.expires_at), from).unwrap_or_default();
                let stream = WholeStream { expires_at: to.now().after(left), ..stream.clone() };
                to.take_events(stream, events).await?;
            }
            after += many as u64;
            self.progress.done.events += many as u64;
            self.tell();
        }
        Ok(())
    }

    async fn compare_streams(&mut self) -> Result<(), TransferError> {
        for is_copy in [false, true] {
            let store = if is_copy { self.to.store } else { self.from.store };
            let mut after = 0;
            loop {
                let some = store.whole_streams(after).await?;
                let Some((last, _)) = some.last() else { break };
                after = *last;
                for (_, stream) in &some {
                    if is_short(left(Some(stream.expires_at), store)) {
                        continue;
                    }
                    if is_copy {
                        // Nothing is behind what was copied.
                        if self.from.store.replay(stream.stream(), stream.last, 1).await?.is_none() {
                            return Err(self.differs(of_session(stream)));
                        }
                    } else {
                        self.compare_stream(stream).await?;
                        self.progress.done.streams += 1;
                    }
                }
                self.tell();
            }
        }
        Ok(())
    }

    async fn compare_stream(&mut self, stream: &WholeStream) -> Result<(), TransferError> {
        let mut after = stream.begins_after;
        while after < stream.last {
            let Some(these) = events(self.from.store, stream, after).await? else { break };
            let those = self.to.store.replay(stream.stream(), after, MOST_EVENTS).await?.unwrap_or_default();
            let alike = these.iter().zip(&those).take_while(|(this, that)| this == that).count();
            if alike == 0 || alike < these.len().min(those.len()) {
                return Err(self.differs(of_session(stream)));
            }
            after += alike as u64;
            self.progress.done.events += alike as u64;
            self.tell();
        }
        Ok(())
    }

    async fn copy_tasks(&mut self) -> Result<(), TransferError> {
        let (from, to) = (self.from.store, self.to.store);
        let mut after = 0;
        loop {
            let some = from.whole_tasks(after).await?;
            let Some((last, _)) = some.last() else { return Ok(()) };
            after = *last;
            self.progress.done.tasks += some.len() as u64;
            let tasks: Vec<WholeTask> = some.into_iter().map(|(_, task)| task).collect();
            match to.take_tasks(tasks.clone()).await {
                // Some were copied before this was broken off.
                Err(StoreError::AlreadyExists { .. }) => {
                    for task in tasks {
                        match to.take_tasks(vec![task]).await {
                            Ok(()) | Err(StoreError::AlreadyExists { .. }) => {}
                            Err(error) => return Err(error.into()),
                        }
                    }
                }
                taken => taken?,
            }
            self.tell();
        }
    }

    async fn compare_tasks(&mut self) -> Result<(), TransferError> {
        let (mut these, mut those) = (Tasks::of(self.from.store), Tasks::of(self.to.store));
        loop {
            match (these.next().await?, those.next().await?) {
                (None, None) => break,
                (Some(this), Some(that)) if this == that => {}
                (Some(other), _) | (None, Some(other)) => {
                    return Err(self.differs(format!("task {}", other.record.id)));
                }
            }
            self.progress.done.tasks += 1;
            if self.progress.done.tasks.is_multiple_of(1_000) {
                self.tell();
            }
        }
        self.tell();
        Ok(())
    }
}

/// Some events of a stream behind one that is not its last; `None` once its time is up.
async fn events(
    store: &dyn Transfer,
    stream: &WholeStream,
    after: u64,
) -> Result<Option<Vec<Event>>, TransferError> {
    let events = store.replay(stream.stream(), after, MOST_EVENTS).await?;
    if events.as_ref().is_some_and(Vec::is_empty) {
        let what = format!("event {} of a stream is missing", after + 1);
        return Err(StoreError::Corrupt { what, source: None }.into());
    }
    Ok(events)
}

fn of_session(stream: &WholeStream) -> String {
    format!("a stream of session {}", stream.session)
}

/// How long is left until then, by the clock of the store that says so.
fn left(until: Option<Time>, store: &dyn Transfer) -> Option<Duration> {
    until.map(|until| until.since(store.now()))
}

/// Whether it is gone before long, so that nothing follows from where it is missing.
fn is_short(left: Option<Duration>) -> bool {
    left.is_some_and(|left| left <= SLACK)
}

/// Whether two last equally long, as near as two clocks can tell.
fn is_alike(this: Option<Duration>, that: Option<Duration>) -> bool {
    match (this, that) {
        (Some(this), Some(that)) => this.abs_diff(that) <= SLACK,
        (this, that) => this == that,
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

/// How far two ends of one thing may be apart: it is written some time after what is left of it was seen.
const SLACK: Duration = Duration::from_secs(60);

/// How many events are read at once.
const MOST_EVENTS: usize = 1_000;
