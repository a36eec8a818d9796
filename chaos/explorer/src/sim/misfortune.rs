//! What happens in a run: who calls when, and what goes wrong meanwhile.

use std::time::Duration;

use crate::random::Random;
use longhaul_store::{Phase, Record};
use serde_json::json;

use super::client::Client;
use super::executor::{Executor, Home, WORLD};
use super::ledger::Ledger;
use super::nodes::Nodes;
use super::outside::Outside;
use crate::fleet::Speaks;
use crate::invariant::brief;

/// Thirty days.
pub(crate) struct Story {
    executor: Executor,
    ledger: Ledger,
    nodes: Nodes,
    outside: Outside,
    random: Random,
    calls: u64,
}

const DAYS: u64 = 30;

impl Story {
    pub(crate) fn new(
        executor: &Executor,
        ledger: &Ledger,
        nodes: &Nodes,
        outside: &Outside,
        random: Random,
    ) -> Self {
        Self {
            executor: executor.clone(),
            ledger: ledger.clone(),
            nodes: nodes.clone(),
            outside: outside.clone(),
            random,
            calls: 0,
        }
    }

    pub(crate) async fn play(mut self) {
        for slot in 0..self.nodes.len() {
            self.nodes.start(slot);
        }
        let bursts = self.random.between(4, 9);
        let mut starts: Vec<u64> = (0..bursts).map(|_| self.random.below(DAYS * 86_400)).collect();
        starts.sort_unstable();
        for start in starts {
            let now = self.executor.now();
            self.executor.pass(Duration::from_secs(start).saturating_sub(now)).await;
            self.burst().await;
        }
        let now = self.executor.now();
        self.executor.pass(Duration::from_secs(DAYS * 86_400).saturating_sub(now)).await;
        self.settle().await;
    }

    /// Some calls at once, and what goes wrong while they are worked on.
    async fn burst(&mut self) {
        for _ in 0..self.random.between(1, 5) {
            self.calls += 1;
            let random = self.random.split();
            let client = Client::new(&self.executor, &self.ledger, &self.nodes, random, self.calls);
            self.executor.spawn(WORLD, Box::pin(client.run()));
        }
        for _ in 0..self.random.below(6) {
            let wait = self.random.below(30_000);
            self.executor.pass(Duration::from_millis(wait)).await;
            self.misfortune().await;
        }
    }

    async fn misfortune(&mut self) {
        let slot = self.random.below(self.nodes.len() as u64) as usize;
        let seconds = self.random.one(&[1, 5, 20, 45, 130]);
        let lasts = Duration::from_millis(seconds * 1000 + self.random.below(1000));
        let (executor, nodes) = (self.executor.clone(), self.nodes.clone());
        match self.random.below(12) {
            0..3 => {
                self.nodes.kill(slot);
                self.start_later(slot, lasts);
            }
            3..6 => {
                self.nodes.pause(slot, true);
                self.after(lasts, move || nodes.pause(slot, false));
            }
            6..9 => {
                let weather = self.nodes.weather(slot);
                let how = self.random.one(&[
                    (true, 0, 0),
                    (false, 200, 0),
                    (false, 60, 0),
                    (false, 0, 2000),
                    (false, 0, 20_000),
                ]);
                self.ledger.tell(|| format!("the way of slot {slot} is {how:?} for {lasts:?}"));
                weather.set(how.0, how.1, how.2);
                self.after(lasts, move || nodes.weather(slot).set(false, 0, 0));
            }
            9 | 10 => {
                // The next release.
                if self.random.percent(50) {
                    nodes.release();
                }
                let replaced = async move {
                    nodes.drain(slot).await;
                    nodes.start(slot);
                };
                executor.spawn(WORLD, Box::pin(replaced));
            }
            _ => {
                // Within an hour it is followed, and beyond it is not.
                let off = self.random.one(&[-7200, -1800, -5, 5, 40, 1800, 3500, 7200, 86_400]);
                self.ledger.tell(|| format!("the wall clock is wrong by {off} s"));
                self.executor.set_wall(off * 1000);
                self.executor.stir();
                let wall = self.executor.clone();
                self.after(lasts, move || {
                    wall.set_wall(0);
                    wall.stir();
                });
            }
        }
    }

    fn after(&self, time: Duration, act: impl FnOnce() + Send + 'static) {
        let executor = self.executor.clone();
        let later = async move {
            executor.pass(time).await;
            act();
        };
        self.executor.spawn(WORLD, Box::pin(later));
    }

    fn start_later(&self, slot: usize, time: Duration) {
        let nodes = self.nodes.clone();
        self.after(time, move || nodes.start(slot));
    }

    /// All is well again: whatever is open ends, what has failed is undone, and in time all is forgotten.
    async fn settle(&self) {
        self.executor.pass(Duration::from_secs(200)).await;
        self.ledger.tell(|| "all is well again".to_owned());
        self.executor.set_wall(0);
        for slot in 0..self.nodes.len() {
            self.nodes.weather(slot).set(false, 0, 0);
            self.nodes.pause(slot, false);
            self.nodes.drain(slot).await;
            self.nodes.start(slot);
        }
        for _ in 0..40 {
            self.answer_all().await;
            self.executor.pass(Duration::from_secs(43_200)).await;
            if self.ledger.tasks().iter().all(is_over) {
                break;
            }
        }
        for task in self.ledger.tasks().iter().filter(|task| !is_over(task)) {
            self.ledger.complain(format!("I14: it is over, and a task is not: {}", brief(task)));
        }
        self.outside.look_back(&self.ledger);
        // Kept for two days at most, and its id for an hour more.
        self.executor.pass(Duration::from_secs(2 * 86_400 + 3600 + 60)).await;
        let counts = self.ledger.counts();
        if counts != (0, 0) {
            self.ledger.complain(format!("I11: past their time {counts:?} tasks take room, open and in all"));
        }
    }

    /// Answers whatever is asked of whoever has given up on it.
    async fn answer_all(&self) {
        for task in self.ledger.tasks() {
            let who = match &task.owner {
                longhaul_store::Owner::Principal(principal) if principal.as_str() == "ann" => "ann",
                _ => "cem",
            };
            for question in &task.questions {
                let answer = json!({"action": "accept", "content": {"choice": 1_000_000}});
                let responses = json!({ &*question.key: answer });
                let params = json!({"taskId": task.id.as_str(), "inputResponses": responses});
                let _ = self.nodes.ask(0, who, Speaks::Extension, "tasks/update", params).await;
            }
        }
    }
}

/// Nothing more will become of it.
fn is_over(task: &Record) -> bool {
    matches!(task.phase, Phase::Done(_)) && !task.is_undoing()
}

/// A task has taken its process along; another process begins.
pub(crate) fn take_along(executor: &Executor, nodes: &Nodes, home: Home) {
    let Some(slot) = nodes.slot_of(home) else { return };
    nodes.kill(slot);
    let (its, nodes) = (executor.clone(), nodes.clone());
    let again = async move {
        its.pass(Duration::from_secs(2)).await;
        nodes.start(slot);
    };
    executor.spawn(WORLD, Box::pin(again));
}
