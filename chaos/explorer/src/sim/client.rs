//! A client of a run: one call, made on whichever node, until it has ended and is forgotten.

use std::time::Duration;

use crate::random::Random;
use longhaul_store::TaskId;
use serde_json::{Value, json};

use super::executor::Executor;
use super::ledger::Ledger;
use super::nodes::Nodes;
use crate::fleet::Gone;
use crate::invariant::{Sight, is_end, questions, status};

pub(crate) struct Client {
    pub(crate) executor: Executor,
    pub(crate) ledger: Ledger,
    pub(crate) nodes: Nodes,
    pub(crate) random: Random,
    pub(crate) number: u64,
    pub(crate) sight: Sight,
}

const DAY: u64 = 86_400;

impl Client {
    /// Calls a tool and does what a client does, good or bad, until its task has ended.
    pub(crate) async fn run(mut self) {
        let (tool, plan) = plan(&mut self.random);
        let key = self.random.percent(60).then(|| format!("the-key-of-the-call-{}", self.number));
        let who = if self.random.percent(70) { "ann" } else { "cem" };
        self.ledger.tell(|| format!("{who} calls {tool} to do {plan:?} as {key:?}"));
        let Some(id) = self.create(who, tool, &plan, key.as_deref()).await else { return };
        if key.is_some() && self.random.percent(15) {
            self.create_again(who, tool, &plan, key.as_deref(), &id).await;
        }
        let patience = if self.random.percent(20) { self.random.between(1, 20) } else { u64::MAX };
        self.follow(who, &id, patience).await;
        self.look_after(who, &id).await;
    }

    /// Creates the task; its id, unless the call came to its end in place, or nobody took it.
    async fn create(
        &mut self,
        who: &'static str,
        tool: &str,
        plan: &str,
        key: Option<&str>,
    ) -> Option<String> {
        let mut params = json!({"name": tool, "arguments": {"plan": plan}});
        if let Some(key) = key {
            params["_meta"]["dev.longhaul/idempotencyKey"] = key.into();
        }
        // Without a key each of them may be a task more.
        for _ in 0..if key.is_some() { 100 } else { 8 } {
            match self.send(who, "tools/call", &params).await {
                Err(Gone) => self.wait(1, 30).await,
                Ok(answer) if answer["error"]["code"] == -31001 => self.wait(20, 4000).await,
                // It was made, and has been forgotten since.
                Ok(answer) if answer["error"]["data"]["reason"] == "idempotency_key_spent" => return None,
                Ok(answer) => {
                    let id = answer["result"]["taskId"].as_str().map(str::to_owned);
                    if id.is_none() && answer["result"].is_null() && !is_passing(&answer) {
                        self.ledger.complain(format!("G1: a call is answered with {answer}"));
                    }
                    if id.is_none() && is_passing(&answer) {
                        self.wait(1, 30).await;
                        continue;
                    }
                    return id;
                }
            }
        }
        None
    }

    /// The same call under the same key is the same task, and another call under it is refused.
    async fn create_again(&mut self, who: &'static str, tool: &str, plan: &str, key: Option<&str>, id: &str) {
        self.wait(1, 4000).await;
        if let Some(again) = self.create(who, tool, plan, key).await
            && again != id
            && !self.ledger.is_spent(id)
        {
            self.ledger.complain(format!("I13: the key {key:?} is {id} and {again}"));
        }
        let meta = json!({"dev.longhaul/idempotencyKey": key});
        let other = json!({"name": tool, "arguments": {"plan": "w1 w1 w1"}, "_meta": meta});
        if let Ok(answer) = self.send(who, "tools/call", &other).await
            && answer["result"]["taskId"].is_string()
        {
            self.ledger.complain(format!("I13: another call under the key {key:?} is taken: {answer}"));
        }
    }

    /// Follows a task to its end, answers what it asks, and cancels it after so many looks.
    async fn follow(&mut self, who: &'static str, id: &str, patience: u64) {
        let mut longest = 2;
        for look in 0..400 {
            self.wait(0, longest).await;
            longest = (longest * 2).min(DAY / 2);
            if look == patience {
                let _ = self.send(who, "tasks/cancel", &json!({"taskId": id})).await;
            }
            let Some(task) = self.get(who, id).await else {
                if self.is_forgotten(id) {
                    return;
                }
                continue;
            };
            if is_end(status(&task)) {
                return;
            }
            for question in questions(&task) {
                self.answer(who, id, &question).await;
                longest = 4;
            }
        }
    }

    /// Answers a question after a while, perhaps by several answers at once: the first counts.
    async fn answer(&mut self, who: &'static str, id: &str, question: &str) {
        if self.random.percent(40) {
            let longest = self.random.one(&[2, 30, 3600, 2 * DAY]);
            self.wait(0, longest).await;
        }
        for _ in 0..self.random.between(1, 3) {
            let choice = self.random.below(1000);
            let answer = json!({"action": "accept", "content": {"choice": choice}});
            let params = json!({"taskId": id, "inputResponses": {question: answer}});
            if let Ok(told) = self.send(who, "tasks/update", &params).await
                && told["result"].is_object()
            {
                self.check_answered(id, question);
            }
        }
    }

    /// An answer was acknowledged: it is on record, or came to a question that waits for none any more.
    fn check_answered(&mut self, id: &str, question: &str) {
        let Ok(id) = TaskId::new(id) else { return };
        let now = self.ledger.now();
        let open = self.ledger.task(&id).is_some_and(|task| {
            task.questions
                .iter()
                .any(|open| *open.key == *question && open.deadline.is_none_or(|at| at > now))
        });
        if open {
            self.ledger.complain(format!(
                "I4: an answer to {question} of {id} is acknowledged, and it is asked still"
            ));
        }
        if self.ledger.has_answer(&id, question) {
            self.sight.answered(question);
        }
    }

    /// What is told of a task; nothing if nobody answers, or it is not there.
    async fn get(&mut self, who: &'static str, id: &str) -> Option<Value> {
        let gone_before = self.is_forgotten(id);
        let answer = self.send(who, "tasks/get", &json!({"taskId": id})).await.ok()?;
        let task = answer["result"].clone();
        if task.is_object() {
            if gone_before {
                self.ledger.complain(format!("I11: a task is shown after its time: {task}"));
            }
            self.sight.see(id, &task).into_iter().for_each(|broken| self.ledger.complain(broken));
            return Some(task);
        }
        if answer["error"]["code"] == -32602 && !self.is_forgotten(id) {
            self.ledger.complain(format!("I3: a task that was created cannot be read: {answer}"));
        }
        None
    }

    fn is_forgotten(&self, id: &str) -> bool {
        let task = TaskId::new(id).ok().and_then(|id| self.ledger.task(&id));
        task.is_none_or(|task| task.is_forgotten(self.ledger.now()))
    }

    /// What has ended stays as it is, and a stranger is told what everybody is told of what never was.
    async fn look_after(&mut self, who: &'static str, id: &str) {
        for _ in 0..self.random.below(3) {
            self.wait(1, 50_000).await;
            self.get(who, id).await;
        }
        if !self.random.percent(50) {
            return;
        }
        for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
            let of = |id: &str| json!({"taskId": id, "inputResponses": {}});
            let foreign = self.send("bob", method, &of(id)).await;
            let unknown = self.send("bob", method, &of("none-such")).await;
            if let (Ok(foreign), Ok(unknown)) = (foreign, unknown)
                && !is_passing(&foreign)
                && !is_passing(&unknown)
                && foreign != unknown
            {
                self.ledger
                    .complain(format!("I9: a stranger is told {foreign}, and of what never was {unknown}"));
            }
        }
    }

    /// Makes a request of any node, which may be lost, or arrive twice, or whose answer may be.
    async fn send(&mut self, who: &'static str, method: &'static str, params: &Value) -> Result<Value, Gone> {
        let slot = self.random.below(self.nodes.len() as u64) as usize;
        let luck = self.random.below(100);
        if luck < 3 {
            self.wait(1, 10).await;
            return Err(Gone);
        }
        if luck < 8 {
            let (nodes, params) = (self.nodes.clone(), params.clone());
            let other = self.random.below(self.nodes.len() as u64) as usize;
            let twice = async move { drop(nodes.ask(other, who, method, params).await) };
            self.executor.spawn(super::executor::WORLD, Box::pin(twice));
        }
        let answer = self.nodes.ask(slot, who, method, params.clone()).await;
        if luck > 96 { Err(Gone) } else { answer }
    }

    async fn wait(&mut self, from: u64, to: u64) {
        let millis = self.random.between(from * 1000, to * 1000);
        self.executor.pass(Duration::from_millis(millis)).await;
    }
}

/// Whether an answer says that the store cannot be reached, or the node stops: it is asked again.
fn is_passing(answer: &Value) -> bool {
    let code = &answer["error"]["code"];
    *code == -32603 || *code == -31001
}

/// A tool, and what it is to do.
fn plan(random: &mut Random) -> (&'static str, String) {
    let tool = random.one(&["flow", "flow", "flow", "flow", "brief", "later", "later", "again", "never"]);
    let mut words = Vec::new();
    for _ in 0..random.between(1, 7) {
        let short = random.one(&[0, 0, 1, 3, 12, 45]);
        let word = match tool {
            "never" => random.one(&["p", "l", "m", "w", "g"]),
            _ => random
                .one(&["p", "l", "l", "m", "r", "r", "c", "c", "w", "g", "a", "d", "s", "s", "k", "f", "x"]),
        };
        let number = match word {
            "s" => random.one(&[1, 20, 4000, DAY, 3 * DAY]),
            "d" => random.one(&[1, 30, 4000, DAY]),
            "k" => random.one(&[0, 1, 1, 2, 7]),
            // What ends a plan is to come last, mostly.
            "f" | "x" if random.percent(70) => continue,
            _ => short,
        };
        words.push(format!("{word}{number}"));
    }
    (tool, words.join(" "))
}
