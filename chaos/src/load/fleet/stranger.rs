//! Who is known to every node and has a task or two, and tries to learn of what is another's, or to change it (I9).

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use longhaul_test::Random;
use serde_json::{Value, json};

use super::super::node::STRANGER;
use super::super::order::{Order, QUICK, words};
use super::super::{Made, World};
use crate::mcp::{Client, Era, Reply};

/// How long it waits between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// One of them, in one dialect.
pub(super) struct Stranger<'w> {
    world: &'w World,
    random: Random,
    clients: Vec<Client>,
    /// Those of whom it tries to learn.
    others: Vec<Client>,
    /// Its own tasks.
    own: BTreeSet<String>,
    /// How often it has tried, and was answered.
    pub(super) tried: usize,
    /// What it has learnt.
    pub(super) broken: Vec<String>,
}

impl<'w> Stranger<'w> {
    pub(super) fn new(world: &'w World, era: Era, random: Random) -> Self {
        let clients = world.clients_with(era, Some(STRANGER.shown));
        let others = world.clients(era);
        Self { world, random, clients, others, own: BTreeSet::new(), tried: 0, broken: Vec::new() }
    }

    /// Tries until everything is over.
    pub(super) fn work(mut self) -> Self {
        while !self.world.is_over() {
            self.world.waits.on("what is another's");
            let equipped = self.random.index(self.world.equipped);
            if self.own.len() < 3 {
                self.make(equipped);
            }
            let at = self.random.index(self.clients.len());
            match self.random.index(6) {
                0 if self.clients[at].era() == Era::D2 => self.list(at),
                _ => {
                    if let Some(made) = self.world.any(&mut self.random) {
                        self.reach(at, &made);
                    }
                }
            }
            thread::sleep(PAUSE);
        }
        self
    }

    /// Makes a task of its own, so that there is something to be listed.
    fn make(&mut self, at: usize) {
        let (client, key) =
            (&self.clients[at], format!("own-{}-{}", self.clients[at].era().name(), self.own.len()));
        let order = Order { key, tool: QUICK, era: client.era(), words: words("p1"), cancelled: None };
        let mut params = json!({"name": QUICK, "arguments": order.arguments()});
        if client.era() == Era::D2 {
            params["task"] = json!({});
        }
        if let Reply::Result(raw) = client.request("own", "tools/call", QUICK, params) {
            let told: Value = serde_json::from_str(raw.get()).unwrap_or_default();
            let id = told["taskId"].as_str().or_else(|| told["task"]["taskId"].as_str());
            match id {
                Some(id) => drop(self.own.insert(id.to_owned())),
                None => self.broken.push(format!("I9: a stranger's own call came to {}", raw.get())),
            }
        }
    }

    /// Asks for a task by its name, which it cannot know: it is told what it is told of one that never was.
    fn reach(&mut self, at: usize, Made { id, .. }: &Made) {
        let client = &self.clients[at];
        let never = never(id);
        let named = |id: &str| json!({"taskId": id});
        let output = |id: &str| format!("longhaul://tasks/{id}/stdout");
        let ways: &[&str] = match client.era() {
            Era::D3 => &["tasks/get", "tasks/cancel", "tasks/update", "resources/read"],
            Era::D2 => &["tasks/get", "tasks/cancel", "tasks/result", "resources/read"],
        };
        let method = self.random.one(ways);
        let ask = |id: &str| match method {
            "resources/read" => client.request("try", method, &output(id), json!({"uri": output(id)})),
            "tasks/update" => {
                let answers = json!({"taskId": id, "inputResponses": {"a": {"action": "cancel"}}});
                client.request("try", method, id, answers)
            }
            _ => client.request("try", method, id, named(id)),
        };
        let (found, not) = (ask(id), ask(&never));
        let (Some(found), Some(not)) = (told(found, id), told(not, &never)) else { return };
        self.tried += 1;
        let is_an_error = not.starts_with("error");
        if found != not || !is_an_error {
            let way = format!("{method} in {}", client.era().name());
            self.broken
                .push(format!("I9: {way}: of {id} a stranger is told {found}, and of what never was {not}"));
        }
    }

    /// Lists: nobody's but one's own are there, for it and for the others.
    fn list(&mut self, at: usize) {
        let list = |client: &Client| match client.request("list", "tasks/list", "", json!({})) {
            Reply::Result(raw) => serde_json::from_str::<Value>(raw.get()).ok(),
            Reply::Error(_) | Reply::Silence => None,
        };
        let ids = |told: &Value| {
            let tasks = told["tasks"].as_array().into_iter().flatten();
            tasks.filter_map(|task| task["taskId"].as_str().map(str::to_owned)).collect::<Vec<_>>()
        };
        if let Some(told) = list(&self.clients[at]) {
            self.tried += 1;
            let foreign = ids(&told).into_iter().find(|id| !self.own.contains(id) && self.is_anothers(id));
            self.broken.extend(foreign.map(|id| format!("I9: a stranger lists {id}")));
        }
        if let Some(told) = list(&self.others[at]) {
            self.tried += 1;
            let foreign = ids(&told).into_iter().find(|id| self.own.contains(id));
            self.broken.extend(foreign.map(|id| format!("I9: the task {id} of a stranger is listed")));
        }
    }

    /// Whether a task is one that the callers know of.
    fn is_anothers(&self, id: &str) -> bool {
        let made = self.world.made.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        made.iter().any(|made| made.id == id)
    }
}

/// The name of a task that never was, like that of one that is.
fn never(id: &str) -> String {
    let last = if id.ends_with('a') { 'b' } else { 'a' };
    let mut never = id.to_owned();
    never.pop();
    never.push(last);
    never
}

/// What is said where the store cannot be read, by whoever says nothing of when to try again.
const AWAY: &str = "the task store could not be used";

/// What was answered, but for the name that was asked for; nothing if nobody knows, or whoever asks has to wait.
fn told(reply: Reply, id: &str) -> Option<String> {
    let told = match reply {
        Reply::Silence => return None,
        // The store was away as that was asked, and is there again as the other is.
        Reply::Error(raw) if raw.get().contains("retryAfterMs") || raw.get().contains(AWAY) => return None,
        Reply::Error(raw) => format!("error {}", raw.get()),
        Reply::Result(raw) => format!("result {}", raw.get()),
    };
    Some(told.replace(id, "ID"))
}
