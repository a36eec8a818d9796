//! One row of the projection table a test.

use longhaul_store::{Json, NodeId, Owner, TaskId};

use super::*;

fn record(phase: Phase) -> Record {
    let json = || Json::parse("{}").unwrap();
    let at = Time::from_unix_ms(1_700_000_000_123);
    let mut record = Record::new(TaskId::new("t").unwrap(), Owner::Anonymous, "tool", json(), json(), at);
    record.phase = phase;
    record
}

fn result(text: &str, is_error: bool) -> Phase {
    let result = CallToolResult::text(text).failed(is_error);
    Phase::Done(Outcome::result(Json::parse(serde_json::to_string(&result).unwrap()).unwrap(), is_error))
}

#[test]
fn a_status_is_what_its_dialect_calls_the_fact() {
    let until = Time::from_unix_ms(0);
    let node = NodeId::new("n").unwrap();
    let open = [
        Phase::Queued { not_before: until },
        Phase::Running { lease: longhaul_store::Lease::new(node, until) },
    ];
    for phase in open {
        assert_eq!(status(&record(phase.clone()), View::D2), TaskStatus::Working);
        assert_eq!(status(&record(phase), View::D3), TaskStatus::Working);
    }
    let ended = [
        (result("ok", false), TaskStatus::Completed, TaskStatus::Completed),
        (result("no", true), TaskStatus::Failed, TaskStatus::Completed),
        (Phase::Done(Outcome::error(-32603, "x", None)), TaskStatus::Failed, TaskStatus::Failed),
        (Phase::Done(Outcome::lost("x")), TaskStatus::Failed, TaskStatus::Failed),
        (Phase::Done(Outcome::cancelled(None)), TaskStatus::Cancelled, TaskStatus::Cancelled),
    ];
    for (phase, d2, d3) in ended {
        assert_eq!(status(&record(phase.clone()), View::D2), d2, "{phase:?}");
        assert_eq!(status(&record(phase.clone()), View::D3), d3, "{phase:?}");
    }
}

/// Between two looks a task goes no way that its dialect does not have.
#[test]
fn x3_k3_a_drafted_task_is_submitted_until_it_is_claimed_and_never_again() {
    let due = Time::from_unix_ms(0);
    let mut queued = record(Phase::Queued { not_before: due });
    assert_eq!(status(&queued, View::D1), TaskStatus::Submitted);
    queued.started = true;
    assert_eq!(status(&queued, View::D1), TaskStatus::Working, "queued again after a crash");
    let lease = longhaul_store::Lease::new(NodeId::new("n").unwrap(), due);
    assert_eq!(status(&record(Phase::Running { lease }), View::D1), TaskStatus::Working);
}

#[test]
fn x2_a_result_that_is_an_error_fails_in_one_dialect_alone() {
    let ended = record(result("no", true));
    let seen = [View::D1, View::D2, View::D3].map(|view| status(&ended, view));
    assert_eq!(seen, [TaskStatus::Completed, TaskStatus::Failed, TaskStatus::Completed]);
}

#[test]
fn r1_11_a_drafted_task_says_for_how_long_it_is_kept_after_its_end() {
    let keep = std::time::Duration::from_secs(60);
    let mut kept = record(result("ok", false));
    kept.retention = Retention::AfterTerminal(keep);
    let ended = kept.created_at.after(keep * 10);
    (kept.terminal_at, kept.expires_at) = (Some(ended), Some(ended.after(keep)));
    assert_eq!(task(&kept, View::D1).ttl_ms, Some(60_000));
    assert_eq!(task(&kept, View::D2).ttl_ms, Some(660_000));
    assert_eq!(task(&record(result("ok", false)), View::D1).ttl_ms, None);
    let mut timed = record(Phase::Queued { not_before: Time::from_unix_ms(0) });
    timed.retention = Retention::FromCreation(keep);
    timed.expires_at = Some(timed.created_at.after(keep));
    timed.updated_at = timed.created_at.after(keep / 3);
    assert_eq!(task(&timed, View::D1).ttl_ms, Some(40_000), "what is left of it");
    assert_eq!(task(&timed, View::D2).ttl_ms, Some(60_000));
}

/// Only of 2025-11-25 is the first that is told of a task not as it is.
#[test]
fn what_is_told_of_a_task_first_is_that_it_works_or_what_has_come_of_it() {
    let of = |dialect, phase| {
        let mut record = record(phase);
        record.dialect = dialect;
        Arc::new(record)
    };
    let is_told_as_it_is = |record: Arc<Record>| Arc::ptr_eq(&as_begun(Arc::clone(&record)), &record);
    let queued = Phase::Queued { not_before: Time::from_unix_ms(0) };
    for dialect in [Dialect::D1, Dialect::D2, Dialect::D3] {
        assert!(is_told_as_it_is(of(dialect, queued.clone())), "{dialect:?}");
        let is_second = dialect == Dialect::D2;
        assert_eq!(is_told_as_it_is(of(dialect, result("ok", false))), !is_second, "{dialect:?}");
    }
    let begun = as_begun(of(Dialect::D2, result("ok", false)));
    assert_eq!((status(&begun, View::D2), outcome(&begun).is_none()), (TaskStatus::Working, true));
}

#[test]
fn a_failure_says_why_in_its_status_message() {
    let shown = |phase| task(&record(phase), View::D2).status_message;
    assert_eq!(shown(result("long output\nerror: it broke\n\n", true)).as_deref(), Some("error: it broke"));
    assert_eq!(shown(Phase::Done(Outcome::lost("gone"))).as_deref(), Some("worker_lost: gone"));
    assert_eq!(shown(result("fine", false)), None);
}

#[test]
fn times_are_written_to_the_millisecond() {
    assert_eq!(task(&record(result("ok", false)), View::D3).created_at, "2023-11-14T22:13:20.123Z");
}

#[test]
fn a_cancelled_task_has_no_result_to_give() {
    let Some(Err(error)) = outcome(&record(Phase::Done(Outcome::cancelled(None)))) else { panic!() };
    assert_eq!((error.code, error.message.as_ref()), (Code::INTERNAL, "Task was cancelled"));
    assert_eq!(error.data.unwrap().get(), r#"{"taskId":"t","status":"cancelled"}"#);
}

#[test]
fn a_lost_task_says_so_to_people_and_to_programs() {
    let Some(Err(error)) = outcome(&record(Phase::Done(Outcome::lost("gone")))) else { panic!() };
    assert_eq!((error.code, error.message.as_ref()), (Code::INTERNAL, "worker_lost: gone"));
    assert_eq!(error.data.unwrap().get(), r#"{"taskId":"t","reason":"worker_lost"}"#);
}

#[test]
fn a_result_is_shown_only_where_results_are_inlined() {
    let ended = record(result("ok", false));
    assert!(task(&ended, View::D2).result.is_none());
    assert!(task(&ended, View::D3).result.is_some());
}

#[test]
fn what_is_stored_is_answered_with() {
    let result = CallToolResult::text("no").failed(true);
    let outcome = stored(&result);
    assert!(matches!(outcome, Outcome::Result { is_error: true, .. }));
    let read = answer(&outcome, None).unwrap();
    assert_eq!((read.content[0].as_text(), read.is_error), (Some("no"), true));
}

#[test]
fn what_was_read_of_an_output_says_where_to_go_on() {
    let mut position = OutputPosition::new(3, 7, 9, false);
    let said = |position: &OutputPosition| {
        position.meta().find("dev.longhaul/output").map(|said| said.get().to_owned()).unwrap()
    };
    assert_eq!(said(&position), r#"{"start":3,"next":7,"total":9,"done":false}"#);
    position.gap = Some(OutputGap { from: 1, to: 3 });
    assert!(said(&position).ends_with(r#""gap":{"from":1,"to":3}}"#));
}

#[test]
fn a_task_with_parts_says_where_they_are() {
    let mut given = record(result("ok", false));
    given.parts = 2;
    let said = task(&given, View::D3).meta;
    let pointer = said.find("dev.longhaul/parts").unwrap().get();
    assert_eq!(pointer, r#"{"uri":"longhaul://tasks/t/parts","total":2}"#);
}
