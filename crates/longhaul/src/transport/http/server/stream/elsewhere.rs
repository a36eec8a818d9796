//! Streams that another node carries, for as long as their client comes here for them.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::super::answer::Sent;
use super::super::notes::Note;
use super::{Begun, EventId, GOES_ON, GoOn, Resumed, Stream, Streams, goes_on, is_last, lock};

/// How often what another node sends is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How often it is looked whether that node is there.
const LOOK_AFTER_NODE_EVERY: Duration = Duration::from_secs(1);

/// How long another node of whose request nothing was noted may send nothing before its client is let go.
const LONGEST_SILENCE: Duration = Duration::from_secs(30);

/// A stream that is followed here, and how far.
pub(super) struct Followed {
    pub(super) stream: Arc<Stream>,
    /// The event that was sent last.
    pub(super) last: u64,
}

impl Streams {
    /// What comes in a stream that another node carries behind this event. `None` if nobody wants any of it.
    pub(super) async fn take_in(
        self: &Arc<Self>,
        last: &EventId,
        Resumed { go_on, .. }: Resumed,
    ) -> Option<mpsc::Receiver<Box<Sent>>> {
        if self.noted(&last.stream).await.is_some_and(|note| note.again.is_unwanted()) {
            return None;
        }
        let (stream, live) = {
            let mut known = lock(&self.known);
            if let Some(stream) = known.get(&last.stream) {
                // Its client has come back here before.
                return stream.take_over();
            }
            let (stream, live) = Stream::with(Arc::clone(&last.stream));
            known.insert(Arc::clone(&last.stream), Arc::clone(&stream));
            (stream, live)
        };
        let followed = Followed { stream, last: last.number };
        tokio::spawn(Arc::clone(self).follow(followed, go_on));
        Some(live)
    }

    /// Sends what another node sends in a stream, until that is its answer, or no client is there for it. If the node is gone, this
    /// one goes on with the request by `go_on`, where something was noted of it; else nothing more comes: then the client is let
    /// go, and may look again.
    async fn follow(self: Arc<Self>, mut followed: Followed, go_on: GoOn) {
        let stream = Arc::clone(&followed.stream);
        let (mut heard, mut looked, mut missing) = (Instant::now(), Instant::now(), None);
        while !self.end_if(&stream, |state| !state.has_client()) {
            match self.pass_on(&mut followed).await {
                ControlFlow::Break(()) => break,
                ControlFlow::Continue(true) => (heard, missing) = (Instant::now(), None),
                ControlFlow::Continue(false) if looked.elapsed() >= LOOK_AFTER_NODE_EVERY => {
                    looked = Instant::now();
                    match self.noted(&stream.name).await {
                        Some(note) if note.again.is_unwanted() => break,
                        Some(note) if self.is_gone(&note, &mut missing).await => {
                            return Box::pin(self.go_on(followed, &note, go_on)).await;
                        }
                        Some(_) => heard = Instant::now(),
                        None if heard.elapsed() >= LONGEST_SILENCE => break,
                        None => {}
                    }
                }
                ControlFlow::Continue(false) => {}
            }
            sleep(LOOK_EVERY).await;
        }
        self.end(&stream);
    }

    /// Sends what has come in a stream; whether anything has. It breaks if that was the last, or cannot be read.
    async fn pass_on(&self, followed: &mut Followed) -> ControlFlow<(), bool> {
        let (stream, before) = (Arc::clone(&followed.stream), followed.last);
        loop {
            let Some(events) = self.read(&stream.name, followed.last).await else {
                return ControlFlow::Break(());
            };
            if events.is_empty() {
                return ControlFlow::Continue(followed.last > before);
            }
            for event in events {
                followed.last = event.number;
                if goes_on(&event) {
                    continue;
                }
                stream.send(Sent::of(&stream.name, &event)).await;
                if is_last(&stream.name, &event) {
                    return ControlFlow::Break(());
                }
            }
        }
    }

    /// Goes on with a stream in the place of a node that is gone. Should that come back, it finds that it is left.
    pub(super) async fn go_on(self: Arc<Self>, mut followed: Followed, note: &Note, go_on: GoOn) {
        let stream = Arc::clone(&followed.stream);
        let Ok(mark) = self.events.append(self.key(&stream.name), GOES_ON).await else {
            return self.end(&stream);
        };
        {
            let mut state = stream.lock();
            (state.last, state.gone_on_with) = (mark, true);
        }
        // What was said before that counts: without it nothing can be.
        if self.pass_on(&mut followed).await.is_break() {
            return self.end(&stream);
        }
        let Some(Begun { first, rest, mut noting }) = go_on(note, &stream) else {
            self.note_left(&stream, note).await;
            return self.end(&stream);
        };
        self.note(&stream, &mut noting).await;
        self.carry(stream, Begun { first, rest, noting }).await;
    }
}
