//! Who sees what.

use std::{collections::BTreeMap, time::Duration};

use super::{Backend, ann, bob, create, finish, id, json, one, one_with, queued, task};
use crate::{
    Batch, Cancellation, Counts, Cursor, Filter, NewTask, Owner, Page, Park, Retention, Scope, Settings,
    StoreError, TaskId, TaskStore,
};

pub(super) async fn a_foreign_task_is_not_there(backend: &dyn Backend) {
    let one = one(backend);
    let open = create(&*one.store, task("open")).await;
    let done = create(&*one.store, task("done")).await;
    let done = finish(&*one.store, &done).await;
    let mut strange = task("strange");
    strange.owner = Owner::Anonymous;
    let strange = create(&*one.store, strange).await;

    let (ann, bob) = (ann(), bob());
    let never = id("never");
    let foreign = [
        (Scope::Owner(&bob), &open.id),
        (Scope::Owner(&bob), &done.id),
        (Scope::Owner(&bob), &strange.id),
        (Scope::Owner(&bob), &never),
        (Scope::Owner(&Owner::Anonymous), &open.id),
        (Scope::Owner(&Owner::Anonymous), &done.id),
        (Scope::Owner(&ann), &strange.id),
        (Scope::Owner(&ann), &never),
    ];
    for (scope, task) in foreign {
        assert_eq!(one.store.get(scope, task).await.unwrap(), None, "{scope:?} {task}");
        let cancel = one.store.request_cancel(scope, task, None).await.unwrap();
        assert_eq!(cancel, Cancellation::NotFound, "{scope:?} {task}");
    }
    let list = one.store.list(Scope::Owner(&bob), &Filter::all(), None, 10).await.unwrap();
    assert_eq!(list, Page::default());
    for task in [&open, &done, &strange] {
        let scope = Scope::Owner(&task.owner);
        assert_eq!(one.store.get(scope, &task.id).await.unwrap().as_ref(), Some(task), "nothing has changed");
    }
}

pub(super) async fn the_operator_sees_every_task(backend: &dyn Backend) {
    let one = one(backend);
    for (name, owner) in [("t1", ann()), ("t2", bob()), ("t3", Owner::Anonymous)] {
        create(&*one.store, NewTask::new(id(name), owner, "build", json("{}"))).await;
    }
    assert_eq!(names(&*one.store, Scope::Operator, &Filter::all(), 10).await, ["t3", "t2", "t1"]);
    assert_eq!(names(&*one.store, Scope::Operator, &Filter::open(), 1).await, ["t3", "t2", "t1"]);
    let cancel = one.store.request_cancel(Scope::Operator, &id("t2"), None).await.unwrap();
    assert!(matches!(cancel, Cancellation::Cancelled(_)));
}

pub(super) async fn strangers_have_their_ids_and_no_list(backend: &dyn Backend) {
    let one = one(backend);
    let stranger = Scope::Owner(&Owner::Anonymous);
    let made = create(&*one.store, NewTask::new(id("t"), Owner::Anonymous, "build", json("{}"))).await;
    assert_eq!(one.store.get(stranger, &made.id).await.unwrap(), Some(made));
    let list = one.store.list(stranger, &Filter::all(), None, 10).await;
    assert!(matches!(list, Err(StoreError::Unlistable)), "{list:?}");
}

pub(super) async fn a_list_goes_from_the_newest_to_the_oldest(backend: &dyn Backend) {
    let one = one(backend);
    let mut expected = Vec::new();
    for number in 0..7 {
        let name = format!("t{number}");
        create(&*one.store, task(&name)).await;
        let mut other = task(&format!("b{number}"));
        other.owner = bob();
        create(&*one.store, other).await;
        expected.insert(0, name);
    }
    for limit in [1, 2, 3, 7, 8, 1000, 5000, usize::MAX, 0] {
        assert_eq!(
            names(&*one.store, Scope::Owner(&ann()), &Filter::all(), limit).await,
            expected,
            "{limit}"
        );
    }
    let page = one.store.list(Scope::Owner(&ann()), &Filter::all(), None, 3).await.unwrap();
    assert!(page.tasks.len() <= 3);
    let first = page.tasks.first().expect("there are tasks");
    let read = one.store.get(Scope::Owner(&ann()), &first.id).await.unwrap();
    assert_eq!(read.as_ref(), Some(first), "a list shows what a read shows");
}

pub(super) async fn a_list_can_be_of_open_tasks_or_of_one_tool(backend: &dyn Backend) {
    let one = one(backend);
    for (name, tool) in [("t1", "build"), ("t2", "test"), ("t3", "build"), ("t4", "test")] {
        let mut new = task(name);
        new.tool = tool.into();
        let made = create(&*one.store, new).await;
        if name < "t3" {
            finish(&*one.store, &made).await;
        }
    }
    let ann = ann();
    for scope in [Scope::Owner(&ann), Scope::Operator] {
        for limit in [1, 10] {
            assert_eq!(names(&*one.store, scope, &Filter::open(), limit).await, ["t4", "t3"]);
            assert_eq!(names(&*one.store, scope, &Filter::all().of_tool("test"), limit).await, ["t4", "t2"]);
            assert_eq!(names(&*one.store, scope, &Filter::open().of_tool("build"), limit).await, ["t3"]);
            assert!(names(&*one.store, scope, &Filter::all().of_tool("other"), limit).await.is_empty());
        }
    }
}

pub(super) async fn a_list_can_be_of_what_a_claim_could_take(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let claimable = async || names(&*one.store, Scope::Operator, &Filter::claimable(), 10).await;
    let parked = create(&*one.store, task("parked")).await;
    let until = one.store.now().after(Duration::from_secs(3600));
    let park = Batch::new().with_park(Park::new(vec![], Some(until)));
    one.store.write(&parked.id, parked.epoch, park).await.unwrap();
    let ended = create(&*one.store, task("ended")).await;
    finish(&*one.store, &ended).await;
    create(&*one.store, task("held")).await;
    assert!(claimable().await.is_empty());
    create(&*other, task("orphan")).await;
    create(&*one.store, queued("queued", &*one.store)).await;
    assert_eq!(claimable().await, ["queued"]);
    drop(other);
    assert_eq!(claimable().await, ["queued", "orphan"]);
    one.deployment.advance(Settings::default().lease);
    assert_eq!(claimable().await, ["queued", "orphan", "held"]);
    one.deployment.advance(Duration::from_secs(3600));
    assert_eq!(claimable().await, ["queued", "orphan", "held", "parked"]);
    assert_eq!(one.store.claim(10, None).await.unwrap().len(), 4);
    assert!(claimable().await.is_empty());
}

pub(super) async fn a_list_of_what_a_claim_could_take_goes_in_pages(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let mut expected = Vec::new();
    for number in 0..21 {
        let name = format!("t{number}");
        match number % 3 {
            0 => create(&*one.store, queued(&name, &*one.store)).await,
            1 => create(&*other, task(&name)).await,
            _ => create(&*one.store, task(&name)).await,
        };
        if number % 3 < 2 {
            expected.insert(0, name);
        }
    }
    let mut strange = queued("strange", &*one.store);
    (strange.owner, strange.tool) = (bob(), "test".into());
    create(&*one.store, strange).await;
    drop(other);
    let ann = ann();
    for limit in [1, 2, 3, 14, 1000] {
        let own = names(&*one.store, Scope::Owner(&ann), &Filter::claimable(), limit).await;
        assert_eq!(own, expected, "{limit}");
        let of_tool = names(&*one.store, Scope::Operator, &Filter::claimable().of_tool("build"), limit).await;
        assert_eq!(of_tool, expected, "{limit}");
        let all = names(&*one.store, Scope::Operator, &Filter::claimable(), limit).await;
        assert_eq!((all[0].as_str(), &all[1..]), ("strange", &expected[..]), "{limit}");
    }
    // What is taken between two pages is on neither, and no other is missed.
    let first = one.store.list(Scope::Operator, &Filter::claimable(), None, 5).await.unwrap();
    assert_eq!(first.tasks.len(), 5);
    one.store.claim_one(&id(&expected[5])).await.unwrap().expect("nobody works on it");
    create(&*one.store, queued("new", &*one.store)).await;
    let (mut rest, mut cursor) = (Vec::new(), first.next);
    while let Some(at) = cursor {
        let page = one.store.list(Scope::Operator, &Filter::claimable(), Some(&at), 5).await.unwrap();
        rest.extend(page.tasks.iter().map(|task| task.id.to_string()));
        cursor = page.next;
    }
    assert_eq!([&expected[4..5], &expected[6..]].concat(), rest);
}

pub(super) async fn a_store_that_says_how_large_it_is_takes_room(backend: &dyn Backend) {
    let one = one(backend);
    create(&*one.store, task("t")).await;
    let (size, again) = (one.store.size().await.unwrap(), one.store.size().await.unwrap());
    assert_eq!(size.is_some(), again.is_some(), "it says so or not, whenever it is asked");
    assert!(size.is_none_or(|size| size > 0), "{size:?}");
}

/// S3 of `conformance/REQUIREMENTS.md`.
pub(super) async fn a_list_in_pages_meets_every_lasting_task_once(backend: &dyn Backend) {
    let one = one_with(backend, brief());
    let ann = ann();
    for number in 0..30 {
        let mut new = task(&format!("t{number}"));
        if number % 3 == 0 {
            new.retention = Retention::AfterTerminal(Duration::ZERO);
        }
        let made = create(&*one.store, new).await;
        if number % 3 == 0 {
            finish(&*one.store, &made).await;
        }
    }
    let mut met: BTreeMap<TaskId, usize> = BTreeMap::new();
    let (mut cursor, mut pages) = (None, 0);
    loop {
        let page = one.store.list(Scope::Owner(&ann), &Filter::all(), cursor.as_ref(), 4).await.unwrap();
        for task in page.tasks {
            *met.entry(task.id).or_default() += 1;
        }
        // Between two pages some go and some come.
        one.deployment.advance(Duration::from_secs(2));
        one.store.sweep(3).await.unwrap();
        create(&*one.store, task(&format!("new{pages}"))).await;
        pages += 1;
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    for number in (0..30).filter(|number| number % 3 != 0) {
        assert_eq!(met.remove(&id(&format!("t{number}"))), Some(1), "t{number}");
    }
    assert!(met.values().all(|times| *times == 1), "{met:?}");
}

pub(super) async fn a_cursor_outlives_the_task_it_points_at(backend: &dyn Backend) {
    let one = one_with(backend, brief());
    let ann = ann();
    create(&*one.store, task("old")).await;
    let mut new = task("new");
    new.retention = Retention::AfterTerminal(Duration::ZERO);
    let new = create(&*one.store, new).await;
    let page = one.store.list(Scope::Owner(&ann), &Filter::all(), None, 1).await.unwrap();
    assert_eq!(page.tasks.first().map(|task| &task.id), Some(&new.id));
    finish(&*one.store, &new).await;
    for _ in 0..2 {
        one.deployment.advance(Duration::from_secs(60));
        one.store.sweep(10).await.unwrap();
    }
    assert_eq!(one.store.counts().await.unwrap().retained, 1);
    let next = page.next.expect("there is more");
    let page = one.store.list(Scope::Owner(&ann), &Filter::all(), Some(&next), 1).await.unwrap();
    assert_eq!(page.tasks.first().map(|task| &task.id), Some(&id("old")));
}

pub(super) async fn a_cursor_of_another_list_is_refused(backend: &dyn Backend) {
    let one = one(backend);
    let ann = ann();
    create(&*one.store, task("t1")).await;
    create(&*one.store, task("t2")).await;
    let page = one.store.list(Scope::Owner(&ann), &Filter::all(), None, 1).await.unwrap();
    let own = page.next.expect("there is more");
    for bad in [Cursor::from_text(""), Cursor::from_text("no cursor"), Cursor::from_text("'; --")] {
        let list = one.store.list(Scope::Owner(&ann), &Filter::all(), Some(&bad), 1).await;
        assert!(matches!(list, Err(StoreError::InvalidCursor)), "{bad}: {list:?}");
    }
    let list = one.store.list(Scope::Operator, &Filter::all(), Some(&own), 1).await;
    assert!(matches!(list, Err(StoreError::InvalidCursor)), "{list:?}");
}

pub(super) async fn counts_follow_every_change(backend: &dyn Backend) {
    let one = one(backend);
    let counts = async || one.store.counts().await.unwrap();
    assert_eq!(counts().await, Counts::new(0, 0));
    let t1 = create(&*one.store, task("t1")).await;
    create(&*one.store, task("t2")).await;
    assert_eq!(counts().await, Counts::new(2, 2));
    finish(&*one.store, &t1).await;
    finish(&*one.store, &t1).await;
    assert_eq!(counts().await, Counts::new(1, 2));
    one.store.request_cancel(Scope::Operator, &id("t2"), None).await.unwrap();
    assert_eq!(counts().await, Counts::new(0, 2));
    assert_eq!(one.deployment.join().counts().await.unwrap(), Counts::new(0, 2));
}

/// Follows the cursors to the end of a list.
async fn names(store: &dyn TaskStore, scope: Scope<'_>, filter: &Filter, limit: usize) -> Vec<String> {
    let (mut names, mut cursor) = (Vec::new(), None);
    loop {
        let page = store.list(scope, filter, cursor.as_ref(), limit).await.unwrap();
        assert!(page.tasks.len() <= limit.clamp(1, Page::MAX));
        names.extend(page.tasks.iter().map(|task| task.id.to_string()));
        cursor = page.next;
        if cursor.is_none() {
            return names;
        }
    }
}

fn brief() -> Settings {
    Settings { tombstone: Duration::from_secs(1), ..Settings::default() }
}
