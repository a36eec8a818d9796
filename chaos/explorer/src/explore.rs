//! The exploration: a scenario without a crash, then with one before and after each of its operations.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Duration;

use longhaul::Tool;
use longhaul_store::Dialect;
use longhaul_store::wrap::{Moment, Operation};
use serde_json::{Value, json};

use crate::client::Client;
use crate::fleet::{Crash, Fleet};
use crate::invariant::brief;
use crate::pairs::Pairs;
use crate::place::Kind;
use crate::world::Hands;

/// A story that is told again and again, with another crash in it each time.
pub(crate) struct Scenario {
    /// The rows of the failure matrix it is about, and what happens in it.
    pub(crate) name: &'static str,
    /// The tools of the server. Every process makes them anew.
    pub(crate) tools: fn(&Hands) -> Vec<Tool>,
    /// What the client does, and what comes of it.
    pub(crate) play: fn(&mut Client) -> Value,
    /// A part of what comes of it when nothing crashes.
    pub(crate) comes_to: &'static str,
    /// What else may come of it, given a crash: a part of that.
    pub(crate) or_else: &'static [&'static str],
    /// What it does to the world, and how often.
    pub(crate) effects: &'static [(&'static str, Often)],
}

/// How often an effect is had, whatever crashes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Often {
    /// Once, and at most once more for each crash.
    AtLeastOnce,
    /// The same, but perhaps never where two processes crashed: what was lost twice waits, and another takes its place.
    UnlessLostTwice,
    /// Not twice, but perhaps never.
    AtMostOnce,
    /// Not without a crash, and then at most once for each.
    AfterCrashes,
    /// Once.
    Once,
    /// Never.
    Never,
}

/// What came of one run.
struct Trial {
    came: Value,
    effects: BTreeMap<String, usize>,
    /// What each process asked of the store until the story was over.
    operations: Vec<Vec<Operation>>,
    crashed: usize,
    broken: Vec<String>,
}

/// Tells the scenario with every crash there can be, on every store, and says how many there were.
///
/// # Panics
///
/// When a promise is broken, with the crash that broke it.
pub(crate) fn explore(scenario: &'static Scenario) {
    for kind in Kind::ALL {
        let mut explorer = Explorer { scenario, kind: *kind, tried: 0, broken: Vec::new() };
        let left = explorer.run(Pairs::of(scenario.name, *kind));
        let Explorer { tried, broken, .. } = explorer;
        // Past the harness, which shows nothing of a test that passes.
        let mut out = std::io::stdout().lock();
        let of = if left == 0 { String::new() } else { format!(" of {}", tried + left) };
        writeln!(out, "explored {}: {tried}{of} crash points, {kind}", scenario.name).unwrap();
        drop(out);
        assert!(
            broken.is_empty(),
            "{} of {tried} runs of {}:\n{}",
            broken.len(),
            scenario.name,
            broken.join("\n")
        );
    }
}

/// Tells the scenario on every store and lets nothing crash: what it is about is time.
///
/// # Panics
///
/// When a promise is broken.
pub(crate) fn tell(scenario: &'static Scenario) {
    for kind in Kind::ALL {
        let explorer = Explorer { scenario, kind: *kind, tried: 0, broken: Vec::new() };
        let broken = explorer.try_out(&[]).broken;
        assert!(broken.is_empty(), "{}, {kind}:\n{}", scenario.name, broken.join("\n"));
    }
}

/// Before and after each operation that a process may have.
fn points(process: usize) -> impl Iterator<Item = Crash> {
    (1..).flat_map(move |operation| {
        [Moment::Before, Moment::After].map(|moment| Crash { process, operation, moment })
    })
}

struct Explorer {
    scenario: &'static Scenario,
    kind: Kind,
    tried: usize,
    broken: Vec<String>,
}

impl Explorer {
    /// With every crash there can be, and with every pair of them if those are wanted; for how many pairs there was no time.
    fn run(&mut self, mut pairs: Option<Pairs>) -> usize {
        let usual = self.try_out(&[]);
        assert!(usual.broken.is_empty(), "without a crash: {:#?}", usual.broken);
        // How many there are is known before the first of them, so that it can be said how far this has come.
        let firsts: Vec<_> =
            (0..usual.operations.len()).flat_map(|process| self.every_point(&[], process)).collect();
        let Some(pairs) = &mut pairs else { return 0 };
        firsts.into_iter().map(|(first, seconds)| self.every_second(first, seconds, pairs)).sum()
    }

    /// Lets that process crash before and after each of its operations, as long as there are any. At how many points the
    /// next one can crash then.
    fn every_point(&mut self, before: &[Crash], process: usize) -> Vec<(Crash, usize)> {
        points(process).map_while(|crash| Some((crash, self.crash(before, crash)?))).collect()
    }

    /// Lets the next process crash as well, in the same way; of those `seconds` how many there was no time for.
    fn every_second(&mut self, first: Crash, seconds: usize, pairs: &mut Pairs) -> usize {
        if let Some(tried) = pairs.tried(first) {
            self.tried += tried;
            return 0;
        }
        if pairs.is_late() {
            return seconds;
        }
        let (tried, broken) = (self.tried, self.broken.len());
        self.every_point(&[first], first.process + 1);
        if self.broken.len() == broken {
            pairs.note(first, self.tried - tried);
        }
        0
    }

    /// Tells the scenario with this crash after those `before`, if there is such an operation; at how many points the next
    /// process can crash then.
    fn crash(&mut self, before: &[Crash], crash: Crash) -> Option<usize> {
        let plan: Vec<Crash> = before.iter().copied().chain([crash]).collect();
        let trial = self.try_out(&plan);
        if trial.crashed < plan.len() {
            return None;
        }
        self.tried += 1;
        if !trial.broken.is_empty() {
            let Crash { process, operation, moment } = crash;
            let what = trial.operations[process].last().map(ToString::to_string).unwrap_or_default();
            let at = format!("a crash {moment} operation {operation} ({what}) of process {process}");
            let after = if before.is_empty() { String::new() } else { format!(", after {before:?}") };
            self.broken.push(format!("{at}{after}:\n  {}", trial.broken.join("\n  ")));
        }
        Some(2 * trial.operations.get(crash.process + 1).map_or(0, Vec::len))
    }

    fn try_out(&self, plan: &[Crash]) -> Trial {
        let mut client = Client::new(Fleet::new(self.scenario, self.kind, plan));
        let came = (self.scenario.play)(&mut client);
        client.switch_off(Duration::ZERO);
        let (operations, crashed) = (client.fleet.operations.clone(), client.fleet.crashed());
        look_back(&mut client);
        let effects = client.fleet.world.effects();
        let mut broken = client.fleet.audit.broken();
        broken.extend(client.fleet.world.contradictions());
        let mut trial = Trial { came, effects, operations, crashed, broken };
        self.judge(&mut trial, plan.len());
        trial
    }

    fn judge(&self, trial: &mut Trial, crashes: usize) {
        let Scenario { comes_to, or_else, effects, .. } = self.scenario;
        let came = trial.came.to_string();
        let usual = came.contains(comes_to);
        let otherwise = crashes > 0 && or_else.iter().any(|other| came.contains(other));
        if !(usual || otherwise) {
            trial.broken.push(format!("it came to {came}"));
        }
        for (name, often) in *effects {
            let times = trial.effects.remove(*name).unwrap_or(0);
            let kept = match often {
                // What ended otherwise may have ended before.
                Often::AtLeastOnce => (times >= 1 || !usual) && times <= 1 + crashes,
                Often::UnlessLostTwice => (times >= 1 || crashes > 1) && times <= 1 + crashes,
                Often::AtMostOnce => times <= 1 && (times == 1 || !usual),
                Often::AfterCrashes => times <= crashes,
                Often::Once => times == 1,
                Often::Never => times == 0,
            };
            if !kept {
                trial
                    .broken
                    .push(format!("{name} was to happen {often:?}, and happened {times} times: {came}"));
            }
        }
        if !trial.effects.is_empty() {
            trial.broken.push(format!("nothing was said of {:?}", trial.effects));
        }
    }
}

/// What holds when the story is over: nothing changes any more, nobody else sees it, nothing is left over.
fn look_back(client: &mut Client) {
    let tasks = client.tasks();
    let there = client.fleet.audit.tasks();
    for task in &there {
        if !task.is_terminal() {
            client.complain(format!("I14: it is over, and a task is open: {}", brief(task)));
        }
        if let Some(undo) = task.undo.as_ref().filter(|undo| task.owed > 0 || undo.failed > 0) {
            client.complain(format!("it is over, and not undone: {undo:?}, {}", brief(task)));
        }
        if task.parent.is_none() && !tasks.contains(task.id.as_str()) {
            client.complain(format!("I13: nobody has asked for {}", brief(task)));
        }
    }
    // One that its caller has named is told of by that name alone.
    for task in there.iter().filter(|task| task.dialect != Dialect::D1).take(1) {
        // The next process shows the same: it was seen by the last.
        client.get(task.id.as_str());
        let ask = |client: &mut Client, id: &str| {
            client.fleet.ask("bob", "tasks/get", &json!({"taskId": id})).map(|told| told["error"].clone())
        };
        let (foreign, unknown) = (ask(client, task.id.as_str()), ask(client, "none-such"));
        let same = matches!((&foreign, &unknown), (Ok(foreign), Ok(unknown)) if foreign == unknown);
        if !same {
            client.complain(format!("I9: a stranger is told {foreign:?}, and of what never was {unknown:?}"));
        }
    }
    // Kept for a day, and its id for an hour more.
    for off in [Duration::from_secs(25 * 3600), Duration::from_secs(2 * 3600)] {
        client.switch_off(off);
        client.pass(Duration::from_secs(1));
    }
    let counts = client.fleet.audit.counts();
    if counts != (0, 0) {
        client.complain(format!("I14: a day later {counts:?} tasks take room, open and in all"));
    }
}
