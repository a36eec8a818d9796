//! What must always hold, whatever crashes, stands still, is late or comes twice: the invariants, by their names.
//!
//! - **I1** No observer of a task sees a status follow another that must not follow it.
//! - **I2** A task that has ended never changes again, in its status or in any byte of how it ended.
//! - **I3** A task that was created can be read until its time is up.
//! - **I4** An answer that was acknowledged is told to the work, and no other is.
//! - **I5** One question has one key for ever, and one step asks one question.
//! - **I6** One node writes under an epoch, and a write that is fenced leaves no trace.
//! - **I7** What a step came to is recorded once; its effect is had as often as its policy says, and never under an epoch
//!   whose lease has run out.
//! - **I8** Whatever is open has something that will move it: a lease, a time, or a question.
//! - **I9** Nobody learns anything of another's task, or changes it.
//! - **I10** The date of the last change never goes back, and moves if and only if what is seen has changed.
//! - **I11** A task is forgotten when its time is up, or fails then if it is open, and not before.
//! - **I12** What is counted against a quota is what there is.
//! - **I13** One key of a caller is one task.
//! - **I14** When all is over nothing is open, nothing is held, and nothing is left over.
//!
//! I2, I5, I6, I8, I10, I11 and the edges of I1 are judged here, of each record after each operation; I1, I2, I4 and I10
//! again of what a client is told ([`Sight`]). The others are judged where they can be seen: `audit.rs`, `client.rs`,
//! `world.rs` and `explore.rs` for a crash at every operation, `sim/` for whatever else goes wrong. That what was forgotten
//! leaves its room in time, which is the rest of I11, is judged there too.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use longhaul::proto::model::TaskStatus;
use longhaul::tasks::machine::has_witness;
use longhaul::tasks::project::{self, View};
use longhaul_store::{Outcome, Record, TaskId, Time};
use serde_json::Value;

use crate::fleet::Speaks;

/// Every task as it was last seen in the store.
#[derive(Debug, Default)]
pub(crate) struct History {
    tasks: BTreeMap<TaskId, Record>,
    /// The step and the text of each question, by its task and its key.
    questions: HashMap<(TaskId, Arc<str>), (Arc<str>, String)>,
    /// The key of each step that asks.
    asking: HashMap<(TaskId, Arc<str>), Arc<str>>,
}

impl History {
    /// Every task that was there.
    pub(crate) fn tasks(&self) -> &BTreeMap<TaskId, Record> {
        &self.tasks
    }

    pub(crate) fn open(&self) -> u64 {
        self.tasks.values().filter(|task| !task.is_terminal()).count() as u64
    }

    /// Holds a task as it is shown after `operation`, `now`, to what it was before; `fenced`: that was refused.
    pub(crate) fn see(
        &mut self,
        task: Record,
        operation: &dyn fmt::Display,
        fenced: bool,
        now: Time,
    ) -> Vec<String> {
        let mut broken = Vec::new();
        if task.is_forgotten(now) {
            broken.push(format!("I11: after {operation} a task is shown after its time: {}", brief(&task)));
        }
        if let Some(wrong) = no_witness(&task) {
            broken.push(format!("I8: after {operation} nothing will move a task on: {wrong}"));
        }
        self.check_questions(&task, &mut broken);
        let Some(before) = self.tasks.insert(task.id.clone(), task.clone()) else { return broken };
        if before == task {
            return broken;
        }
        let changed = || format!("{} to {}", brief(&before), brief(&task));
        if fenced {
            broken.push(format!("I6: a fenced {operation} changed {}", changed()));
        }
        // Of what is undone only that changes which nobody sees.
        if before.is_terminal() && !(before.is_undoing() && as_seen(&before) == as_seen(&task)) {
            broken.push(format!("I2: {operation} changed a task that has ended, {}", changed()));
        }
        if is_early(&before, &task, now) {
            broken.push(format!("I11: {operation} ended a task before its time was up, {}", changed()));
        }
        if let Some(wrong) = dates(&before, &task) {
            broken.push(format!("I10: {operation} {wrong}: {}", changed()));
        }
        for view in [View::D1, View::D2, View::D3] {
            let (was, is) = (project::status(&before, view), project::status(&task, view));
            if !may_follow(was, is) {
                broken.push(format!("I1: {operation} made {is:?} of {was:?} in {view:?}, {}", changed()));
            }
        }
        broken
    }

    /// A task is not shown any more after `operation`, `now`: as it was, if it was there, and what is wrong with that.
    pub(crate) fn forget(
        &mut self,
        id: &TaskId,
        operation: &dyn fmt::Display,
        now: Time,
    ) -> Option<(Record, Option<String>)> {
        let gone = self.tasks.remove(id)?;
        let wrong = match gone.is_terminal() {
            false => Some("I3: an open task is gone"),
            true if gone.is_forgotten(now) => None,
            true => Some("I11: a task is gone before its time is up"),
        };
        let wrong = wrong.map(|wrong| format!("{wrong}: after {operation}, {}", brief(&gone)));
        Some((gone, wrong))
    }

    fn check_questions(&mut self, task: &Record, broken: &mut Vec<String>) {
        for question in &task.questions {
            let (asked, request) = (question.key.clone(), question.request.as_str().to_owned());
            let is_new = (question.step.clone(), request);
            let known =
                self.questions.entry((task.id.clone(), asked.clone())).or_insert_with(|| is_new.clone());
            let same = *known == is_new;
            let step = (task.id.clone(), question.step.clone());
            let one = *self.asking.entry(step).or_insert_with(|| asked.clone()) == asked;
            if !same || !one {
                broken.push(format!("I5: a question changed, or its key: {question:?}"));
            }
        }
    }
}

/// Whether an open task has expired that had time left, or has none at all.
fn is_early(before: &Record, task: &Record, now: Time) -> bool {
    let has_expired = !before.is_terminal() && task.outcome() == Some(&Outcome::expired());
    has_expired && before.expires_at.is_none_or(|at| at > now)
}

/// What is wrong with the children of a task: it counts them, each is another step of it, and none goes on without it.
pub(crate) fn family<'a>(task: &Record, tasks: impl Iterator<Item = &'a Record>) -> Option<String> {
    let link = |child: &Record| child.parent.clone().filter(|link| link.task == task.id);
    let children: Vec<_> = tasks.filter_map(|child| Some((child, link(child)?))).collect();
    let open = children.iter().filter(|(child, _)| !child.is_terminal()).count();
    if !task.is_terminal() && task.children.open as usize != open {
        return Some(format!("I12: {open} children are open of {}: {:?}", brief(task), task.children));
    }
    if task.is_terminal() && children.iter().any(|(child, link)| !child.is_terminal() && !link.outlives) {
        return Some(format!("I14: a child goes on whose parent has ended: {}", brief(task)));
    }
    let steps: BTreeSet<_> = children.iter().map(|(_, link)| &link.step).collect();
    (steps.len() < children.len()).then(|| format!("I5: two children are one step: {}", brief(task)))
}

/// A record without what nobody sees: how far what has ended is undone.
fn as_seen(task: &Record) -> Record {
    let mut seen = task.clone();
    (seen.epoch, seen.undo, seen.steps, seen.step_bytes, seen.owed, seen.seq) =
        (Default::default(), None, 0, 0, 0, 0);
    seen
}

/// Whether an observer may see this status after that one.
fn may_follow(was: TaskStatus, is: TaskStatus) -> bool {
    use TaskStatus::{Cancelled, Completed, Failed, Submitted};
    match was {
        Completed | Failed | Cancelled => is == was,
        Submitted => true,
        _ => is != Submitted,
    }
}

/// What matters of a task.
pub(crate) fn brief(task: &Record) -> String {
    let Record { id, tool, phase, epoch, attempt, updated_at, questions, progress, .. } = task;
    let at = updated_at.unix_ms();
    format!(
        "{tool} {id} at {epoch:?}, attempt {attempt}, changed at {at}: {phase:?}, {progress:?}, asks {questions:?}"
    )
}

/// Why nothing would ever move this task on.
fn no_witness(task: &Record) -> Option<String> {
    (!has_witness(task)).then(|| brief(task))
}

/// What is wrong with the dates of a task that was so and is so now.
fn dates(before: &Record, now: &Record) -> Option<&'static str> {
    let seen = |task: &Record| {
        let status = (project::status(task, View::D1), project::status(task, View::D3));
        let words = (task.status_message.clone(), task.progress.clone());
        // As long as it is open, for that is how long it is kept.
        let ttl = (!task.is_terminal()).then_some(task.expires_at);
        let made = (task.children.open, task.children.ended);
        (status, words, ttl, task.questions.clone(), task.outcome().cloned(), (task.parts, made))
    };
    let changed = seen(before) != seen(now);
    if now.epoch < before.epoch {
        Some("set an epoch back")
    } else if now.updated_at < before.updated_at {
        Some("set a date back")
    } else if changed && now.updated_at == before.updated_at {
        Some("changed what a caller sees without a date")
    } else if !changed && now.updated_at != before.updated_at {
        Some("changed a date and nothing that a caller sees")
    } else {
        None
    }
}

/// What one client has been told of tasks by `tasks/get`, and by what its revision has for results.
#[derive(Debug)]
pub(crate) struct Sight {
    speaks: Speaks,
    /// The last that was seen of each task.
    seen: BTreeMap<String, Value>,
    /// What each has come to.
    results: BTreeMap<String, Value>,
    /// The questions whose answers were acknowledged.
    answered: BTreeSet<String>,
}

impl Sight {
    /// That of a client which asks so.
    pub(crate) fn of(speaks: Speaks) -> Self {
        Self { speaks, seen: BTreeMap::new(), results: BTreeMap::new(), answered: BTreeSet::new() }
    }

    pub(crate) fn last(&self, id: &str) -> Option<&Value> {
        self.seen.get(id)
    }

    /// The answer to a question was acknowledged.
    pub(crate) fn answered(&mut self, question: &str) {
        self.answered.insert(question.to_owned());
    }

    /// Holds what is told of a task to what was told before.
    pub(crate) fn see(&mut self, id: &str, task: &Value) -> Vec<String> {
        let mut broken = Vec::new();
        for key in questions(task) {
            if self.answered.contains(&key) {
                broken.push(format!("I4: a question is asked whose answer was acknowledged: {task}"));
            }
        }
        let Some(before) = self.seen.insert(id.to_owned(), task.clone()) else { return broken };
        let (was, is) = (status(&before), status(task));
        if is_end(was) && before != *task {
            broken.push(format!("I2: it had ended as {before}, and is {task}"));
        }
        let may_follow = match is {
            "working" | "input_required" => true,
            "submitted" => self.speaks == Speaks::Draft && was == "submitted",
            _ => is_end(is),
        };
        if !may_follow {
            broken.push(format!("I1: {was} was followed by {is}"));
        }
        if date(task) < date(&before) {
            broken.push(format!("I10: lastUpdatedAt ran backwards from {before} to {task}"));
        }
        let what: &[&str] = match self.speaks {
            Speaks::Extension | Speaks::Nothing => {
                &["status", "statusMessage", "inputRequests", "ttlMs", "_meta"]
            }
            // Only a status has a date there, and in the draft nothing.
            Speaks::Core => &["status"],
            Speaks::Draft => &[],
        };
        if date(task) == date(&before) && what.iter().any(|what| task[what] != before[what]) {
            broken.push(format!("I10: {before} changed to {task} without a new date"));
        }
        broken
    }

    /// Holds what a task has come to, to what that was before.
    pub(crate) fn came(&mut self, id: &str, result: &Value) -> Option<String> {
        let known = self.results.entry(id.to_owned()).or_insert_with(|| result.clone());
        (known != result).then(|| format!("I2: it had come to {known}, and has come to {result}"))
    }
}

pub(crate) fn status(task: &Value) -> &str {
    task["status"].as_str().unwrap_or_default()
}

fn date(task: &Value) -> &str {
    task["lastUpdatedAt"].as_str().unwrap_or_default()
}

pub(crate) fn is_end(status: &str) -> bool {
    matches!(status, "completed" | "failed" | "cancelled")
}

pub(crate) fn questions(task: &Value) -> Vec<String> {
    task["inputRequests"].as_object().map(|asked| asked.keys().cloned().collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use longhaul_store::{
        Batch, Finished, Json, Memory, NewTask, Owner, Retention, Settings, StepClock, TaskStore,
    };

    use super::*;

    /// A task that is kept for an hour after it has ended, as it has.
    async fn ended(store: &Memory) -> Record {
        let json = |text: &str| Json::parse(text.to_owned()).unwrap();
        let mut task = NewTask::new(TaskId::new("t").unwrap(), Owner::Anonymous, "tool", json("{}"));
        task.retention = Retention::AfterTerminal(Duration::from_secs(3600));
        let made = store.create(task).await.unwrap().into_record();
        let outcome = Outcome::result(json("1"), false);
        match store.finish(&made.id, made.epoch, outcome, Batch::new()).await.unwrap() {
            Finished::Recorded(record) => record,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn i11_a_task_that_goes_too_early_or_is_shown_too_late_is_noticed() {
        let start = Time::from_unix_ms(1_800_000_000_000);
        let store = Memory::with(Settings::default(), Arc::new(StepClock::at(start)));
        let task = ended(&store).await;
        let (mut history, up) = (History::default(), start.after(Duration::from_secs(3600)));
        let last = start.after(Duration::from_millis(3_599_999));
        assert_eq!(history.see(task.clone(), &"a look", false, last), [""; 0]);
        let (_, wrong) = history.forget(&task.id, &"a look", last).unwrap();
        assert!(wrong.is_some_and(|wrong| wrong.starts_with("I11: a task is gone before")));
        let broken = history.see(task.clone(), &"a look", false, up);
        assert!(matches!(&broken[..], [broken] if broken.starts_with("I11: after a look")), "{broken:?}");
        let (_, wrong) = history.forget(&task.id, &"a look", up).unwrap();
        assert_eq!(wrong, None);
    }
}
