//! A fleet on one database: three that answer and four that work, and the program as one more of each, while nodes, their ways to
//! the database and the database itself fail; what each promise comes to is said in the end.
//!
//! The load is that of one file with several nodes, and so is the checker. Clients go from node to node in one session.

mod database;
mod driver;
mod hasty;
mod link;
mod remains;
mod report;
mod stranger;
mod witness;

use std::fmt;
use std::fs;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use longhaul_store::TaskStore;
use longhaul_test::Random;

use super::caller::{Call, Caller};
use super::order::{COMMAND, Order, QUICK};
use super::sight::{Looked, Sight};
use super::verdict::Verdict;
use super::waits;
use super::watch::{self, Watched};
use super::{CALLERS, MOST, PATIENCE, World, look_at_all, node, observe, shown_otherwise, store};
use crate::mcp::{Address, Era};
use crate::place::Place;
use crate::processes;
use database::Database;
use driver::{FRONTS, Fleet, PROGRAM};
use hasty::Hasty;
use report::{Held, Report};
use stranger::Stranger;

/// On what, how long, how much, and by which seed.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) store: Kind,
    pub(crate) within: Duration,
    pub(crate) seed: u64,
    /// Tasks a second.
    pub(crate) rate: u32,
    /// What fails; all of it if nothing is named.
    pub(crate) faults: Vec<Fault>,
}

/// What the nodes share.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// A PostgreSQL database
    Postgres,
    /// A Redis server
    Redis,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Postgres => "PostgreSQL",
            Self::Redis => "Redis",
        })
    }
}

/// What fails.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, clap::ValueEnum)]
pub(crate) enum Fault {
    /// A node is killed, and started again
    Kill,
    /// A node stands still for longer than a lease
    Stop,
    /// A node's connections to the database break, and none can be made
    Cut,
    /// Nothing arrives between a node and the database, or no answer, and no connection breaks
    Silence,
    /// All that goes between them takes longer
    Delay,
    /// The connections of a node break each second
    Flap,
    /// The database is killed, and started again
    Database,
    /// A node believes from one moment to the next that it is up to an hour earlier or later
    Clock,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kill => "nodes killed",
            Self::Stop => "nodes stopped past their leases",
            Self::Cut => "ways cut",
            Self::Silence => "ways silent",
            Self::Delay => "ways slow",
            Self::Flap => "ways cut each second",
            Self::Database => "times the database killed",
            Self::Clock => "clocks set wrong while they ran",
        })
    }
}

/// How many call without knowing of tasks.
const HASTY: usize = 2;

/// How long a run may take beyond twice its load, for at the end every task is looked at again. Whatever can be waited for has a shorter
/// bound of its own.
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// Loads and harms by the plan, then judges.
pub(crate) fn run(place: &Place, plan: &Plan) -> Result<String> {
    let Plan { store: kind, within, seed, rate, .. } = *plan;
    let every = <Fault as clap::ValueEnum>::value_variants();
    let faults = if plan.faults.is_empty() { every.to_vec() } else { plan.faults.clone() };
    if faults.contains(&Fault::Clock) {
        driver::faketime()?;
    }
    let database = Database::start(kind, place)?;
    let direct = database.url(database.address, "watch");
    let each_second = Some(f64::from(rate));
    let load = super::Plan { tasks: usize::MAX, kills: 0, processes: PROGRAM + 1, seed, within, each_second };
    let mut world = World::new(load, place);
    (world.equipped, world.shares_sessions) = (FRONTS, true);
    world.credential = Some(node::CALLER.shown);
    fs::create_dir(&world.effects.folder)?;
    let mark = place.mark_of_all();
    let _watchdog = waits::watch(Arc::clone(&world.waits), within * 2 + LONGEST, move |told| {
        // The nodes and the database end with this process, but for those that are the program.
        processes::end_marked(&mark);
        println!("FAILED  seed {seed}: it does not end\n{told}\nchaos: 0 passed, 1 failed");
        std::process::exit(1);
    });
    world.waits.on("all nodes to serve");
    let random = Random::new(seed);
    let fleet = Fleet::start(&world, place, database, faults, random.part(1))?;
    let found = play(&world, fleet, &direct, &random).with_context(|| format!("seed {seed}"))?;
    judge(place, &world, found, &direct).with_context(|| format!("seed {seed}"))
}

/// What everybody has found.
struct Found<'w> {
    callers: Vec<Caller<'w>>,
    hasty: Vec<Hasty<'w>>,
    observers: Vec<Sight>,
    strangers: Vec<Stranger<'w>>,
    watched: Watched,
    fleet: Fleet<'w>,
    store: Arc<dyn TaskStore>,
}

fn play<'w>(world: &'w World, fleet: Fleet<'w>, direct: &str, random: &Random) -> Result<Found<'w>> {
    let store = store::open(direct, node::settings())?.tasks;
    thread::scope(|scope| {
        let harm = move || {
            let harmed = fleet.harm();
            // Nobody comes to an end without a fleet.
            world.failed.store(harmed.is_err(), Ordering::SeqCst);
            harmed
        };
        let harm = begin(scope, world, "who does harm".to_owned(), harm)?;
        let (mut callers, mut hasty, mut observers) = (Vec::new(), Vec::new(), Vec::new());
        for number in (200..).take(CALLERS) {
            let caller = Caller::new(world, random.part(number));
            callers.push(begin(scope, world, format!("caller {number}"), move || caller.work())?);
        }
        for number in (400..).take(HASTY) {
            let one = Hasty::new(world, number, random.part(number));
            hasty.push(begin(scope, world, format!("caller {number}, in haste"), move || one.work())?);
        }
        for (era, number) in Era::BOTH.into_iter().zip(300..) {
            let random = random.part(number);
            let observe = move || observe(world, era, random);
            observers.push(begin(scope, world, format!("observer {number}"), observe)?);
        }
        let strangers = Era::BOTH.into_iter().zip(500..).map(|(era, number)| {
            let stranger = Stranger::new(world, era, random.part(number));
            begin(scope, world, format!("stranger {number}"), move || stranger.work())
        });
        let strangers = strangers.collect::<Result<Vec<_>>>()?;
        let looks = Arc::clone(&store);
        let watch = begin(scope, world, "who watches".to_owned(), move || watch::watch(world, &*looks))?;
        world.waits.on("all of them");
        let fleet = harm.join().expect("who does harm does not panic");
        let callers = callers.into_iter().map(|caller| caller.join().expect("a caller does not panic"));
        let callers = callers.collect();
        let hasty = hasty.into_iter().map(|hasty| hasty.join().expect("nor does who is in haste"));
        let hasty = hasty.collect();
        world.over.store(true, Ordering::SeqCst);
        let observers = observers.into_iter().map(|observer| observer.join().expect("nor does an observer"));
        let observers = observers.collect();
        let strangers = strangers.into_iter().map(|stranger| stranger.join().expect("nor does a stranger"));
        let strangers = strangers.collect();
        let watched = watch.join().expect("nor does who watches");
        // Without a fleet everything else fails, too.
        let fleet = fleet?;
        Ok(Found { callers, hasty, observers, strangers, watched: watched?, fleet, store })
    })
}

/// Has somebody at work whose name is told, should it never end.
fn begin<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    world: &'scope World,
    name: String,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    let work = move || {
        let done = work();
        world.waits.over();
        done
    };
    thread::Builder::new().name(name).spawn_scoped(scope, work).context("a thread cannot be started")
}

fn judge(place: &Place, world: &World, found: Found<'_>, direct: &str) -> Result<String> {
    let Found { callers, hasty, mut observers, strangers, watched, mut fleet, store } = found;
    let loaded = world.began.elapsed();
    let mut broken = std::mem::take(&mut fleet.broken);
    let mut look_again = |observers: &mut Vec<Sight>, slot: usize| {
        for (sight, era) in observers.iter_mut().zip(Era::BOTH) {
            let client = world.client(era, slot);
            broken.extend(look_at_all(world, sight, &client));
        }
    };
    world.waits.on("every task to be looked at");
    look_again(&mut observers, 1);
    world.waits.on("everything to be undone that is to be");
    let mut rest = watch::rest(&*store, PATIENCE)?;
    // And once more when all of them were killed.
    fleet.end()?;
    world.waits.on("every task to be looked at again");
    look_again(&mut observers, 0);
    world.waits.on("the store to be checked, and the verdict");
    let calls: Vec<_> = callers.iter().flat_map(|caller| &caller.done).collect();
    let (read, unread) = read_output(world, &calls);
    broken.extend(unread);
    check(place, direct, &mut broken)?;
    let (seen, remains) = fleet.seen()?;
    broken.extend(seen.broken.iter().cloned());
    broken.extend(remains.broken());
    // What they have begun has ended, and they with it.
    let (done, figures, faults) = (std::mem::take(&mut fleet.done), fleet.figures, fleet.faults.clone());
    drop(fleet);
    let left = processes::expect_none(place, None, PATIENCE).err();
    broken.extend(left.map(|left| format!("I14: {left}")));
    let asks = rest.rows.iter().filter(|row| !row.questions.is_empty());
    broken.extend(asks.map(|row| format!("I14: {} has ended, and asks", row.id)));
    let (quick, calls_rows) = rest.rows.into_iter().partition(|row| &*row.tool == QUICK);
    rest.rows = calls_rows;
    let sights: Vec<&Sight> = callers.iter().map(|caller| &caller.sight).chain(&observers).collect();
    broken.extend(shown_otherwise(&calls, &sights));
    let stops = world.stops.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut looked = Looked::default();
    for sight in sights {
        looked += sight.looked;
        broken.extend(sight.violations(&stops));
    }
    let effects = world.effects.clone().with_stops(stops);
    let verdict = Verdict::of(&calls, &rest, &effects, world.plan.seed)?;
    let mut answered = 0;
    for hasty in &hasty {
        answered += hasty.answered.len();
        broken.extend(hasty.judge(&quick, &effects)?);
    }
    broken.extend(strangers.iter().flat_map(|stranger| stranger.broken.iter().cloned()));
    broken.extend(watched.broken.iter().cloned());
    broken.extend(verdict.broken.iter().cloned());
    broken.extend(beside(world, &callers, &hasty));
    let answers = world.answers.load(Ordering::SeqCst);
    if verdict.consumed != answers {
        broken.push(format!(
            "I4: of {answers} acknowledged answers {} were told to the work",
            verdict.consumed
        ));
    }
    let such = |is: &dyn Fn(&Order) -> bool| calls.iter().filter(|call| is(&call.order)).count();
    broken.extend(remains.blind(such(&|order| order.kept().is_none())));
    let (sessions, commands) = (such(&|order| order.era == Era::D2), such(&|order| order.tool == COMMAND));
    let failed = done.iter().map(|(fault, count)| format!("{count} {fault}")).collect::<Vec<_>>();
    let told = vec![
        format!("loaded for {:.0} s", loaded.as_secs_f64()),
        format!(
            "tasks: {} ({sessions} in sessions of 2025-11-25, {commands} commands), and {answered} quick calls",
            calls.len()
        ),
        format!("how they ended: {}", verdict.ends()),
        format!("faults: {}", failed.join(", ")),
        format!("takeovers: {}", figures.takeovers),
        format!("fenced writes: {}", figures.fenced),
        format!("output: of {read} commands, whichever node had them, read at the program"),
    ];
    let tried = strangers.iter().map(|stranger| stranger.tried).sum();
    let (verdict, seen, watched, remains) = (&verdict, &seen, &watched, &remains);
    let held = Held { looked, verdict, seen, watched, remains, answers, tried }.each();
    let report =
        Report { within: world.plan.within, tasks: calls.len(), answers, figures, faults, done, held };
    conclude(place, &report, broken, told)
}

/// Says what it comes to.
fn conclude(
    place: &Place,
    report: &Report,
    mut broken: Vec<String>,
    mut told: Vec<String>,
) -> Result<String> {
    told.extend(report.lines(&broken));
    told.push(format!("violations: {}", broken.len()));
    if !broken.is_empty() {
        fs::write(place.path("violations"), broken.join("\n"))?;
        broken.truncate(MOST);
        bail!("{}\n{}", broken.join("\n"), told.join("\n"));
    }
    let not_shown = report.not_shown();
    ensure!(not_shown.is_empty(), "it shows nothing: {}\n{}", not_shown.join(", "), told.join("\n"));
    Ok(format!("\n{}", told.iter().map(|line| format!("          {line}")).collect::<Vec<_>>().join("\n")))
}

/// What is wrong that no invariant is about.
fn beside(world: &World, callers: &[Caller<'_>], hasty: &[Hasty<'_>]) -> Vec<String> {
    let lost: usize =
        callers.iter().map(Caller::lost_sessions).chain(hasty.iter().map(Hasty::lost_sessions)).sum();
    let lost = (lost > 0).then(|| format!("{lost} sessions were forgotten"));
    let hung = world.slots.iter().flat_map(Address::hung);
    let hung = hung.map(|asked| format!("nobody answered in a minute, nor went away: {asked}"));
    lost.into_iter().chain(hung).collect()
}

/// Reads what the commands have written, whoever started them, at the program; gives how many that were, and what is not so.
fn read_output(world: &World, calls: &[&Call]) -> (usize, Vec<String>) {
    let client = world.client(Era::D3, PROGRAM);
    let written = calls.iter().filter(|call| call.order.tool == COMMAND && call.order.cancelled.is_none());
    let (mut read, mut broken) = (0, Vec::new());
    for call in written {
        match client.output(&call.id, "stdout") {
            Ok(said) if said == node::WRITTEN.as_bytes() => read += 1,
            other => broken.push(format!("I7: {}: its command wrote {other:?}", call.order.key)),
        }
    }
    (read, broken)
}

/// Has the program count again what the store has counted.
fn check(place: &Place, url: &str, broken: &mut Vec<String>) -> Result<()> {
    let checked = Command::new(place.program()).args(["store", "check", url]).output();
    let checked = checked.context("the store cannot be checked")?;
    if !checked.status.success() {
        let [said, wrong] = [&checked.stdout, &checked.stderr].map(|said| String::from_utf8_lossy(said));
        broken.push(format!("I12: the store is not as it must be: {said}{wrong}"));
    }
    Ok(())
}
