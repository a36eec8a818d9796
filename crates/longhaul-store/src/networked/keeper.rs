//! The one session that a node keeps: it proves the node alive, brings hints of other nodes' changes, and keeps the time.

use std::{
    collections::HashMap,
    sync::{Arc, mpsc::SyncSender},
    time::Duration,
};

use tokio::{
    sync::oneshot,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use super::{node::Standing, server::Server};
use crate::{StoreError, TaskId, Time};

/// A server with whom each node keeps a session.
pub(crate) trait Keeps: Server {
    /// The session.
    type Session: Send + 'static;

    /// How often changes are looked for that no hint has told of.
    fn polls(&self) -> Duration;

    /// Makes a session, on which this node is alive.
    fn enter(&self) -> impl Future<Output = Result<Self::Session, StoreError>> + Send;

    /// Says that this node goes: its leases are void at once.
    fn leave(&self, session: Self::Session) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The session has been seen to be gone.
    fn lost(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Waits for something to hear or to tell. Nothing is lost if it is waited for no longer.
    fn next(&self, session: &mut Self::Session) -> impl Future<Output = Result<Next, StoreError>> + Send;

    /// Tells the other nodes of this change, unless they are told where it is made.
    fn tell(&self, _: &mut Self::Session, _: TaskId) -> impl Future<Output = Result<(), StoreError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Says that this node is there now, and forgets those that have said so for the last time before `gone`; learns how the
    /// server is set.
    fn say(
        &self,
        session: &mut Self::Session,
        now: Time,
        gone: Time,
    ) -> impl Future<Output = Result<Standing, StoreError>> + Send;

    /// Asks the server whether it holds this session still.
    ///
    /// # Errors
    ///
    /// When it does not, or does not say.
    fn prove(&self, session: &mut Self::Session) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The greatest time stored, and what the server's clock says.
    fn times(
        &self,
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<(Time, Time), StoreError>> + Send;

    /// Stores a time, unless a greater one is stored.
    fn store_time(
        &self,
        session: &mut Self::Session,
        now: Time,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// What is kept as the mark of a store that is out of service.
    fn mark(
        &self,
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, StoreError>> + Send;

    /// The numbers of the latest changes of these tasks, as far as they are there.
    fn seqs(
        &self,
        session: &mut Self::Session,
        ids: &[TaskId],
    ) -> impl Future<Output = Result<Vec<(TaskId, u64)>, StoreError>> + Send;
}

/// What there is to hear or to tell.
pub(crate) enum Next {
    /// A node, and the tasks that it has changed, with spaces between.
    Hint(String),
    /// A change of this node.
    Change(TaskId),
    /// Nothing of that.
    Nothing,
}

/// Keeps the session of a node.
pub(super) struct Keeper<S> {
    site: Arc<S>,
    /// Asks it to end.
    stop: oneshot::Receiver<()>,
    /// Told when it has.
    ended: SyncSender<()>,
    /// The latest change of each task that somebody here waits for, as polling has seen it.
    seen: HashMap<TaskId, u64>,
}

impl<S: Keeps> Keeper<S> {
    pub(super) fn new(site: Arc<S>, stop: oneshot::Receiver<()>, ended: SyncSender<()>) -> Self {
        Self { site, stop, ended, seen: HashMap::new() }
    }

    /// Keeps the session, and makes another whenever it is lost, until it is asked to end.
    pub(super) async fn run(mut self, mut session: S::Session) {
        let store = self.site.place();
        loop {
            match self.keep(&mut session).await {
                Ok(()) => {
                    part(&*self.site, session).await;
                    break;
                }
                Err(refusal @ StoreError::OutOfService { .. }) => {
                    tracing::error!(store, %refusal, "this node does nothing there any more");
                    self.site.node().hub.wake_all();
                    part(&*self.site, session).await;
                    break;
                }
                Err(error) => {
                    tracing::warn!(store, %error, "the session with the server is lost; another is made");
                    self.site.lost().await;
                    // Whoever waits looks for itself, and meets the same.
                    self.site.node().hub.wake_all();
                }
            }
            match self.reconnect().await {
                Some(made) => session = made,
                None => break,
            }
            tracing::info!(store, "there is a session with the server again");
            self.site.node().hub.wake_all();
        }
        let _nobody_may_wait = self.ended.send(());
    }

    async fn reconnect(&mut self) -> Option<S::Session> {
        loop {
            let again = async {
                let mut session = self.site.enter().await?;
                match greet(&*self.site, &mut session).await {
                    // Whoever keeps it meets the same.
                    Ok(()) | Err(StoreError::OutOfService { .. }) => Ok(session),
                    Err(error) => Err(error),
                }
            };
            tokio::select! {
                _ = &mut self.stop => return None,
                made = again => match made {
                    Ok(session) => return Some(session),
                    Err(error) => tracing::debug!(%error, "the server cannot be reached yet"),
                },
            }
            tokio::select! {
                _ = &mut self.stop => return None,
                () = sleep(RETRY) => {}
            }
        }
    }

    /// Until it is asked to end; or an error, if the session is lost.
    async fn keep(&mut self, session: &mut S::Session) -> Result<(), StoreError> {
        let ticks = |every| {
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        };
        let (mut beat, mut poll, mut said) = (ticks(BEAT), ticks(self.site.polls()), ticks(REFRESH));
        // Often enough that what is said of the one lasts until the next.
        let mut proof = ticks((self.site.node().suspects.grace() / 4).max(SOONEST_PROOF));
        heed(&*self.site, session).await?;
        loop {
            tokio::select! {
                _ = &mut self.stop => return Ok(()),
                next = self.site.next(session) => match next? {
                    Next::Hint(hint) => self.hear(&hint),
                    Next::Change(id) => self.site.tell(session, id).await?,
                    Next::Nothing => {}
                },
                _ = proof.tick() => prove(&*self.site, session).await?,
                _ = beat.tick() => {
                    keep_time(&*self.site, session).await?;
                    heed(&*self.site, session).await?;
                }
                _ = poll.tick() => self.poll(session).await?,
                _ = said.tick() => say(&*self.site, session).await?,
            }
        }
    }

    /// A node has changed these tasks.
    fn hear(&self, hint: &str) {
        let node = self.site.node();
        let mut words = hint.split(' ');
        if words.next() == Some(node.id.as_str()) {
            return;
        }
        for id in words.filter_map(|word| TaskId::new(word).ok()) {
            node.wake(&id);
        }
    }

    /// Looks for changes that no hint has told of, while anybody waits for one.
    async fn poll(&mut self, session: &mut S::Session) -> Result<(), StoreError> {
        let node = self.site.node();
        if !node.hub.is_waited_for() {
            self.seen.clear();
            return Ok(());
        }
        let watched = node.hub.watched();
        let mut seen = HashMap::with_capacity(watched.len());
        for some in watched.chunks(POLLED_AT_ONCE) {
            seen.extend(self.site.seqs(session, some).await?);
        }
        for id in &watched {
            // What is seen for the first time may have changed since it is watched.
            if self.seen.get(id) != seen.get(id) || !self.seen.contains_key(id) {
                node.wake(id);
            }
        }
        self.seen = seen;
        Ok(())
    }
}

/// Makes a node known on a new session, and then looks whether it may do anything: whoever copies the store marks it first, and
/// then looks for other nodes, so that of the two one sees the other.
pub(super) async fn greet<S: Keeps>(site: &S, session: &mut S::Session) -> Result<(), StoreError> {
    keep_time(site, session).await?;
    say(site, session).await?;
    prove(site, session).await?;
    heed(site, session).await
}

/// Ends a session in order.
pub(super) async fn part<S: Keeps>(site: &S, session: S::Session) {
    match timeout(GOODBYE, site.leave(session)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, LEFT_BEHIND),
        Err(late) => tracing::debug!(%late, LEFT_BEHIND),
    }
}

/// Learns that this node is not taken for dead.
async fn prove<S: Keeps>(site: &S, session: &mut S::Session) -> Result<(), StoreError> {
    let sent = site.node().clock.now();
    site.prove(session).await?;
    site.node().lives(sent);
    Ok(())
}

/// Looks whether the store is in service.
async fn heed<S: Keeps>(site: &S, session: &mut S::Session) -> Result<(), StoreError> {
    let mark = site.mark(session).await?;
    site.node().heed(mark.as_deref())
}

/// Says that this node is there, and learns how the server is set.
async fn say<S: Keeps>(site: &S, session: &mut S::Session) -> Result<(), StoreError> {
    let now = site.node().clock.now();
    let gone = Time::from_unix_ms(now.unix_ms() - FORGOTTEN_MS);
    site.node().stands(site.say(session, now, gone).await?);
    Ok(())
}

/// Learns the greatest time that was stored and what the server's clock says, and keeps the time for those who come.
async fn keep_time<S: Keeps>(site: &S, session: &mut S::Session) -> Result<(), StoreError> {
    let (stored, said) = site.times(session).await?;
    let node = site.node();
    if let Some(server) = &node.server_clock {
        // When on the way it was said nobody knows. A node that adds some of the way is ahead of the server, and all others follow it:
        // leases would end early by that. One that is behind only learns later that something has ended.
        server.set(said);
    }
    node.clock.observe(stored);
    let now = node.clock.now();
    if stored.after(BEAT) < now {
        site.store_time(session, now).await?;
    }
    Ok(())
}

/// How often the time is kept.
const BEAT: Duration = Duration::from_secs(1);

/// However soon a node is taken for dead, it proves no more often that it lives.
const SOONEST_PROOF: Duration = Duration::from_millis(10);

/// How often a node says that it is there.
const REFRESH: Duration = Duration::from_secs(10);

/// What has not been said for so long is forgotten.
const FORGOTTEN_MS: i64 = 24 * 60 * 60 * 1000;

/// The time between two tries to make a session; less than after which a node is taken for dead.
const RETRY: Duration = Duration::from_millis(100);

/// How long the end of a node may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// How many tasks one poll asks for.
const POLLED_AT_ONCE: usize = 1_000;

/// What is said of a node that could not say that it goes.
const LEFT_BEHIND: &str = "this node's place stays behind until it is noticed";
