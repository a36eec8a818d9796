//! The contract: what was sent in a stream, so that a client that lost its connection can be sent the rest.

use std::{fmt, sync::Arc};

use crate::{Limits, Owner, Quota, StoreError, StoreFuture};

/// Which stream: whose, in which session, and its name there.
///
/// All three are part of the key, so that an event id of another principal or session leads nowhere. A name is for one
/// stream: draw each from a cryptographic source, or never use it again within the session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Stream<'a> {
    /// To whom it belongs.
    pub owner: &'a Owner,
    /// The session it is part of.
    pub session: &'a str,
    /// What it is called there.
    pub name: &'a str,
}

impl<'a> Stream<'a> {
    /// The longest session and the longest name, in bytes.
    pub const MAX_NAME: usize = 256;

    /// This stream.
    #[must_use]
    pub fn new(owner: &'a Owner, session: &'a str, name: &'a str) -> Self {
        Self { owner, session, name }
    }

    pub(crate) fn check(self) -> Result<(), StoreError> {
        let found = self.session.len().max(self.name.len());
        if found > Self::MAX_NAME {
            return Err(StoreError::TooLarge { what: "a stream's name", found, limit: Self::MAX_NAME });
        }
        Ok(())
    }
}

/// Something that was sent.
#[derive(Clone, Eq, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// Its number in its stream, from 1 on without a gap.
    pub number: u64,
    /// Its text; empty if it was sent only so that its id is known.
    pub text: Arc<str>,
}

impl Event {
    /// This event.
    #[must_use]
    pub fn new(number: u64, text: impl Into<Arc<str>>) -> Self {
        Self { number, text: text.into() }
    }
}

/// The text belongs to its owner and not in a log.
impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({}, {} bytes)", self.number, self.text.len())
    }
}

/// What was sent in streams, for as long as they can be resumed; shared by any number of nodes.
///
/// **Atomic** and **cancel safe** as a [`TaskStore`](crate::TaskStore), at its durability; but an append may not simply
/// be made again, for it would be a second event.
///
/// **Bounded.** Of each stream the newest events are kept ([`Limits::max_stream_events`], [`Limits::max_stream_bytes`]),
/// until [`Settings::event_retention`](crate::Settings) has passed since the latest, or since it was prolonged. What an owner and the store may
/// hold in all is refused beyond.
///
/// **Scoped.** Every operation takes the owner. A stream that is somebody else's, forgotten or never was are one.
///
/// ```
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// use longhaul_store::{EventStore, Memory, Owner, Stream};
///
/// let (store, ann) = (Memory::new(), Owner::principal("ann")?);
/// let stream = Stream::new(&ann, "session", "stream");
/// let seen = store.append(stream, "").await?;
/// store.append(stream, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await?;
/// let missed = store.replay(stream, seen, 100).await?.expect("it can be resumed");
/// assert_eq!(missed[0].number, seen + 1);
/// # Ok(()) }
/// ```
pub trait EventStore: fmt::Debug + Send + Sync {
    /// Adds an event to a stream, which begins with its first, and returns its number. The oldest events go where it
    /// needs their room.
    ///
    /// # Errors
    ///
    /// [`StoreError::TooLarge`], [`StoreError::Overloaded`]; in each case nothing has changed.
    fn append<'a>(&'a self, stream: Stream<'a>, text: &'a str) -> StoreFuture<'a, u64>;

    /// The events after the one numbered `after` (0 for all), oldest first: at most `limit` (1 to 1,000; a limit
    /// outside is brought to the nearest), or fewer if they are large. Empty once there are no more.
    ///
    /// `None` if this cannot be told without a gap: there is no such stream, the event after it is no longer kept, or
    /// it never was.
    fn replay<'a>(
        &'a self,
        stream: Stream<'a>,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Option<Vec<Event>>>;

    /// Keeps a stream for as long as if its newest event had come now, and returns the number of that. `None` if there is no such
    /// stream.
    ///
    /// # Errors
    ///
    /// When the store cannot be written now; the stream is forgotten when it would have been.
    fn prolong<'a>(&'a self, stream: Stream<'a>) -> StoreFuture<'a, Option<u64>>;

    /// Forgets every stream of a session that has ended; returns how many they were.
    fn trim<'a>(&'a self, owner: &'a Owner, session: &'a str) -> StoreFuture<'a, usize>;

    /// Makes room by removing at most `limit` streams whose time is up; returns how many. Any node may, at any time.
    fn sweep_streams(&self, limit: usize) -> StoreFuture<'_, usize>;
}

/// What an event takes of its stream's and its owner's room: a row and its keys are not free either.
pub(crate) fn room(text: &str) -> u64 {
    (text.len() + OVERHEAD) as u64
}

/// A stream as it stands, without its events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kept {
    /// The number of the newest.
    pub(crate) last: u64,
    /// How many are kept: the newest, without a gap.
    pub(crate) count: u64,
    /// What they take.
    pub(crate) bytes: u64,
}

impl Kept {
    /// Whether what comes after this event can be told.
    pub(crate) fn follows(self, after: u64) -> bool {
        after <= self.last && after >= self.last - self.count
    }

    /// The number of the oldest.
    pub(crate) fn first(self) -> u64 {
        self.last - self.count + 1
    }

    /// Adds an event that takes this much, and lets the oldest go whose room it needs; `oldest` tells of each, from
    /// the first on, what it takes.
    ///
    /// # Errors
    ///
    /// [`StoreError::TooLarge`] if even alone it takes too much.
    pub(crate) fn push(
        &mut self,
        room: u64,
        limits: &Limits,
        mut oldest: impl FnMut() -> Result<Option<u64>, StoreError>,
    ) -> Result<(), StoreError> {
        let limit = limits.max_stream_bytes as u64;
        if room > limit {
            return Err(StoreError::TooLarge {
                what: "an event",
                found: room as usize,
                limit: limits.max_stream_bytes,
            });
        }
        while self.count > 0 && (self.count >= limits.max_stream_events || self.bytes + room > limit) {
            self.bytes = self.bytes.saturating_sub(oldest()?.unwrap_or(0));
            self.count -= 1;
        }
        self.last += 1;
        self.count += 1;
        self.bytes += room;
        Ok(())
    }
}

#[cfg(any(feature = "postgres", feature = "sqlite"))]
impl Kept {
    /// What a stream was that is copied, before the first of its events is.
    pub(crate) fn behind(last: u64) -> Self {
        Self { last, ..Self::default() }
    }

    /// Adds an event as it is: it takes this much.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupt`] if it does not follow what is there.
    pub(crate) fn take(&mut self, event: &Event) -> Result<u64, StoreError> {
        if event.number != self.last + 1 {
            return Err(follows_not());
        }
        let room = room(&event.text);
        self.last += 1;
        self.count += 1;
        self.bytes += room;
        Ok(room)
    }
}

/// Events that are copied do not follow those that are there.
#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
pub(crate) fn follows_not() -> StoreError {
    crate::error::corrupt("events of a stream do not follow one another")
}

impl Limits {
    /// Refuses more bytes of events of one owner or in all than there may be.
    pub(crate) fn admit_events(&self, own: u64, all: u64) -> Result<(), StoreError> {
        let quotas = [
            (Quota::EventBytesPerOwner, own, self.max_event_bytes_per_owner),
            (Quota::EventBytes, all, self.max_event_bytes),
        ];
        match quotas.into_iter().find(|(_, wanted, limit)| wanted > limit) {
            Some((what, _, limit)) => Err(StoreError::Overloaded { what, limit }),
            None => Ok(()),
        }
    }
}

/// The most events of one replay.
pub(crate) const LONGEST_REPLAY: usize = 1000;

/// The bytes of text after which a replay ends.
pub(crate) const LARGEST_REPLAY: usize = 4 << 20;

const OVERHEAD: usize = 512;
