//! Sessions that other nodes go on with. What a handshake has settled is an entry of its principal's in what nodes share,
//! for as long as the session is used at any of them; whoever is asked for one that it does not have looks there.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderValue, Response, StatusCode, header};
use longhaul_proto::jsonrpc::ErrorObject;
use longhaul_tasks::store::{Entry, EntryKey, Owner, Registry, StoreError, Swap, Value};

use tokio::time::Instant;

use super::answer::{Body, no_room, refusal, text};
use super::board::{Board, Word};
use super::notes::Nodes;
use super::session::{Session, Sessions, owner_of};
use super::{Endpoint, RETRY_AFTER, TIDY_EVERY};
use crate::driver::Exchanges;
use crate::server::{Caller, Dispatcher, Party};

/// What nodes share of their sessions.
#[derive(Debug)]
pub(super) struct Shared {
    registry: Arc<dyn Registry>,
    idle: Duration,
    nodes: Arc<Nodes>,
    board: Arc<Board>,
    /// Which knows what sessions watch.
    dispatcher: Dispatcher,
    /// When it was last said that there is no room for sessions.
    told_full: Mutex<Option<Instant>>,
}

/// What the entries are.
const KIND: &str = "session";

/// How long a session is kept for other nodes whose client has said nothing since its handshake: handshakes alone must not
/// take the room of others.
const FOLLOW_UP: Duration = Duration::from_secs(60);

/// What the entry of a session says that has been ended.
const ENDED: &[u8] = b"";

/// How often a node looks whether a session that it has was ended at another.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// How often it is said that there is no room for sessions.
const TOLD_FULL_EVERY: Duration = Duration::from_secs(3600);

/// How often it is tried to write of a session of which other nodes write just then.
const ATTEMPTS: usize = 8;

/// How many entries are swept at once.
const SWEEP: usize = 100;

/// What became of letting other nodes know of a session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kept {
    /// They know what there is to know, or cannot: it has ended, or there is no room.
    Settled,
    /// Another node has written of it since it was looked at.
    Overtaken,
    /// What nodes share is out of reach.
    OutOfReach,
}

impl Shared {
    pub(super) fn new(dispatcher: &Dispatcher, registry: Arc<dyn Registry>, idle: Duration) -> Self {
        let nodes = Arc::new(Nodes::new(Arc::clone(&registry)));
        let board = Arc::new(Board::new(Arc::clone(&registry)));
        Self { registry, idle, nodes, board, dispatcher: dispatcher.clone(), told_full: Mutex::default() }
    }

    /// The nodes that answer on streams.
    pub(super) fn nodes(&self) -> &Arc<Nodes> {
        &self.nodes
    }

    /// Where nodes tell each other what has come to another.
    pub(super) fn board(&self) -> &Arc<Board> {
        &self.board
    }

    /// Lets other nodes find the session from now on, of which they share what was `found`; but if it has been ended at one
    /// of them, it ends here, too. What cannot be written is left for the next time.
    async fn keep(&self, sessions: &Sessions, session: &Session, found: Option<&Entry>) -> Kept {
        if has_ended(session, found) {
            sessions.has_ended_elsewhere(session);
            return Kept::Settled;
        }
        let watched = session.listed_with(self.dispatcher.watched(&session.push()));
        let (saved, followed_up) = {
            let state = session.lock();
            (state.exchanges.saved(&watched), state.followed_up)
        };
        let Some(saved) = saved else { return Kept::Settled };
        // Another may have written since what is not watched any more, or is again.
        let is_listed = |entry: &Entry| Exchanges::watched(&entry.value) == Exchanges::watched(&saved);
        if session.has_written(&saved, self.lasting() / 3) && found.is_none_or(is_listed) {
            return Kept::Settled;
        }
        let lasting = if followed_up { self.lasting() } else { self.lasting().min(FOLLOW_UP) };
        let (owner, version) = (session.owner(), found.map(|entry| entry.version));
        let value = Some(Value::lasting(&saved, lasting));
        let swap = self.registry.compare_and_set(key(&owner, session.id()), version, value).await;
        match swap {
            Ok(Swap::Done(Some(kept))) => session.note_kept(&kept, followed_up),
            // It was not removed.
            Ok(Swap::Done(None)) => {}
            Ok(Swap::Found(found)) if has_ended(session, found.as_ref()) => {
                sessions.has_ended_elsewhere(session);
            }
            Ok(Swap::Found(_)) => {
                session.note_elsewhere();
                return Kept::Overtaken;
            }
            // It goes on here, and nowhere else.
            Err(error @ StoreError::Overloaded { .. }) => self.tell_full(&error),
            Err(error) => {
                report("kept for other nodes", &error);
                if matches!(error, StoreError::Unreachable { .. }) {
                    return Kept::OutOfReach;
                }
            }
        }
        Kept::Settled
    }

    /// Lets other nodes find a session that was just opened.
    ///
    /// # Errors
    ///
    /// What to answer where they cannot: its client would lose it to the next node that it comes to.
    pub(super) async fn open(
        &self,
        sessions: &Sessions,
        session: &Session,
    ) -> Result<(), Box<Response<Body>>> {
        if self.keep(sessions, session, None).await != Kept::OutOfReach {
            return Ok(());
        }
        sessions.has_ended_elsewhere(session);
        Err(Box::new(no_room(NOT_OPENED)))
    }

    /// Ends the session for every node, and says so where they look. `false` if they cannot be told: it may go on there.
    pub(super) async fn forget(&self, session: &Session) -> bool {
        // Who has taken it over ends it for want of an entry, too. Who has opened it does not: what it wrote then passes away
        // early. So it must find this for as long as it may have it; if it is this node, whatever is under way here must.
        let lasting = if session.was_taken_over() { self.needed() } else { FOLLOW_UP };
        let owner = session.owner();
        match self.registry.put(key(&owner, session.id()), Value::lasting(ENDED, lasting)).await {
            // With no room for an entry there was none, so that no other node has it.
            Ok(_) | Err(StoreError::Overloaded { .. }) => true,
            Err(error) => {
                report("ended at other nodes", &error);
                false
            }
        }
    }

    /// Says that the session is used, unless it has been ended at another node: then it ends here, too. What another node has
    /// written of it counts: its client is at both, and watches here what it watches there, as far as the `caller` may that asks.
    pub(super) async fn renew(&self, sessions: &Sessions, session: &Session, caller: Option<&Caller>) {
        let _turn = session.renewing().await;
        let owner = session.owner();
        for _ in 0..ATTEMPTS {
            let found = match self.registry.entry(key(&owner, session.id())).await {
                Ok(found) => found,
                Err(error) => return report("looked for at other nodes", &error),
            };
            let theirs =
                found.as_ref().filter(|entry| *entry.value != *ENDED && session.is_by_another(entry));
            match (theirs, caller) {
                (Some(entry), None) => return self.extend(session, entry).await,
                (Some(entry), Some(caller)) => self.adopt(session, entry, caller),
                (None, _) => {}
            }
            if self.keep(sessions, session, found.as_ref()).await != Kept::Overtaken {
                return;
            }
        }
        tracing::warn!(
            "other nodes write of a session without end: what it watches here they are told when its client comes by again"
        );
    }

    /// Leaves what another node has written of the session as it is, for longer.
    async fn extend(&self, session: &Session, entry: &Entry) {
        if session.has_extended(self.lasting() / 3) {
            return;
        }
        let (owner, value) = (session.owner(), Value::lasting(&entry.value, self.lasting()));
        let swap =
            self.registry.compare_and_set(key(&owner, session.id()), Some(entry.version), Some(value)).await;
        match swap {
            Ok(Swap::Done(_)) => session.note_extended(),
            // Another node has just done so.
            Ok(Swap::Found(_)) => {}
            Err(error) => report("kept for other nodes", &error),
        }
    }

    /// The session watches here what it has been made to watch at another node since this one has looked, and no longer what it
    /// has been made to leave there; but what its client wants at this one counts for more.
    fn adopt(&self, session: &Session, found: &Entry, caller: &Caller) {
        let dialect = session.lock().exchanges.dialect();
        let Some((dialect, now)) = dialect.zip(Exchanges::watched(&found.value)) else { return };
        // For want of room nothing may have been written.
        let before = session.base().and_then(|base| Exchanges::watched(&base)).unwrap_or_default().uris;
        let is_gone = |uri: &String| now.lacks(uri) && session.wants(uri) != Some(true);
        let is_new = |uri: &String| !before.contains(uri) && session.wants(uri) != Some(false);
        let gone: Vec<_> = before.iter().filter(|uri| is_gone(uri)).cloned().collect();
        let new: Vec<_> = now.uris.iter().filter(|uri| is_new(uri)).cloned().collect();
        session.note_listed(found, &new, &gone);
        let push = session.push();
        gone.iter().for_each(|uri| self.dispatcher.unwatch(&push, uri));
        self.dispatcher.watch_again(caller, dialect, &push, new);
    }

    /// Makes room where sessions are no longer used.
    pub(super) async fn sweep(&self) {
        loop {
            match self.registry.sweep_entries(SWEEP).await {
                Ok(SWEEP) => {}
                Ok(_) => return,
                Err(error) => return tracing::warn!(%error, "sessions that are over wait for the next sweep"),
            }
        }
    }

    /// Says that sessions are lost with this node, and what to do; not of each.
    fn tell_full(&self, error: &StoreError) {
        let mut told = self.told_full.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_some_and(|told| told.elapsed() < TOLD_FULL_EVERY) {
            return tracing::debug!(%error, "a session is this server's alone");
        }
        *told = Some(Instant::now());
        tracing::warn!(
            %error,
            "a session is this server's alone, and so may be others: no other server can go on with it. Have clients end the \
             sessions that they are done with (DELETE), keep the requests of each at one server, or raise that limit at all of them"
        );
    }

    /// How long an entry must last whose session is used no more. Whoever looks after it does so now and then.
    fn needed(&self) -> Duration {
        self.idle + 2 * TIDY_EVERY
    }

    /// How long one lasts: for so much longer than it must, it need not be written anew.
    fn lasting(&self) -> Duration {
        self.needed() * 3 / 2
    }

    /// How often to renew a session that is used.
    pub(super) fn look_every(&self) -> Duration {
        LOOK_EVERY.min(self.idle / 3)
    }
}

/// Sees to it that a session of `caller` is known here if any node has opened it, and not if it has been ended.
///
/// # Errors
///
/// What to answer where that cannot be done now. That there is no such session would make its client drop it.
pub(super) async fn recall(
    endpoint: &Endpoint,
    shared: &Shared,
    id: &str,
    caller: &Caller,
) -> Result<(), Box<Response<Body>>> {
    let (sessions, principal) = (&endpoint.sessions, caller.principal.as_ref());
    if let Some(session) = sessions.here(id, principal) {
        if !session.was_followed_up() || session.unseen_for(shared.look_every()) {
            session.lock().followed_up = true;
            shared.renew(sessions, &session, Some(caller)).await;
        }
        return Ok(());
    }
    // What is no id of ours is nowhere.
    if id.len() != 32 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(());
    }
    // Ids that were made up would have the store read without end.
    let look_up = endpoint
        .dispatcher
        .poll(caller, 0)
        .map_err(|refused| Box::new(too_often(SOUGHT_IN_VAIN, &refused)))?;
    let owner = owner_of(principal);
    let entry = match shared.registry.entry(key(&owner, id)).await {
        Ok(Some(entry)) if *entry.value != *ENDED => {
            look_up.was_none();
            entry
        }
        Ok(_) => return Ok(()),
        Err(error) => {
            report("looked for at other nodes", &error);
            return Err(Box::new(no_room(NOT_KNOWN)));
        }
    };
    let restored = Exchanges::restored(&endpoint.dispatcher, endpoint.options.max_open, &entry.value);
    let Some((exchanges, watched)) = restored else {
        tracing::warn!("a session of another release cannot be gone on with here");
        return Ok(());
    };
    let dialect = exchanges.dialect();
    let session = match sessions.take_over(id, exchanges, Party::of(caller)) {
        Ok(Some(session)) => session,
        // Another request has just done so.
        Ok(None) => return Ok(()),
        Err(limit) => {
            let full = ErrorObject::overloaded(limit.to_string(), RETRY_AFTER);
            let full = match dialect {
                Some(dialect) => dialect.error(full),
                None => full,
            };
            return Err(Box::new(refusal(StatusCode::TOO_MANY_REQUESTS, None, &full)));
        }
    };
    session.note_found(&entry, &watched);
    if let Some(dialect) = dialect {
        endpoint.dispatcher.attend(dialect, &session.push());
        endpoint.dispatcher.watch_again(caller, dialect, &session.push(), watched);
    }
    shared.board.say(Word::TakenOver { session: id.to_owned() }, Some(session.standing()));
    if shared.keep(sessions, &session, Some(&entry)).await == Kept::Overtaken {
        shared.renew(sessions, &session, Some(caller)).await;
    }
    Ok(())
}

/// What is said to whoever opens a session that the other nodes cannot be told of.
const NOT_OPENED: &str = "no session can be opened now: send this again later";

/// What is said to whoever asks in a session of which nobody knows now whether it is there.
const NOT_KNOWN: &str = "the session cannot be looked for now: send this again later";

/// What is said to whoever asks in too many sessions that are not there.
const SOUGHT_IN_VAIN: &str =
    "too many sessions were asked for that are not there: send `initialize` to open one, later";

/// Refuses what would have the store read or written without end, and says when to come back.
pub(super) fn too_often(what: &'static str, refused: &ErrorObject) -> Response<Body> {
    let mut response = text(StatusCode::TOO_MANY_REQUESTS, what.into());
    let wait = refused.retry_after().unwrap_or(RETRY_AFTER);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
    response
}

/// Whether the session has been ended, going by what nodes share of it: that it is so, or nothing any more.
fn has_ended(session: &Session, found: Option<&Entry>) -> bool {
    found.map_or_else(|| session.is_kept(), |entry| *entry.value == *ENDED)
}

fn key<'k>(owner: &'k Owner, id: &'k str) -> EntryKey<'k> {
    EntryKey::of(owner, KIND, id)
}

/// Says that a session could not be `done`, which takes nothing from whoever is at this node.
fn report(done: &'static str, error: &StoreError) {
    tracing::warn!(%error, "a session could not be {done}");
}

#[cfg(test)]
mod tests;
