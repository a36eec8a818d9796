//! What is noted for other nodes of the request that a stream is for.

use std::sync::Arc;

use longhaul_proto::jsonrpc::RequestId;
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep};

use super::super::notes::{GONE, Note, Noting};
use super::{End, LONGEST_HELD, NOTE_AGAIN, PAGE, Stream, Streams};
use crate::hex::hex;
use crate::server::Again;

/// How the names of streams begin that carry nothing, but say of others what was noted of their requests.
const NOTES: char = 'n';

/// How those begin that say of a call what was noted of it, by its request.
const CALLS: char = 'r';

/// Whether what is in a stream of this name is for nodes alone.
pub(super) fn is_of_notes(name: &str) -> bool {
    name.starts_with([NOTES, CALLS])
}

impl Streams {
    /// Notes for other nodes what there is to know of the request whose stream it is, or has them know it for longer. Without that its
    /// answer is this node's alone.
    pub(super) async fn note(&self, stream: &Stream, noting: &mut Option<Noting>) {
        let Some(noting) = noting else { return };
        let note = noting.note();
        let mut is_noted = self.note_as(&of(stream), &note, noting.is_noted).await;
        // Whoever cancels a call knows no stream.
        if note.own_task().is_some() {
            is_noted &= self.note_as(&call(&note.id), &note, noting.is_noted).await;
            noting.is_call_noted = true;
        }
        noting.is_noted = is_noted;
    }

    /// Whether others know this by that name now. If they do already, it is renewed.
    async fn note_as(&self, name: &str, note: &Note, is_known: bool) -> bool {
        let noted = if is_known {
            self.events.prolong(self.key(name)).await.map(|newest| newest.is_some())
        } else {
            self.events.append(self.key(name), &note.to_string()).await.map(|_| true)
        };
        noted.unwrap_or_else(|error| {
            tracing::debug!(%error, "other servers do not know now how a request stands");
            false
        })
    }

    /// Ends a stream, and notes that this node owes the answer no more. One that was not kept is for others to give, and a call that
    /// is over is not theirs to cancel.
    pub(super) async fn end_noted(&self, stream: &Arc<Stream>, mut noting: Noting, end: End) {
        let mut note = Note { is_over: true, ..noting.note() };
        let of_call = noting.is_call_noted.then(|| call(&note.id));
        let of_stream = (end != End::Answered).then(|| of(stream));
        if of_stream.is_none() {
            self.end(stream);
        }
        let mut left: Vec<(String, Note)> = of_stream.map(|name| (name, note.clone())).into_iter().collect();
        if let Some(name) = of_call {
            if end != End::Left {
                note.again = Again::Lost;
            }
            left.push((name, note));
        }
        let begun = Instant::now();
        loop {
            let mut failed = Vec::new();
            for (name, note) in left {
                if !self.note_as(&name, &note, false).await {
                    failed.push((name, note));
                }
            }
            // Whoever comes back from now on finds what is noted.
            self.end(stream);
            // Until it is, they wait for this node.
            if failed.is_empty() || begun.elapsed() >= LONGEST_HELD {
                return;
            }
            left = failed;
            sleep(NOTE_AGAIN).await;
        }
    }

    /// That its node owes it no more, for it cannot be gone on with now: whichever node its client comes to next tries again, even if
    /// the one that is gone is back.
    pub(super) async fn note_left(&self, stream: &Stream, note: &Note) {
        self.note_as(&of(stream), &Note { is_over: true, ..note.clone() }, false).await;
    }

    /// What was noted last of the request that a stream is for.
    pub(super) async fn noted(&self, stream: &str) -> Option<Note> {
        self.noted_as(&format!("{NOTES}{stream}")).await
    }

    /// The task that the call of that request has become, once the node is gone that owes its answer. `None` if it is none, or the
    /// node is there still.
    pub(in super::super) async fn task_left_by(&self, id: &RequestId) -> Option<String> {
        let (name, mut missing, begun) = (call(id), None, Instant::now());
        loop {
            let note = self.noted_as(&name).await?;
            let task = note.own_task()?;
            if self.is_gone(&note, &mut missing).await {
                return Some(task.to_owned());
            }
            if begun.elapsed() > 2 * GONE && missing.is_none() {
                return None;
            }
            sleep(NOTE_AGAIN).await;
        }
    }

    async fn noted_as(&self, name: &str) -> Option<Note> {
        let (mut after, mut noted) = (0, None::<Note>);
        loop {
            let notes = self.events.replay(self.key(name), after, PAGE).await.ok()??;
            if notes.is_empty() {
                return noted;
            }
            for event in notes {
                after = event.number;
                // One of another release may say more than this one can read.
                let note: Option<Note> = serde_json::from_str(&event.text).ok();
                if note.as_ref().is_some_and(|note| note.again.is_unwanted()) {
                    return note;
                }
                let is_late =
                    |by: &Note| note.as_ref().is_some_and(|note| note.is_over && note.node != by.node);
                // That a node owes it no more says nothing of the one that has noted since that it does.
                if !noted.as_ref().is_some_and(is_late) {
                    noted = note;
                }
            }
        }
    }

    /// Whether the node that owes an answer is gone. It has been `missing` since then.
    pub(super) async fn is_gone(&self, note: &Note, missing: &mut Option<Instant>) -> bool {
        let Some(nodes) = self.nodes.as_ref().filter(|_| !note.is_over) else { return note.is_over };
        match nodes.is_there(&note.node).await {
            Ok(false) => missing.get_or_insert_with(Instant::now).elapsed() >= GONE,
            Ok(true) | Err(_) => {
                *missing = None;
                false
            }
        }
    }
}

/// Where it is noted what the request of a stream has come to.
fn of(stream: &Stream) -> String {
    format!("{NOTES}{}", stream.name)
}

/// Where it is noted what the call of that request has become.
pub(super) fn call(id: &RequestId) -> String {
    let digest: [u8; 32] = Sha256::digest(id.to_string()).into();
    format!("{CALLS}{}", hex(&digest))
}
