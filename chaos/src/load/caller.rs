//! Who calls: makes tasks, answers what they ask, cancels some, and follows each to its end, at whichever node.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use longhaul_test::Random;
use serde_json::{Value, json};

use super::node::HOT_WAIT;
use super::order::{COMMAND, Order, TIME, TIMED};
use super::sight::{Shown, Sight};
use super::{Made, Next, World};
use crate::mcp::{Asked, Client, Era, Reply};

/// How many tasks each caller has open at once, at most.
const AT_ONCE: usize = 24;

/// How long a question waits for its answer, at most: twice as long as its work stays in memory meanwhile.
const LONGEST_WAIT: u64 = 2 * HOT_WAIT.as_millis() as u64;

/// Why a call under its key is refused whose task is forgotten.
const SPENT: &str = "idempotency_key_spent";

/// Why a call is refused that was not begun for want of room.
const OVERLOADED: &str = "\"overloaded\"";

/// How long each waits between two requests.
const PAUSE: Duration = Duration::from_millis(6);

/// How long whoever waits for a result is asked nothing, at most. A question that was put to somebody who left is put again
/// sooner.
const ASKED_WITHIN: Duration = Duration::from_secs(6);

/// An answer to what was answered.
const IN_VAIN: i64 = -1;

/// One caller.
pub(super) struct Caller<'w> {
    world: &'w World,
    random: Random,
    /// One for each node, of each dialect.
    clients: BTreeMap<Era, Vec<Client>>,
    pub(super) sight: Sight,
    open: Vec<Call>,
    pub(super) done: Vec<Call>,
}

/// A call that was acknowledged.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) order: Order,
    pub(super) id: String,
    /// When it was called first, and when that was acknowledged.
    called: Instant,
    made: Instant,
    /// Whether its cancel was acknowledged.
    pub(super) cancelled: bool,
    /// What was answered to each question, by its name.
    pub(super) answers: BTreeMap<String, Answer>,
    /// How long its questions wait: some until it is put aside.
    waits: Duration,
}

/// What was answered to a question.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// The word that asks.
    pub(super) at: usize,
    /// What it was told: one value, or two at the same time, of which one holds for ever.
    pub(super) choices: Vec<i64>,
    pub(super) acknowledged: bool,
}

impl<'w> Caller<'w> {
    pub(super) fn new(world: &'w World, random: Random) -> Self {
        let sight = Sight::default();
        let clients = Era::BOTH.map(|era| (era, world.clients(era))).into();
        Self { world, random, clients, sight, open: Vec::new(), done: Vec::new() }
    }

    /// Calls until there is nothing left to call, and everything has ended.
    pub(super) fn work(mut self) -> Self {
        while !self.world.is_hopeless() {
            let next = if self.open.len() < AT_ONCE { self.world.next() } else { Next::Later };
            match next {
                Next::Call(order) => self.call(order),
                Next::Nothing if self.open.is_empty() => break,
                Next::Later | Next::Nothing => {}
            }
            self.follow();
        }
        self.done.append(&mut self.open);
        self
    }

    /// How many of its sessions no server knew any more.
    pub(super) fn lost_sessions(&self) -> usize {
        self.clients.values().flatten().map(Client::lost_sessions).max().unwrap_or(0)
    }

    fn client(&mut self, order: &Order) -> Client {
        self.client_among(order, self.world.slots.len())
    }

    /// At one of the first nodes.
    fn client_among(&mut self, order: &Order, nodes: usize) -> Client {
        self.world.waits.on(&*order.key);
        self.clients[&order.era][self.random.index(nodes)].clone()
    }

    /// Makes a call, again and again until it is acknowledged, under its key.
    fn call(&mut self, order: Order) {
        let called = Instant::now();
        let Some(id) = self.until_made(&order, true) else { return };
        self.world.made(Made { order: order.clone(), id: id.clone() });
        // What is forgotten meanwhile is not there for another call.
        if order.kept().is_none() && self.random.percent(10) {
            let again = self.until_made(&order, false);
            if again.as_ref().is_some_and(|again| *again != id) {
                self.complain(&order, format!("I13: one call is {id} and {again:?}"));
            }
        }
        let (made, waits) = (Instant::now(), Duration::from_millis(self.random.below(LONGEST_WAIT)));
        self.open.push(Call { order, id, called, made, cancelled: false, answers: BTreeMap::new(), waits });
    }

    /// `is_first`: nobody has called it before.
    fn until_made(&mut self, order: &Order, mut is_first: bool) -> Option<String> {
        let mut params = json!({
            "name": order.tool,
            "arguments": order.arguments(),
            "_meta": {"dev.longhaul/idempotencyKey": order.call_key(self.world.plan.seed)},
        });
        if order.era == Era::D2 {
            params["task"] = json!({});
        }
        while !self.world.is_hopeless() {
            let nodes = if order.tool == COMMAND { self.world.slots.len() } else { self.world.equipped };
            let client = self.client_among(order, nodes);
            match client.request("create", "tools/call", order.tool, params.clone()) {
                Reply::Result(raw) => {
                    let told: Value = serde_json::from_str(raw.get()).unwrap_or_default();
                    let task = if order.era == Era::D2 { &told["task"] } else { &told };
                    if let Some(id) = task["taskId"].as_str() {
                        self.sight.made(order.era, order, task, is_first);
                        return Some(id.to_owned());
                    }
                    self.complain(order, format!("it is no task: {}", raw.get()));
                    return None;
                }
                // Whatever else is for now may have come after it was made.
                Reply::Error(error) if error.get().contains("retryAfterMs") => {
                    is_first &= error.get().contains(OVERLOADED);
                }
                // It was made, and nobody could be told of it for as long as it was kept.
                Reply::Error(error) if order.kept().is_some() && error.get().contains(SPENT) => return None,
                Reply::Error(error) => {
                    self.complain(order, format!("it is refused: {}", error.get()));
                    return None;
                }
                // It may be made by now.
                Reply::Silence => is_first = false,
            }
            thread::sleep(PAUSE);
        }
        None
    }

    /// Looks at one of its tasks, and does what is to be done about it; now and then at one that has ended.
    fn follow(&mut self) {
        thread::sleep(PAUSE);
        if self.random.percent(10) && !self.done.is_empty() {
            let at = self.random.index(self.done.len());
            let (order, id) = (self.done[at].order.clone(), self.done[at].id.clone());
            let client = self.client(&order);
            if let Shown::Open(_) = self.sight.look(&client, &order, &id) {
                self.complain(&order, "I2: it had ended, and is open".to_owned());
            }
        }
        if self.open.is_empty() {
            return;
        }
        let mut call = self.open.swap_remove(self.random.index(self.open.len()));
        let client = self.client(&call.order);
        if call.order.era == Era::D2 && self.random.percent(15) {
            self.sight.wait(&client.with_patience(HOT_WAIT), &call.order, &call.id);
        }
        match self.sight.look(&client, &call.order, &call.id) {
            Shown::Ended | Shown::Gone => {
                if call.order.tool == TIMED && call.called.elapsed() < TIME {
                    self.complain(&call.order, "it has ended before its time was up".to_owned());
                }
                self.done.push(call);
                return;
            }
            Shown::Open(questions) => {
                if call.cancelled {
                    self.complain(&call.order, "I2: an acknowledged cancel left it open".to_owned());
                }
                match call.order.cancelled {
                    Some(after) if call.made.elapsed() > after => self.cancel(&mut call),
                    // It is for its cancel to find it so.
                    Some(_) => {}
                    None if call.made.elapsed() < call.waits => {}
                    None if self.sight.asks(Era::D2, &call.id) => self.hear(&mut call),
                    None => questions.iter().for_each(|(text, name)| self.answer(&mut call, text, name)),
                }
            }
            Shown::Silence => {}
        }
        self.open.push(call);
    }

    fn cancel(&mut self, call: &mut Call) {
        match self.client(&call.order).cancel(&call.id) {
            Reply::Result(_) => call.cancelled = true,
            // An earlier one came through, whose answer was lost; how it ended is looked at.
            Reply::Error(error) if call.order.era == Era::D2 && error.get().contains("already") => {}
            Reply::Error(error) if error.get().contains("retryAfterMs") => {}
            Reply::Error(error) => self.complain(&call.order, format!("no cancel: {}", error.get())),
            Reply::Silence => {}
        }
    }

    /// Answers as it has before, if it has: some in two ways at the same time, at two nodes. And what was acknowledged is
    /// then answered otherwise, in vain.
    fn answer(&mut self, call: &mut Call, text: &str, name: &str) {
        let answer = self.chosen(call, text, name);
        if answer.acknowledged || !self.update(call, name, &answer.choices) {
            return;
        }
        self.acknowledged(call, name);
        self.sight.answered(name);
        if self.random.percent(30) {
            self.update(call, name, &[IN_VAIN]);
        }
    }

    /// The same in a session, where whoever waits for the result is asked: some wait at two nodes.
    fn hear(&mut self, call: &mut Call) {
        let clients = &self.clients[&Era::D2];
        let (first, count) = (self.random.index(clients.len()), if self.random.percent(40) { 2 } else { 1 });
        let clients = clients.iter().cycle().skip(first).take(count);
        let clients: Vec<Client> = clients.map(|client| client.with_patience(ASKED_WITHIN)).collect();
        let id = &call.id;
        let asked: Vec<Asked> = thread::scope(|scope| {
            let waits: Vec<_> = clients.iter().map(|client| scope.spawn(|| client.question(id))).collect();
            waits.into_iter().filter_map(|wait| wait.join().expect("who waits does not panic")).collect()
        });
        let Some(text) = asked.first().map(|asked| asked.text.clone()) else { return };
        let answer = self.chosen(call, &text, &text);
        if answer.acknowledged {
            self.complain(&call.order, format!("I4: it asks again what was answered: {text:?}"));
            return;
        }
        let asked = asked.iter().filter(|asked| asked.text == text);
        let say = |choice: i64| json!({"action": "accept", "content": {"choice": choice}});
        let taken = thread::scope(|scope| {
            let choices = answer.choices.iter().copied().cycle();
            let says = asked
                .clone()
                .zip(choices)
                .map(|(asked, choice)| scope.spawn(move || asked.answer(&say(choice))));
            let says: Vec<_> = says.collect();
            says.into_iter().any(|says| says.join().expect("nor does who answers"))
        });
        if !taken {
            return;
        }
        self.acknowledged(call, &text);
        if self.random.percent(30) {
            for asked in asked {
                asked.answer(&say(IN_VAIN));
            }
        }
    }

    /// What is answered to a question: what it was before, if it was.
    fn chosen(&mut self, call: &mut Call, text: &str, name: &str) -> Answer {
        let at = text.rsplit(' ').next().and_then(|at| at.parse().ok()).unwrap_or(usize::MAX);
        let mut fresh = || i64::try_from(self.random.below(1 << 40)).unwrap_or_default();
        let choices = [fresh(), fresh()];
        let count = if self.random.percent(40) { 2 } else { 1 };
        let new = Answer { at, choices: choices[..count].to_vec(), acknowledged: false };
        call.answers.entry(name.to_owned()).or_insert(new).clone()
    }

    fn acknowledged(&self, call: &mut Call, name: &str) {
        if let Some(answer) = call.answers.get_mut(name) {
            answer.acknowledged = true;
        }
        self.world.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives each of these answers, all at once and to one node after the other; whether one was acknowledged.
    fn update(&mut self, call: &Call, name: &str, choices: &[i64]) -> bool {
        let clients = &self.clients[&call.order.era];
        let first = self.random.index(clients.len());
        let clients = clients.iter().cycle().skip(first).zip(choices);
        let replies: Vec<Reply> = thread::scope(|scope| {
            let update = |(client, choice): (&Client, &i64)| {
                let answer = json!({"action": "accept", "content": {"choice": choice}});
                let params = json!({"taskId": call.id, "inputResponses": {name: answer}});
                let client = client.clone();
                scope.spawn(move || client.request("update", "tasks/update", &call.id, params))
            };
            let updates: Vec<_> = clients.map(update).collect();
            updates.into_iter().map(|update| update.join().expect("a request does not panic")).collect()
        });
        let mut taken = false;
        for reply in replies {
            match reply {
                Reply::Result(_) => taken = true,
                Reply::Error(error) if error.get().contains("retryAfterMs") => {}
                Reply::Error(error) => {
                    self.complain(&call.order, format!("no answer is taken: {}", error.get()));
                }
                Reply::Silence => {}
            }
        }
        taken
    }

    fn complain(&mut self, order: &Order, what: String) {
        self.sight.broken.push(format!("{}: {what}", order.key));
    }
}
