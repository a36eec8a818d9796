//! The nodes of a run: each a server on the one store, started, stopped, ended, paused and cut off.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use crate::random::Random;
use longhaul::Server;
use longhaul::server::{Dispatcher, PollOptions};
use longhaul::tasks::runner::Pace;
use longhaul_store::{Memory, TaskStore};
use serde_json::Value;
use tokio::sync::oneshot;

use super::executor::{Executor, Home, Surroundings};
use super::ledger::Ledger;
use super::link::{Link, Weather};
use super::outside::{Hands, Outside};
use super::tools::tools;
use crate::fleet::{self, Gone, Speaks};

/// Clones are the same.
#[derive(Clone)]
pub(crate) struct Nodes(Arc<Shared>);

struct Shared {
    executor: Executor,
    ledger: Ledger,
    outside: Outside,
    memory: Memory,
    max_open: u64,
    /// What is released.
    generation: AtomicU64,
    slots: Mutex<Vec<Slot>>,
}

/// A place for one node after the other.
struct Slot {
    node: Option<Node>,
    weather: Weather,
    random: Random,
}

struct Node {
    home: Home,
    dispatcher: Dispatcher,
    link: Weak<Link>,
}

/// How often nodes look: less often than by default, for looks are most of what there is to do in thirty days.
fn pace() -> Pace {
    let mut pace = Pace::default();
    (pace.recover_every, pace.sweep_every) = (Duration::from_secs(5), Duration::from_secs(20));
    pace.look_every = Duration::from_secs(20);
    pace
}

/// More than any run asks.
const PLENTY: u32 = 1_000_000;

/// After so long every look has come up at least once.
pub(crate) const QUIET: Duration = Duration::from_secs(23);

impl Nodes {
    pub(crate) fn new(
        executor: &Executor,
        ledger: &Ledger,
        outside: &Outside,
        memory: Memory,
        max_open: u64,
        random: &mut Random,
    ) -> Self {
        let slot = |random: &mut Random| Slot {
            node: None,
            weather: Weather::new(random.split()),
            random: random.split(),
        };
        let slots = (0..random.between(2, 6)).map(|_| slot(random)).collect();
        Self(Arc::new(Shared {
            executor: executor.clone(),
            ledger: ledger.clone(),
            outside: outside.clone(),
            memory,
            max_open,
            generation: AtomicU64::new(1),
            slots: Mutex::new(slots),
        }))
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(crate) fn weather(&self, slot: usize) -> Weather {
        self.0.executor.stir();
        self.lock()[slot].weather.clone()
    }

    /// From now on nodes start with the tools of the next generation.
    pub(crate) fn release(&self) {
        self.0.generation.fetch_add(1, Ordering::Relaxed);
    }

    /// Starts a node with the tools that are released, unless there is one.
    pub(crate) fn start(&self, slot: usize) {
        if self.lock()[slot].node.is_some() {
            return;
        }
        let generation = self.0.generation.load(Ordering::Relaxed);
        let Shared { executor, ledger, outside, memory, max_open, .. } = &*self.0;
        let mut slots = self.lock();
        // A clock that is wrong by as much as a bad one is.
        let drift = slots[slot].random.below(10_000) as i64 - 5_000;
        let pace = pace();
        let looks = vec![
            pace.recover_every,
            pace.sweep_every,
            pace.look_every,
            pace.strand_after,
            pace.renew_every,
            pace.check_every,
        ];
        let home = executor.settle(drift, looks);
        let link =
            Arc::new(Link::new(memory.another_node(), executor, ledger, &slots[slot].weather, *max_open));
        let weak = Arc::downgrade(&link);
        let hands = Hands::new(outside, executor, ledger, home, generation);
        ledger.tell(|| format!("{} starts as {home:?}, of generation {generation}", link.node()));
        let server = tools(&hands, generation).into_iter().fold(Server::new("simulated", "1"), Server::tool);
        let surroundings = Arc::new(Surroundings::new(executor.clone(), home));
        // Its budgets are of the time that passes for us, in which a month is a moment.
        let plenty = PollOptions::default().each(PLENTY).in_all(PLENTY).in_vain(PLENTY);
        let server = server.drafted_tasks(true);
        let dispatcher =
            server.store(link).pace(pace).environment(surroundings).polls(plenty).dispatcher().unwrap();
        slots[slot].node = Some(Node { home, dispatcher: dispatcher.clone(), link: weak });
        drop(slots);
        let its = executor.clone();
        let started = async move {
            // A process that cannot begin is begun again.
            while dispatcher.start().await.is_err() {
                its.sleep(home, Duration::from_secs(1)).await;
            }
        };
        executor.spawn(home, Box::pin(started));
        executor.stir();
    }

    /// Ends a node at once.
    pub(crate) fn kill(&self, slot: usize) {
        let Some(Node { home, dispatcher, link }) = self.lock()[slot].node.take() else { return };
        self.0.ledger.tell(|| format!("{home:?} ends"));
        self.0.executor.clear(home);
        drop(dispatcher);
        if link.strong_count() > 0 {
            self.0.ledger.complain("I14: something of a node is still there when it has ended");
        }
        self.0.executor.stir();
    }

    /// In which slot this process runs.
    pub(crate) fn slot_of(&self, home: Home) -> Option<usize> {
        self.lock().iter().position(|slot| slot.node.as_ref().is_some_and(|node| node.home == home))
    }

    /// Stops everything of a node, or lets it go on.
    pub(crate) fn pause(&self, slot: usize, paused: bool) {
        let Some(home) = self.lock()[slot].node.as_ref().map(|node| node.home) else { return };
        self.0.ledger.tell(|| format!("{home:?} {}", if paused { "stands still" } else { "goes on" }));
        self.0.executor.pause(home, paused);
        self.0.executor.stir();
    }

    /// Lets a node give back what it can, then ends it.
    pub(crate) async fn drain(&self, slot: usize) {
        let Some((home, dispatcher)) =
            self.lock()[slot].node.as_ref().map(|node| (node.home, node.dispatcher.clone()))
        else {
            return;
        };
        self.0.ledger.tell(|| format!("{home:?} is to stop"));
        let (told, done) = oneshot::channel();
        let draining = async move {
            dispatcher.engine().drain(Duration::from_secs(10)).await;
            let _ = told.send(());
        };
        self.0.executor.spawn(home, Box::pin(draining));
        tokio::select! {
            biased;
            _ = done => {}
            () = self.0.executor.pass(Duration::from_secs(12)) => {}
        }
        self.0.executor.pass(Duration::from_secs(2)).await;
        // It may have been ended, and another have begun.
        if self.slot_of(home) == Some(slot) {
            self.kill(slot);
        }
    }

    /// Makes a request of a node, on a connection that may end before the answer comes.
    ///
    /// # Errors
    ///
    /// When there is no node, or it does not answer in time.
    pub(crate) async fn ask(
        &self,
        slot: usize,
        who: &'static str,
        speaks: Speaks,
        method: &'static str,
        params: Value,
    ) -> Result<Value, Gone> {
        let found = self.lock()[slot].node.as_ref().map(|node| (node.home, node.dispatcher.clone()));
        let (home, dispatcher) = found.ok_or(Gone)?;
        let (tell, told) = oneshot::channel();
        let asking = async move {
            let _ = tell.send(fleet::ask(&dispatcher, who, speaks, method, &params).await);
        };
        self.0.executor.spawn(home, Box::pin(asking));
        tokio::select! {
            biased;
            told = told => told.map_err(|_| Gone),
            () = self.0.executor.pass(Duration::from_secs(90)) => Err(Gone),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.0.slots.lock().unwrap()
    }
}
