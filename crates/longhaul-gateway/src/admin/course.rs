//! The course of a task: when it waited for a node, when somebody worked on it, and when its work waited.

use longhaul::store::{Phase, Record, SpellOver, Time};
use serde::Serialize;

/// A part of the course of a task.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Leg {
    #[serde(flatten)]
    pub(crate) what: What,
    /// When it began.
    #[serde(serialize_with = "unix_ms")]
    pub(crate) from: Time,
    /// When it was over; of one that goes on, now.
    #[serde(serialize_with = "unix_ms")]
    pub(crate) until: Time,
    /// Whether it goes on.
    pub(crate) goes_on: bool,
}

/// What a part of the course of a task was.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "what", rename_all = "camelCase")]
pub(crate) enum What {
    /// It waited for a node.
    Queued,
    /// A node worked on it.
    Work {
        /// Its number among all such.
        nth: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        /// How that was over, if the task went on.
        #[serde(skip_serializing_if = "Option::is_none")]
        over: Option<Over>,
    },
    /// Its work waited: for an answer, for a time, or for a task that it had made.
    Waited,
    /// So many spells of work are not kept, and what was between them.
    Left { spells: u32 },
}

/// How a spell of work was over.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Over {
    PutAside,
    GivenBack,
    Lost,
}

fn unix_ms<S: serde::Serializer>(at: &Time, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(at.unix_ms())
}

/// The course of a task so far, without a gap.
pub(crate) fn course(record: &Record, now: Time) -> Vec<Leg> {
    let end = record.terminal_at.unwrap_or(now);
    let mut course = Course { legs: Vec::new(), at: record.created_at, gap: What::Queued };
    // Of a task that was claimed as it was created nothing is written down until that is over.
    if record.spells.is_empty() && record.started {
        let node = record.lease().map(|lease| lease.node.to_string());
        if node.is_some() || record.is_terminal() {
            course.until(end, What::Work { nth: 1, node, over: None });
        } else {
            // Put aside by a node that writes no spells.
            course.gap = What::Waited;
        }
    }
    let mut nth = 0;
    for spell in &record.spells {
        let left = spell.nth.saturating_sub(nth + 1);
        let gap = if left > 0 { What::Left { spells: left } } else { course.gap.clone() };
        course.until(spell.from, gap);
        nth = spell.nth;
        let (over, gap) = match spell.over {
            Some(SpellOver::Aside(_)) => (Some(Over::PutAside), What::Waited),
            Some(SpellOver::Back(_)) => (Some(Over::GivenBack), What::Queued),
            Some(SpellOver::Lost(_)) => (Some(Over::Lost), What::Queued),
            _ => (None, What::Queued),
        };
        let node = Some(spell.node.to_string());
        course.until(spell.over.map_or(end, SpellOver::at), What::Work { nth, node, over });
        course.gap = gap;
    }
    // What it waited for has come, and nobody works on it yet.
    if let Phase::Queued { not_before: due } | Phase::Parked { until: Some(due) } = record.phase
        && course.gap == What::Waited
        && due < end
    {
        course.until(due, What::Waited);
        course.gap = What::Queued;
    }
    let gap = course.gap.clone();
    course.until(end, gap);
    if let Some(last) = course.legs.last_mut().filter(|_| !record.is_terminal()) {
        last.goes_on = true;
    }
    course.legs
}

struct Course {
    legs: Vec<Leg>,
    /// Where it has got to.
    at: Time,
    /// What follows unless there is work.
    gap: What,
}

impl Course {
    /// Up to then it was this. Work is told of though it took no time.
    fn until(&mut self, until: Time, what: What) {
        let until = until.max(self.at);
        if until > self.at || matches!(what, What::Work { .. }) {
            self.legs.push(Leg { what, from: self.at, until, goes_on: false });
        }
        self.at = until;
    }
}

#[cfg(test)]
mod tests {
    use longhaul::store::{Json, Lease, NodeId, Outcome, Owner, TaskId};
    use serde_json::json;

    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_unix_ms(seconds * 1000)
    }

    fn record() -> Record {
        let id = TaskId::new("t-1").unwrap();
        Record::new(id, Owner::Anonymous, "deploy", Json::null(), Json::null(), at(100))
    }

    fn running() -> Phase {
        Phase::Running { lease: Lease::new(NodeId::new("node-a").unwrap(), at(500)) }
    }

    /// Spells of work as a store gives them.
    fn spells(of: serde_json::Value) -> Vec<longhaul::store::Spell> {
        serde_json::from_value(of).unwrap()
    }

    /// Each part in a word, with when it began and was over.
    fn told(record: &Record, now: Time) -> Vec<String> {
        let legs = course(record, now);
        let tell = |leg: &Leg| {
            let what = match &leg.what {
                What::Queued => "queued".to_owned(),
                What::Waited => "waited".to_owned(),
                What::Left { spells } => format!("{spells} left"),
                What::Work { nth, node, over } => {
                    format!("{nth} {} {over:?}", node.as_deref().unwrap_or("?"))
                }
            };
            let on = if leg.goes_on { "…" } else { "" };
            format!("{what} {}-{}{on}", leg.from.unix_ms() / 1000, leg.until.unix_ms() / 1000)
        };
        legs.iter().map(tell).collect()
    }

    #[test]
    fn a_task_that_was_claimed_at_once_is_work_from_the_start() {
        let mut task = record();
        assert_eq!(told(&task, at(130)), ["queued 100-130…"]);
        (task.started, task.phase) = (true, running());
        assert_eq!(told(&task, at(130)), ["1 node-a None 100-130…"]);
        (task.phase, task.terminal_at) = (Phase::Done(Outcome::lost("gone")), Some(at(140)));
        assert_eq!(told(&task, at(900)), ["1 ? None 100-140"]);
        task.started = false;
        assert_eq!(told(&task, at(900)), ["queued 100-140"], "it was cancelled before");
    }

    #[test]
    fn there_is_no_gap_between_its_parts() {
        let mut task = record();
        (task.started, task.phase) = (true, running());
        task.spells = spells(json!([
            { "nth": 1, "node": "node-a", "from": 103_000, "over": { "Aside": 110_000 } },
            { "nth": 2, "node": "node-b", "from": 150_000, "over": { "Lost": 160_000 } },
            { "nth": 7, "node": "node-a", "from": 200_000, "over": null },
        ]));
        let told_so_far = [
            "queued 100-103",
            "1 node-a Some(PutAside) 103-110",
            "waited 110-150",
            "2 node-b Some(Lost) 150-160",
            "4 left 160-200",
            "7 node-a None 200-230…",
        ];
        assert_eq!(told(&task, at(230)), told_so_far);
    }

    #[test]
    fn a_task_of_which_nothing_is_written_down_and_that_was_put_aside_waits() {
        let mut task = record();
        (task.started, task.phase) = (true, Phase::Parked { until: None });
        assert_eq!(told(&task, at(130)), ["waited 100-130…"]);
        task.phase = Phase::Parked { until: Some(at(120)) };
        assert_eq!(told(&task, at(130)), ["waited 100-120", "queued 120-130…"]);
    }

    #[test]
    fn what_waits_no_more_is_queued() {
        let mut task = record();
        task.started = true;
        task.spells =
            spells(json!([{ "nth": 1, "node": "node-a", "from": 100_000, "over": { "Aside": 110_000 } }]));
        let work = "1 node-a Some(PutAside) 100-110";
        task.phase = Phase::Parked { until: None };
        assert_eq!(told(&task, at(130)), [work, "waited 110-130…"]);
        task.phase = Phase::Parked { until: Some(at(140)) };
        assert_eq!(told(&task, at(130)), [work, "waited 110-130…"]);
        assert_eq!(told(&task, at(150)), [work, "waited 110-140", "queued 140-150…"]);
        task.phase = Phase::Queued { not_before: at(120) };
        assert_eq!(told(&task, at(130)), [work, "waited 110-120", "queued 120-130…"]);
    }
}
