//! What the work of a task has done, step by step, without what it has learnt.

use longhaul::store::{Answerer, Owner, Phase, Record, SeenState, SeenStep, SeenSteps, Time};
use serde::{Serialize, Serializer};

use super::{Admin, AdminError, Leg, Viewer, What};

/// The steps with which those of a task begin and end.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ends {
    pub(crate) first: Vec<SeenStep>,
    /// How many are between.
    pub(crate) between: u64,
    pub(crate) last: Vec<SeenStep>,
}

/// A step of a task as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShownStep {
    /// By which name its work knows it, with those of the scopes around it.
    pub(crate) name: String,
    /// How far it is.
    pub(crate) state: Stands,
    /// During which attempt it was recorded, or begun if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) attempt: Option<u32>,
    /// During which it began, if that was another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) begun_in_attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "unix_ms")]
    pub(crate) began_at: Option<Time>,
    /// When it was recorded, or was over.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "unix_ms")]
    pub(crate) ended_at: Option<Time>,
    /// Until when it waits.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "unix_ms")]
    pub(crate) until: Option<Time>,
    /// Who answered it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) answered_by: Option<String>,
    /// The task that it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) task_id: Option<String>,
    /// Where it stands in the course of its task.
    #[serde(skip)]
    pub(crate) place: Place,
}

/// How far a step is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Stands {
    /// It has begun, and whoever began it is at it.
    Running,
    /// It had begun when whoever was at it was gone, or the task ended.
    CutOff,
    Recorded,
    Failed,
    /// It was asked or waited for, and let go of.
    InVain,
    /// It waits for an answer.
    Asked,
    /// It was a question, and has its answer.
    Answered,
    /// It was one, and has an error for an answer.
    Refused,
    /// It waits for its time.
    Waits,
    /// Its time has come.
    Waited,
    /// It is a task.
    Task,
    /// It undoes another, should the task fail.
    Owed,
    /// It would have.
    NotNeeded,
    Undone,
    NotUndone,
}

/// Where in the course of its task something was.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    /// In this part of it.
    Leg(usize),
    /// Behind its end, when the task was undone.
    Undoing,
    /// Nobody knows.
    Unknown,
}

impl ShownStep {
    /// Of a task whose course this is.
    pub(crate) fn of(step: &SeenStep, record: &Record, legs: &[Leg], now: Time) -> Self {
        let (state, ended_at) = stands(step, record, legs, now);
        let is_over = matches!(step.state, SeenState::Learnt | SeenState::Failed);
        let place = place(if is_over { step.learnt_at } else { step.began_at }, record, legs);
        let attempt = attempt(place, legs);
        let begun_in = step.began_at.and_then(|at| attempt_at(at, record, legs));
        Self {
            name: named(&step.key),
            state,
            attempt,
            begun_in_attempt: begun_in.filter(|_| attempt.is_some() && attempt != begun_in),
            began_at: step.began_at,
            ended_at,
            until: match step.state {
                SeenState::Due(at) if state == Stands::Waits => Some(at),
                _ => None,
            },
            answered_by: step.answered_by.as_ref().map(answerer),
            task_id: match &step.state {
                SeenState::Child(task) => Some(task.to_string()),
                _ => None,
            },
            place,
        }
    }
}

/// How far it is, and when it was over.
fn stands(step: &SeenStep, record: &Record, legs: &[Leg], now: Time) -> (Stands, Option<Time>) {
    let (over, ended) = (step.learnt_at, record.terminal_at);
    match (&step.state, is_undo(&step.key)) {
        (SeenState::Learnt, _) if step.answered_by.is_some() => (Stands::Answered, over),
        (SeenState::Failed, _) if step.answered_by.is_some() => (Stands::Refused, over),
        (SeenState::Learnt, false) => (Stands::Recorded, over),
        (SeenState::Failed, false) if is_done(&step.key) => (Stands::Failed, over),
        (SeenState::Failed, false) => (Stands::InVain, over),
        (SeenState::Learnt, true) => (Stands::Undone, over),
        (SeenState::Failed, true) => (Stands::NotUndone, over),
        // Of work that runs once, that it begins is all that is recorded.
        (SeenState::Begun, _) if &*step.key == WORK_BEGINS => (Stands::Recorded, step.began_at),
        (SeenState::Begun, _) if is_at_work(step, record, legs) => (Stands::Running, None),
        (SeenState::Begun, _) => (Stands::CutOff, None),
        (SeenState::Due(at), _) if *at <= ended.unwrap_or(now) => (Stands::Waited, Some(*at)),
        (SeenState::Due(_) | SeenState::Asked | SeenState::Child(_), _) if ended.is_some() => {
            (Stands::CutOff, None)
        }
        (SeenState::Due(_), _) => (Stands::Waits, None),
        (SeenState::Asked, _) => (Stands::Asked, None),
        (SeenState::Child(_), _) => (Stands::Task, None),
        (SeenState::Owed, _) if ended.is_some() && record.undo.is_none() => (Stands::NotNeeded, None),
        (SeenState::Owed, _) => (Stands::Owed, None),
    }
}

/// Whether whoever began a step may be at it still.
fn is_at_work(step: &SeenStep, record: &Record, legs: &[Leg]) -> bool {
    let began_in = match place(step.began_at, record, legs) {
        Place::Leg(at) => legs.get(at),
        Place::Undoing | Place::Unknown => legs.last(),
    };
    matches!(record.phase, Phase::Running { .. })
        && began_in.is_some_and(|leg| leg.goes_on && matches!(leg.what, What::Work { .. }))
}

/// Where in the course of a task something was.
fn place(at: Option<Time>, record: &Record, legs: &[Leg]) -> Place {
    let Some(at) = at else { return Place::Unknown };
    if record.undo.is_some() && record.terminal_at.is_some_and(|ended| at > ended) {
        return Place::Undoing;
    }
    // What was at the moment in which work was over is of the work.
    let begun = |leg: &Leg| leg.from < at || leg.from == at && matches!(leg.what, What::Work { .. });
    match legs.iter().rposition(begun) {
        Some(at) => Place::Leg(at),
        // It was done before anybody wrote down that there is a task.
        None if legs.is_empty() => Place::Unknown,
        None => Place::Leg(0),
    }
}

fn attempt(place: Place, legs: &[Leg]) -> Option<u32> {
    match place {
        Place::Leg(at) => match legs.get(at)?.what {
            What::Work { nth, .. } => Some(nth),
            What::Queued | What::Waited | What::Left { .. } => None,
        },
        Place::Undoing | Place::Unknown => None,
    }
}

fn attempt_at(at: Time, record: &Record, legs: &[Leg]) -> Option<u32> {
    attempt(place(Some(at), record, legs), legs)
}

impl Admin {
    /// The steps of a task that `viewer` sees in the order in which they began, behind the first `after`.
    ///
    /// # Errors
    ///
    /// [`AdminError::NoTask`], and when the store cannot be read.
    pub(crate) async fn steps(
        &self,
        viewer: &Viewer,
        record: &Record,
        after: u64,
        limit: usize,
    ) -> Result<SeenSteps, AdminError> {
        let seen = self.store().seen_steps(viewer.scope(), &record.id, after, limit).await?;
        seen.ok_or(AdminError::NoTask)
    }

    /// So many of the first, and of the last; `None` where they cannot be had for now.
    pub(crate) async fn ends_of_steps(
        &self,
        viewer: &Viewer,
        record: &Record,
        first: usize,
        last: usize,
    ) -> Option<Ends> {
        if record.steps == 0 {
            return Some(Ends::default());
        }
        let read = async || {
            let mut all = self.steps(viewer, record, 0, first + last).await?.steps;
            let total = u64::from(record.steps);
            let after = total.saturating_sub(last as u64).max(first as u64);
            if total <= (first + last) as u64 || all.len() <= first {
                let between = total.saturating_sub(all.len() as u64);
                return Ok::<_, AdminError>(Ends { first: all, between, last: Vec::new() });
            }
            all.truncate(first);
            let SeenSteps { start, steps, .. } = self.steps(viewer, record, after, last).await?;
            Ok(Ends { first: all, between: start.saturating_sub(first as u64), last: steps })
        };
        match read().await {
            Ok(ends) => Some(ends),
            Err(error) => {
                tracing::debug!(?error, "the steps of a task cannot be shown for now");
                None
            }
        }
    }
}

/// Who gave an answer, in words.
fn answerer(by: &Answerer) -> String {
    match by {
        Answerer::Caller(Owner::Principal(principal)) => principal.to_string(),
        Answerer::Caller(Owner::Anonymous) => "its caller".to_owned(),
        Answerer::Operator => "the operator".to_owned(),
    }
}

/// The words of a key: its kind goes where the name says enough.
fn named(key: &str) -> String {
    if key == WORK_BEGINS {
        return "its work begins".to_owned();
    }
    let part = |part: &str| {
        let bare = ["step:", "scope:", "spawn:"].iter().find_map(|kind| part.strip_prefix(kind));
        bare.unwrap_or(part).replace("%2F", "/").replace("%25", "%")
    };
    key.split('/').map(part).collect::<Vec<_>>().join(" › ")
}

/// Whether it is the key of what undoes a step: no name has a slash.
fn is_undo(key: &str) -> bool {
    key.ends_with("/undo")
}

#[expect(clippy::ref_option, reason = "serde calls it")]
fn unix_ms<S: Serializer>(at: &Option<Time>, serializer: S) -> Result<S::Ok, S::Error> {
    at.map(Time::unix_ms).serialize(serializer)
}

/// Whether it is the key of something that is done, and not asked or waited for.
fn is_done(key: &str) -> bool {
    let last = key.rsplit('/').next().unwrap_or_default();
    ["step:", "spawn:"].iter().any(|kind| last.starts_with(kind))
}

/// The key under which stands that the work of a task has begun which is never run twice.
const WORK_BEGINS: &str = "/begun";

#[cfg(test)]
mod tests {
    use longhaul::store::{Json, Lease, NodeId, Outcome, Owner, TaskId};
    use serde_json::json;

    use super::*;
    use crate::admin::course;

    fn at(seconds: i64) -> Time {
        Time::from_unix_ms(seconds * 1000)
    }

    /// A task that was worked on from 100 to 110, when its node was gone, and from 120 to 130, when it was put aside, and that is
    /// worked on since 150.
    fn task() -> Record {
        let id = TaskId::new("t-1").unwrap();
        let mut task = Record::new(id, Owner::Anonymous, "build", Json::null(), Json::null(), at(100));
        task.started = true;
        task.phase = Phase::Running { lease: Lease::new(NodeId::new("node-a").unwrap(), at(500)) };
        let spells = json!([
            { "nth": 1, "node": "node-a", "from": 100_000, "over": { "Lost": 110_000 } },
            { "nth": 2, "node": "node-a", "from": 120_000, "over": { "Aside": 130_000 } },
            { "nth": 3, "node": "node-a", "from": 150_000, "over": null },
        ]);
        task.spells = serde_json::from_value(spells).unwrap();
        task
    }

    fn step(key: &str, state: SeenState, began: Option<i64>, learnt: Option<i64>) -> SeenStep {
        let step = longhaul::store::Step::new(
            key,
            longhaul::tasks::journal::Fingerprint::new([1; 16]),
            longhaul::store::StepState::Begun,
        );
        let mut seen = SeenStep::of(&step.between(began.map(at), learnt.map(at)));
        seen.state = state;
        seen
    }

    fn shown(task: &Record, step: &SeenStep) -> ShownStep {
        ShownStep::of(step, task, &course(task, at(160)), at(160))
    }

    /// Its state, the attempt it is of, and where it stands.
    fn told(task: &Record, step: &SeenStep) -> (Stands, Option<u32>, Place) {
        let shown = shown(task, step);
        (shown.state, shown.attempt, shown.place)
    }

    #[test]
    fn a_step_is_called_as_its_author_calls_it() {
        for (key, name) in [
            ("step:fetch", "fetch"),
            ("scope:mirror/step:a%2Fb%25", "mirror › a/b%"),
            ("sleep", "sleep"),
            ("spawn:build", "build"),
            ("/begun", "its work begins"),
        ] {
            assert_eq!(named(key), name);
        }
    }

    #[test]
    fn a_step_is_of_the_attempt_in_which_it_was_recorded() {
        use SeenState::{Begun, Learnt};
        let task = task();
        let of = |began, learnt| told(&task, &step("step:s", Learnt, began, learnt));
        assert_eq!(of(Some(101), Some(103)), (Stands::Recorded, Some(1), Place::Leg(0)));
        assert_eq!(
            of(Some(121), Some(130)),
            (Stands::Recorded, Some(2), Place::Leg(2)),
            "and then put aside"
        );
        assert_eq!(of(Some(125), Some(140)), (Stands::Recorded, None, Place::Leg(3)), "while it waited");
        assert_eq!(of(None, Some(150)), (Stands::Recorded, Some(3), Place::Leg(4)));
        assert_eq!(
            of(Some(90), Some(95)),
            (Stands::Recorded, Some(1), Place::Leg(0)),
            "before it was a task"
        );
        assert_eq!(of(None, None), (Stands::Recorded, None, Place::Unknown), "by an earlier release");
        let again = shown(&task, &step("step:s", Learnt, Some(105), Some(125)));
        assert_eq!((again.attempt, again.begun_in_attempt), (Some(2), Some(1)));
        let let_go = step("sleep", SeenState::Failed, Some(101), Some(103));
        assert_eq!(shown(&task, &let_go).state, Stands::InVain);
        let begun = |began| told(&task, &step("step:s", Begun, began, None));
        assert_eq!(begun(Some(105)), (Stands::CutOff, Some(1), Place::Leg(0)));
        assert_eq!(begun(Some(155)), (Stands::Running, Some(3), Place::Leg(4)));
        assert_eq!(begun(None), (Stands::Running, None, Place::Unknown), "for all that is known");
    }

    #[test]
    fn what_waits_is_over_when_its_time_has_come_or_its_task_has_ended() {
        let mut task = task();
        let due = |until| step("sleep", SeenState::Due(at(until)), Some(155), None);
        let rest = shown(&task, &due(158));
        assert_eq!((rest.state, rest.ended_at, rest.until), (Stands::Waited, Some(at(158)), None));
        let rest = shown(&task, &due(170));
        assert_eq!((rest.state, rest.ended_at, rest.until), (Stands::Waits, None, Some(at(170))));
        let child = step("spawn:b", SeenState::Child(TaskId::new("c").unwrap()), Some(155), None);
        let made = shown(&task, &child);
        assert_eq!((made.state, made.task_id.as_deref()), (Stands::Task, Some("c")));
        (task.phase, task.terminal_at) = (Phase::Done(Outcome::cancelled(None)), Some(at(157)));
        let begun = step("step:s", SeenState::Begun, Some(155), None);
        for step in [due(158), child, begun, step("ask", SeenState::Asked, Some(155), None)] {
            assert_eq!(shown(&task, &step).state, Stands::CutOff, "{step:?}");
        }
        let once = shown(&task, &step("/begun", SeenState::Begun, Some(155), None));
        assert_eq!((once.state, once.ended_at), (Stands::Recorded, Some(at(155))));
    }

    #[test]
    fn what_undoes_a_step_is_told_apart_and_comes_behind_the_end() {
        let mut task = task();
        let owed = step("step:s/undo", SeenState::Owed, Some(155), None);
        assert_eq!(told(&task, &owed), (Stands::Owed, Some(3), Place::Leg(4)));
        (task.phase, task.terminal_at) = (Phase::Done(Outcome::cancelled(None)), Some(at(157)));
        assert_eq!(shown(&task, &owed).state, Stands::NotNeeded);
        let undo = json!({ "phase": { "Queued": { "not_before": 157_000 } }, "until": 900_000, "attempt": 0, "failed": 0 });
        task.undo = serde_json::from_value(undo).unwrap();
        assert_eq!(told(&task, &owed), (Stands::Owed, Some(3), Place::Leg(4)));
        let undone = step("step:s/undo", SeenState::Learnt, Some(158), Some(159));
        assert_eq!(told(&task, &undone), (Stands::Undone, None, Place::Undoing));
        let failed = step("step:s/undo", SeenState::Failed, None, Some(159));
        assert_eq!(shown(&task, &failed).state, Stands::NotUndone);
        let last = step("step:s", SeenState::Learnt, Some(155), Some(157));
        assert_eq!(told(&task, &last).2, Place::Leg(4), "with the outcome");
    }

    #[test]
    fn a_question_that_is_over_says_who_answered() {
        let of = |state, by| {
            let mut step = step("elicit", state, Some(105), Some(125));
            step.answered_by = by;
            let shown = shown(&task(), &step);
            (shown.state, shown.answered_by)
        };
        let ann = Answerer::Caller(Owner::principal("ann").unwrap());
        let told = |words: &str| Some(words.to_owned());
        assert_eq!(of(SeenState::Learnt, Some(ann.clone())), (Stands::Answered, told("ann")));
        assert_eq!(of(SeenState::Failed, Some(ann)), (Stands::Refused, told("ann")));
        let nobody = Answerer::Caller(Owner::Anonymous);
        assert_eq!(of(SeenState::Learnt, Some(nobody)), (Stands::Answered, told("its caller")));
        assert_eq!(of(SeenState::Learnt, Some(Answerer::Operator)), (Stands::Answered, told("the operator")));
        assert_eq!(of(SeenState::Learnt, None), (Stands::Recorded, None), "its work brought it");
    }

    #[test]
    fn scripts_are_told_in_numbers_and_words() {
        let step = step("scope:a/step:s", SeenState::Failed, Some(105), Some(125));
        let told = serde_json::to_value(shown(&task(), &step)).unwrap();
        let expected = json!({
            "name": "a › s", "state": "failed", "attempt": 2, "begunInAttempt": 1, "beganAt": 105_000, "endedAt": 125_000,
        });
        assert_eq!(told, expected);
    }
}
