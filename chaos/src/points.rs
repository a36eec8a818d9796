//! At each named crash point the process kills itself; the next server finds everything that was acknowledged.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::audit::{Losses, settle_and_check};
use crate::case::Case;
use crate::history::Call;
use crate::mcp::{Address, Client, Era};
use crate::place::{AFTER, ALWAYS, BRIEF, Job, Place, QUICK};

/// Points that no server passes, or of which no caller is told anything, and why. The tests of their crate reach them.
const ELSEWHERE: &[(&str, &str)] = &[
    ("store.release.before", "no part of the engine gives a claim back yet"),
    ("store.release.after", "no part of the engine gives a claim back yet"),
    ("store.erase.before", "only a drafted revision of tasks erases"),
    ("store.erase.after", "only a drafted revision of tasks erases"),
    ("store.came_back.before", "nobody is told that it is noted"),
    ("store.came_back.after", "nobody is told that it is noted"),
    ("store.make_due.before", "no API of jobs calls back here"),
    ("store.make_due.after", "no API of jobs calls back here"),
    ("store.answer.before", "no command asks"),
    ("store.answer.after", "no command asks"),
    ("supervisor.overwrite.before", "no command here writes more than is kept"),
    ("supervisor.overwrite.after", "no command here writes more than is kept"),
];

/// How long a flow may take to reach its point: only one that never does gets there.
const PATIENCE: Duration = Duration::from_secs(60);

/// A case for each point of the store and of the commands, in each dialect.
pub(crate) fn cases(only: Option<&str>) -> Vec<Case> {
    let points = longhaul_store::crash_point::POINTS.iter().chain(longhaul_gateway::command::CRASH_POINTS);
    let points = points.filter(|point| ELSEWHERE.iter().all(|(name, _)| name != *point));
    let points = points.filter(|point| only.is_none_or(|only| point.contains(only)));
    points
        .flat_map(|point| Era::BOTH.map(|era| (*point, era)))
        .map(|(point, era)| Case::new(format!("{point} {}", era.name()), move |place| at(place, point, era)))
        .collect()
}

/// The way a server is led to a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Calls of every kind, one after the other.
    Calls,
    /// A fresh store.
    Open,
    /// Work that a killed server left.
    Claim,
    /// Work that lasts longer than a renewal of its lease.
    Renew,
    /// A task whose time is up.
    Sweep,
    /// A cancel of a run whose supervisor cannot be talked to.
    CancelFile,
}

impl Way {
    fn to(point: &str) -> Self {
        match point.rsplit_once('.').map_or(point, |(kind, _)| kind) {
            "store.open" | "store.migrate" => Self::Open,
            "store.claim" => Self::Claim,
            "store.renew" => Self::Renew,
            "store.sweep" => Self::Sweep,
            "run.cancel" => Self::CancelFile,
            _ => Self::Calls,
        }
    }
}

/// One flow with one point armed.
struct Flow<'p> {
    place: &'p Place,
    point: &'static str,
    era: Era,
    calls: Vec<Call>,
}

fn at(place: &Place, point: &'static str, era: Era) -> Result<String> {
    let mut flow = Flow { place, point, era, calls: Vec::new() };
    match Way::to(point) {
        Way::Calls => flow.make_calls()?,
        Way::Open => drop(flow.armed()?),
        Way::Claim => flow.leave_work()?,
        Way::Renew => flow.outlast_a_renewal()?,
        Way::Sweep => flow.outlive_a_task()?,
        Way::CancelFile => flow.cancel_by_file()?,
    }
    flow.reached()?;
    // Whoever has recorded its end has nothing left to lose.
    let supervisor = point.starts_with("supervisor.");
    let recorded = point == "supervisor.publish.after";
    let losses = if supervisor && !recorded { Losses::Supervisors } else { Losses::None };
    let summary = settle_and_check(place, &mut flow.calls, losses)?;
    Ok(summary.to_string())
}

impl Flow<'_> {
    /// Starts a server with the point armed; `None` when it died of it at once.
    fn armed(&self) -> Result<Option<(crate::server::Server, Client)>> {
        let report = self.report().display().to_string();
        let variables = [("LONGHAUL_CRASH_POINT", self.point), ("LONGHAUL_CRASH_REPORT", &report)];
        let mut server = self.place.start(&variables)?;
        let Some(address) = server.came_up()? else {
            server.ended()?;
            return Ok(None);
        };
        Ok(Some((server, Client::new(self.era, Address::of(address)))))
    }

    /// Starts a server with nothing armed.
    fn unarmed(&self) -> Result<(crate::server::Server, Client)> {
        let server = self.place.serve(&[])?;
        let address = Address::of(server.ready()?);
        Ok((server, Client::new(self.era, address)))
    }

    fn call(&mut self, client: &Client, tool: &str, job: Job, held: bool) -> usize {
        let mut call = Call::new(job, self.era);
        call.told(if held { client.call_held(tool, &call.job) } else { client.call(tool, &call.job) });
        self.calls.push(call);
        self.calls.len() - 1
    }

    /// Calls of every kind, until the point is reached.
    fn make_calls(&mut self) -> Result<()> {
        let Some((mut server, client)) = self.armed()? else { return Ok(()) };
        let is_d2 = self.era == Era::D2;
        // Promoted while it runs; in D2 only a call that asks for no task is.
        let promoted = self.call(&client, AFTER, Job::new("promoted", 5, 0.2), is_d2);
        self.follow(&client, promoted)?;
        let always = self.call(&client, ALWAYS, Job::new("always", 3, 0.1), false);
        self.follow(&client, always)?;
        if !self.is_reached() {
            self.call(&client, QUICK, Job::new("quick", 1, 0.0), is_d2);
        }
        if !self.is_reached() {
            let endless = self.call(&client, ALWAYS, Job::endless("endless"), false);
            if self.calls[endless].task.is_some() {
                self.calls[endless].cancel(&client)?;
            }
        }
        // A point behind the last answer is reached in its own time.
        let until = Instant::now() + Duration::from_secs(10);
        while !self.is_reached() && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        self.end(&mut server)
    }

    /// Looks at a task until it has ended or the point was reached.
    fn follow(&mut self, client: &Client, call: usize) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        let call = &mut self.calls[call];
        let report = self.place.path("report");
        while call.task.is_some() && !fs::exists(&report)? {
            if call.look(client) == Some(true) {
                return Ok(());
            }
            ensure!(Instant::now() < until, "the task {:?} neither ends nor reaches the point", call.task);
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn leave_work(&mut self) -> Result<()> {
        let (mut server, client) = self.unarmed()?;
        self.call(&client, ALWAYS, Job::new("left", 8, 0.25), false);
        self.call(&client, ALWAYS, Job::endless("left-endless"), false);
        server.kill()?;
        match self.armed()? {
            Some((mut server, _)) => self.end(&mut server),
            None => Ok(()),
        }
    }

    fn outlast_a_renewal(&mut self) -> Result<()> {
        let Some((mut server, client)) = self.armed()? else { return Ok(()) };
        self.call(&client, ALWAYS, Job::new("renewed", 60, 0.2), false);
        self.call(&client, ALWAYS, Job::endless("renewed-endless"), false);
        let _died_within = server.ended_within(PATIENCE)?;
        self.end(&mut server)
    }

    fn outlive_a_task(&mut self) -> Result<()> {
        let (mut server, client) = self.unarmed()?;
        let brief = self.call(&client, BRIEF, Job::new("brief", 1, 0.0), false);
        let kept = self.call(&client, ALWAYS, Job::new("kept", 1, 0.0), false);
        self.follow(&client, brief)?;
        self.follow(&client, kept)?;
        ensure!(self.calls[brief].terminal().is_some(), "the brief task never ended");
        server.kill()?;
        // Its time is a second.
        thread::sleep(Duration::from_millis(1200));
        if let Some((mut server, _)) = self.armed()? {
            let _died_within = server.ended_within(PATIENCE)?;
            self.end(&mut server)?;
        }
        // Forgotten, as it was to be.
        self.calls.remove(brief);
        Ok(())
    }

    fn cancel_by_file(&mut self) -> Result<()> {
        let Some((mut server, client)) = self.armed()? else { return Ok(()) };
        let call = self.call(&client, ALWAYS, Job::endless("unplugged"), false);
        let task = self.calls[call].task.clone().context("the call is a task")?;
        let socket = self.place.runs().join(&task).join("control.sock");
        let until = Instant::now() + PATIENCE;
        while fs::remove_file(&socket).is_err() {
            ensure!(Instant::now() < until, "there never was a socket at {}", socket.display());
            thread::sleep(Duration::from_millis(10));
        }
        self.calls[call].cancel(&client)?;
        let _died_within = server.ended_within(PATIENCE)?;
        self.end(&mut server)
    }

    /// Ends a server that did not die by itself: it was its supervisor that died.
    fn end(&self, server: &mut crate::server::Server) -> Result<()> {
        if self.point.starts_with("supervisor.") {
            // What it makes of the loss is its own to record, or the next server's.
            server.ended_within(Duration::from_millis(300))?;
        } else {
            // It was about to die of the point, or never reached it, which is said elsewhere.
            server.ended_within(Duration::from_secs(1))?;
        }
        server.kill()
    }

    fn report(&self) -> std::path::PathBuf {
        self.place.path("report")
    }

    fn is_reached(&self) -> bool {
        self.report().exists()
    }

    /// The process that passed the point said so and died.
    fn reached(&self) -> Result<()> {
        let report = fs::read_to_string(self.report()).unwrap_or_default();
        let reached = report.lines().filter(|line| *line == self.point).count();
        if reached == 0 {
            bail!("the point was never reached");
        }
        Ok(())
    }
}
