//! What one observer has seen of tasks, and what it must not see.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::AddAssign;
use std::time::Duration;

use serde_json::Value;

use super::effects::{Stop, moment};
use super::order::{BRIEF, KEPT, Order};
use super::status;
use crate::mcp::{Client, Era, Reply};

/// What one observer was told by `tasks/get`, and in a session by `tasks/result`, whichever node it asked.
#[derive(Debug, Default)]
pub(super) struct Sight {
    seen: HashMap<(Era, String), Seen>,
    /// The questions whose answers were acknowledged.
    answered: BTreeSet<String>,
    pub(super) looked: Looked,
    pub(super) broken: Vec<String>,
    /// What was not kept as long as it seemed it had to be.
    early: Vec<Early>,
}

/// How often it has looked, and at what.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Looked {
    pub(super) looks: usize,
    /// How many results it has waited for.
    pub(super) waits: usize,
    /// How many statuses it has seen that were not the one before.
    pub(super) changes: usize,
    /// How many statuses and dates it has held against those before.
    pub(super) again: usize,
    /// How many ends it has held against how they were shown before.
    pub(super) ends: usize,
    /// How many questions it has held against those that it knew.
    pub(super) questions: usize,
    /// How often it has looked at what is kept briefly, and that was gone.
    pub(super) gone: usize,
}

impl AddAssign for Looked {
    fn add_assign(&mut self, other: Self) {
        let Self { looks, waits, changes, again, ends, questions, gone } = other;
        self.looks += looks;
        self.waits += waits;
        self.changes += changes;
        self.again += again;
        self.ends += ends;
        self.questions += questions;
        self.gone += gone;
    }
}

/// A task that was gone sooner after it was seen open than one is forgotten after its end, in milliseconds.
#[derive(Debug)]
struct Early {
    task: String,
    open: i64,
    gone: i64,
    kept: i64,
}

#[derive(Debug, Default)]
struct Seen {
    status: String,
    date: String,
    /// What that is the date of.
    dated: Value,
    /// How it ended, to the byte.
    end: Option<String>,
    /// When that was first seen, in milliseconds.
    ended: Option<i64>,
    /// What it came to for who waited for that.
    result: Option<String>,
    gone: bool,
    /// When it was last asked after and was open, in milliseconds.
    open: Option<i64>,
    /// The name of each question, by what is asked.
    questions: BTreeMap<String, String>,
}

/// Where a task stands.
#[derive(Clone, Debug)]
pub(super) enum Shown {
    /// Nobody answered.
    Silence,
    /// It is open, and asks so: the names of questions by their text.
    Open(BTreeMap<String, String>),
    /// It has ended.
    Ended,
    /// It is not there any more.
    Gone,
}

impl Sight {
    /// Looks at a task, and holds what is told to all that was told before.
    pub(super) fn look(&mut self, client: &Client, order: &Order, id: &str) -> Shown {
        let asked = moment();
        let raw = match client.task(&format!("look-{id}"), id) {
            Reply::Silence => return Shown::Silence,
            Reply::Error(error) if error.get().contains("-32602") => {
                return self.gone(client.era(), order, id);
            }
            Reply::Error(error) if error.get().contains("retryAfterMs") => return Shown::Silence,
            Reply::Error(error) => {
                self.broken.push(format!("I3: {}: tasks/get gives the error {}", order.key, error.get()));
                return Shown::Silence;
            }
            Reply::Result(raw) => raw.get().to_owned(),
        };
        self.looked.looks += 1;
        let told: Value = serde_json::from_str(&raw).unwrap_or_default();
        let text = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
        let (status, date) = (text("status"), text("lastUpdatedAt"));
        let questions = questions(&told);
        let has_ended = matches!(&*status, "completed" | "failed" | "cancelled");
        // In a session the rest of it is asked for.
        let result = match client.era() {
            Era::D2 if has_ended => match result(client, id) {
                Some(result) => Some(result),
                None => return Shown::Silence,
            },
            _ => None,
        };
        let otherwise = status::otherwise(client.era(), &told, result.as_deref());
        let raw = result.iter().fold(raw, |raw, result| format!("{raw} and {result}"));
        let seen = self.seen.entry((client.era(), id.to_owned())).or_default();
        let mut complain =
            |which: &str, what: String| self.broken.push(format!("{which}: {} ({id}): {what}", order.key));
        if seen.gone {
            complain("I11", format!("it was gone, and is there again: {raw}"));
        }
        if let Some(end) = &seen.end {
            self.looked.ends += 1;
            if *end != raw {
                complain("I2", format!("it had ended as {end}, and is {raw}"));
            }
        }
        if let Some((waited, found)) = seen.result.as_ref().zip(result.as_ref())
            && waited != found
        {
            complain("I2", format!("who waited was told {waited}, and it is {found}"));
        }
        if let Some(why) = otherwise {
            complain("I1", format!("{why}: {raw}"));
        }
        if !status::may_follow(&seen.status, &status) {
            complain("I1", format!("it is {status:?}, and was {:?}", seen.status));
        }
        self.looked.again += usize::from(!seen.status.is_empty());
        if date < seen.date {
            complain("I10", format!("its date ran backwards from {} to {raw}", seen.date));
        }
        let dated = dated(client.era(), told);
        if date == seen.date && dated != seen.dated {
            complain("I10", format!("it was {} and is {dated} without a new date", seen.dated));
        }
        for (text, name) in &questions {
            if self.answered.contains(name) {
                complain("I4", format!("it asks again what was answered: {text:?}"));
            }
            self.looked.questions += 1;
            let known = seen.questions.entry(text.clone()).or_insert_with(|| name.clone());
            if known != name {
                complain("I5", format!("{text:?} was asked as {known} and is asked as {name}"));
            }
        }
        self.looked.changes += usize::from(status != seen.status);
        (seen.status, seen.date, seen.dated) = (status, date, dated);
        match seen.status.as_str() {
            "working" | "input_required" => {
                seen.open = Some(asked);
                Shown::Open(questions)
            }
            "completed" | "failed" | "cancelled" => {
                seen.end = Some(raw);
                let ended = *seen.ended.get_or_insert(asked);
                // What is left of one that is out of time is kept as long as whoever ended it says.
                if order.tool == BRIEF && asked - ended > millis(KEPT) + SWEPT_MS {
                    complain(
                        "I11",
                        format!("it is still there {} ms after it was seen ended", asked - ended),
                    );
                }
                Shown::Ended
            }
            _ => Shown::Silence,
        }
    }

    /// A task was made, and told of so: by the first of its calls, or by one that may have found it.
    pub(super) fn made(&mut self, era: Era, order: &Order, told: &Value, is_first: bool) {
        let status = told["status"].as_str().unwrap_or_default();
        if !status::may_be_made(era, status, is_first) {
            self.broken.push(format!("I1: {}: it is made as {told}", order.key));
        }
    }

    /// Waits for what a task comes to, as only a session can.
    pub(super) fn wait(&mut self, client: &Client, order: &Order, id: &str) {
        let Some(result) = result(client, id) else { return };
        self.looked.waits += 1;
        let seen = self.seen.entry((client.era(), id.to_owned())).or_default();
        if let Some(before) = seen.result.replace(result.clone())
            && before != result
        {
            self.broken.push(format!("I2: {} ({id}): it came to {before}, and to {result}", order.key));
        }
    }

    /// What it has seen that must not be, now that is known when nodes stood still.
    pub(super) fn violations(&self, stops: &[Stop]) -> Vec<String> {
        let is_early =
            |early: &&Early| !stops.iter().any(|stop| stop.held_back(early.open, early.gone, early.kept));
        let tell = |Early { task, open, gone, .. }: &Early| {
            format!("I11: {task}: it was forgotten {} ms after it was open", gone - open)
        };
        self.broken.iter().cloned().chain(self.early.iter().filter(is_early).map(tell)).collect()
    }

    /// The answer to a question was acknowledged.
    pub(super) fn answered(&mut self, question: &str) {
        self.answered.insert(question.to_owned());
    }

    /// Whether a task asked something when it was last looked at.
    pub(super) fn asks(&self, era: Era, id: &str) -> bool {
        self.seen.get(&(era, id.to_owned())).is_some_and(|seen| seen.status == "input_required")
    }

    /// How a task ended, if that was seen.
    pub(super) fn end(&self, era: Era, id: &str) -> Option<&str> {
        self.seen.get(&(era, id.to_owned()))?.end.as_deref()
    }

    /// A task is not there. Only one that is kept for so long may not be, and not before.
    fn gone(&mut self, era: Era, order: &Order, id: &str) -> Shown {
        let gone = moment();
        let seen = self.seen.entry((era, id.to_owned())).or_default();
        if let Some(kept) = order.kept().map(millis) {
            let early = seen.open.filter(|open| gone < open + kept);
            let task = format!("{} ({id})", order.key);
            self.early.extend(early.map(|open| Early { task, open, gone, kept }));
        } else {
            self.broken.push(format!("I3: {} ({id}): it is lost, and was {:?}", order.key, seen.status));
        }
        seen.gone = true;
        self.looked.gone += usize::from(order.kept().is_some());
        Shown::Gone
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// How long what is to be forgotten may be left lying, in milliseconds: whoever sweeps each second may be stopped or cut off.
const SWEPT_MS: i64 = 60_000;

/// What a task came to, be it an error; nothing while nobody says so.
fn result(client: &Client, id: &str) -> Option<String> {
    match client.task_result(id) {
        Reply::Result(raw) => Some(raw.get().to_owned()),
        Reply::Error(error) if error.get().contains("retryAfterMs") => None,
        Reply::Error(error) => Some(format!("the error {}", error.get())),
        Reply::Silence => None,
    }
}

/// What may not change without a newer date: in a session a status, by 2025-11-25; in the tasks extension all that is told, but for
/// when to ask again, which is told to who asks and is of no task.
fn dated(era: Era, mut told: Value) -> Value {
    match era {
        Era::D2 => told["status"].take(),
        _ => {
            for undated in ["lastUpdatedAt", "pollIntervalMs"] {
                told[undated].take();
            }
            told
        }
    }
}

fn questions(told: &Value) -> BTreeMap<String, String> {
    let asked = told["inputRequests"].as_object().into_iter().flatten();
    asked
        .map(|(name, request)| {
            (request["params"]["message"].as_str().unwrap_or_default().to_owned(), name.clone())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_a_task_says_has_a_date_but_for_when_to_ask_again() {
        let told = |more: &str, at: u32, every: u32| {
            let text =
                format!(r#"{{"status":"working",{more}"lastUpdatedAt":"{at}","pollIntervalMs":{every}}}"#);
            serde_json::from_str::<Value>(&text).unwrap()
        };
        let dated = |era, more: &str, at, every| dated(era, told(more, at, every));
        let made = r#""_meta":{"dev.longhaul/children":{"made":1}},"#;
        assert_eq!(dated(Era::D3, made, 1, 1), dated(Era::D3, made, 2, 2));
        for more in [r#""statusMessage":"x","#, made, r#""ttlMs":5,"#] {
            assert_ne!(dated(Era::D3, more, 1, 1), dated(Era::D3, "", 1, 1), "{more}");
            assert_eq!(
                dated(Era::D2, more, 1, 1),
                dated(Era::D2, "", 1, 1),
                "only a status has a date there"
            );
        }
    }

    #[test]
    fn only_a_node_that_stood_still_as_it_wrote_lets_a_task_be_gone_early() {
        let early = Early { task: "t".into(), open: 14_000, gone: 15_200, kept: millis(KEPT) };
        let sight = Sight { early: vec![early], ..Sight::default() };
        let broken = |from, until| {
            let stop = Stop { node: "n".into(), from, until, is_cut_off: false };
            sight.violations(&[stop]).len()
        };
        assert_eq!(broken(10_000, 15_100), 0, "it ended as the node was stopped");
        assert_eq!(broken(10_000, 12_000), 1, "the node wrote again before it was seen open");
        assert_eq!(broken(14_500, 15_100), 1, "the node was stopped after it was seen open");
        assert_eq!(broken(13_000, 15_100), 1, "it would have been kept until 16 s");
        assert_eq!(sight.violations(&[]).len(), 1);
    }
}
