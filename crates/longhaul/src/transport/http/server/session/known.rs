//! What other nodes know of a session, and this one of what they do.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use longhaul_tasks::store::{Entry, Version};
use tokio::sync::MutexGuard;
use tokio::time::Instant;

use super::super::board::Board;
use super::{Session, lock};

/// What other nodes know of a session.
#[derive(Debug)]
pub(super) struct Known {
    /// When that was last looked at.
    seen: Instant,
    /// They find it for as long as it is used.
    kept: bool,
    /// One of them has it, too.
    elsewhere: bool,
    /// Its entry when this node has written it last, be it the handshake alone, or has taken it over.
    version: Option<Version>,
    /// What this node has written of it last for as long as it is used, or found when it took it over.
    written: Option<Arc<[u8]>>,
    /// Its entry as this node has seen it last, written by whomever: what differs from that was changed at another since.
    base: Option<Arc<[u8]>>,
    /// When this node has last seen to it that the entry lasts.
    lasts_since: Option<Instant>,
    /// The resources that it watches by what nodes have written: some may not be here, or not yet.
    listed: BTreeSet<String>,
    /// What its client wants of resources by requests of which the others are still to know, the latest last.
    wishes: Vec<Arc<Watch>>,
}

/// What a client wants of a resource.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in super::super) struct Watch {
    pub(in super::super) uri: String,
    /// It is to be watched, or left.
    pub(in super::super) begins: bool,
}

/// A wish that counts for more than what other nodes have written, until it is dropped.
#[derive(Debug)]
pub(in super::super) struct Wish {
    session: Arc<Session>,
    watch: Arc<Watch>,
}

impl Drop for Wish {
    fn drop(&mut self) {
        lock(&self.session.known).wishes.retain(|wish| !Arc::ptr_eq(wish, &self.watch));
    }
}

impl Known {
    /// Of a session that was just opened here, or `taken_over` from another node.
    pub(super) fn new(taken_over: bool) -> Self {
        Self {
            seen: Instant::now(),
            kept: taken_over,
            elsewhere: taken_over,
            version: None,
            written: None,
            base: None,
            lasts_since: None,
            listed: BTreeSet::new(),
            wishes: Vec::new(),
        }
    }
}

impl Session {
    /// Held by whoever looks at what other nodes know and lets them know more: what two did at once would look like another node's.
    pub(in super::super) async fn renewing(&self) -> MutexGuard<'_, ()> {
        self.renewing.lock().await
    }

    /// Whether nobody has looked for so long at what other nodes know of it. If so, somebody does now.
    pub(in super::super) fn unseen_for(&self, at_least: Duration) -> bool {
        let mut known = lock(&self.known);
        let due = known.seen.elapsed() >= at_least;
        if due {
            known.seen = Instant::now();
        }
        due
    }

    /// Another node has it, too.
    pub(in super::super) fn note_elsewhere(&self) {
        lock(&self.known).elsewhere = true;
    }

    /// Where to tell other nodes what is for them, if any has the session.
    pub(in super::super) fn elsewhere(&self) -> Option<&Arc<Board>> {
        self.board.as_ref().filter(|_| lock(&self.known).elsewhere)
    }

    /// Other nodes find it for as long as it is used.
    pub(in super::super) fn is_kept(&self) -> bool {
        lock(&self.known).kept
    }

    /// Its entry is this now, for as long as it is used if its client has come back.
    pub(in super::super) fn note_kept(&self, entry: &Entry, followed_up: bool) {
        let mut known = lock(&self.known);
        (known.version, known.base) = (Some(entry.version), Some(Arc::clone(&entry.value)));
        if followed_up {
            known.kept = true;
            (known.written, known.lasts_since) = (Some(Arc::clone(&entry.value)), Some(Instant::now()));
        }
    }

    /// It goes on here from what was `found` of it, and watches all that is `listed` there, whatever of it is here.
    pub(in super::super) fn note_found(&self, found: &Entry, listed: &[String]) {
        let mut known = lock(&self.known);
        (known.version, known.base) = (Some(found.version), Some(Arc::clone(&found.value)));
        known.written = Some(Arc::clone(&found.value));
        known.listed = listed.iter().cloned().collect();
    }

    /// Whether another node has written the entry that was `found`. Then that has the session, too.
    pub(in super::super) fn is_by_another(&self, found: &Entry) -> bool {
        let mut known = lock(&self.known);
        let is_by_another = known.version != Some(found.version);
        known.elsewhere |= is_by_another;
        is_by_another
    }

    /// Its entry as this node has seen it last.
    pub(in super::super) fn base(&self) -> Option<Arc<[u8]>> {
        lock(&self.known).base.clone()
    }

    /// Whether this node has written just this of it, and made it last within so long.
    pub(in super::super) fn has_written(&self, saved: &[u8], within: Duration) -> bool {
        let is_written = lock(&self.known).written.as_deref() == Some(saved);
        is_written && self.has_extended(within)
    }

    /// Whether this node has made its entry last within so long.
    pub(in super::super) fn has_extended(&self, within: Duration) -> bool {
        lock(&self.known).lasts_since.is_some_and(|since| since.elapsed() < within)
    }

    /// This node has made its entry last, as another has written it.
    pub(in super::super) fn note_extended(&self) {
        lock(&self.known).lasts_since = Some(Instant::now());
    }

    /// Other nodes have it watch these, and those no longer, as was `found` in its entry.
    pub(in super::super) fn note_listed(&self, found: &Entry, new: &[String], gone: &[String]) {
        let mut known = lock(&self.known);
        known.base = Some(Arc::clone(&found.value));
        known.listed.extend(new.iter().cloned());
        known.listed.retain(|uri| !gone.contains(uri));
    }

    /// Its client lets go of a resource, whether that is here or not.
    pub(in super::super) fn is_left(&self, uri: &str) {
        lock(&self.known).listed.remove(uri);
    }

    /// What it is to watch at every node: what it was, and what it `watches` here.
    pub(in super::super) fn listed_with(&self, watches: Vec<String>) -> Vec<String> {
        let mut listed = lock(&self.known).listed.clone();
        listed.extend(watches);
        listed.into_iter().collect()
    }

    /// Its client wants this, whatever other nodes have written that do not know of it, until what this gives is dropped.
    pub(in super::super) fn wishes(self: &Arc<Self>, watch: Watch) -> Wish {
        let watch = Arc::new(watch);
        lock(&self.known).wishes.push(Arc::clone(&watch));
        Wish { session: Arc::clone(self), watch }
    }

    /// Whether its client wants that resource to be watched, as far as other nodes are still to know.
    pub(in super::super) fn wants(&self, uri: &str) -> Option<bool> {
        let known = lock(&self.known);
        known.wishes.iter().rfind(|wish| wish.uri == uri).map(|wish| wish.begins)
    }
}
