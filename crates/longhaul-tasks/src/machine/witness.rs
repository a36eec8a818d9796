//! What moves a task on: whatever is open has something that will.

use longhaul_store::{Phase, Record};

/// Whether something will move this task on, or has ended it: a node that works on it or may, a time, a question that somebody
/// can answer, or a task that it has made. One that has nothing would stay as it is for ever.
pub fn has_witness(record: &Record) -> bool {
    match &record.phase {
        Phase::Queued { .. } | Phase::Running { .. } | Phase::Parked { until: Some(_) } | Phase::Done(_) => {
            true
        }
        Phase::Parked { until: None } => !record.questions.is_empty() || record.children.open > 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use longhaul_store::{Json, NodeId, Outcome, Owner, Question, TaskId, Time};

    use super::*;

    #[test]
    fn only_what_waits_for_nothing_has_none() {
        let at = Time::from_unix_ms(5);
        let mut record =
            Record::new(TaskId::new("t").unwrap(), Owner::Anonymous, "tool", Json::null(), Json::null(), at);
        let lease = longhaul_store::Lease::new(NodeId::new("n").unwrap(), at);
        let moved = [
            Phase::Queued { not_before: at },
            Phase::Running { lease },
            Phase::Parked { until: Some(at) },
            Phase::Done(Outcome::lost("gone")),
        ];
        for phase in moved {
            record.phase = phase;
            assert!(has_witness(&record), "{:?}", record.phase);
        }
        record.phase = Phase::Parked { until: None };
        assert!(!has_witness(&record));
        record.children.ended = 1;
        assert!(!has_witness(&record), "what it has made is over");
        record.children.open = 1;
        assert!(has_witness(&record));
        record.children.open = 0;
        record.questions.push(Question::new("q", Json::null()));
        assert!(has_witness(&record));
    }
}
