//! What nodes share.

use std::time::Duration;

use super::{
    Backend, Payload, ann, bob,
    drive::{block_on, race},
    one, one_with,
};
use crate::{Entry, EntryKey, Holder, Owner, Quota, Registry, Settings, StoreError, Swap, Value};

type Entries = dyn Registry;

const MINUTE: Duration = Duration::from_secs(60);

pub(super) async fn an_entry_is_there_for_every_node_at_once(backend: &dyn Backend<Entries>) {
    let one = one(backend);
    let (other, ann) = (one.deployment.join(), ann());
    let every_byte: Vec<u8> = (0..=255).collect();
    for (name, bytes) in [("empty", &[][..]), ("all", &every_byte)] {
        let key = EntryKey::of(&ann, "kind", name);
        assert_eq!(entry(&*other, key).await, None);
        let put = one.store.put(key, Value::for_ever(bytes)).await.unwrap();
        assert_eq!((&*put.value, put.expires_at), (bytes, None));
        assert_eq!(entry(&*other, key).await, Some(put));
    }
}

pub(super) async fn a_put_replaces_what_was_there(backend: &dyn Backend<Entries>) {
    let one = one(backend);
    let ann = ann();
    let key = EntryKey::of(&ann, "kind", "name");
    let first = one.store.put(key, Value::lasting(b"1", MINUTE)).await.unwrap();
    let second = one.store.put(key, Value::for_ever(b"2")).await.unwrap();
    assert!(second.version > first.version);
    one.deployment.advance(2 * MINUTE);
    assert_eq!(entry(&*one.store, key).await, Some(second), "it lasts as long as was said last");
}

pub(super) async fn a_foreign_entry_is_not_there(backend: &dyn Backend<Entries>) {
    let one = one(backend);
    let (ann, bob) = (ann(), bob());
    let keys = [
        EntryKey::of(&ann, "kind", "name"),
        EntryKey::of(&bob, "kind", "name"),
        EntryKey::of(&Owner::Anonymous, "kind", "name"),
        EntryKey::of_server("kind", "name"),
        EntryKey::of(&ann, "name", "kind"),
        EntryKey::of(&ann, "kindname", ""),
        EntryKey::of(&ann, "", "kindname"),
    ];
    for (made, key) in keys.into_iter().enumerate() {
        for missing in &keys[made..] {
            assert_eq!(entry(&*one.store, *missing).await, None, "{missing:?}");
        }
        one.store.put(key, Value::for_ever(&[made as u8])).await.unwrap();
    }
    for (made, key) in keys.into_iter().enumerate() {
        let found = entry(&*one.store, key).await.expect("it was made");
        assert_eq!(&*found.value, [made as u8]);
        assert!(one.store.compare_and_set(key, Some(found.version), None).await.unwrap().is_done());
    }
}

pub(super) async fn names_are_told_in_their_order_and_of_one_kind_and_holder(backend: &dyn Backend<Entries>) {
    let one = one(backend);
    let (ann, bob) = (ann(), bob());
    let others =
        [EntryKey::of(&bob, "job", "2"), EntryKey::of(&ann, "jobs", "2"), EntryKey::of(&ann, "jo", "2")];
    let own = ["b", "", "a", "c", "ab"].map(|name| EntryKey::of(&ann, "job", name));
    for key in others.into_iter().chain([EntryKey::of_server("job", "2")]).chain(own) {
        one.store.put(key, Value::for_ever(b"")).await.unwrap();
    }
    one.store.put(EntryKey::of(&ann, "job", "aa"), Value::lasting(b"", MINUTE)).await.unwrap();
    let holder = Holder::Owner(&ann);
    let all = one.store.names(holder, "job", None, 100).await.unwrap();
    assert_eq!(all, ["", "a", "aa", "ab", "b", "c"]);
    one.deployment.advance(MINUTE);
    let mut pages = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = one.store.names(holder, "job", after.as_deref(), 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.clone());
        pages.push(page);
    }
    assert_eq!(pages, [vec!["", "a"], vec!["ab", "b"], vec!["c"]], "one is past its time");
    assert_eq!(one.store.names(Holder::Server, "job", None, 100).await.unwrap(), ["2"]);
    assert!(one.store.names(Holder::Owner(&Owner::Anonymous), "job", None, 100).await.unwrap().is_empty());
}

pub(super) async fn an_entry_past_its_time_is_gone_swept_or_not(backend: &dyn Backend<Entries>) {
    let one = one(backend);
    let ann = ann();
    let key = EntryKey::of(&ann, "nonce", "n");
    for swept in [false, true] {
        let made = one.store.compare_and_set(key, None, Some(Value::lasting(b"x", MINUTE))).await.unwrap();
        let Swap::Done(Some(made)) = made else { panic!("there was none, not {made:?}") };
        one.deployment.advance(MINUTE - Duration::from_secs(1));
        assert_eq!(one.store.sweep_entries(10).await.unwrap(), 0);
        assert_eq!(entry(&*one.store, key).await.as_ref(), Some(&made));
        one.deployment.advance(Duration::from_secs(1));
        assert_eq!(one.store.sweep_entries(if swept { 10 } else { 0 }).await.unwrap(), usize::from(swept));
        assert_eq!(entry(&*one.store, key).await, None);
        let late = one.store.compare_and_set(key, Some(made.version), Some(Value::for_ever(b"y"))).await;
        assert_eq!(late.unwrap(), Swap::Found(None));
    }
}

pub(super) async fn a_swap_happens_only_from_what_was_seen(backend: &dyn Backend<Entries>) {
    let one = one(backend);
    let (other, ann) = (one.deployment.join(), ann());
    let key = EntryKey::of(&ann, "bucket", "b");
    let value = |bytes| Some(Value::for_ever(bytes));
    let Swap::Done(Some(first)) = one.store.compare_and_set(key, None, value(b"1")).await.unwrap() else {
        panic!("there was none")
    };
    let again = other.compare_and_set(key, None, value(b"2")).await.unwrap();
    assert_eq!(again, Swap::Found(Some(first.clone())));
    let second = other.compare_and_set(key, Some(first.version), value(b"2")).await.unwrap();
    let Swap::Done(Some(second)) = second else { panic!("it was seen") };
    for late in [value(b"3"), None] {
        let late = one.store.compare_and_set(key, Some(first.version), late).await.unwrap();
        assert_eq!(late, Swap::Found(Some(second.clone())));
    }
    let gone = one.store.compare_and_set(key, Some(second.version), None).await.unwrap();
    assert_eq!((gone, entry(&*other, key).await), (Swap::Done(None), None));
    assert_eq!(one.store.compare_and_set(key, None, None).await.unwrap(), Swap::Done(None));

    let third = one.store.put(key, Value::for_ever(b"1")).await.unwrap();
    assert!(third.version > second.version, "no version is used twice");
    let late = other.compare_and_set(key, Some(first.version), None).await.unwrap();
    assert_eq!(late, Swap::Found(Some(third)));
}

pub(super) async fn swaps_that_race_have_one_winner(backend: &dyn Backend<Entries>) {
    let one = one(backend);
    let nodes: Vec<_> = (0..4).map(|_| one.deployment.join()).collect();
    let ann = ann();
    let spent = race(4, |index| {
        let spend = |number: u8| {
            let name = number.to_string();
            let key = EntryKey::of(&ann, "nonce", &name);
            let swap = nodes[index].compare_and_set(key, None, Some(Value::lasting(b"", MINUTE)));
            usize::from(block_on(swap).unwrap().is_done())
        };
        (0..10).map(spend).sum::<usize>()
    });
    assert_eq!(spent.iter().sum::<usize>(), 10, "{spent:?}");
}

pub(super) async fn entries_are_bounded(backend: &dyn Backend<Entries>) {
    let mut settings = Settings::default();
    (settings.limits.max_entries_per_owner, settings.limits.max_entries) = (2, 4);
    let one = one_with(backend, settings);
    let (ann, bob) = (ann(), bob());
    let put = async |key| one.store.put(key, Value::lasting(b"x", MINUTE)).await;
    let assert_refused = |result: Result<Entry, StoreError>, quota| {
        assert!(matches!(&result, Err(StoreError::Overloaded { what, .. }) if *what == quota), "{result:?}");
    };
    put(EntryKey::of(&ann, "k", "1")).await.unwrap();
    put(EntryKey::of(&ann, "k", "2")).await.unwrap();
    assert_refused(put(EntryKey::of(&ann, "k", "3")).await, Quota::EntriesPerOwner);
    assert_eq!(entry(&*one.store, EntryKey::of(&ann, "k", "3")).await, None);
    put(EntryKey::of(&ann, "k", "2")).await.expect("it replaces one");
    put(EntryKey::of(&bob, "k", "1")).await.unwrap();
    put(EntryKey::of_server("k", "1")).await.unwrap();
    assert_refused(put(EntryKey::of_server("k", "2")).await, Quota::Entries);
    assert_refused(put(EntryKey::of(&bob, "k", "2")).await, Quota::Entries);

    let found = entry(&*one.store, EntryKey::of(&ann, "k", "1")).await.expect("it was made");
    let gone = one.store.compare_and_set(EntryKey::of(&ann, "k", "1"), Some(found.version), None).await;
    assert!(gone.unwrap().is_done());
    put(EntryKey::of(&ann, "k", "3")).await.expect("there is room again");
    for swept in [true, false] {
        one.deployment.advance(MINUTE);
        if swept {
            assert_eq!(one.store.sweep_entries(10).await.unwrap(), 4);
        }
        for name in if swept { ["1", "2"] } else { ["4", "5"] } {
            put(EntryKey::of(&ann, "k", name))
                .await
                .expect("what is past its time takes no room, swept or not");
        }
        assert_refused(put(EntryKey::of(&ann, "k", "3")).await, Quota::EntriesPerOwner);
        for name in ["1", "2"] {
            put(EntryKey::of(&bob, "k", name)).await.unwrap();
        }
        assert_refused(put(EntryKey::of_server("k", "1")).await, Quota::Entries);
    }
}

pub(super) async fn entries_that_can_be_spared_take_no_room_of_others(backend: &dyn Backend<Entries>) {
    let mut settings = Settings::default();
    (settings.limits.max_entries_per_owner, settings.limits.max_entries) = (2, 6);
    let one = one_with(backend, settings);
    let (ann, bob, nobody) = (ann(), bob(), Owner::Anonymous);
    let put = async |key| one.store.put(key, Value::lasting(b"x", MINUTE)).await;
    let assert_refused = |result: Result<Entry, StoreError>, quota| {
        assert!(matches!(&result, Err(StoreError::Overloaded { what, .. }) if *what == quota), "{result:?}");
    };
    put(EntryKey::spare(&ann, "k", "1")).await.unwrap();
    assert_eq!(entry(&*one.store, EntryKey::of(&ann, "k", "1")).await, None, "they are apart");
    let kept = one.store.names(Holder::Spare(&ann), "k", None, 10).await.unwrap();
    assert_eq!(kept, ["1"]);
    put(EntryKey::spare(&ann, "k", "2")).await.unwrap();
    assert_refused(put(EntryKey::spare(&ann, "k", "3")).await, Quota::EntriesPerOwner);
    put(EntryKey::of(&ann, "k", "1")).await.expect("it has its room still");
    // Half of the room of all is taken.
    assert_refused(put(EntryKey::spare(&bob, "k", "1")).await, Quota::Entries);
    put(EntryKey::of(&ann, "k", "2")).await.unwrap();
    put(EntryKey::of(&bob, "k", "1")).await.unwrap();
    put(EntryKey::of(&nobody, "k", "1")).await.unwrap();
    assert_refused(put(EntryKey::of_server("k", "1")).await, Quota::Entries);

    one.deployment.advance(MINUTE);
    assert_eq!(one.store.sweep_entries(10).await.unwrap(), 6);
    put(EntryKey::spare(&ann, "k", "4")).await.expect("what is gone gives its room back");
    put(EntryKey::spare(&ann, "k", "5")).await.unwrap();
    assert_refused(put(EntryKey::spare(&ann, "k", "6")).await, Quota::EntriesPerOwner);
    let found = entry(&*one.store, EntryKey::spare(&ann, "k", "4")).await.expect("it was made");
    let gone = one.store.compare_and_set(EntryKey::spare(&ann, "k", "4"), Some(found.version), None).await;
    assert!(gone.unwrap().is_done());
    put(EntryKey::spare(&ann, "k", "6")).await.unwrap();
}

pub(super) async fn an_entry_too_large_is_refused(backend: &dyn Backend<Entries>) {
    let mut settings = Settings::default();
    settings.limits.max_entry = backend.kept(Payload::Entry, 10);
    let one = one_with(backend, settings);
    let (ann, long) = (ann(), "n".repeat(EntryKey::MAX_NAME + 1));
    let key = EntryKey::of(&ann, "kind", "name");
    one.store.put(key, Value::for_ever(&[0; 10])).await.unwrap();
    let tries = [
        (key, &[0; 11][..]),
        (EntryKey::of(&ann, &long, "name"), &[]),
        (EntryKey::of(&ann, "kind", &long), &[]),
    ];
    for (key, bytes) in tries {
        let put = one.store.put(key, Value::for_ever(bytes)).await.map(drop);
        let swap = one.store.compare_and_set(key, None, Some(Value::for_ever(bytes))).await.map(drop);
        for refused in [put, swap] {
            assert!(matches!(refused, Err(StoreError::TooLarge { .. })), "{refused:?}");
        }
    }
    assert_eq!(entry(&*one.store, key).await.map(|entry| entry.value.len()), Some(10));
}

pub(super) async fn a_sweep_takes_no_more_entries_than_asked(backend: &dyn Backend<Entries>) {
    let one = one(backend);
    let ann = ann();
    for number in 0..5 {
        let name = number.to_string();
        one.store.put(EntryKey::of(&ann, "k", &name), Value::lasting(b"x", MINUTE)).await.unwrap();
    }
    one.store.put(EntryKey::of(&ann, "k", "kept"), Value::for_ever(b"x")).await.unwrap();
    one.deployment.advance(MINUTE);
    let sweep = async |limit: usize| one.store.sweep_entries(limit).await.unwrap();
    assert_eq!((sweep(0).await, sweep(3).await, sweep(3).await, sweep(3).await), (0, 3, 2, 0));
    assert!(entry(&*one.store, EntryKey::of(&ann, "k", "kept")).await.is_some());
}

async fn entry(store: &Entries, key: EntryKey<'_>) -> Option<Entry> {
    store.entry(key).await.expect("an entry can be read")
}
