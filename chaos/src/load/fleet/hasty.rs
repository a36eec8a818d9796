//! Who knows nothing of tasks: calls, and waits for what comes of it; again under the same key when nobody answers.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use longhaul_store::Record;
use longhaul_test::Random;
use serde_json::{Value, json};

use super::super::World;
use super::super::effects::Effects;
use super::super::order::{Order, QUICK, words};
use super::super::verdict::{End, Verdict, of_call};
use crate::mcp::{Client, Era, Reply};

/// How long it waits between two requests.
const PAUSE: Duration = Duration::from_millis(100);

/// What is called.
const PLANS: [&str; 4] = ["p1", "l5 r5", "m10", "r20 m0"];

/// One of them.
pub(super) struct Hasty<'w> {
    world: &'w World,
    number: u64,
    random: Random,
    clients: BTreeMap<Era, Vec<Client>>,
    /// What was answered with what the call came to.
    pub(super) answered: Vec<Order>,
    broken: Vec<String>,
}

impl<'w> Hasty<'w> {
    pub(super) fn new(world: &'w World, number: u64, random: Random) -> Self {
        let clients = Era::BOTH.map(|era| (era, world.clients(era))).into();
        Self { world, number, random, clients, answered: Vec::new(), broken: Vec::new() }
    }

    /// Calls until the time is over.
    pub(super) fn work(mut self) -> Self {
        for call in 0.. {
            if self.world.is_late() {
                break;
            }
            let era = self.random.one(&Era::BOTH);
            let key = format!("q{}-{call:06}", self.number);
            let plan = PLANS[self.random.index(PLANS.len())];
            let order = Order { key, tool: QUICK, era, words: words(plan), cancelled: None };
            self.call(order);
            thread::sleep(PAUSE);
        }
        self
    }

    fn call(&mut self, order: Order) {
        self.world.waits.on(&*order.key);
        let params = json!({
            "name": QUICK,
            "arguments": order.arguments(),
            "_meta": {"dev.longhaul/idempotencyKey": order.call_key(self.world.plan.seed)},
        });
        while !self.world.is_hopeless() {
            let clients = &self.clients[&order.era];
            let client = &clients[self.random.index(self.world.equipped)];
            match client.request_plainly("quick", "tools/call", QUICK, params.clone()) {
                Reply::Silence => {}
                Reply::Error(error) if error.get().contains("retryAfterMs") => {}
                Reply::Error(error) => {
                    return self.broken.push(format!("{}: it is refused: {}", order.key, error.get()));
                }
                Reply::Result(raw) => {
                    let told: Value = serde_json::from_str(raw.get()).unwrap_or_default();
                    if told["content"][0]["text"] == "done" && told["isError"] != true {
                        return self.answered.push(order);
                    }
                    // It took longer than a caller is kept waiting: whoever asks again waits for the same.
                    if told["structuredContent"]["taskId"].is_null() {
                        return self.broken.push(format!("{}: it came to {}", order.key, raw.get()));
                    }
                }
            }
            thread::sleep(PAUSE);
        }
        self.broken.push(format!("{}: it was never answered", order.key));
    }

    /// What must not have come of its calls.
    pub(super) fn judge(&self, rows: &[Record], effects: &Effects) -> Result<Vec<String>> {
        let mut verdict = Verdict::default();
        verdict.broken.clone_from(&self.broken);
        for order in &self.answered {
            let key = order.call_key(self.world.plan.seed);
            let is_its =
                |row: &&Record| row.once.as_ref().is_some_and(|once| of_call(once.key.as_str()) == key);
            let count = rows.iter().filter(is_its).count();
            if count > 1 {
                verdict.broken.push(format!("I13: {}: one call is {count} tasks", order.key));
            }
            verdict.judge_effects(order, End::Completed, &effects.lines(&order.key)?);
        }
        Ok(verdict.broken)
    }

    /// How many of its sessions no server knew any more.
    pub(super) fn lost_sessions(&self) -> usize {
        self.clients.values().map(|clients| clients[0].lost_sessions()).sum()
    }
}
