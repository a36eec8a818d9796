//! Random kills under load: clients of both dialects call, poll, read and cancel while the server, or supervisors,
//! are killed again and again.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use longhaul_test::Random;
use rustix::process::{Signal, kill_process};

use crate::audit::{Losses, settle_and_check};
use crate::history::Call;
use crate::mcp::{Address, Client, Era};
use crate::place::{AFTER, ALWAYS, Job, Place, QUICK};
use crate::processes;
use crate::server::Server;

/// What is killed how often, by which seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) kills: usize,
    pub(crate) seed: u64,
    /// How many clients at once; every other one speaks D2.
    pub(crate) clients: usize,
    /// How many servers share the store, each killed in its own time.
    pub(crate) servers: usize,
    /// Whether supervisors are killed as well.
    pub(crate) supervisors: bool,
}

/// Kills by the plan, then audits.
pub(crate) fn run(place: &Place, plan: Plan) -> Result<String> {
    let random = Random::new(plan.seed);
    let slots: Vec<Address> = (0..plan.servers.max(1)).map(|_| Address::default()).collect();
    let over = AtomicBool::new(false);
    let killed = AtomicUsize::new(0);
    let (calls, outcome) = thread::scope(|scope| {
        let workers: Vec<_> = (0..plan.clients)
            .map(|number| {
                let era = Era::BOTH[number % 2];
                let random = random.part(number as u64 + 1);
                // Half of the clients of each dialect are with the second server, if there is one.
                let address = slots[number / 2 % slots.len()].clone();
                let worker = Worker::new(number, Client::new(era, address), random);
                let over = &over;
                scope.spawn(move || worker.work(over))
            })
            .collect();
        let killers: Vec<_> = slots
            .iter()
            .enumerate()
            .map(|(slot, address)| {
                let random = random.part(1000 + slot as u64);
                let killer = Killer { place, plan, address, random, killed: &killed };
                scope.spawn(move || killer.kill())
            })
            .collect();
        let ended = killers.into_iter().map(|killer| killer.join().expect("a killer does not panic"));
        // All of them, whatever the first says.
        let outcome = ended.collect::<Vec<_>>().into_iter().collect::<Result<()>>();
        over.store(true, Ordering::SeqCst);
        let calls: Vec<Call> =
            workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect();
        (calls, outcome)
    });
    let seed = plan.seed;
    outcome.with_context(|| format!("seed {seed}"))?;
    let mut calls = calls;
    let losses = if plan.supervisors { Losses::Supervisors } else { Losses::None };
    let summary = settle_and_check(place, &mut calls, losses).with_context(|| format!("seed {seed}"))?;
    ensure!(summary.acknowledged > 0, "seed {seed}: nothing was acknowledged, so nothing was shown");
    let lost = killed.load(Ordering::SeqCst);
    Ok(format!("{} kills ({lost} of supervisors), seed {seed}: {summary}", plan.kills))
}

/// Who kills the servers of one address.
struct Killer<'p> {
    place: &'p Place,
    plan: Plan,
    address: &'p Address,
    random: Random,
    /// How many supervisors were killed.
    killed: &'p AtomicUsize,
}

impl Killer<'_> {
    /// Starts servers and kills them, each at a moment of its own: while it starts, at rest, in the middle of anything.
    fn kill(mut self) -> Result<()> {
        for _kill in 0..self.plan.kills / self.plan.servers.max(1) {
            let mut server = self.place.start(&[])?;
            // One in ten is killed before it serves, at most.
            if self.random.percent(10) {
                thread::sleep(Duration::from_millis(self.random.below(60)));
                server.kill()?;
                continue;
            }
            let ready = server.ready().with_context(|| format!("the server said:\n{}", server.said()))?;
            self.address.set(Some(ready));
            let until = Instant::now() + Duration::from_millis(self.random.between(20, 900));
            while Instant::now() < until {
                let pause = Duration::from_millis(self.random.between(5, 60));
                thread::sleep(pause.min(until.saturating_duration_since(Instant::now())));
                self.disturb(&server)?;
            }
            // Not taken from the clients first: requests under way must see the kill.
            server.kill()?;
            self.address.set(None);
        }
        Ok(())
    }

    /// What may happen while a server lives.
    fn disturb(&mut self, server: &Server) -> Result<()> {
        if self.plan.supervisors && self.random.percent(20) && self.kill_supervisor() {
            self.killed.fetch_add(1, Ordering::SeqCst);
        }
        if self.random.percent(2) {
            server.signal(Signal::STOP)?;
            thread::sleep(Duration::from_millis(self.random.below(1500)));
            server.signal(Signal::CONT)?;
        }
        Ok(())
    }

    fn kill_supervisor(&mut self) -> bool {
        let running = processes::of(self.place).into_iter();
        let supervisors: Vec<_> = running.filter(processes::Process::is_supervisor).collect();
        if supervisors.is_empty() {
            return false;
        }
        let chosen = &supervisors[self.random.index(supervisors.len())];
        // It may have ended since.
        chosen.number().is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
    }
}

/// One client and the calls it has made.
struct Worker {
    number: usize,
    client: Client,
    random: Random,
    calls: Vec<Call>,
}

impl Worker {
    fn new(number: usize, client: Client, random: Random) -> Self {
        Self { number, client, random, calls: Vec::new() }
    }

    fn work(mut self, over: &AtomicBool) -> Vec<Call> {
        while !over.load(Ordering::SeqCst) {
            match self.random.below(100) {
                0..40 => self.call(),
                40..50 => self.call_and_cancel(),
                50..55 => self.leave(),
                55..80 => self.look(),
                80..90 => self.read(),
                90..95 => self.wait_shortly(),
                _ => self.cancel_any(),
            }
            thread::sleep(Duration::from_millis(self.random.between(30, 200)));
        }
        self.calls
    }

    fn job(&mut self) -> Job {
        let key = format!("w{}-{}", self.number, self.calls.len());
        let (lines, pause) = (self.random.between(1, 9), self.random.between(0, 250));
        Job::new(key, usize::try_from(lines).unwrap_or(1), pause as f64 / 1000.0)
    }

    /// A call of any kind.
    fn call(&mut self) {
        let job = self.job();
        let tool = [ALWAYS, ALWAYS, AFTER, AFTER, QUICK][self.random.index(5)];
        let held = self.random.percent(25);
        let mut call = Call::new(job, self.client.era());
        call.told(if held {
            self.client.call_held(tool, &call.job)
        } else {
            self.client.call(tool, &call.job)
        });
        self.calls.push(call);
    }

    /// A call that never ends by itself, and its cancel, repeated until it is acknowledged or the server is gone.
    fn call_and_cancel(&mut self) {
        let job = Job::endless(self.job().key);
        let mut call = Call::new(job, self.client.era());
        call.told(self.client.call(ALWAYS, &call.job));
        if call.task.is_some() {
            thread::sleep(Duration::from_millis(self.random.below(250)));
            for _attempt in 0..3 {
                if matches!(call.cancel(&self.client), Ok(true) | Err(_)) {
                    // What is on disk is seen at once.
                    call.look(&self.client);
                    break;
                }
            }
        }
        self.calls.push(call);
    }

    /// A call whose client is gone before the answer.
    fn leave(&mut self) {
        let job = self.job();
        let tool = [ALWAYS, AFTER][self.random.index(2)];
        let after = Duration::from_millis(self.random.below(30));
        self.client.call_and_leave(tool, &job, after);
        self.calls.push(Call::new(job, self.client.era()));
    }

    fn any_task(&mut self) -> Option<usize> {
        let tasks: Vec<usize> = (0..self.calls.len()).filter(|at| self.calls[*at].task.is_some()).collect();
        if tasks.is_empty() { None } else { Some(tasks[self.random.index(tasks.len())]) }
    }

    fn look(&mut self) {
        if let Some(at) = self.any_task() {
            self.calls[at].look(&self.client);
        }
    }

    /// What can be read of the output is always the beginning of it.
    fn read(&mut self) {
        let Some(at) = self.any_task() else { return };
        let call = &mut self.calls[at];
        let task = call.task.clone().unwrap_or_default();
        // An error is the server's death in between, or found again by the audit.
        if let Ok(found) = self.client.output(&task, "stdout")
            && !call.job.stdout().as_bytes().starts_with(&found)
        {
            call.violations.push(format!("{task}: stdout is {:?}", String::from_utf8_lossy(&found)));
        }
    }

    /// Waits for a result as a D2 client does, and gives up soon.
    fn wait_shortly(&mut self) {
        if self.client.era() == Era::D2
            && let Some(at) = self.any_task()
        {
            let task = self.calls[at].task.clone().unwrap_or_default();
            drop(self.client.with_patience(Duration::from_millis(300)).task_result(&task));
        }
    }

    /// Cancels a task that may end by itself at the same moment.
    fn cancel_any(&mut self) {
        if let Some(at) = self.any_task() {
            // Whether it was acknowledged is in its history.
            let _acknowledged = self.calls[at].cancel(&self.client);
        }
    }
}
