//! What the work of a task gives before its end.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{
    Backend, Payload, ann, bob, create,
    drive::{block_on, must_end, race},
    finish, fitting, get, id, json,
    limits::limited,
    one, one_with,
    stepping::learnt,
    task,
};
use crate::{
    Batch, Cancellation, Outcome, Owner, Part, PartContent, Parts, Quota, Record, Retention, Scope, Settings,
    StoreError, TaskStore,
};

pub(super) async fn parts_are_read_in_the_order_in_which_they_were_given(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let made = create(&*one.store, task("t")).await;
    assert_eq!(read(&*other, &made, 0, 10).await, Parts::new(0, vec![], 0, false));
    let contents = [
        text(""),
        value("{ \"a\" : 1.0 }"),
        text("é\u{1f980}\u{1b}[0m\nline"),
        value("null"),
        text("null"),
        value("\"last\""),
    ];
    let first = Batch::new().with_part(Part::new("a", contents[0].clone()));
    one.store
        .write(&made.id, made.epoch, first.with_part(Part::new("b", contents[1].clone())))
        .await
        .unwrap();
    for (key, content) in ["z", "y", "x", "w"].into_iter().zip(&contents[2..]) {
        give(&*one.store, &made, key, content.clone()).await.unwrap();
    }
    for store in [&one.store, &other] {
        for after in 0..=6 {
            let expected = Parts::new(after, contents[after as usize..].to_vec(), 6, false);
            assert_eq!(read(&**store, &made, after, 10).await, expected);
        }
        let page = read(&**store, &made, 1, 2).await;
        assert_eq!((page.next(), &page.parts[..], page.total), (3, &contents[1..3], 6));
        assert_eq!(read(&**store, &made, 0, 0).await.parts.len(), 1, "the least there is to ask for");
        for beyond in [7, u64::MAX] {
            assert_eq!(read(&**store, &made, beyond, 10).await, Parts::new(6, vec![], 6, false));
        }
    }
    finish(&*one.store, &made).await;
    let ended = read(&*other, &made, 0, 10).await;
    assert!(ended.is_done() && ended.parts == contents, "{ended:?}");
    assert!(!read(&*other, &made, 0, 5).await.is_done() && read(&*other, &made, 6, 5).await.is_done());
}

pub(super) async fn a_part_is_given_once_under_its_key(backend: &dyn Backend) {
    let one = one(backend);
    let dying = one.deployment.join();
    let made = create(&*dying, task("t")).await;
    let twice = Batch::new().with_part(Part::new("a", text("1"))).with_part(Part::new("a", text("again")));
    dying.write(&made.id, made.epoch, twice).await.unwrap();
    let before = get(&*one.store, &made.id).await.expect("it exists");
    assert_eq!((before.parts, before.part_bytes), (1, size(backend, 1) as u64));
    let again = give(&*dying, &made, "a", text("otherwise")).await.unwrap();
    assert_eq!(again, before.seq, "it is not new");
    drop(dying);
    let taken = one.store.claim_one(&made.id).await.unwrap().expect("its holder is dead");
    give(&*one.store, &taken, "a", text("once more")).await.unwrap();
    give(&*one.store, &taken, "b", text("2")).await.unwrap();
    assert_eq!(read(&*one.store, &made, 0, 10).await.parts, [text("1"), text("2")]);
}

pub(super) async fn who_lost_a_task_gives_nothing(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let lost = create(&*one.store, task("t")).await;
    give(&*one.store, &lost, "first", text("1")).await.unwrap();
    one.store.release(&lost.id, lost.epoch).await.unwrap();
    fenced(&*one.store, &lost).await;
    let held = other.claim_one(&lost.id).await.unwrap().expect("it is due");
    fenced(&*one.store, &lost).await;
    give(&*other, &held, "second", text("2")).await.unwrap();
    let cancelled = one.store.request_cancel(Scope::Operator, &held.id, None).await.unwrap();
    assert!(matches!(cancelled, Cancellation::Cancelled(_)), "{cancelled:?}");
    fenced(&*other, &held).await;
    let never = Record { id: id("never"), ..held.clone() };
    fenced(&*other, &never).await;
    let all = read(&*one.store, &lost, 0, 10).await;
    assert_eq!(all, Parts::new(0, vec![text("1"), text("2")], 2, true));
}

pub(super) async fn last_parts_come_with_the_outcome(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, task("t")).await;
    let last = || Batch::new().with_part(Part::new("last", value("[]")));
    let stale = one.store.finish(&made.id, made.epoch.next(), Outcome::lost("x"), last()).await;
    assert!(matches!(stale, Err(StoreError::Fenced { .. })), "{stale:?}");
    assert_eq!(read(&*one.store, &made, 0, 10).await.total, 0);
    let ended = one.store.finish(&made.id, made.epoch, Outcome::lost("x"), last()).await.unwrap();
    assert_eq!(ended.into_record().parts, 1);
    let late = one.store.finish(&made.id, made.epoch, Outcome::lost("x"), last().with_part(part("b"))).await;
    assert_eq!(late.unwrap().into_record().parts, 1, "it has ended");
    assert_eq!(read(&*one.store, &made, 0, 10).await, Parts::new(0, vec![value("[]")], 1, true));
}

pub(super) async fn a_foreign_task_shows_no_parts(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, task("t")).await;
    give(&*one.store, &made, "a", text("secret")).await.unwrap();
    for foreign in [bob(), Owner::Anonymous] {
        let seen = one.store.parts(Scope::Owner(&foreign), &made.id, 0, 10).await.unwrap();
        assert_eq!(seen, None);
    }
    assert_eq!(one.store.parts(Scope::Owner(&ann()), &id("never"), 0, 10).await.unwrap(), None);
    let own = one.store.parts(Scope::Owner(&ann()), &made.id, 0, 10).await.unwrap();
    let operators = one.store.parts(Scope::Operator, &made.id, 0, 10).await.unwrap();
    assert_eq!(own, Some(Parts::new(0, vec![text("secret")], 1, false)));
    assert_eq!(own, operators);
}

pub(super) async fn parts_are_kept_as_long_as_their_task(backend: &dyn Backend) {
    let settings = Settings { tombstone: Duration::ZERO, ..Settings::default() };
    let one = one_with(backend, settings);
    let mut brief = task("t");
    brief.retention = Retention::AfterTerminal(Duration::from_secs(60));
    let made = create(&*one.store, brief).await;
    give(&*one.store, &made, "a", text("1")).await.unwrap();
    finish(&*one.store, &made).await;
    one.deployment.advance(Duration::from_secs(59));
    assert_eq!(read(&*one.store, &made, 0, 10).await.parts, [text("1")]);
    one.deployment.advance(Duration::from_secs(1));
    for swept in [false, true] {
        if swept {
            one.store.sweep(10).await.unwrap();
        }
        assert_eq!(one.store.parts(Scope::Operator, &made.id, 0, 10).await.unwrap(), None, "{swept}");
    }
    one.deployment.advance(Duration::from_secs(1));
    one.store.sweep(10).await.unwrap();
    let again = create(&*one.store, task("t")).await;
    assert_eq!((again.parts, again.part_bytes), (0, 0));
    assert_eq!(read(&*one.store, &again, 0, 10).await, Parts::new(0, vec![], 0, false));
    give(&*one.store, &again, "a", text("anew")).await.unwrap();
    assert_eq!(read(&*one.store, &again, 0, 10).await.parts, [text("anew")]);
}

/// S4 of `conformance/REQUIREMENTS.md`.
pub(super) async fn parts_are_bounded(backend: &dyn Backend) {
    let at_most = size(backend, 39);
    let both = (at_most + size(backend, 29)) as u64;
    let settings = limited(|limits| {
        (limits.max_parts, limits.max_part, limits.max_part_bytes) = (3, at_most, both);
    });
    let one = one_with(backend, settings);
    let made = create(&*one.store, task("t")).await;
    let write = async |parts: Vec<Part>| {
        let mut batch = Batch::new().with_status_message("said").with_step(learnt("s", "1"));
        batch.parts = parts;
        one.store.write(&made.id, made.epoch, batch).await
    };
    let refused = |quota: Quota, result: Result<u64, StoreError>| match result {
        Err(StoreError::Overloaded { what, .. }) => assert_eq!(what, quota),
        other => panic!("{quota:?}: {other:?}"),
    };
    let of = |key: &str, bytes: usize| Part::new(key, text(&"x".repeat(bytes)));
    let large = write(vec![of("a", 40)]).await;
    let size = size(backend, 40);
    assert!(
        matches!(large, Err(StoreError::TooLarge { limit, found, .. }) if (limit, found) == (at_most, size)),
        "{large:?}"
    );
    refused(Quota::Parts, write(vec![part("a"), part("b"), part("c"), part("d")]).await);
    refused(Quota::PartBytes, write(vec![of("a", 39), of("b", 30)]).await);
    assert_eq!(get(&*one.store, &made.id).await.as_ref(), Some(&made), "what was refused changed nothing");
    assert_eq!(read(&*one.store, &made, 0, 10).await.total, 0);
    write(vec![of("a", 39), of("b", 29)]).await.unwrap();
    refused(Quota::PartBytes, write(vec![part("c")]).await);
    write(vec![of("a", 39)]).await.expect("it takes no more room");
    let record = get(&*one.store, &made.id).await.expect("it exists");
    assert_eq!((record.parts, record.part_bytes), (2, both));
}

pub(super) async fn many_parts_are_read_in_stretches(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, task("t")).await;
    let large = text(&"x".repeat(fitting(backend, Payload::Text, 100 << 10)));
    for key in ["a", "b", "c", "d", "e"] {
        give(&*one.store, &made, key, large.clone()).await.unwrap();
    }
    let (mut seen, mut lengths) = (0, Vec::new());
    loop {
        let stretch = read(&*one.store, &made, seen, 1000).await;
        if stretch.parts.is_empty() {
            break;
        }
        assert_eq!(stretch.start, seen);
        lengths.push(stretch.parts.len());
        seen = stretch.next();
    }
    assert_eq!(
        (seen, lengths),
        (5, vec![2, 2, 1]),
        "one is given at least, and no more than is read at once"
    );
}

pub(super) async fn parts_that_race_each_have_a_number(backend: &dyn Backend) {
    let one = one(backend);
    let made = create(&*one.store, task("t")).await;
    race(4, |index| {
        for number in 0..10 {
            let content = text(&format!("{index} {number}"));
            block_on(give(&*one.store, &made, &format!("{index}/{number}"), content)).unwrap();
        }
    });
    let all = read(&*one.store, &made, 0, 100).await;
    let distinct: BTreeSet<&str> = all.parts.iter().map(PartContent::as_str).collect();
    assert_eq!((all.total, all.parts.len(), distinct.len()), (40, 40, 40));
    for index in 0..4 {
        let own = format!("{index} ");
        let of_one: Vec<_> = all.parts.iter().filter(|part| part.as_str().starts_with(&own)).collect();
        assert!(of_one.is_sorted_by_key(|part| part.as_str()), "one after the other: {index}");
    }
}

pub(super) async fn a_part_wakes_who_watches_on_any_node(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let made = create(&*one.store, task("t")).await;
    let mut watch = other.watch(&made.id);
    assert_eq!(read(&*other, &made, 0, 10).await.total, 0);
    give(&*one.store, &made, "a", text("1")).await.unwrap();
    must_end("a part", async {
        while read(&*other, &made, 0, 10).await.total == 0 {
            watch.changed().await;
        }
    })
    .await;
    assert!(get(&*other, &made.id).await.is_some_and(|seen| seen.seq > made.seq));
}

/// Bytes that a part takes where it is kept, of so long a text under a key of one letter.
fn size(backend: &dyn Backend, bytes: usize) -> usize {
    1 + backend.kept(Payload::Text, bytes)
}

fn text(text: &str) -> PartContent {
    PartContent::Text(Arc::from(text))
}

fn value(text: &str) -> PartContent {
    PartContent::Json(json(text))
}

fn part(key: &str) -> Part {
    Part::new(key, text("x"))
}

async fn give(
    store: &dyn TaskStore,
    held: &Record,
    key: &str,
    content: PartContent,
) -> Result<u64, StoreError> {
    store.write(&held.id, held.epoch, Batch::new().with_part(Part::new(key, content))).await
}

async fn read(store: &dyn TaskStore, task: &Record, after: u64, limit: usize) -> Parts {
    let parts = store.parts(Scope::Operator, &task.id, after, limit).await.expect("they can be read");
    parts.expect("the task exists")
}

/// Nothing is given at this record's epoch.
async fn fenced(store: &dyn TaskStore, held: &Record) {
    let given = give(store, held, "late", text("late")).await;
    assert!(matches!(given, Err(StoreError::Fenced { .. })), "{given:?}");
}
