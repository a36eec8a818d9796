//! A client of a run: one call, made on whichever node, until it has ended and is forgotten.

use std::time::Duration;

use crate::random::Random;
use longhaul_store::TaskId;
use serde_json::{Value, json};

use super::executor::Executor;
use super::ledger::Ledger;
use super::nodes::Nodes;
use super::tools::{self, GENTLE, NARROW, TIMED};
use crate::fleet::{Gone, Speaks};
use crate::invariant::{Sight, is_end, questions, status};

pub(crate) struct Client {
    executor: Executor,
    ledger: Ledger,
    nodes: Nodes,
    random: Random,
    number: u64,
    /// As what it calls.
    speaks: Speaks,
    who: &'static str,
    tool: &'static str,
    plan: String,
    sight: Sight,
    /// What it sees of a task of a session where it is answered.
    elsewhere: Sight,
    /// The parts that it has read.
    parts: Vec<String>,
}

const DAY: u64 = 86_400;

impl Client {
    pub(crate) fn new(
        executor: &Executor,
        ledger: &Ledger,
        nodes: &Nodes,
        mut random: Random,
        number: u64,
    ) -> Self {
        let speaks = match random.below(100) {
            0..60 => Speaks::Extension,
            60..85 => Speaks::Core,
            _ => Speaks::Draft,
        };
        let (tool, plan) = plan(&mut random, speaks);
        Self {
            executor: executor.clone(),
            ledger: ledger.clone(),
            nodes: nodes.clone(),
            speaks,
            who: if random.percent(70) { "ann" } else { "cem" },
            tool,
            plan,
            sight: Sight::of(speaks),
            elsewhere: Sight::of(Speaks::Extension),
            parts: Vec::new(),
            random,
            number,
        }
    }

    /// Calls a tool and does what a client does, good or bad, until its task has ended.
    pub(crate) async fn run(mut self) {
        let Self { speaks, who, tool, .. } = self;
        if speaks == Speaks::Draft {
            return self.run_drafted().await;
        }
        let key = self.random.percent(60).then(|| format!("the-key-of-the-call-{}", self.number));
        let plan = self.plan.clone();
        self.ledger.tell(|| format!("{who} ({speaks:?}) calls {tool} to do {plan:?} as {key:?}"));
        let Some(id) = self.create(key.as_deref()).await else { return };
        if key.is_some() && self.random.percent(15) {
            self.create_again(key.as_deref(), &id).await;
        }
        let patience = if self.random.percent(20) { self.random.between(1, 20) } else { u64::MAX };
        self.follow(&id, patience).await;
        self.look_after(&id).await;
    }

    /// Calls as it was drafted, and waits for the answer; where none comes, it asks after the task by the name that it has
    /// given it.
    async fn run_drafted(mut self) {
        let Self { who, tool, .. } = self;
        let (name, plan) = (format!("the-task-{}", self.number), self.plan.clone());
        self.ledger.tell(|| format!("{who} calls {tool} to do {plan:?} as the drafted task {name:?}"));
        let params = Speaks::drafted(json!({"name": tool, "arguments": {"plan": plan}}), &name);
        let mut is_there = false;
        for _ in 0..8 {
            // It is answered when it has ended, with what it has come to; an error may be that, or a word of its node.
            let answer = self.send(who, self.speaks, "tools/call", &params).await;
            is_there = answer.is_ok_and(|answer| answer["result"].is_object());
            is_there |= self.get(&name).await.is_some();
            if is_there {
                break;
            }
            self.wait(1, 30).await;
        }
        if is_there {
            self.follow(&name, u64::MAX).await;
            self.look_after(&name).await;
        }
    }

    /// Creates the task; its id, unless the call came to its end in place, or nobody took it.
    async fn create(&mut self, key: Option<&str>) -> Option<String> {
        let mut params = json!({"name": self.tool, "arguments": {"plan": self.plan}});
        if let Some(key) = key {
            params["_meta"]["dev.longhaul/idempotencyKey"] = key.into();
        }
        // Without a key each of them may be a task more.
        for _ in 0..if key.is_some() { 100 } else { 8 } {
            match self.send(self.who, self.speaks, "tools/call", &params).await {
                Err(Gone) => self.wait(1, 30).await,
                Ok(answer) if answer["error"]["code"] == -31001 => self.wait(20, 4000).await,
                // It was made, and has been forgotten since.
                Ok(answer) if answer["error"]["data"]["reason"] == "idempotency_key_spent" => return None,
                Ok(answer) => {
                    let id = Speaks::task_of(&answer).map(str::to_owned);
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
    async fn create_again(&mut self, key: Option<&str>, id: &str) {
        self.wait(1, 4000).await;
        if let Some(again) = self.create(key).await
            && again != id
            && !self.ledger.is_spent(id)
        {
            self.ledger.complain(format!("I13: the key {key:?} is {id} and {again}"));
        }
        let meta = json!({"dev.longhaul/idempotencyKey": key});
        let other = json!({"name": self.tool, "arguments": {"plan": "w1 w1 w1"}, "_meta": meta});
        if let Ok(answer) = self.send(self.who, self.speaks, "tools/call", &other).await
            && Speaks::task_of(&answer).is_some()
        {
            self.ledger.complain(format!("I13: another call under the key {key:?} is taken: {answer}"));
        }
    }

    /// Follows a task to its end, answers what it asks, and cancels it after so many looks.
    async fn follow(&mut self, id: &str, patience: u64) {
        let mut longest = 2;
        for look in 0..400 {
            self.wait(0, longest).await;
            longest = (longest * 2).min(DAY / 2);
            if look == patience {
                self.cancel(id).await;
            }
            let Some(task) = self.get(id).await else {
                if self.is_forgotten(id) {
                    return;
                }
                continue;
            };
            if self.plan.contains('e') && (is_end(status(&task)) || self.random.percent(30)) {
                self.read_parts(id, &task).await;
            }
            if is_end(status(&task)) {
                return;
            }
            for question in self.questions(id, &task).await {
                self.answer(id, &question).await;
                longest = 4;
            }
        }
    }

    /// Cancels a task. Once that is acknowledged it has ended, unless its work decides how.
    async fn cancel(&mut self, id: &str) {
        let told = self.send(self.who, self.speaks, "tasks/cancel", &json!({"taskId": id})).await;
        if !told.is_ok_and(|told| told["result"].is_object()) {
            return;
        }
        let Some(task) = self.task(id).and_then(|id| self.ledger.task(&id)) else { return };
        let decides = self.tool == GENTLE && self.speaks == Speaks::Extension && task.cancelling.is_some();
        if !task.is_terminal() && !decides {
            let task = crate::invariant::brief(&task);
            self.ledger.complain(format!("K18: a cancel is acknowledged, and a task goes on: {task}"));
        }
    }

    /// What a task asks. In a session that is asked of who waits for its result; here it is looked at where there are none.
    async fn questions(&mut self, id: &str, task: &Value) -> Vec<String> {
        if self.speaks == Speaks::Extension || status(task) != "input_required" {
            return questions(task);
        }
        let told = self.send(self.who, Speaks::Extension, "tasks/get", &json!({"taskId": id})).await;
        let Ok(Value::Object(task)) = told.map(|mut told| told["result"].take()) else { return Vec::new() };
        let task = Value::Object(task);
        self.elsewhere.see(id, &task).into_iter().for_each(|broken| self.ledger.complain(broken));
        questions(&task)
    }

    /// Reads the parts of a result: those that were read before begin them, and they are what its plan gives, in order.
    /// One that has done all of it has given them all.
    async fn read_parts(&mut self, id: &str, task: &Value) {
        let is_done = status(task) == "completed" && self.tool != GENTLE && !self.plan.contains('f');
        let Some(id) = self.task(id) else { return };
        let uri = format!("longhaul://tasks/{id}/parts");
        let told = self.send(self.who, Speaks::Extension, "resources/read", &json!({"uri": uri})).await;
        let Ok(Some(contents)) = told.map(|told| told["result"]["contents"].as_array().cloned()) else {
            return;
        };
        let texts = contents.iter().filter_map(|part| part["text"].as_str());
        let read: Vec<String> = texts.filter(|text| !text.is_empty()).map(str::to_owned).collect();
        let plan = tools::parts(&self.plan);
        let is_short = is_done && read.len() < plan.len();
        if !read.starts_with(&self.parts) || !plan.starts_with(&read) || is_short {
            let before = &self.parts;
            self.ledger
                .complain(format!("I4: of the parts {plan:?} of {id} {before:?} were read, then {read:?}"));
        }
        self.parts = read;
    }

    /// Answers a question after a while, perhaps by several answers at once: the first counts.
    async fn answer(&mut self, id: &str, question: &str) {
        if self.random.percent(40) {
            let longest = self.random.one(&[2, 30, 3600, 2 * DAY]);
            self.wait(0, longest).await;
        }
        for _ in 0..self.random.between(1, 3) {
            let choice = self.random.below(1000);
            let answer = json!({"action": "accept", "content": {"choice": choice}});
            let params = json!({"taskId": id, "inputResponses": {question: answer}});
            if let Ok(told) = self.send(self.who, Speaks::Extension, "tasks/update", &params).await
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
            self.elsewhere.answered(question);
        }
    }

    /// What is told of a task; nothing if nobody answers, or it is not there.
    async fn get(&mut self, id: &str) -> Option<Value> {
        let (known_before, gone_before) = (self.task(id).is_some(), self.is_forgotten(id));
        let answer = self.send(self.who, self.speaks, "tasks/get", &json!({"taskId": id})).await.ok()?;
        let task = answer["result"].clone();
        if task.is_object() {
            if known_before && gone_before {
                self.ledger.complain(format!("I11: a task is shown after its time: {task}"));
            }
            self.sight.see(id, &task).into_iter().for_each(|broken| self.ledger.complain(broken));
            return Some(task);
        }
        if answer["error"]["code"] == -32602 && known_before && !self.is_forgotten(id) {
            self.ledger.complain(format!("I3: a task that was created cannot be read: {answer}"));
        }
        None
    }

    fn is_forgotten(&self, id: &str) -> bool {
        let task = self.task(id).and_then(|id| self.ledger.task(&id));
        task.is_none_or(|task| task.is_forgotten(self.ledger.now()))
    }

    /// The task that this client calls so.
    fn task(&self, id: &str) -> Option<TaskId> {
        match self.speaks {
            Speaks::Draft => self.ledger.drafted(id),
            _ => TaskId::new(id).ok(),
        }
    }

    /// What has ended stays as it is, and a stranger is told what everybody is told of what never was.
    async fn look_after(&mut self, id: &str) {
        for _ in 0..self.random.below(3) {
            self.wait(1, 50_000).await;
            let is_over = self.get(id).await.is_some_and(|task| is_end(status(&task)));
            if is_over && self.speaks != Speaks::Extension {
                self.fetch(id).await;
            }
        }
        if !self.random.percent(50) {
            return;
        }
        for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
            let of = |id: &str| json!({"taskId": id, "inputResponses": {}});
            let foreign = self.send("bob", Speaks::Extension, method, &of(id)).await;
            let unknown = self.send("bob", Speaks::Extension, method, &of("none-such")).await;
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

    /// Fetches what a task has come to, which stays that.
    async fn fetch(&mut self, id: &str) {
        let told = self.send(self.who, self.speaks, "tasks/result", &json!({"taskId": id})).await;
        if let Ok(result) = told.map(|mut told| told["result"].take())
            && result.is_object()
            && let Some(broken) = self.sight.came(id, &result)
        {
            self.ledger.complain(broken);
        }
    }

    /// Makes a request of any node, which may be lost, or arrive twice, or whose answer may be.
    async fn send(
        &mut self,
        who: &'static str,
        speaks: Speaks,
        method: &'static str,
        params: &Value,
    ) -> Result<Value, Gone> {
        let slot = self.random.below(self.nodes.len() as u64) as usize;
        let luck = self.random.below(100);
        if luck < 3 {
            self.wait(1, 10).await;
            return Err(Gone);
        }
        if luck < 8 {
            let (nodes, params) = (self.nodes.clone(), params.clone());
            let other = self.random.below(self.nodes.len() as u64) as usize;
            let twice = async move { drop(nodes.ask(other, who, speaks, method, params).await) };
            self.executor.spawn(super::executor::WORLD, Box::pin(twice));
        }
        let answer = self.nodes.ask(slot, who, speaks, method, params.clone()).await;
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
fn plan(random: &mut Random, speaks: Speaks) -> (&'static str, String) {
    let tool = random.one(&[
        "flow", "flow", "flow", "flow", "brief", "later", "later", "again", "never", GENTLE, TIMED, NARROW,
    ]);
    let mut words = Vec::new();
    for _ in 0..random.between(1, 7) {
        let short = random.one(&[0, 0, 1, 3, 12, 45]);
        let word = match tool {
            "never" => random.one(&["p", "l", "m", "w", "g", "e"]),
            _ => random.one(&[
                "p", "l", "l", "m", "r", "r", "c", "c", "w", "g", "a", "d", "s", "s", "k", "f", "x", "e",
                "h", "q",
            ]),
        };
        let number = match word {
            // Its caller waits, so that it is never put aside.
            "s" if speaks == Speaks::Draft => random.one(&[1, 20, 300]),
            "s" => random.one(&[1, 20, 4000, DAY, 3 * DAY]),
            // A drafted task asks the session of its call, and there is none.
            "a" | "d" if speaks == Speaks::Draft => continue,
            "d" => random.one(&[1, 30, 4000, DAY]),
            "k" => random.one(&[0, 1, 1, 2, 7]),
            "e" | "h" | "q" => random.between(1, 4),
            // What ends a plan is to come last, mostly.
            "f" | "x" if random.percent(70) => continue,
            _ => short,
        };
        words.push(format!("{word}{number}"));
    }
    (tool, words.join(" "))
}
