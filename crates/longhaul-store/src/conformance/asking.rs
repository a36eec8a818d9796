//! Questions of tasks, their answers, and tasks that wait for one.

use std::{sync::Arc, time::Duration};

use super::{
    Backend, ann, bob, create,
    drive::{block_on, must_end, race},
    get, id, json,
    limits::limited,
    one, one_with,
    stepping::{begun, learnt, size, step, untimed},
    task,
};
use crate::{
    Answered, Batch, Owner, Park, Phase, Question, Quota, Record, Reply, Retention, Scope, Settings, Step,
    StepState, StoreError, TaskStore, Time,
};

pub(super) async fn a_question_is_answered_by_any_node_and_once(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let made = create(&*one.store, task("t")).await;
    one.deployment.advance(Duration::from_secs(1));
    ask(&*one.store, &made, &["q"]).await;
    let asked = get(&*other, &made.id).await.expect("it exists");
    let [question] = &asked.questions[..] else { panic!("one is asked: {asked:?}") };
    assert_eq!((&*question.key, &*question.step), ("q", "ask q"));
    assert_eq!((question.request.as_str(), question.asked_at), ("\"how?\"", one.store.now()));
    assert_eq!(asked.status_changed_at, one.store.now());
    let seq = ask(&*one.store, &made, &["q"]).await;
    assert_eq!(seq, asked.seq, "asked again, it is the same question");

    assert_eq!(answer(&*other, &made, "q", "1").await, 1);
    assert_eq!(answer(&*one.store, &made, "q", "2").await, 0, "the first answer stays");
    let answered = get(&*one.store, &made.id).await.expect("it exists");
    assert!(answered.questions.is_empty() && answered.seq > asked.seq);
    assert_eq!(untimed(one.store.steps(&made.id, made.epoch).await.unwrap()), [learnt("ask q", "1")]);
    assert!(matches!(answered.phase, Phase::Running { .. }), "whoever works on it goes on");
}

pub(super) async fn questions_stand_in_the_order_in_which_they_were_asked(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, task("t")).await;
    let report = Batch::new().with_step(begun("ask late"));
    one.store.write(&made.id, made.epoch, report).await.unwrap();
    ask(&*one.store, &made, &["b", "a"]).await;
    ask(&*one.store, &made, &["late"]).await;
    assert_eq!(open(&*one.store, &made).await, ["b", "a", "late"]);
    assert_eq!(answer(&*one.store, &made, "a", "1").await, 1);
    ask(&*one.store, &made, &["c"]).await;
    assert_eq!(open(&*one.store, &made).await, ["b", "late", "c"]);
    let page = one.store.list(Scope::Owner(&ann()), &crate::Filter::all(), None, 10).await.unwrap();
    assert_eq!(page.tasks, [get(&*one.store, &made.id).await.unwrap()], "a list shows them, too");
}

/// D5 of `conformance/REQUIREMENTS.md`.
pub(super) async fn what_is_not_asked_is_not_answered(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, task("t")).await;
    ask(&*one.store, &made, &["superseded", "withdrawn", "kept"]).await;
    let brief = Question::new("brief", json("1")).until(Some(one.store.now().after(Duration::from_secs(5))));
    let late = Batch::new()
        .with_step(begun("ask superseded"))
        .with_step(learnt("ask withdrawn", "null"))
        .with_step(step("ask brief", StepState::Asked(brief)));
    one.store.write(&made.id, made.epoch, late).await.unwrap();
    let newer = step("ask superseded", StepState::Asked(Question::new("newer", json("1"))));
    one.store.write(&made.id, made.epoch, Batch::new().with_step(newer)).await.unwrap();
    one.deployment.advance(Duration::from_secs(5));
    let before = get(&*one.store, &made.id).await;
    for key in ["unknown", "superseded", "withdrawn", "brief", "", "ask kept"] {
        assert_eq!(answer(&*one.store, &made, key, "1").await, 0, "{key}");
    }
    assert_eq!(get(&*one.store, &made.id).await, before, "and nothing changes");
    let replies =
        ["unknown", "kept", "kept", "newer"].map(|key| Reply::new(key, json(&format!("\"{key}\""))));
    let answered = one.store.answer(Scope::Operator, &made.id, &replies).await.unwrap();
    assert!(matches!(answered, Answered::Recorded { taken: 2, .. }), "{answered:?}");
}

pub(super) async fn a_foreign_task_takes_no_answers(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, task("t")).await;
    ask(&*one.store, &made, &["q"]).await;
    let reply = [Reply::new("q", json("1"))];
    for (owner, name) in [(bob(), "t"), (Owner::Anonymous, "t"), (ann(), "never")] {
        let answered = one.store.answer(Scope::Owner(&owner), &id(name), &reply).await.unwrap();
        assert_eq!(answered, Answered::NotFound);
    }
    assert_eq!(open(&*one.store, &made).await, ["q"]);
    let answered = one.store.answer(Scope::Owner(&ann()), &made.id, &reply).await.unwrap();
    assert!(matches!(answered, Answered::Recorded { taken: 1, .. }), "{answered:?}");
}

/// K12 of `conformance/REQUIREMENTS.md`.
pub(super) async fn a_task_that_waits_takes_no_node_and_is_due_when_answered(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let made = create(&*one.store, task("t")).await;
    let report = Batch::new().with_step(asking("q")).with_park(Park::new(vec!["q".into()], None));
    one.store.write(&made.id, made.epoch, report).await.unwrap();
    let parked = get(&*other, &made.id).await.expect("it exists");
    assert_eq!(parked.phase, Phase::Parked { until: None });
    assert_eq!((parked.attempt, parked.epoch), (0, made.epoch.next()));
    let late = one.store.write(&made.id, made.epoch, Batch::new().with_step(begun("late"))).await;
    assert!(matches!(late, Err(StoreError::Fenced { .. })), "its worker has let go of it");
    one.deployment.advance(Settings::default().lease * 100);
    assert!(other.claim(10, None).await.unwrap().is_empty());
    assert!(other.claim_one(&made.id).await.unwrap().is_none());
    assert_eq!(one.store.counts().await.unwrap().open, 1);

    let mut watch = one.store.watch(&made.id);
    assert_eq!(answer(&*other, &made, "q", "1").await, 1);
    must_end("an answer on another node", async {
        while !matches!(get(&*one.store, &made.id).await.expect("it exists").phase, Phase::Queued { .. }) {
            watch.changed().await;
        }
    })
    .await;
    let taken = one.store.claim(10, None).await.unwrap().pop().expect("it is due");
    assert_eq!((taken.attempt, taken.questions.len()), (1, 0), "waiting was not charged");
    assert_eq!(untimed(one.store.steps(&taken.id, taken.epoch).await.unwrap()), [learnt("ask q", "1")]);
}

pub(super) async fn a_task_that_waits_for_a_time_is_due_then(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, task("t")).await;
    let until = one.store.now().after(Duration::from_secs(60));
    ask(&*one.store, &made, &["q"]).await;
    park(&*one.store, &made, Park::new(vec!["q".into()], Some(until))).await;
    assert_eq!(get(&*one.store, &made.id).await.unwrap().phase, Phase::Parked { until: Some(until) });
    one.deployment.advance(Duration::from_secs(59));
    assert!(one.store.claim(10, None).await.unwrap().is_empty());
    one.deployment.advance(Duration::from_secs(1));
    let taken = one.store.claim(10, None).await.unwrap().pop().expect("its time has come");
    assert_eq!((taken.attempt, taken.questions.len()), (1, 1));
}

pub(super) async fn what_waits_for_a_time_is_due_before_it_when_that_is_told(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let made = create(&*one.store, task("t")).await;
    assert!(!other.make_due(&made.id).await.unwrap() && !other.make_due(&id("never")).await.unwrap());
    let held = get(&*one.store, &made.id).await.unwrap();
    assert_eq!((held.seq, held.epoch), (made.seq, made.epoch), "who works on it goes on");
    let until = one.store.now().after(Duration::from_secs(3600));
    park(&*one.store, &made, Park::new(vec![], Some(until))).await;
    assert!(one.store.claim(10, None).await.unwrap().is_empty());
    assert!(other.make_due(&made.id).await.unwrap());
    assert!(!other.make_due(&made.id).await.unwrap(), "it is due already");
    let taken = one.store.claim(10, None).await.unwrap().pop().expect("it is due");
    assert_eq!((taken.attempt, taken.updated_at), (1, made.updated_at), "nobody is told of that");
    super::finish(&*one.store, &taken).await;
    assert!(!other.make_due(&made.id).await.unwrap(), "it has ended");
}

pub(super) async fn who_waits_for_what_has_come_is_due_at_once(backend: &dyn Backend) {
    let one = one(backend);
    let parks: [&[&str]; 3] = [&["q", "r"], &["never"], &[]];
    for (number, on) in parks.into_iter().enumerate() {
        let made = create(&*one.store, task(&format!("t{number}"))).await;
        ask(&*one.store, &made, &["q", "r"]).await;
        assert_eq!(answer(&*one.store, &made, "q", "1").await, 1);
        let on: Vec<Arc<str>> = on.iter().map(|key| (*key).into()).collect();
        park(&*one.store, &made, Park::new(on, None)).await;
        let taken = one.store.claim_one(&made.id).await.unwrap().expect("nothing would wake it");
        assert_eq!(taken.attempt, 1);
    }
}

pub(super) async fn what_has_ended_asks_nothing(backend: &dyn Backend) {
    let one = one(backend);
    let mut tasks = Vec::new();
    for name in ["finished", "cancelled", "expired", "parked"] {
        let mut new = task(name);
        new.retention = Retention::FromCreation(Duration::from_secs(60));
        let made = create(&*one.store, new).await;
        ask(&*one.store, &made, &["q"]).await;
        tasks.push(made);
    }
    super::finish(&*one.store, &tasks[0]).await;
    one.store.request_cancel(Scope::Operator, &tasks[1].id, None).await.unwrap();
    park(&*one.store, &tasks[3], Park::new(vec!["q".into()], None)).await;
    one.deployment.advance(Duration::from_secs(60));
    assert_eq!(one.store.sweep(10).await.unwrap().expired.len(), 2);
    for made in &tasks {
        let ended = get(&*one.store, &made.id).await.expect("it can still be read");
        assert!(ended.is_terminal() && ended.questions.is_empty(), "{ended:?}");
        assert_eq!(answer(&*one.store, made, "q", "1").await, 0);
        assert_eq!(get(&*one.store, &made.id).await, Some(ended));
    }
}

/// S4 of `conformance/REQUIREMENTS.md`.
pub(super) async fn open_questions_are_bounded(backend: &dyn Backend) {
    let at_most = size(backend, &asking("a"));
    let settings = limited(|limits| (limits.max_questions, limits.max_step) = (2, at_most));
    let one = one_with(backend, settings);
    let made = create(&*one.store, task("t")).await;
    ask(&*one.store, &made, &["a", "b"]).await;
    let before = get(&*one.store, &made.id).await;
    let third = Batch::new().with_step(asking("c")).with_status_message("said");
    let refusal = one.store.write(&made.id, made.epoch, third.clone()).await;
    assert!(
        matches!(refusal, Err(StoreError::Overloaded { what: Quota::Questions, limit: 2 })),
        "{refusal:?}"
    );
    let long = [Reply::new("a", json("1")), Reply::new("b", json(&format!("\"{}\"", "x".repeat(60))))];
    let refusal = one.store.answer(Scope::Operator, &made.id, &long).await;
    assert!(matches!(refusal, Err(StoreError::TooLarge { limit, .. }) if limit == at_most), "{refusal:?}");
    assert_eq!(get(&*one.store, &made.id).await, before, "what was refused has changed nothing");
    assert_eq!(answer(&*one.store, &made, "a", "1").await, 1);
    one.store.write(&made.id, made.epoch, third).await.unwrap();
}

/// D4 of `conformance/REQUIREMENTS.md`.
pub(super) async fn answers_that_race_have_one_winner(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, task("t")).await;
    let report = Batch::new().with_step(asking("q")).with_park(Park::new(vec!["q".into()], None));
    one.store.write(&made.id, made.epoch, report).await.unwrap();
    let nodes: Vec<_> = (0..4).map(|_| one.deployment.join()).collect();
    let taken = race(4, |index| block_on(answer(&*nodes[index], &made, "q", &index.to_string())));
    assert_eq!(taken.iter().sum::<usize>(), 1);
    let winner = taken.iter().position(|taken| *taken == 1).expect("one has won");
    let held = one.store.claim_one(&made.id).await.unwrap().expect("it is due");
    let steps = one.store.steps(&held.id, held.epoch).await.unwrap();
    assert_eq!(untimed(steps), [learnt("ask q", &winner.to_string())]);
}

pub(super) async fn an_answer_that_meets_a_park_is_never_lost(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    for round in 0..8 {
        let made = create(&*one.store, task(&format!("t{round}"))).await;
        ask(&*one.store, &made, &["q"]).await;
        race(2, |index| match index {
            0 => block_on(park(&*one.store, &made, Park::new(vec!["q".into()], None))),
            _ => assert_eq!(block_on(answer(&*other, &made, "q", "1")), 1),
        });
        assert!(other.claim_one(&made.id).await.unwrap().is_some(), "whichever came first, it is due");
    }
}

async fn ask(store: &dyn TaskStore, made: &Record, keys: &[&str]) -> u64 {
    let batch = keys.iter().fold(Batch::new(), |batch, key| batch.with_step(asking(key)));
    store.write(&made.id, made.epoch, batch).await.expect("it is asked")
}

async fn park(store: &dyn TaskStore, made: &Record, park: Park) {
    store.write(&made.id, made.epoch, Batch::new().with_park(park)).await.expect("it is put aside");
}

/// Answers as the owner; tells how many answers were taken.
async fn answer(store: &dyn TaskStore, made: &Record, key: &str, value: &str) -> usize {
    let reply = [Reply::new(key, json(value))];
    match store.answer(Scope::Owner(&ann()), &made.id, &reply).await.expect("it can be answered") {
        Answered::Recorded { taken, record } => {
            assert_eq!(record.id, made.id);
            taken
        }
        Answered::NotFound => panic!("{} is there", made.id),
    }
}

async fn open(store: &dyn TaskStore, made: &Record) -> Vec<String> {
    let record = get(store, &made.id).await.expect("it exists");
    record.questions.iter().map(|question| question.key.to_string()).collect()
}

pub(super) fn asking(key: &str) -> Step {
    let mut question = Question::new(key, json("\"how?\""));
    // The store says of which step, and when.
    question.asked_at = Time::from_unix_ms(-1);
    step(&format!("ask {key}"), StepState::Asked(question))
}
