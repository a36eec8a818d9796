//! What was sent, and to whom it may be sent again.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{
    Backend, Payload, ann, bob,
    drive::{block_on, race},
    fitting, one, one_with,
};
use crate::{EventStore, Owner, Quota, Settings, StoreError, Stream};

type Events = dyn EventStore;

pub(super) async fn what_was_missed_is_replayed_in_order_by_any_node(backend: &dyn Backend<Events>) {
    let one = one(backend);
    let (other, ann) = (one.deployment.join(), ann());
    let stream = Stream::new(&ann, "s", "t");
    let texts = ["", r#"{"id":1}"#, "é\u{1f980}\u{1b}[0m", "line\nline"];
    for (number, text) in (1..).zip(texts) {
        let store = if number % 2 == 0 { &one.store } else { &other };
        assert_eq!(store.append(stream, text).await.unwrap(), number);
    }
    for store in [&one.store, &other] {
        for seen in 0..=texts.len() {
            let missed = replay(&**store, stream, seen as u64).await.expect("it can be resumed");
            let texts: Vec<_> =
                (1..).zip(texts).skip(seen).map(|(number, text)| (number, text.to_owned())).collect();
            assert_eq!(missed, texts);
        }
    }
}

pub(super) async fn a_long_stream_is_replayed_in_pages(backend: &dyn Backend<Events>) {
    let one = one(backend);
    let ann = ann();
    let stream = Stream::new(&ann, "s", "t");
    for number in 1..=7 {
        one.store.append(stream, &number.to_string()).await.unwrap();
    }
    let (mut seen, mut lengths) = (0, Vec::new());
    loop {
        let page = one.store.replay(stream, seen, 3).await.unwrap().expect("it can be resumed");
        let Some(last) = page.last() else { break };
        seen = last.number;
        lengths.push(page.len());
    }
    assert_eq!((seen, lengths), (7, vec![3, 3, 1]));
    assert_eq!(one.store.replay(stream, 0, 0).await.unwrap().map(|page| page.len()), Some(1));
}

pub(super) async fn a_foreign_stream_is_not_there(backend: &dyn Backend<Events>) {
    let one = one(backend);
    let (ann, bob) = (ann(), bob());
    let stream = Stream::new(&ann, "s", "t");
    one.store.append(stream, "secret").await.unwrap();
    let foreign = [
        Stream::new(&bob, "s", "t"),
        Stream::new(&Owner::Anonymous, "s", "t"),
        Stream::new(&ann, "other", "t"),
        Stream::new(&ann, "s", "other"),
        Stream::new(&ann, "st", ""),
        Stream::new(&ann, "", "st"),
    ];
    for foreign in foreign {
        for seen in [0, 1] {
            assert_eq!(replay(&*one.store, foreign, seen).await, None, "{foreign:?}");
        }
    }
    // Two streams of one name have nothing to do with each other.
    assert_eq!(one.store.append(Stream::new(&bob, "s", "t"), "his").await.unwrap(), 1);
    assert_eq!(one.store.trim(&bob, "s").await.unwrap(), 1);
    assert_eq!(replay(&*one.store, stream, 0).await, Some(vec![(1, "secret".to_owned())]));
}

pub(super) async fn what_was_never_sent_was_never_seen(backend: &dyn Backend<Events>) {
    let one = one(backend);
    let ann = ann();
    let stream = Stream::new(&ann, "s", "t");
    assert_eq!(replay(&*one.store, stream, 0).await, None);
    one.store.append(stream, "").await.unwrap();
    assert_eq!(replay(&*one.store, stream, 1).await, Some(vec![]));
    for seen in [2, 3, u64::MAX] {
        assert_eq!(replay(&*one.store, stream, seen).await, None, "{seen}");
    }
}

pub(super) async fn a_full_stream_loses_its_oldest_events(backend: &dyn Backend<Events>) {
    let mut by_count = Settings::default();
    by_count.limits.max_stream_events = 3;
    let mut by_bytes = Settings::default();
    by_bytes.limits.max_stream_bytes = 3 * 1512;
    let text = text_of(backend, 1000);
    for settings in [by_count, by_bytes] {
        let one = one_with(backend, settings);
        let ann = ann();
        let stream = Stream::new(&ann, "s", "t");
        for number in 1..=5 {
            assert_eq!(one.store.append(stream, &text).await.unwrap(), number);
        }
        assert_eq!(replay(&*one.store, stream, 1).await, None, "there would be a gap");
        for (seen, missed) in [(2, 3), (3, 2), (5, 0)] {
            assert_eq!(replay(&*one.store, stream, seen).await.map(|missed| missed.len()), Some(missed));
        }
    }
}

pub(super) async fn a_large_event_takes_the_room_of_many(backend: &dyn Backend<Events>) {
    let mut settings = Settings::default();
    settings.limits.max_stream_bytes = 10_000;
    let one = one_with(backend, settings);
    let ann = ann();
    let stream = Stream::new(&ann, "s", "t");
    for _ in 0..8 {
        one.store.append(stream, "small").await.unwrap();
    }
    let too_large = one.store.append(stream, &"x".repeat(10_000)).await;
    assert!(matches!(too_large, Err(StoreError::TooLarge { .. })), "{too_large:?}");
    assert_eq!(replay(&*one.store, stream, 0).await.map(|all| all.len()), Some(8), "nothing has changed");
    assert_eq!(one.store.append(stream, &text_of(backend, 9_000)).await.unwrap(), 9);
    assert_eq!(replay(&*one.store, stream, 8).await.map(|all| all.len()), Some(1));
    assert_eq!(replay(&*one.store, stream, 7).await, None);
    let long = "n".repeat(Stream::MAX_NAME + 1);
    for stream in [Stream::new(&ann, &long, "t"), Stream::new(&ann, "s", &long)] {
        let refused = one.store.append(stream, "").await;
        assert!(matches!(refused, Err(StoreError::TooLarge { .. })), "{refused:?}");
    }
}

/// S4 of `conformance/REQUIREMENTS.md`.
pub(super) async fn bytes_of_events_are_bounded(backend: &dyn Backend<Events>) {
    let (ann, bob) = (ann(), bob());
    let mut of_one = Settings::default();
    of_one.limits.max_event_bytes_per_owner = 5_000;
    let mut in_all = Settings::default();
    in_all.limits.max_event_bytes = 5_000;
    for (settings, quota) in [(of_one, Quota::EventBytesPerOwner), (in_all, Quota::EventBytes)] {
        let one = one_with(backend, settings);
        let text = text_of(backend, 1_500);
        let append =
            async |owner: &Owner, name: &str| one.store.append(Stream::new(owner, "s", name), &text).await;
        append(&ann, "t1").await.unwrap();
        append(&ann, "t2").await.unwrap();
        for name in ["t1", "t3"] {
            let refused = append(&ann, name).await;
            assert!(
                matches!(&refused, Err(StoreError::Overloaded { what, limit: 5_000 }) if *what == quota),
                "{refused:?}"
            );
        }
        assert_eq!(append(&bob, "t").await.is_ok(), quota == Quota::EventBytesPerOwner);
        let first = replay(&*one.store, Stream::new(&ann, "s", "t1"), 0).await;
        assert_eq!(first.map(|events| events.len()), Some(1), "nothing has changed");
        assert_eq!(replay(&*one.store, Stream::new(&ann, "s", "t3"), 0).await, None);
        assert_eq!(one.store.trim(&ann, "s").await.unwrap(), 2);
        append(&ann, "t3").await.unwrap();
        append(&ann, "t4").await.unwrap();
        one.deployment.advance(Settings::default().event_retention);
        append(&ann, "t5").await.expect("what is past its time takes no room, swept or not");
        append(&ann, "t6").await.unwrap();
        assert!(append(&ann, "t7").await.is_err());
    }
}

pub(super) async fn a_stream_that_turns_over_takes_no_more_room(backend: &dyn Backend<Events>) {
    let mut settings = Settings::default();
    settings.limits.max_stream_events = 2;
    (settings.limits.max_event_bytes_per_owner, settings.limits.max_event_bytes) = (4_000, 5_000);
    let one = one_with(backend, settings);
    let ann = ann();
    let text = text_of(backend, 1_000);
    for number in 1..=10 {
        assert_eq!(one.store.append(Stream::new(&ann, "s", "t"), &text).await.unwrap(), number);
    }
    one.store.append(Stream::new(&ann, "s", "small"), "").await.expect("what is gone takes no room");
    let refused = one.store.append(Stream::new(&ann, "s", "other"), &text).await;
    assert!(matches!(refused, Err(StoreError::Overloaded { .. })), "what is kept does: {refused:?}");
}

pub(super) async fn a_stream_is_forgotten_when_its_time_is_up(backend: &dyn Backend<Events>) {
    let one = one(backend);
    let ann = ann();
    let (stream, retention) = (Stream::new(&ann, "s", "t"), Settings::default().event_retention);
    for number in 1..=3 {
        assert_eq!(one.store.append(stream, "x").await.unwrap(), number, "each event prolongs it");
        one.deployment.advance(retention - Duration::from_secs(1));
    }
    assert!(replay(&*one.store, stream, 0).await.is_some());
    assert_eq!(one.store.sweep_streams(10).await.unwrap(), 0);
    for swept in [false, true] {
        one.deployment.advance(retention);
        assert_eq!(one.store.sweep_streams(if swept { 10 } else { 0 }).await.unwrap(), usize::from(swept));
        assert_eq!(replay(&*one.store, stream, 0).await, None);
        assert_eq!(one.store.append(stream, "y").await.unwrap(), 1, "it is another stream");
        assert_eq!(replay(&*one.store, stream, 0).await, Some(vec![(1, "y".to_owned())]));
    }
}

pub(super) async fn a_stream_that_is_prolonged_lasts_longer_and_loses_nothing(backend: &dyn Backend<Events>) {
    let mut settings = Settings::default();
    settings.limits.max_stream_events = 2;
    let retention = settings.event_retention;
    let one = one_with(backend, settings);
    let (other, ann, bob) = (one.deployment.join(), ann(), bob());
    let stream = Stream::new(&ann, "s", "t");
    assert_eq!(one.store.prolong(stream).await.unwrap(), None, "there is none yet");
    one.store.append(stream, "x").await.unwrap();
    for store in [&one.store, &other, &one.store] {
        one.deployment.advance(retention - Duration::from_secs(1));
        assert_eq!(store.prolong(stream).await.unwrap(), Some(1));
        assert_eq!(one.store.sweep_streams(10).await.unwrap(), 0);
    }
    assert_eq!(replay(&*one.store, stream, 0).await, Some(vec![(1, "x".to_owned())]), "it takes no room");
    assert_eq!(other.append(stream, "y").await.unwrap(), 2);
    assert_eq!(one.store.prolong(stream).await.unwrap(), Some(2), "whoever has sent it");
    for foreign in [Stream::new(&bob, "s", "t"), Stream::new(&ann, "other", "t")] {
        assert_eq!(one.store.prolong(foreign).await.unwrap(), None, "{foreign:?}");
    }
    one.deployment.advance(retention);
    assert_eq!(one.store.prolong(stream).await.unwrap(), None, "it is forgotten, swept or not");
    assert_eq!(one.store.sweep_streams(10).await.unwrap(), 1);
}

pub(super) async fn a_session_that_ended_takes_its_streams_along(backend: &dyn Backend<Events>) {
    let one = one(backend);
    let ann = ann();
    for (session, name) in [("s1", "a"), ("s1", "b"), ("s2", "a")] {
        one.store.append(Stream::new(&ann, session, name), "x").await.unwrap();
    }
    assert_eq!(one.store.trim(&ann, "s1").await.unwrap(), 2);
    assert_eq!(one.store.trim(&ann, "s1").await.unwrap(), 0);
    assert_eq!(replay(&*one.store, Stream::new(&ann, "s1", "a"), 0).await, None);
    assert!(replay(&*one.store, Stream::new(&ann, "s2", "a"), 0).await.is_some());
}

pub(super) async fn a_sweep_takes_no_more_streams_than_asked(backend: &dyn Backend<Events>) {
    let one = one(backend);
    let ann = ann();
    for number in 0..5 {
        one.store.append(Stream::new(&ann, "s", &number.to_string()), "x").await.unwrap();
    }
    one.deployment.advance(Settings::default().event_retention);
    let sweep = async |limit: usize| one.store.sweep_streams(limit).await.unwrap();
    assert_eq!((sweep(0).await, sweep(3).await, sweep(3).await, sweep(3).await), (0, 3, 2, 0));
}

pub(super) async fn events_that_race_each_have_a_number(backend: &dyn Backend<Events>) {
    let one = one(backend);
    let nodes: Vec<_> = (0..4).map(|_| one.deployment.join()).collect();
    let ann = ann();
    let stream = Stream::new(&ann, "s", "t");
    let given = race(4, |index| {
        let append = |_| block_on(nodes[index].append(stream, &index.to_string())).unwrap();
        (0..10).map(append).collect::<Vec<_>>()
    });
    for numbers in &given {
        assert!(numbers.is_sorted(), "one after the other: {numbers:?}");
    }
    let all: BTreeSet<u64> = given.into_iter().flatten().collect();
    assert_eq!(all, (1..=40).collect());
    assert_eq!(replay(&*one.store, stream, 0).await.map(|events| events.len()), Some(40));
}

/// A text that takes so many bytes where it is kept, or hardly less.
fn text_of(backend: &dyn Backend<Events>, bytes: usize) -> String {
    "x".repeat(fitting(backend, Payload::Text, bytes))
}

async fn replay(store: &Events, stream: Stream<'_>, seen: u64) -> Option<Vec<(u64, String)>> {
    let events = store.replay(stream, seen, 1000).await.expect("events can be read")?;
    Some(events.into_iter().map(|event| (event.number, String::from(&*Arc::clone(&event.text)))).collect())
}
