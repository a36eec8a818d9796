//! A good client: it makes again what it has no answer to, under the same key, and remembers what it has seen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use longhaul::proto::dialect::Revision;
use serde_json::{Value, json};

use crate::fleet::{Fleet, Gone, Speaks};
use crate::invariant::{Sight, is_end, status};

/// The client of one run.
pub(crate) struct Client {
    pub(crate) fleet: Fleet,
    /// The id of the task that was made under each key.
    made: BTreeMap<String, String>,
    sight: Sight,
}

impl Client {
    pub(crate) fn new(fleet: Fleet) -> Self {
        Self { fleet, made: BTreeMap::new(), sight: Sight::of(Speaks::Extension) }
    }

    /// Asks until it is answered.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.until_done(|fleet| fleet.ask("ann", method, params))
    }

    /// The same, of a client that takes no tasks.
    pub(crate) fn ask_without_tasks(&mut self, method: &str, params: &Value) -> Value {
        self.fleet.speaks = Speaks::Nothing;
        let answer = self.ask(method, params);
        self.fleet.speaks = Speaks::Extension;
        answer
    }

    /// The same in a session of that revision, whose client accepts with `content` what it is asked meanwhile, or leaves it.
    pub(crate) fn ask_in(
        &mut self,
        revision: Revision,
        method: &str,
        params: &Value,
        content: Option<&Value>,
    ) -> Value {
        self.until_done(|fleet| fleet.converse(revision, method, params, content))
    }

    /// Calls a tool once and waits for it, without taking a task: what its answer asks is accepted with `content`, and asked
    /// for again with that; its last answer.
    pub(crate) fn held(&mut self, tool: &str, content: &Value) -> Value {
        let meta = json!({"dev.longhaul/idempotencyKey": "the-call"});
        let answer = self.in_rounds(json!({"name": tool, "arguments": {}, "_meta": meta}), content);
        self.never_told_of_one();
        answer
    }

    /// The same without a key, of a call that becomes no task.
    pub(crate) fn waited_for(&mut self, tool: &str, content: &Value) -> Value {
        self.in_rounds(json!({"name": tool, "arguments": {}}), content)
    }

    fn in_rounds(&mut self, mut params: Value, content: &Value) -> Value {
        for _ in 0..MOST_ROUNDS {
            let answer = self.ask_without_tasks("tools/call", &params);
            let result = &answer["result"];
            if result["resultType"] != "input_required" {
                return answer;
            }
            let questions = result["inputRequests"].as_object().cloned().unwrap_or_default();
            let accept = |key: &String| (key.clone(), json!({"action": "accept", "content": content}));
            params["inputResponses"] = questions.keys().map(accept).collect();
            params["requestState"] = result["requestState"].clone();
        }
        self.complain(format!("{params} is asked the same again and again"));
        Value::Null
    }

    /// The one task that there is was this client's call, which was never told its id.
    pub(crate) fn never_told_of_one(&mut self) {
        let made = self.fleet.audit.tasks().into_iter().filter(|task| task.parent.is_none());
        for (nth, task) in made.enumerate() {
            self.made.insert(format!("held {nth}"), task.id.to_string());
        }
        if self.made.len() != 1 {
            self.complain(format!("I13: one key is {} tasks", self.made.len()));
        }
    }

    /// Calls a tool once, under this key; its task.
    pub(crate) fn call_as(&mut self, key: &str, tool: &str) -> String {
        self.call_about(key, tool, &json!({}))
    }

    /// The same, with these arguments.
    pub(crate) fn call_about(&mut self, key: &str, tool: &str, arguments: &Value) -> String {
        let created = self.call_with(key, tool, arguments);
        self.created(key, &created)
    }

    /// The task that a call under this key was answered with: always the same.
    pub(crate) fn created(&mut self, key: &str, created: &Value) -> String {
        let Some(id) = Speaks::task_of(created) else {
            self.complain(format!("{key} is no task: {created}"));
            return "none".to_owned();
        };
        let made = self.made.entry(key.to_owned()).or_insert_with(|| id.to_owned()).clone();
        if made != id {
            self.complain(format!("I13: one key is {made} and {id}"));
        }
        made
    }

    /// The same, whatever the answer is.
    pub(crate) fn call_with(&mut self, key: &str, tool: &str, arguments: &Value) -> Value {
        let meta = json!({"dev.longhaul/idempotencyKey": key});
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments, "_meta": meta}))
    }

    /// Calls a tool once.
    pub(crate) fn call(&mut self, tool: &str) -> String {
        self.call_as("the-call", tool)
    }

    /// Looks at a task, and holds it against what was seen of it before.
    pub(crate) fn get(&mut self, id: &str) -> Value {
        let answer = self.ask("tasks/get", &json!({"taskId": id}));
        let task = answer["result"].clone();
        if task.is_null() {
            self.complain(format!("I3: a task that was created cannot be read: {answer}"));
            return task;
        }
        self.sight.see(id, &task).into_iter().for_each(|broken| self.complain(broken));
        task
    }

    /// Follows a task until it is as told, at most for an hour.
    pub(crate) fn follow(&mut self, id: &str, until: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..3600 {
            let task = self.get(id);
            if task.is_null() || until(&task) || is_end(status(&task)) {
                return task;
            }
            self.pass(Duration::from_secs(1));
            if !self.fleet.audit.broken().is_empty() {
                return Value::Null;
            }
        }
        self.complain(format!("G5: the task does not go on: {:?}", self.sight.last(id)));
        Value::Null
    }

    /// Follows a task to its end; what it has come to.
    pub(crate) fn end(&mut self, id: &str) -> Value {
        let task = self.follow(id, |_| false);
        json!({"status": task["status"], "result": task["result"], "error": task["error"]})
    }

    /// Follows a task until it asks; the names of its questions by what they ask.
    pub(crate) fn asked(&mut self, id: &str) -> BTreeMap<String, String> {
        let task = self.follow(id, |task| status(task) == "input_required");
        let requests = task["inputRequests"].as_object().cloned().unwrap_or_default();
        let text = |request: &Value| request["params"]["message"].as_str().unwrap_or_default().to_owned();
        requests.iter().map(|(key, request)| (text(request), key.clone())).collect()
    }

    /// Gives the same answer until it is acknowledged.
    pub(crate) fn answer(&mut self, id: &str, question: &str, answer: &Value) {
        let told = self.ask("tasks/update", &json!({"taskId": id, "inputResponses": {question: answer}}));
        if told["result"].is_object() {
            self.sight.answered(question);
        } else {
            self.complain(format!("an answer is not taken: {told}"));
        }
    }

    /// Accepts the question of this text once it is asked. Where the task ends instead, nothing is done.
    pub(crate) fn accept(&mut self, id: &str, message: &str, content: &Value) {
        let task = self.follow(id, |task| asks(task, message));
        if asks(&task, message) {
            let question = self.asked(id)[message].clone();
            self.answer(id, &question, &json!({"action": "accept", "content": content}));
        }
    }

    /// Cancels until it is acknowledged.
    pub(crate) fn cancel(&mut self, id: &str) {
        let told = self.ask("tasks/cancel", &json!({"taskId": id}));
        if !told["result"].is_object() {
            self.complain(format!("a cancel is not taken: {told}"));
        }
    }

    /// Lets so much time pass, with a process that runs.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.until_done(|fleet| fleet.pass(time));
    }

    /// Ends the process, and has none for so long.
    pub(crate) fn switch_off(&mut self, off: Duration) {
        self.fleet.end(off);
    }

    /// Stops the process in order.
    pub(crate) fn drain(&mut self) {
        // One that crashes meanwhile has stopped as well.
        let _ = self.fleet.drain();
    }

    /// The ids of the tasks it has made.
    pub(crate) fn tasks(&self) -> BTreeSet<String> {
        self.made.values().cloned().collect()
    }

    /// So many tasks are there that other tasks have made.
    pub(crate) fn made(&self, count: usize) {
        let there = self.fleet.audit.tasks();
        let made = there.iter().filter(|task| task.parent.is_some()).count();
        if made != count {
            self.complain(format!("{count} tasks were to be made by others, and {made} were"));
        }
    }

    pub(crate) fn complain(&self, what: impl Into<String>) {
        self.fleet.audit.complain(what);
    }

    fn until_done<T: Default>(&mut self, act: impl Fn(&mut Fleet) -> Result<T, Gone>) -> T {
        for _ in 0..MOST_PROCESSES {
            if let Ok(done) = act(&mut self.fleet) {
                return done;
            }
        }
        self.complain("one process after another ends");
        T::default()
    }
}

/// More than any scenario asks.
const MOST_ROUNDS: usize = 40;

/// More than any scenario takes along.
const MOST_PROCESSES: usize = 20;

fn asks(task: &Value, message: &str) -> bool {
    let requests = task["inputRequests"].as_object();
    requests.is_some_and(|requests| requests.values().any(|request| request["params"]["message"] == message))
}
