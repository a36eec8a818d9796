//! Each edge and each missing edge by table, and any walk over them by chance.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{Json, Owner, TaskId};

const T0: Time = Time::from_unix_ms(1_000_000);

fn node(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

fn settings() -> Settings {
    Settings::default()
}

fn new_task(start: Start) -> NewTask {
    let id = TaskId::new("t").unwrap();
    let mut task = NewTask::new(id, Owner::Anonymous, "build", Json::parse("{}").unwrap());
    task.start = start;
    task.retention = Retention::FromCreation(Duration::from_secs(3600));
    task
}

fn running() -> Record {
    create(&new_task(Start::Claimed), &node("a"), T0, &settings()).unwrap().0
}

fn waiting() -> Record {
    create(&new_task(Start::Queued { not_before: T0 }), &node("a"), T0, &settings()).unwrap().0
}

fn ended() -> Record {
    let mut record = running();
    let epoch = record.epoch;
    assert!(
        finish(&mut record, epoch, &Outcome::lost("x"), &Batch::new(), &mut NothingKept, T0, &settings())
            .unwrap()
            .is_some()
    );
    record
}

fn dead(_: &NodeId) -> bool {
    true
}

fn alive(_: &NodeId) -> bool {
    false
}

#[test]
fn every_edge_leads_where_the_table_says() {
    type Try = fn(&mut Record) -> bool;
    let by_worker: [(&str, Try); 4] = [
        ("renew", |r| renew(r, r.epoch, T0, &settings()).is_ok()),
        ("release", |r| release(r, r.epoch, T0).is_ok()),
        ("write", |r| {
            write(
                r,
                r.epoch,
                &Batch::new().with_status_message("x"),
                &mut NothingKept,
                T0,
                &settings().limits,
            )
            .is_ok()
        }),
        ("finish", |r| {
            finish(r, r.epoch, &Outcome::lost("y"), &Batch::new(), &mut NothingKept, T0, &settings())
                .is_ok_and(|new| new.is_some())
        }),
    ];
    for (name, attempt) in by_worker {
        assert!(attempt(&mut running()), "{name} of what runs");
        assert!(!attempt(&mut waiting()), "{name} of what waits");
        assert!(!attempt(&mut ended()), "{name} of what has ended");
    }
    let by_anyone: [(&str, Try, [bool; 3]); 5] = [
        ("claim", |r| claim(r, &node("b"), T0, &settings(), &alive), [false, true, false]),
        ("claim of the dead", |r| claim(r, &node("b"), T0, &settings(), &dead), [true, true, false]),
        ("cancel", |r| cancel(r, None, T0, &settings()), [true, true, false]),
        ("expire early", |r| expire(r, T0, &settings()), [false, false, false]),
        ("expire", |r| expire(r, T0.after(Duration::from_secs(3600)), &settings()), [true, true, false]),
    ];
    for (name, attempt, [of_running, of_waiting, of_ended]) in by_anyone {
        assert_eq!(attempt(&mut running()), of_running, "{name} of what runs");
        assert_eq!(attempt(&mut waiting()), of_waiting, "{name} of what waits");
        assert_eq!(attempt(&mut ended()), of_ended, "{name} of what has ended");
    }
}

#[test]
fn a_refused_change_changes_nothing() {
    let before = running();
    let mut record = before.clone();
    let stale = Epoch::new(before.epoch.get() - 1);
    let report = Batch::new().with_status_message("late");
    assert!(renew(&mut record, stale, T0, &settings()).is_err());
    assert!(release(&mut record, stale, T0).is_err());
    assert!(write(&mut record, stale, &report, &mut NothingKept, T0, &settings().limits).is_err());
    assert!(
        finish(&mut record, stale, &Outcome::lost("y"), &report, &mut NothingKept, T0, &settings()).is_err()
    );
    let long = Batch::new().with_status_message("x".repeat(5000));
    let progress = Batch::new().with_progress(Progress::new(1.0, None, Some("x".repeat(5000).into())));
    for report in [long, progress] {
        assert!(write(&mut record, before.epoch, &report, &mut NothingKept, T0, &settings().limits).is_err());
        assert!(
            finish(
                &mut record,
                before.epoch,
                &Outcome::lost("y"),
                &report,
                &mut NothingKept,
                T0,
                &settings()
            )
            .is_err()
        );
    }
    assert_eq!(record, before);
}

/// T2 of `conformance/REQUIREMENTS.md`.
#[test]
fn a_clock_that_lags_behind_turns_no_date_back() {
    let later = T0.after(Duration::from_secs(10));
    let mut record = running();
    let epoch = record.epoch;
    write(
        &mut record,
        epoch,
        &Batch::new().with_status_message("x"),
        &mut NothingKept,
        later,
        &settings().limits,
    )
    .unwrap();
    let until = record.lease().unwrap().until;
    renew(&mut record, epoch, Time::from_unix_ms(0), &settings()).unwrap();
    assert_eq!(record.lease().unwrap().until, until);
    assert!(cancel(&mut record, None, T0, &settings()));
    let next = later.after(Duration::from_millis(1));
    assert_eq!((record.updated_at, record.status_changed_at), (next, next));
    assert_eq!(record.terminal_at, Some(T0), "what is due from its end on is due by the clock");
    assert!(record.created_at <= T0);
}

#[test]
fn work_that_is_asked_to_end_has_a_new_date_only_if_it_has_less_time() {
    let (soon, late, asked) =
        (Duration::from_secs(10), Duration::from_secs(7200), T0.after(Duration::from_secs(1)));
    for (grace, is_seen) in [(soon, true), (late, false)] {
        let mut task = new_task(Start::Claimed);
        task.cancel_grace = Some(grace);
        let mut record = create(&task, &node("a"), T0, &settings()).unwrap().0;
        let before = record.expires_at;
        assert_eq!(ask_to_cancel(&mut record, None, asked, &settings()), Asked::Requested);
        let date = if is_seen { asked } else { T0 };
        assert_eq!((record.expires_at != before, record.updated_at), (is_seen, date), "{grace:?}");
    }
}

#[test]
fn what_a_node_claims_back_is_the_same_attempt() {
    let mut record = running();
    let (attempt, epoch) = (record.attempt, record.epoch);
    let late = record.lease().unwrap().until;
    let holder = record.lease().unwrap().node.clone();
    assert!(claim(&mut record, &holder, late, &settings(), &alive));
    assert_eq!((record.attempt, record.epoch), (attempt, epoch.next()), "it stood still and lost nothing");
    let late = record.lease().unwrap().until;
    assert!(claim(&mut record, &node("another"), late, &settings(), &alive));
    assert_eq!(record.attempt, attempt + 1);
}

#[test]
fn work_that_gets_as_far_as_to_wait_clears_what_was_lost_before() {
    let mut record = running();
    for by in ["c", "d", "e"] {
        assert!(claim(&mut record, &node(by), T0, &settings(), &dead));
    }
    assert_eq!(record.attempt, 4);
    let (batch, epoch) = (Batch::new().with_park(crate::Park::new(vec![], Some(T0))), record.epoch);
    write(&mut record, epoch, &batch, &mut NothingKept, T0, &settings().limits).unwrap();
    assert!(claim(&mut record, &node("f"), T0, &settings(), &alive));
    assert_eq!(record.attempt, 1);
}

#[test]
fn a_claim_is_charged_and_a_release_takes_it_back() {
    let mut record = waiting();
    for _ in 1..4 {
        assert!(claim(&mut record, &node("b"), T0, &settings(), &alive));
        assert_eq!((record.attempt, record.started), (1, true));
        let epoch = record.epoch;
        release(&mut record, epoch, T0).unwrap();
        assert_eq!((record.attempt, record.started, record.epoch), (0, true, epoch.next()));
    }
    assert!(claim(&mut record, &node("b"), T0, &settings(), &alive));
    assert!(claim(&mut record, &node("c"), T0, &settings(), &dead));
    assert_eq!(record.attempt, 2);
}

/// One step of a walk; epochs are given as how far behind the present one they are.
#[derive(Clone, Debug)]
enum Step {
    Claim { dead: bool },
    Renew(u64),
    Release(u64),
    Write(u64, f64),
    Finish(u64),
    Cancel,
    Expire,
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        any::<bool>().prop_map(|dead| Step::Claim { dead }),
        (0..3u64).prop_map(Step::Renew),
        (0..3u64).prop_map(Step::Release),
        (0..3u64, any::<f64>()).prop_map(|(behind, value)| Step::Write(behind, value)),
        (0..3u64).prop_map(Step::Finish),
        Just(Step::Cancel),
        Just(Step::Expire),
        (0..4_000u64).prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn no_walk_leaves_an_end_or_goes_back(steps in prop::collection::vec(step(), 0..60), queued in any::<bool>()) {
        let settings = settings();
        let mut record = if queued { waiting() } else { running() };
        let mut now = T0;
        for step in steps {
            let before = record.clone();
            let behind = |by: u64| Epoch::new(before.epoch.get().saturating_sub(by));
            let fenced = match step {
                Step::Claim { dead: is_dead } => {
                    let taken = claim(&mut record, &node("b"), now, &settings, if is_dead { &dead } else { &alive });
                    prop_assert!(!taken || record.epoch > before.epoch);
                    None
                }
                Step::Renew(by) => Some((by, renew(&mut record, behind(by), now, &settings).is_err())),
                Step::Release(by) => Some((by, release(&mut record, behind(by), now).is_err())),
                Step::Write(by, value) => {
                    let report = Batch::new().with_progress(Progress::new(value, None, None));
                    Some((by, write(&mut record, behind(by), &report, &mut NothingKept, now, &settings.limits).is_err()))
                }
                Step::Finish(by) => {
                    let outcome = Outcome::lost("walk");
                    Some((by, finish(&mut record, behind(by), &outcome, &Batch::new(), &mut NothingKept, now, &settings).is_err()))
                }
                Step::Cancel => {
                    prop_assert_eq!(cancel(&mut record, None, now, &settings), !before.is_terminal());
                    None
                }
                Step::Expire => {
                    expire(&mut record, now, &settings);
                    None
                }
                Step::Wait(seconds) => {
                    now = now.after(Duration::from_secs(seconds));
                    None
                }
            };
            if let Some((by, refused)) = fenced
                && by > 0
                && behind(by) != before.epoch
            {
                prop_assert!(refused || before.is_terminal(), "a stale epoch was accepted");
                prop_assert_eq!(&record, &before);
            }
            if before.is_terminal() {
                prop_assert_eq!(&record, &before, "G4");
            }
            prop_assert!(record.epoch >= before.epoch && record.updated_at >= before.updated_at);
            prop_assert!(record.started || !before.started);
            let (was, is) = (before.progress.map(|p| p.value), record.progress.as_ref().map(|p| p.value));
            prop_assert!(is >= was && is.is_none_or(f64::is_finite));
            prop_assert_eq!(record.is_terminal(), record.terminal_at.is_some());
        }
    }
}
