//! Many tasks of every kind on several nodes with one SQLite file, which are killed at random; what each promise comes
//! to is said in the end.
//!
//! What is called, and after how many calls which node is killed, are the seed's choices. What else happens at that
//! moment is not.

mod caller;
mod effects;
pub(crate) mod fleet;
mod killer;
pub(crate) mod node;
mod order;
mod sight;
mod status;
mod store;
mod verdict;
mod waits;
mod watch;
mod witness;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use longhaul_store::Sqlite;

use crate::mcp::{Address, Client, Era};
use crate::place::Place;
use crate::processes;
use crate::server::Server;
use caller::{Call, Caller};
use effects::{Effects, Stop};
use longhaul_test::Random;
use order::{COMMAND, Order};
use sight::{Looked, Shown, Sight};
use verdict::Verdict;
use waits::Waits;
use watch::Watched;

/// How much is done, and by which seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) tasks: usize,
    pub(crate) kills: usize,
    pub(crate) processes: usize,
    pub(crate) seed: u64,
    /// By when all of it is to be done.
    pub(crate) within: Duration,
    /// How many tasks are begun each second, if not as many as can be.
    pub(crate) each_second: Option<f64>,
}

/// How many call.
const CALLERS: usize = 6;

/// How many only look: one in each dialect.
const OBSERVERS: usize = Era::BOTH.len();

/// How long what is open in the end may take to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is said of what is wrong, at most.
const MOST: usize = 40;

/// What everybody knows.
struct World {
    plan: Plan,
    slots: Vec<Address>,
    /// How many of them have every tool: all, or the first. The others have the command alone.
    equipped: usize,
    /// Whether a session of one node is one of all.
    shares_sessions: bool,
    /// What whoever belongs to it shows at each node.
    credential: Option<&'static str>,
    effects: Effects,
    began: Instant,
    until: Instant,
    /// The number of the next call.
    next: AtomicUsize,
    made: RwLock<Vec<Made>>,
    /// Acknowledged answers.
    answers: AtomicUsize,
    /// Nodes that were killed, and those before they served.
    kills: AtomicUsize,
    early: AtomicUsize,
    /// When each node was killed, by its name.
    ends: Mutex<BTreeMap<String, i64>>,
    /// When nodes stood still.
    stops: Mutex<Vec<Stop>>,
    over: AtomicBool,
    /// What the nodes are on has failed: nobody can come to an end.
    failed: AtomicBool,
    waits: Arc<Waits>,
}

/// What a caller does next.
#[derive(Debug)]
enum Next {
    Call(Order),
    /// It is not time yet.
    Later,
    /// All was called.
    Nothing,
}

/// A task that its caller knows of.
#[derive(Clone, Debug)]
struct Made {
    order: Order,
    id: String,
}

impl World {
    fn new(plan: Plan, place: &Place) -> Self {
        Self {
            plan,
            slots: (0..plan.processes).map(|_| Address::default()).collect(),
            equipped: plan.processes,
            shares_sessions: false,
            credential: None,
            effects: Effects::of(place.path("load"), "reader"),
            began: Instant::now(),
            until: Instant::now() + plan.within,
            next: AtomicUsize::new(0),
            made: RwLock::default(),
            answers: AtomicUsize::new(0),
            kills: AtomicUsize::new(0),
            early: AtomicUsize::new(0),
            ends: Mutex::default(),
            stops: Mutex::default(),
            over: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            waits: Arc::default(),
        }
    }

    fn clients(&self, era: Era) -> Vec<Client> {
        self.clients_with(era, self.credential)
    }

    /// The same of whoever shows that.
    fn clients_with(&self, era: Era, credential: Option<&'static str>) -> Vec<Client> {
        let new = |address| Client::new(era, address).with_credential(credential);
        let first = new(Address::default());
        let client = |slot: &Address| match self.shares_sessions {
            true => first.at(slot.clone()),
            false => new(slot.clone()),
        };
        self.slots.iter().map(client).collect()
    }

    /// A client of one node, with a session of its own.
    fn client(&self, era: Era, slot: usize) -> Client {
        Client::new(era, self.slots[slot].clone()).with_credential(self.credential)
    }

    /// What is called next.
    fn next(&self) -> Next {
        if self.is_late() {
            return Next::Nothing;
        }
        // As many at any time as are due by then.
        let due = self.plan.each_second.map(|each| self.began.elapsed().as_secs_f64() * each);
        let taken = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |number| {
            due.is_none_or(|due| (number as f64) < due).then_some(number + 1)
        });
        match taken {
            Err(_) => Next::Later,
            Ok(number) if number < self.plan.tasks => Next::Call(Order::of(self.plan.seed, number)),
            Ok(_) => Next::Nothing,
        }
    }

    fn made(&self, made: Made) {
        self.made.write().unwrap_or_else(PoisonError::into_inner).push(made);
    }

    fn acknowledged(&self) -> usize {
        self.made.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn ended(&self, node: &str, when: i64) {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).insert(node.to_owned(), when);
    }

    fn stopped(&self, stop: Stop) {
        self.stops.lock().unwrap_or_else(PoisonError::into_inner).push(stop);
    }

    /// One of those that were made: often a late one.
    fn any(&self, random: &mut Random) -> Option<Made> {
        let made = self.made.read().unwrap_or_else(PoisonError::into_inner);
        let latest = made.len().saturating_sub(if random.percent(70) { 300 } else { made.len() });
        let at = random.between(latest as u64, made.len() as u64);
        made.get(usize::try_from(at).ok()?).cloned()
    }

    /// Nothing is begun any more.
    fn is_late(&self) -> bool {
        self.has_failed() || Instant::now() > self.until
    }

    /// Nothing is waited for any more.
    fn is_hopeless(&self) -> bool {
        self.has_failed() || Instant::now() > self.until + PATIENCE
    }

    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
}

/// What everybody has found.
struct Found<'w> {
    callers: Vec<Caller<'w>>,
    observers: Vec<Sight>,
    watched: Watched,
    servers: Vec<Server>,
}

/// Loads and kills by the plan, then judges.
pub(crate) fn run(place: &Place, plan: Plan) -> Result<String> {
    let began = Instant::now();
    let world = World::new(plan, place);
    fs::create_dir(&world.effects.folder)?;
    let found = play(place, &world).with_context(|| format!("seed {}", plan.seed))?;
    let loaded = began.elapsed();
    let report = judge(place, &world, found).with_context(|| format!("seed {}", plan.seed))?;
    Ok(format!("loaded for {:.0} s\n{report}", loaded.as_secs_f64()))
}

fn play<'w>(place: &Place, world: &'w World) -> Result<Found<'w>> {
    let plan = world.plan;
    let random = Random::new(plan.seed);
    let store = Sqlite::open(place.store())?;
    witness::install(&place.store())?;
    thread::scope(|scope| {
        let moments = killer::moments(plan.kills, plan.tasks, plan.processes, random.part(1));
        let killers: Vec<_> = world
            .slots
            .iter()
            .zip(moments)
            .enumerate()
            .map(|(slot, (address, moments))| {
                let random = random.part(100 + slot as u64);
                scope.spawn(move || killer::kill(world, place, address, &moments, random))
            })
            .collect();
        let callers: Vec<_> = (0..CALLERS)
            .map(|number| Caller::new(world, random.part(200 + number as u64)))
            .map(|caller| scope.spawn(move || caller.work()))
            .collect();
        let observers: Vec<_> = Era::BOTH
            .into_iter()
            .zip(300..)
            .map(|(era, number)| (era, random.part(number)))
            .map(|(era, random)| scope.spawn(move || observe(world, era, random)))
            .collect();
        let watch = scope.spawn(|| watch::watch(world, &store));
        let callers = callers.into_iter().map(|caller| caller.join().expect("a caller does not panic"));
        let callers = callers.collect::<Vec<_>>();
        let killers = killers.into_iter().map(|killer| killer.join().expect("a killer does not panic"));
        let killers = killers.collect::<Vec<_>>();
        world.over.store(true, Ordering::SeqCst);
        let observers = observers.into_iter().map(|observer| observer.join().expect("nor does an observer"));
        let observers = observers.collect();
        let watched = watch.join().expect("nor does who watches");
        let servers = killers.into_iter().collect::<Result<_>>()?;
        Ok(Found { callers, observers, watched: watched?, servers })
    })
}

/// Looks at one task after the other, and in the end at all of them.
fn observe(world: &World, era: Era, mut random: Random) -> Sight {
    let (mut sight, clients) = (Sight::default(), world.clients(era));
    while !world.is_over() {
        if let Some(Made { order, id }) = world.any(&mut random).filter(|made| made.order.is_seen_in(era)) {
            world.waits.on(&*order.key);
            sight.look(&clients[random.index(clients.len())], &order, &id);
        }
        thread::sleep(Duration::from_millis(6));
    }
    sight
}

/// Looks at every task; those that nobody shows.
fn look_at_all(world: &World, sight: &mut Sight, client: &Client) -> Vec<String> {
    let made = world.made.read().unwrap_or_else(PoisonError::into_inner);
    let open = made
        .iter()
        .filter(|made| made.order.is_seen_in(client.era()))
        .filter(|made| !matches!(sight.look(client, &made.order, &made.id), Shown::Ended | Shown::Gone));
    open.map(|made| format!("I14: {} ({}) has not ended", made.order.key, made.id)).collect()
}

/// The tasks that were shown to have ended in more than one way.
fn shown_otherwise(calls: &[&Call], sights: &[&Sight]) -> Vec<String> {
    let each = calls.iter().flat_map(|call| Era::BOTH.map(|era| (call, era)));
    let ends = each.map(|(call, era)| {
        (call, sights.iter().filter_map(|sight| sight.end(era, &call.id)).collect::<BTreeSet<_>>())
    });
    let otherwise = ends.filter(|(_, ends)| ends.len() > 1);
    otherwise.map(|(call, ends)| format!("I2: {}: it was shown as {ends:?}", call.order.key)).collect()
}

fn judge(place: &Place, world: &World, found: Found<'_>) -> Result<String> {
    let Found { callers, mut observers, watched, mut servers } = found;
    let plan = world.plan;
    let mut broken = Vec::new();
    // Each observer looks at all of them again, at another node than the one before.
    let all = |observers: &mut Vec<Sight>, client: &dyn Fn(usize, Era) -> Client| {
        let with_eras = observers.iter_mut().zip(Era::BOTH).enumerate();
        let look = |(number, (sight, era))| look_at_all(world, sight, &client(number, era));
        with_eras.flat_map(look).collect::<Vec<_>>()
    };
    broken.extend(all(&mut observers, &|number, era| world.clients(era)[number % plan.processes].clone()));
    let store = Sqlite::open(place.store()).context("the store cannot be opened beside the nodes")?;
    let rest = watch::rest(&store, PATIENCE)?;
    broken.extend(watch::miscounted(&store)?.into_iter().map(|wrong| format!("I12: {wrong}")));
    servers.iter_mut().try_for_each(|server| killer::end(world, server))?;
    // And once more when all of them were killed.
    let server = killer::start(world, place)?;
    let address = Address::of(server.ready()?);
    broken.extend(all(&mut observers, &|_, era| Client::new(era, address.clone())));
    drop((server, servers));
    broken.extend(processes::expect_none(place, None, PATIENCE).err().map(|left| left.to_string()));
    let calls: Vec<_> = callers.iter().flat_map(|caller| &caller.done).collect();
    let sights: Vec<&Sight> = callers.iter().map(|caller| &caller.sight).chain(&observers).collect();
    broken.extend(shown_otherwise(&calls, &sights));
    let mut told: Vec<String> = Vec::new();
    let stops = world.stops.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let stopped = stops.len();
    let mut looked = Looked::default();
    for sight in sights {
        looked += sight.looked;
        broken.extend(sight.violations(&stops));
    }
    let Looked { looks, waits, changes, .. } = looked;
    let verdict = Verdict::of(&calls, &rest, &world.effects.clone().with_stops(stops), plan.seed)?;
    let ends = world.ends.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let witness = witness::read(&place.store(), &ends, node::LEASE)?;
    broken.extend(witness.broken.iter().cloned());
    let (sound, [all, keyed, keys]) = watch::file(&place.store())?;
    broken.extend(watched.broken.iter().cloned());
    broken.extend(verdict.broken.iter().cloned());
    if sound != "ok" {
        broken.push(format!("SQLite says of the file: {sound}"));
    }
    let expected = i64::try_from(world.acknowledged())?;
    if (keyed, keys) != (expected, expected) {
        broken.push(format!("{expected} calls were acknowledged, and are {keyed} rows of {keys} keys"));
    }
    if rest.counts != (0, u64::try_from(all)?) {
        broken.push(format!("{:?} are counted as open and kept, of {all} rows", rest.counts));
    }
    let (kills, early) = (world.kills.load(Ordering::SeqCst), world.early.load(Ordering::SeqCst));
    told.push(format!("{} nodes killed, {early} of them before they served", kills + early));
    let such = |is: &dyn Fn(&Order) -> bool| calls.iter().filter(|call| is(&call.order)).count();
    let (sessions, commands) = (such(&|order| order.era == Era::D2), such(&|order| order.tool == COMMAND));
    told.push(format!("{sessions} calls in sessions of 2025-11-25, {commands} commands"));
    told.push(format!("none lost: {} calls acknowledged: {}", calls.len(), verdict.ends()));
    told.push(format!("none duplicated: {keys} keys, {keyed} rows of calls, {all} in all"));
    told.push(format!(
        "none changed: {looks} looks by {} observers saw {changes} statuses, {waits} results were waited for",
        CALLERS + OBSERVERS
    ));
    let longest = watched.longest.as_secs_f64();
    told.push(format!(
        "none without a witness: {} looks at the store saw {} open tasks, the longest {longest:.1} s over its time",
        watched.looks, watched.rows
    ));
    told.push(format!(
        "none taken from the living: {stopped} nodes stood still; {} leases taken, {} of them from who was late",
        witness.taken, witness.late
    ));
    let answers = world.answers.load(Ordering::SeqCst);
    let (consumed, in_sessions) = (verdict.consumed, verdict.in_sessions);
    told.push(format!(
        "answers: {answers} acknowledged, {consumed} told to the work, {in_sessions} of them in sessions"
    ));
    told.push(format!("effects: had {}", verdict.told_of_effects()));
    ensure!(verdict.consumed == answers || !broken.is_empty(), "{} of {answers} answers", verdict.consumed);
    let count = broken.len();
    if count > 0 {
        broken.truncate(MOST);
        bail!("{count} promises broken:\n{}\n{}", broken.join("\n"), told.join("\n"));
    }
    ensure!(
        calls.len() == plan.tasks && kills + early == plan.kills,
        "there was no time for all:\n{}",
        told.join("\n")
    );
    Ok(told.iter().map(|line| format!("          {line}")).collect::<Vec<_>>().join("\n"))
}
