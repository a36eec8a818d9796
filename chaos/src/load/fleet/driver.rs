//! Who does harm: keeps the nodes of a fleet, and has them, their ways to the database and the database fail, as the seed says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use longhaul_test::Random;
use rustix::process::Signal;

use super::super::effects::{Stop, moment};
use super::super::node::{self, Role};
use super::super::{World, killer};
use super::Fault;
use super::database::Database;
use super::link::{Link, Weather};
use super::remains::Remains;
use super::witness::{Seen, Witness};
use crate::http;
use crate::place::Place;
use crate::server::Server;

/// Those who answer, and those who work.
pub(super) const FRONTS: usize = 3;
const WORKERS: usize = 4;

/// One more of each is the program itself, which has the command alone. Clients find its front behind the others.
pub(super) const PROGRAM: usize = FRONTS;

/// How long the program holds a task of which it is not heard, as by default.
const PROGRAM_LEASE: Duration = Duration::from_secs(30);

/// How many nodes are in trouble at once, at most.
const TROUBLED: usize = 3;

/// How often it looks after them.
const LOOK: Duration = Duration::from_millis(10);

/// How long everything is given to come back in the end.
const CALM: Duration = Duration::from_secs(60);

/// How far from the right time a clock is, at most, in seconds.
const SKEW: u64 = 3600;

/// How often the program is asked for its figures, and how long it has to say them.
const ASKS: Duration = Duration::from_millis(500);
const ANSWERS: Duration = Duration::from_millis(200);

/// A fleet, and what was done to it.
pub(super) struct Fleet<'w> {
    world: &'w World,
    place: &'w Place,
    random: Random,
    pub(super) faults: Vec<Fault>,
    database: Database,
    /// When the database comes back, while it is dead, and when that began.
    back: Option<(Instant, i64)>,
    nodes: Vec<Node>,
    /// How many processes were started.
    started: usize,
    /// Who sees all that is written, once there is a store.
    witness: Option<Witness>,
    pub(super) done: BTreeMap<Fault, usize>,
    pub(super) figures: Figures,
    pub(super) broken: Vec<String>,
}

/// What nodes have come across.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) takeovers: u64,
    pub(super) fenced: u64,
}

/// One node, which may be dead at the moment.
struct Node {
    name: String,
    role: Role,
    /// Whether it is the program, and not this one.
    is_program: bool,
    /// Where clients find it, if it is a front.
    slot: Option<usize>,
    link: Link,
    server: Option<Server>,
    /// What the clock of its process is wrong by, as that reads it, if anything is.
    clock: Option<PathBuf>,
    /// What this process has come across, as far as it has said so, and when it is asked again, if it is to be asked.
    figures: Figures,
    asked: Instant,
    serves: bool,
    trouble: Option<Trouble>,
}

/// What is wrong with a node, and until when.
struct Trouble {
    fault: Fault,
    relief: Instant,
    /// When it began, as effects are dated.
    since: i64,
    /// When the way is cut or healed the next time, of one that does not come to rest.
    next: Instant,
}

impl Figures {
    /// Those of the program, which tells them there.
    fn told_at(address: SocketAddr) -> Option<Self> {
        let answer = http::get(address, "/metrics", ANSWERS).and_then(http::Sent::answer).ok()?;
        Self::of(std::str::from_utf8(&answer.body).ok().filter(|_| answer.whole)?)
    }

    fn of(told: &str) -> Option<Self> {
        let number = |name: &str| {
            let found = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            found?.trim().parse().ok()
        };
        let takeovers = number("longhaul_task_takeovers_total")?;
        Some(Self { takeovers, fenced: number("longhaul_task_fenced_writes_total")? })
    }
}

impl<'w> Fleet<'w> {
    /// A fleet, all of which serves.
    pub(super) fn start(
        world: &'w World,
        place: &'w Place,
        database: Database,
        faults: Vec<Fault>,
        random: Random,
    ) -> Result<Self> {
        let (done, figures) = (BTreeMap::new(), Figures::default());
        let (nodes, broken) = (Vec::new(), Vec::new());
        let (back, started, witness) = (None, 0, None);
        let mut fleet = Self {
            world,
            place,
            random,
            faults,
            database,
            back,
            nodes,
            started,
            witness,
            done,
            figures,
            broken,
        };
        fs::write(fleet.configuration(), node::configuration(&world.effects) + &node::tokens())?;
        for number in 0..FRONTS + WORKERS + 2 {
            let slot = Some(number).filter(|slot| *slot <= PROGRAM);
            let role = if slot.is_some() { Role::Front } else { Role::Worker };
            let is_program = number == PROGRAM || number == FRONTS + WORKERS + 1;
            let kind = if is_program { "the program as " } else { "" };
            let name = format!("{kind}{} {number}", word(role));
            let link = Link::to(fleet.database.address)?;
            fleet.nodes.push(Node {
                name,
                role,
                is_program,
                slot,
                link,
                server: None,
                clock: None,
                figures: Figures::default(),
                asked: Instant::now(),
                serves: false,
                trouble: None,
            });
            // The first makes the format of the store.
            if number == 0 {
                fleet.until_all_serve()?;
                fleet.witness = Some(fleet.database.witness()?);
            }
        }
        fleet.until_all_serve()?;
        Ok(fleet)
    }

    /// Does harm until the time is over, then none any more; everything comes back.
    pub(super) fn harm(mut self) -> Result<Self> {
        let mut next = Instant::now();
        self.world.waits.on("the time to be over");
        while !self.world.is_late() {
            self.tend()?;
            if Instant::now() >= next {
                self.begin()?;
                next = Instant::now() + Duration::from_millis(self.random.between(200, 1200));
            }
            thread::sleep(LOOK);
        }
        for node in &mut self.nodes {
            if let Some(trouble) = &mut node.trouble {
                trouble.relief = Instant::now();
            }
        }
        self.back = self.back.map(|(_, since)| (Instant::now(), since));
        self.until_all_serve()?;
        Ok(self)
    }

    /// What was seen of all that was written until now, and what is there.
    pub(super) fn seen(&mut self) -> Result<(Seen, Remains)> {
        let witness = self.witness.take().context("what is written is witnessed once")?;
        Ok((witness.end()?, self.database.remains()?))
    }

    /// Kills every node, and starts a front and a worker of each kind anew.
    pub(super) fn end(&mut self) -> Result<()> {
        for node in &mut self.nodes {
            node.end(self.world, &mut self.figures)?;
        }
        let mut kinds = BTreeSet::new();
        self.nodes.retain(|node| kinds.insert((node.slot.is_some(), node.is_program)));
        self.until_all_serve()
    }

    fn until_all_serve(&mut self) -> Result<()> {
        let until = Instant::now() + CALM;
        self.world.waits.on("all nodes to serve");
        while self.back.is_some() || self.nodes.iter().any(|node| !node.serves || node.trouble.is_some()) {
            self.tend()?;
            if Instant::now() > until {
                let silent = self.nodes.iter().filter(|node| !node.serves).map(|node| {
                    let said = node.server.as_ref().map(Server::said).unwrap_or_default();
                    format!("{}: {said}", node.name)
                });
                bail!("not all nodes serve:\n{}", silent.collect::<Vec<_>>().join("\n"));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Lets end what is over, and starts who is missing.
    fn tend(&mut self) -> Result<()> {
        if let Some((back, since)) = self.back
            && Instant::now() >= back
        {
            self.database.launch()?;
            self.back = None;
            self.nodes.iter().for_each(|node| node.was_away(self.world, since, true));
        }
        for at in 0..self.nodes.len() {
            self.nodes[at].relieve(self.world)?;
            if self.nodes[at].server.is_none() && self.nodes[at].trouble.is_none() && self.back.is_none() {
                self.nodes[at].server = Some(self.start_node(at)?);
            }
            let is_dead_before = self.back.is_some();
            self.nodes[at].look(self.world, &mut self.figures, is_dead_before, &mut self.broken)?;
        }
        Ok(())
    }

    /// What the program reads.
    fn configuration(&self) -> PathBuf {
        self.place.path("fleet.toml")
    }

    fn start_node(&mut self, at: usize) -> Result<Server> {
        let (node, number) = (&self.nodes[at], self.started);
        let who = format!("node-{at}-{number}");
        let (url, role) = (self.database.url(node.link.address, &who), word(node.role));
        let mut command = if node.is_program {
            let mut program = Command::new(self.place.program());
            program.arg("serve").arg(self.configuration()).args(["--http", "127.0.0.1:0", "--store", &url]);
            program.arg("--state").arg(self.world.effects.state()).args(["--no-watch", "--role", role]);
            program.args(["--metrics", "127.0.0.1:0"]);
            for node::Known { name, shown } in [node::CALLER, node::STRANGER] {
                program.env(node::variable(name), shown.trim_start_matches("Bearer "));
            }
            program.stdin(Stdio::null());
            program
        } else {
            let mut this = Command::new(std::env::current_exe().context("this program has no name")?);
            this.args(["node", &url]).arg(&self.world.effects.folder).args(["--role", role]);
            this.stdin(Stdio::piped());
            this
        };
        let (name, token) = self.place.mark();
        command.env(name, token);
        self.started += 1;
        self.nodes[at].clock = None;
        if self.faults.contains(&Fault::Clock) && self.random.percent(60) {
            let clock = self.place.path(&format!("clock-{number}"));
            self.skew(&clock)?;
            // Clocks that only count what passes are right on any machine.
            command.env("LD_PRELOAD", faketime()?).env("DONT_FAKE_MONOTONIC", "1");
            // Whenever the time is asked for, it is what the file says by then.
            command
                .env("FAKETIME_TIMESTAMP_FILE", &clock)
                .env("FAKETIME_NO_CACHE", "1")
                .env_remove("FAKETIME");
            self.nodes[at].clock = Some(clock);
        }
        Server::spawn(command)
    }

    /// Has a clock be wrong by something else.
    fn skew(&mut self, clock: &Path) -> Result<()> {
        let by = self.random.between(0, 2 * SKEW + 1).cast_signed() - SKEW.cast_signed();
        // Whoever reads it finds the one or the other.
        let next = clock.with_extension("next");
        fs::write(&next, format!("{by:+}\n"))?;
        fs::rename(next, clock).context("a clock cannot be set")
    }

    fn count(&mut self, fault: Fault) {
        *self.done.entry(fault).or_default() += 1;
    }

    /// Does one more thing, if it can be done.
    fn begin(&mut self) -> Result<()> {
        let fault = self.faults[self.random.index(self.faults.len())];
        if fault == Fault::Database {
            // One in three: it is everybody's.
            if self.back.is_none() && self.random.percent(33) {
                self.database.kill()?;
                let back = Instant::now() + Duration::from_millis(self.random.below(3000));
                self.back = Some((back, moment()));
                self.count(fault);
            }
            return Ok(());
        }
        if fault == Fault::Clock {
            // Whatever else is wrong with the node.
            let at = self.random.index(self.nodes.len());
            let clock = self.nodes[at].clock.clone().filter(|_| self.nodes[at].serves);
            if let Some(clock) = clock {
                self.skew(&clock)?;
                self.count(fault);
            }
            return Ok(());
        }
        let troubled = self.nodes.iter().filter(|node| node.trouble.is_some()).count();
        let at = self.random.index(self.nodes.len());
        if troubled >= TROUBLED || !self.nodes[at].serves || self.nodes[at].trouble.is_some() {
            return Ok(());
        }
        let lasts = match fault {
            Fault::Kill => self.random.below(2000),
            // Longer than a lease.
            Fault::Stop => self.nodes[at].lease().as_millis() as u64 + self.random.between(500, 3000),
            _ => self.random.between(200, 8000),
        };
        let now = Instant::now();
        let relief = now + Duration::from_millis(lasts);
        let slow = Duration::from_millis(self.random.between(20, 300));
        let only_answers = self.random.percent(50);
        let node = &mut self.nodes[at];
        match fault {
            Fault::Kill => node.end(self.world, &mut self.figures)?,
            Fault::Stop => node.signal(Signal::STOP)?,
            Fault::Cut | Fault::Flap => node.link.set(Weather::Cut),
            Fault::Silence => node.link.set(Weather::Silent { only_answers }),
            Fault::Delay => node.link.set(Weather::Slow(slow)),
            Fault::Database | Fault::Clock => {}
        }
        if let (Fault::Stop, Some(slot)) = (fault, node.slot) {
            // What it was asked before waits for it.
            self.world.slots[slot].set(None);
        }
        node.trouble = Some(Trouble { fault, relief, since: moment(), next: now + FLAPS });
        self.count(fault);
        Ok(())
    }
}

/// How long a way that does not come to rest stays as it is.
const FLAPS: Duration = Duration::from_secs(1);

/// What a role is called where one is started.
fn word(role: Role) -> &'static str {
    match role {
        Role::All => "all",
        Role::Front => "front",
        Role::Worker => "worker",
    }
}

impl Node {
    /// How long it holds a task of which it is not heard. Fronts hold none, and are waited for by whoever has asked them something.
    fn lease(&self) -> Duration {
        if self.is_program && self.slot.is_none() { PROGRAM_LEASE } else { node::LEASE }
    }

    /// Ends its trouble, if that is over.
    fn relieve(&mut self, world: &World) -> Result<()> {
        let Some(trouble) = &mut self.trouble else { return Ok(()) };
        if Instant::now() < trouble.relief {
            if trouble.fault == Fault::Flap && Instant::now() >= trouble.next {
                trouble.next = Instant::now() + FLAPS;
                // Cut, and at once to be had again.
                self.link.set(Weather::Cut);
                self.link.set(Weather::Clear);
            }
            return Ok(());
        }
        let (fault, since) = (trouble.fault, trouble.since);
        self.trouble = None;
        self.link.set(Weather::Clear);
        let stood_still = fault == Fault::Stop;
        if stood_still {
            self.signal(Signal::CONT)?;
        }
        self.was_away(world, since, !stood_still);
        if let (true, Some(slot), Some(server)) = (stood_still, self.slot, &self.server) {
            world.slots[slot].set(server.serves());
        }
        Ok(())
    }

    /// Notes that it stood still until now, or was cut off from the store.
    fn was_away(&self, world: &World, from: i64, is_cut_off: bool) {
        let said = self.server.as_ref().map(Server::said).unwrap_or_default();
        if let Some(node) = killer::name(&said) {
            world.stopped(Stop { node: node.to_owned(), from, until: moment(), is_cut_off });
        }
    }

    /// Sees whether it has come up, or ended by itself: only one that has not come up may, while it cannot reach the store.
    fn look(
        &mut self,
        world: &World,
        figures: &mut Figures,
        is_dead_before: bool,
        broken: &mut Vec<String>,
    ) -> Result<()> {
        let Some(server) = &mut self.server else { return Ok(()) };
        if let Some(status) = server.ended_within(Duration::ZERO)? {
            let said = server.all_said();
            let lacks_its_store = ["cannot be opened", "cannot be reached"].map(|why| said.contains(why));
            if self.serves || !(is_dead_before || lacks_its_store.contains(&true)) {
                broken.push(format!("{} ended by itself ({status}): {said}", self.name));
            }
            return self.end(world, figures);
        }
        if !self.serves
            && let Some(address) = server.serves()
        {
            self.serves = true;
            if let Some(slot) = self.slot {
                world.slots[slot].set(Some(address));
            }
        }
        if self.is_program && self.serves && self.trouble.is_none() && Instant::now() >= self.asked {
            self.asked = Instant::now() + ASKS;
            // One that does not answer is asked again.
            self.figures = server.metrics().and_then(Figures::told_at).unwrap_or(self.figures);
        }
        Ok(())
    }

    /// Ends it, and counts what it has come across.
    fn end(&mut self, world: &World, figures: &mut Figures) -> Result<()> {
        let Some(mut server) = self.server.take() else { return Ok(()) };
        self.serves = false;
        // Not taken from the clients first: requests under way must see the kill.
        server.kill()?;
        if let Some(slot) = self.slot {
            world.slots[slot].set(None);
        }
        let said = server.all_said();
        let told = said.lines().rev().find_map(|line| line.strip_prefix(node::FIGURES)?.split_once(' '));
        let number = |digits: &str| digits.parse().unwrap_or(0);
        let told =
            told.map(|(takeovers, fenced)| Figures { takeovers: number(takeovers), fenced: number(fenced) });
        let Figures { takeovers, fenced } = told.unwrap_or_else(|| std::mem::take(&mut self.figures));
        figures.takeovers += takeovers;
        figures.fenced += fenced;
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        self.server.as_ref().context("a node is signalled that is there")?.signal(signal)
    }
}

/// The library that has a process see another date.
pub(super) fn faketime() -> Result<PathBuf> {
    let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut libraries = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    libraries
        .find(|library| library.exists())
        .context("no clock can be set wrong: apt-get install -y faketime, or name all --faults but `clock`")
}
