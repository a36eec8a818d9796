//! What is seen of the steps of a task: which they are, how far, and when they began and were learnt.

use std::time::Duration;

use super::{
    Backend, ann, bob, create, finish, get, id, json, one, one_with,
    stepping::{begun, learnt, step},
    task,
};
use crate::{
    Answerer, Batch, NewChild, Outcome, Owner, Park, Question, Record, Reply, Retention, Scope, SeenState,
    SeenStep, SeenSteps, Settings, Start, Step, StepState, StoreError, TaskStore, Time,
};

const A_SECOND: Duration = Duration::from_secs(1);

async fn see(store: &dyn TaskStore, task: &Record, after: u64, limit: usize) -> SeenSteps {
    store.seen_steps(Scope::Owner(&ann()), &task.id, after, limit).await.unwrap().expect("it is there")
}

/// When each began and was learnt, in seconds since then, as whoever holds the task and whoever does not is told.
async fn times(store: &dyn TaskStore, held: &Record, since: Time) -> Vec<(String, Option<u64>, Option<u64>)> {
    let steps = store.steps(&held.id, held.epoch).await.unwrap();
    let seen = see(store, held, 0, 1000).await;
    assert_eq!(seen.steps, steps.iter().map(SeenStep::of).collect::<Vec<_>>());
    let seconds = |at: Option<Time>| at.map(|at| at.since(since).as_secs());
    let all =
        steps.iter().map(|step| (step.key.to_string(), seconds(step.began_at), seconds(step.learnt_at)));
    all.collect()
}

fn at(key: &str, began: Option<u64>, learnt: Option<u64>) -> (String, Option<u64>, Option<u64>) {
    (key.to_owned(), began, learnt)
}

async fn write(store: &dyn TaskStore, held: &Record, steps: impl IntoIterator<Item = Step>) {
    let batch = steps.into_iter().fold(Batch::new(), Batch::with_step);
    store.write(&held.id, held.epoch, batch).await.unwrap();
}

pub(super) async fn a_step_has_the_times_at_which_it_began_and_was_learnt(backend: &dyn Backend) {
    let one = one(backend);
    let (store, since) = (&*one.store, one.store.now());
    let mut new = task("t");
    new.steps = vec![learnt("brought", "1"), begun("first"), begun("rest")];
    let made = create(store, new).await;
    one.deployment.advance(A_SECOND);
    let question = StepState::Asked(Question::new("q", json("[]")));
    let due = StepState::Due(since.after(A_SECOND * 90));
    write(
        store,
        &made,
        [begun("tried"), step("asked", question), step("rest", due), step("owed", StepState::Owed)],
    )
    .await;
    one.deployment.advance(A_SECOND);
    // Begun again by another attempt, it began when it did.
    write(store, &made, [learnt("first", "1"), begun("tried"), learnt("late", "1")]).await;
    one.deployment.advance(A_SECOND);
    store.answer(Scope::Owner(&ann()), &made.id, &[Reply::new("q", json("1"))]).await.unwrap();
    let failed = StepState::Learnt { value: json("\"no\""), is_error: true };
    write(store, &made, [step("tried", failed), learnt("first", "1")]).await;
    let expected = [
        at("brought", None, Some(0)),
        at("first", Some(0), Some(2)),
        at("rest", Some(0), None),
        at("tried", Some(1), Some(3)),
        at("asked", Some(1), Some(3)),
        at("owed", Some(1), None),
        at("late", None, Some(2)),
    ];
    assert_eq!(times(store, &made, since).await, expected);
    let other = one.deployment.join();
    let states: Vec<_> = see(&*other, &made, 0, 10).await.steps.into_iter().map(|step| step.state).collect();
    let due = SeenState::Due(since.after(A_SECOND * 90));
    use SeenState::{Failed, Learnt, Owed};
    assert_eq!(states, [Learnt, Learnt, due, Failed, Learnt, Owed, Learnt]);
}

pub(super) async fn a_worker_knows_better_when_what_it_tells_late_was_done(backend: &dyn Backend) {
    let one = one(backend);
    let since = one.store.now();
    let after = |seconds: u32| Some(since.after(A_SECOND * seconds));
    let mut new = task("t");
    one.deployment.advance(A_SECOND * 9);
    new.steps = vec![learnt("before", "1").between(after(2), after(3))];
    let made = create(&*one.store, new).await;
    let told = [
        learnt("said", "1").between(after(5), after(7)),
        learnt("late", "1").between(after(8), None),
        // By a clock that is ahead of the store's.
        learnt("ahead", "1").between(after(70), after(90)),
        begun("begins").between(after(1), after(2)),
    ];
    write(&*one.store, &made, told).await;
    let expected = [
        at("before", Some(2), Some(3)),
        at("said", Some(5), Some(7)),
        at("late", Some(8), Some(9)),
        at("ahead", Some(9), Some(9)),
        at("begins", Some(9), None),
    ];
    assert_eq!(times(&*one.store, &made, since).await, expected);
}

pub(super) async fn a_child_is_a_step_from_when_it_is_made_until_it_ends(backend: &dyn Backend) {
    let one = one(backend);
    let (store, since) = (&*one.store, one.store.now());
    let made = create(store, task("t")).await;
    one.deployment.advance(A_SECOND);
    let mut child = task("child");
    child.start = Start::Queued { not_before: store.now() };
    let of = crate::Fingerprint::new([7; 16]);
    let child = || NewChild::new("made", of, child.clone());
    store.write(&made.id, made.epoch, Batch::new().with_child(child())).await.unwrap();
    one.deployment.advance(A_SECOND);
    store.write(&made.id, made.epoch, Batch::new().with_child(child())).await.expect("it has been made");
    assert_eq!(times(store, &made, since).await, [at("made", Some(1), None)]);
    assert_eq!(see(store, &made, 0, 1).await.steps[0].state, SeenState::Child(id("child")));
    let held = store.claim_one(&id("child")).await.unwrap().expect("it is due");
    finish(store, &held).await;
    assert_eq!(times(store, &made, since).await, [at("made", Some(1), Some(2))]);
}

pub(super) async fn what_is_undone_began_when_that_did(backend: &dyn Backend) {
    let one = one(backend);
    let (store, since) = (&*one.store, one.store.now());
    let mut new = task("t");
    new.steps = vec![step("owed", StepState::Owed), step("too", StepState::Owed), begun("cut off")];
    let made = create(store, new).await;
    store.finish(&made.id, made.epoch, Outcome::lost("gone"), Batch::new()).await.unwrap();
    one.deployment.advance(A_SECOND * 5);
    let held = store.claim_one(&made.id).await.unwrap().expect("it is to be undone");
    write(store, &held, [learnt("owed", "null").between(Some(since.after(A_SECOND * 4)), None)]).await;
    let seen = see(store, &held, 0, 10).await.steps;
    let begins = |nth: usize| seen[nth].began_at.map(|at| at.since(since).as_secs());
    assert_eq!((begins(0), begins(1), begins(2)), (Some(4), Some(0), Some(0)));
    assert_eq!((&seen[0].state, seen[0].learnt_at), (&SeenState::Learnt, Some(store.now())));
    write(store, &held, [learnt("too", "null")]).await;
    let seen = see(store, &held, 0, 10).await.steps;
    assert_eq!((seen[1].began_at, seen[1].learnt_at), (None, Some(store.now())));
    assert_eq!(seen[2].state, SeenState::Begun, "nothing is known of it");
}

pub(super) async fn steps_are_seen_whoever_works_on_them_and_when_nobody_does(backend: &dyn Backend) {
    let settings = Settings { tombstone: Duration::ZERO, ..Settings::default() };
    let one = one_with(backend, settings);
    let other = one.deployment.join();
    let mut brief = task("t");
    brief.retention = Retention::AfterTerminal(Duration::from_secs(60));
    let made = create(&*one.store, brief).await;
    assert_eq!(see(&*other, &made, 0, 10).await, SeenSteps::new(0, vec![], 0));
    write(&*one.store, &made, [learnt("a", "1"), begun("b")]).await;
    let held = see(&*other, &made, 0, 10).await;
    assert_eq!((held.total, held.steps.len()), (2, 2));
    let park = Park::new(vec![], Some(one.store.now().after(A_SECOND)));
    one.store.write(&made.id, made.epoch, Batch::new().with_park(park)).await.unwrap();
    assert!(one.store.steps(&made.id, made.epoch).await.is_err(), "nobody holds it");
    assert_eq!(see(&*other, &made, 0, 10).await, held, "while it waits");
    one.deployment.advance(A_SECOND);
    let again = other.claim_one(&made.id).await.unwrap().expect("it is due");
    assert_eq!(see(&*one.store, &made, 0, 10).await, held, "while another works on it");
    finish(&*other, &again).await;
    one.deployment.advance(Duration::from_secs(59));
    assert_eq!(see(&*one.store, &made, 0, 10).await, held, "when it has ended");
    one.deployment.advance(A_SECOND);
    for swept in [false, true] {
        if swept {
            one.store.sweep(10).await.unwrap();
        }
        assert_eq!(one.store.seen_steps(Scope::Operator, &made.id, 0, 10).await.unwrap(), None, "{swept}");
    }
}

pub(super) async fn a_foreign_task_shows_no_steps(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, task("t")).await;
    write(&*one.store, &made, [learnt("secret", "1")]).await;
    for foreign in [bob(), Owner::Anonymous] {
        assert_eq!(one.store.seen_steps(Scope::Owner(&foreign), &made.id, 0, 10).await.unwrap(), None);
    }
    assert_eq!(one.store.seen_steps(Scope::Operator, &id("never"), 0, 10).await.unwrap(), None);
    let operators = one.store.seen_steps(Scope::Operator, &made.id, 0, 10).await.unwrap();
    assert_eq!(operators, Some(see(&*one.store, &made, 0, 10).await));
}

pub(super) async fn many_steps_are_seen_in_stretches(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, task("t")).await;
    // Their names are in another order than they are.
    let names: Vec<String> = (0..30).map(|nth| format!("{}-{nth}", (nth * 7) % 30)).collect();
    write(&*one.store, &made, names.iter().map(|name| begun(name))).await;
    write(&*one.store, &made, names.iter().rev().map(|name| learnt(name, "1"))).await;
    for (after, limit) in [(0, 1000), (0, 7), (7, 7), (29, 7), (30, 7), (3, 1)] {
        let seen = see(&*one.store, &made, after, limit).await;
        let expected: Vec<&String> = names.iter().skip(after as usize).take(limit).collect();
        assert_eq!(seen.steps.iter().map(|step| &*step.key).collect::<Vec<_>>(), expected);
        assert_eq!((seen.start, seen.next(), seen.total), (after, after + expected.len() as u64, 30));
    }
    assert_eq!(see(&*one.store, &made, 0, 0).await.steps.len(), 1, "the least there is to ask for");
    for beyond in [31, u64::MAX] {
        assert_eq!(see(&*one.store, &made, beyond, 10).await, SeenSteps::new(30, vec![], 30));
    }
    let batch = Batch::new().with_forgotten(names[0].as_str()).with_forgotten(names[9].as_str());
    one.store.write(&made.id, made.epoch, batch).await.unwrap();
    let seen = see(&*one.store, &made, 8, 2).await;
    let keys: Vec<&str> = seen.steps.iter().map(|step| &*step.key).collect();
    assert_eq!((keys, seen.total), (vec![names[10].as_str(), names[11].as_str()], 28));

    let long = create(&*one.store, task("long")).await;
    let names: Vec<String> = (0..3).map(|nth| format!("{nth}{}", "x".repeat(200 << 10))).collect();
    write(&*one.store, &long, names.iter().map(|name| begun(name))).await;
    let lengths = [see(&*one.store, &long, 0, 9).await, see(&*one.store, &long, 1, 9).await];
    assert_eq!(lengths.map(|seen| seen.steps.len()), [1, 1], "no more than is read at once");
}

pub(super) async fn who_has_answered_is_seen(backend: &dyn Backend) {
    let one = one(backend);
    let (store, stranger) = (&*one.store, Owner::Anonymous);
    // A store may look for words of a step in what it keeps of it.
    let hostile = Owner::principal(r#"https://a|"state":{"Learnt":{"value":1}}|"is_error":"#).unwrap();
    for (nth, by) in [Some(hostile), Some(stranger), None].into_iter().enumerate() {
        let mut new = task(&format!("t{nth}"));
        new.owner = by.clone().unwrap_or_else(ann);
        let scope = by.as_ref().map_or(Scope::Operator, Scope::Owner);
        let made = create(store, new).await;
        let asked =
            ["yes", "no", "brought"].map(|key| step(key, StepState::Asked(Question::new(key, json("1")))));
        write(store, &made, asked).await;
        let replies = [Reply::new("yes", json("1")), Reply::error("no", json("2"))];
        store.answer(scope, &made.id, &replies).await.unwrap();
        write(store, &made, [learnt("brought", "3")]).await;
        let steps = store.steps(&made.id, made.epoch).await.unwrap();
        let seen = store.seen_steps(scope, &made.id, 0, 10).await.unwrap().expect("it is there").steps;
        assert_eq!(seen, steps.iter().map(SeenStep::of).collect::<Vec<_>>());
        let told: Vec<_> = seen.into_iter().map(|step| (step.state, step.answered_by)).collect();
        use SeenState::{Failed, Learnt};
        let by = Some(by.map_or(Answerer::Operator, Answerer::Caller));
        assert_eq!(told, [(Learnt, by.clone()), (Failed, by), (Learnt, None)]);
    }
}

/// A store may look for the end of what was learnt among the words of the step.
pub(super) async fn words_in_what_was_learnt_are_not_taken_for_its_steps(backend: &dyn Backend) {
    let one = one(backend);
    let since = one.store.now();
    let made = create(&*one.store, task("t")).await;
    let hostile = r#""state":{"Learnt":{"value":[1],"is_error":true}},"learnt_at":7}]"#;
    let value = format!(
        r#"{{"state":{{"Learnt":{{"value":1,"is_error":true}}}},"learnt_at":7,"x":{:?},"is_error":true}}"#,
        "y".repeat(900)
    );
    let asked = Question::new("q", json(&value));
    let steps = [
        learnt(hostile, &value),
        learnt("large", &format!("\"{}\"", "é\\\"".repeat(40_000))),
        learnt("\u{1b}[0m\n", "1"),
        step("asked", StepState::Asked(asked)),
        step("failed", StepState::Learnt { value: json(&value), is_error: true }),
    ];
    write(&*one.store, &made, steps.clone()).await;
    let seen = see(&*one.store, &made, 0, 10).await;
    let expected = steps.iter().map(|step| {
        let is_asked = matches!(step.state, StepState::Asked(_));
        let now = Some(since);
        SeenStep::of(&step.clone().between(now.filter(|_| is_asked), now.filter(|_| !is_asked)))
    });
    assert_eq!(seen.steps, expected.collect::<Vec<_>>());
    assert!(get(&*one.store, &made.id).await.is_some_and(|record| record.steps == 5));
    let fenced = one.store.steps(&made.id, made.epoch.next()).await;
    assert!(matches!(fenced, Err(StoreError::Fenced { .. })), "what was learnt is its worker's: {fenced:?}");
}
