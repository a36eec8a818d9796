//! Who works on what.

use std::{collections::BTreeSet, time::Duration};

use super::{
    Backend, create,
    drive::{block_on, race},
    finish, get, id, one, queued, task,
};
use crate::{
    Accepts, Batch, Epoch, HostId, Outcome, Phase, Record, Runnable, Settings, Start, StoreError, TaskStore,
    ToolVersion,
};

pub(super) async fn a_queued_task_is_claimed_once_when_it_is_due(backend: &dyn Backend) {
    let one = one(backend);
    let mut later = task("later");
    later.start = Start::Queued { not_before: one.store.now().after(Duration::from_secs(60)) };
    create(&*one.store, later).await;
    create(&*one.store, queued("now", &*one.store)).await;
    let claimed = one.store.claim(10, None).await.unwrap();
    let [claim] = &claimed[..] else { panic!("one is due, not {claimed:?}") };
    assert_eq!(claim.id, id("now"));
    assert_eq!((claim.attempt, claim.epoch, claim.started), (1, Epoch::new(1), true));
    assert_eq!(claim.lease().map(|lease| &lease.node), Some(one.store.node()));
    assert_eq!(get(&*one.store, &id("now")).await.as_ref(), Some(claim));
    assert!(one.store.claim(10, None).await.unwrap().is_empty());
    assert!(one.store.claim_one(&id("later")).await.unwrap().is_none());
    assert!(one.store.claim_one(&id("never")).await.unwrap().is_none());
    one.deployment.advance(Duration::from_secs(60));
    assert!(ids(one.store.claim(10, None).await.unwrap()).contains(&"later".to_owned()));
}

pub(super) async fn only_tasks_of_known_tools_are_claimed(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    for (name, tool) in [("t1", "build"), ("t2", "test")] {
        let mut new = queued(name, &*one.store);
        new.tool = tool.into();
        create(&*one.store, new).await;
        let mut orphan = task(&format!("{name}-orphan"));
        orphan.tool = tool.into();
        create(&*other, orphan).await;
    }
    drop(other);
    let runs = ["test", "deploy"].map(|tool| Runnable::new(tool, Accepts::default()));
    assert_eq!(ids(one.store.claim(10, Some(&runs)).await.unwrap()), ["t2", "t2-orphan"]);
    assert!(one.store.claim(10, Some(&[])).await.unwrap().is_empty());
    assert_eq!(ids(one.store.claim(10, None).await.unwrap()), ["t1", "t1-orphan"]);
}

pub(super) async fn only_tasks_of_accepted_versions_are_claimed(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    for (name, version) in [("none", "0"), ("old", "1.2"), ("new", "2.0.0-rc.1+build")] {
        let version = ToolVersion::new(version).unwrap();
        let mut new = queued(name, &*one.store);
        new.version = version.clone();
        assert_eq!(create(&*one.store, new).await.version, version);
        let mut orphan = task(&format!("{name}-orphan"));
        orphan.version = version.clone();
        create(&*other, orphan).await;
        assert_eq!(get(&*one.store, &id(name)).await.expect("it exists").version, version);
    }
    drop(other);
    let claim = async |requirement: &str| {
        let runs = [Runnable::new("build", Accepts::new(requirement).unwrap())];
        ids(one.store.claim(10, Some(&runs)).await.unwrap())
    };
    assert_eq!(claim(">=3").await, [] as [&str; 0]);
    assert_eq!(claim(">=1, <2").await, ["old", "old-orphan"]);
    assert_eq!(claim("=2.0.0-rc.1").await, ["new", "new-orphan"]);
    let unsaid = [Runnable::new("build", Accepts::default())];
    assert_eq!(ids(one.store.claim(1, Some(&unsaid)).await.unwrap()).len(), 1, "a limit counts what fits");
    assert_eq!(ids(one.store.claim(10, Some(&unsaid)).await.unwrap()).len(), 1);
}

pub(super) async fn a_bound_task_is_claimed_on_its_host_alone(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let [here, there] = ["here", "there"].map(|name| HostId::new(name).unwrap());
    let mut new = task("made");
    new.host = Some(here.clone());
    assert_eq!(create(&*other, new).await.host.as_ref(), Some(&here));
    create(&*other, task("free")).await;
    let begun = create(&*other, task("begun")).await;
    let bind = |host: &HostId, epoch| other.write(&begun.id, epoch, Batch::new().with_host(host.clone()));
    let fenced = bind(&there, begun.epoch.next()).await;
    assert!(matches!(fenced, Err(StoreError::Fenced { .. })), "{fenced:?}");
    for host in [&here, &there] {
        bind(host, begun.epoch).await.unwrap();
        assert_eq!(get(&*one.store, &begun.id).await.unwrap().host.as_ref(), Some(&here), "it stays there");
    }
    drop(other);
    let claim = async |host: Option<&HostId>| {
        let runs = [Runnable::new("build", Accepts::default()).on(host.cloned())];
        one.store.claim(10, Some(&runs)).await.unwrap()
    };
    assert_eq!(ids(claim(Some(&there)).await), ["free"]);
    assert!(claim(None).await.is_empty());
    let claimed = claim(Some(&here)).await;
    assert_eq!(ids(claimed.clone()), ["begun", "made"]);
    // What is given back, or put aside, is where it was.
    for held in &claimed {
        assert_eq!(one.store.release(&held.id, held.epoch).await.unwrap().host.as_ref(), Some(&here));
    }
    assert!(claim(Some(&there)).await.is_empty());
    assert_eq!(ids(one.store.claim(10, None).await.unwrap()), ["begun", "made"], "by who asks for any");
    let held = get(&*one.store, &begun.id).await.unwrap();
    assert_eq!(finish(&*one.store, &held).await.host.as_ref(), Some(&here));
}

pub(super) async fn a_claim_takes_no_more_than_asked(backend: &dyn Backend) {
    let one = one(backend);
    for number in 0..5 {
        create(&*one.store, queued(&format!("t{number}"), &*one.store)).await;
    }
    assert_eq!(one.store.claim(0, None).await.unwrap().len(), 0);
    assert_eq!(one.store.claim(3, None).await.unwrap().len(), 3);
    assert_eq!(one.store.claim(3, None).await.unwrap().len(), 2);
}

/// T7 of `conformance/REQUIREMENTS.md`.
pub(super) async fn many_that_are_due_at_once_are_each_claimed_once(backend: &dyn Backend) {
    const MANY: usize = 600;
    const AT_A_TIME: usize = 50;
    let one = one(backend);
    for number in 0..MANY {
        let mut new = task(&format!("t{number}"));
        let due = one.store.now().after(Duration::from_secs(number as u64 % 60));
        new.start = Start::Queued { not_before: due };
        create(&*one.store, new).await;
    }
    assert_eq!(one.store.claim(MANY, None).await.unwrap().len(), MANY / 60, "the others are not due yet");
    // Nobody was there to claim them for an hour.
    one.deployment.advance(Duration::from_secs(3600));
    let other = one.deployment.join();
    let mut claimed = BTreeSet::new();
    loop {
        let some = other.claim(AT_A_TIME, None).await.unwrap();
        if some.is_empty() {
            break;
        }
        assert!(some.len() <= AT_A_TIME);
        for record in some {
            assert!(claimed.insert(record.id.clone()), "{record:?} was claimed twice");
        }
    }
    assert_eq!(claimed.len(), MANY, "none is left behind, nor those whose leases have run out");
}

pub(super) async fn a_lease_holds_while_it_lasts_and_no_longer(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let made = create(&*one.store, task("t")).await;
    one.deployment.advance(Settings::default().lease - Duration::from_secs(1));
    assert!(other.claim(10, None).await.unwrap().is_empty());
    assert!(other.claim_one(&made.id).await.unwrap().is_none());
    one.deployment.advance(Duration::from_secs(2));
    let claim = other.claim(10, None).await.unwrap().pop().expect("the lease has run out");
    assert_eq!((claim.attempt, claim.epoch), (2, made.epoch.next()));
    assert_eq!(claim.lease().map(|lease| &lease.node), Some(other.node()));
}

pub(super) async fn a_renewed_lease_holds_on(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let made = create(&*one.store, task("t")).await;
    for _ in 0..5 {
        one.deployment.advance(Settings::default().lease - Duration::from_secs(1));
        let held = [(made.id.clone(), made.epoch), (id("never"), made.epoch)];
        assert_eq!(one.store.renew(&held).await.unwrap(), [id("never")]);
        assert!(other.claim(10, None).await.unwrap().is_empty());
    }
    assert!(one.store.renew(&[]).await.unwrap().is_empty());
}

pub(super) async fn the_leases_of_a_dead_node_are_void_at_once(backend: &dyn Backend) {
    let one = one(backend);
    let (dying, living) = (one.deployment.join(), one.deployment.join());
    let orphan = create(&*dying, task("orphan")).await;
    create(&*living, task("kept")).await;
    create(&*one.store, task("own")).await;
    drop(dying);
    for held in ["kept", "own"] {
        let claim = one.store.claim_one(&id(held)).await.unwrap();
        assert!(claim.is_none(), "another's death frees only its own");
    }
    let claimed = one.store.claim(10, None).await.unwrap();
    let [claim] = &claimed[..] else { panic!("another's death frees only its own, not {claimed:?}") };
    assert_eq!(claim.id, orphan.id);
    assert_eq!((claim.attempt, claim.epoch), (2, orphan.epoch.next()));
    assert!(one.store.claim(10, None).await.unwrap().is_empty(), "the living keep theirs");
}

pub(super) async fn a_worker_that_lost_its_task_is_fenced(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let lost = create(&*one.store, task("t")).await;
    one.deployment.advance(Settings::default().lease);
    let taken = other.claim_one(&lost.id).await.unwrap().expect("the lease has run out");
    assert_fenced(&*one.store, &lost).await;
    assert_fenced(&*other, &lost).await;
    assert_eq!(get(&*one.store, &lost.id).await.as_ref(), Some(&taken), "nothing has changed");
    finish(&*other, &taken).await;
}

pub(super) async fn a_released_task_is_queued_and_not_charged(backend: &dyn Backend) {
    let one = one(backend);
    let other = one.deployment.join();
    let made = create(&*one.store, task("t")).await;
    let released = one.store.release(&made.id, made.epoch).await.unwrap();
    assert!(matches!(released.phase, Phase::Queued { .. }));
    assert_eq!((released.attempt, released.started), (0, true));
    assert_fenced(&*one.store, &made).await;
    assert_fenced(&*one.store, &released).await;
    let claim = other.claim(10, None).await.unwrap().pop().expect("it is due");
    assert_eq!(claim.attempt, 1);
    assert!(claim.epoch > made.epoch);
}

pub(super) async fn an_attempt_that_has_yet_to_begin_is_not_charged(backend: &dyn Backend) {
    let one = one(backend);
    create(&*one.store, task("t")).await;
    for by in 0..3 {
        let dying = one.deployment.join();
        one.deployment.advance(Settings::default().lease);
        let claim = dying.claim_one(&id("t")).await.unwrap().expect("its node is gone, or stands still");
        assert_eq!(claim.attempt, 2, "by {by} before");
        dying.write(&claim.id, claim.epoch, Batch::new().with_attempt(1)).await.unwrap();
        assert_eq!(get(&*dying, &claim.id).await.map(|task| task.attempt), Some(1));
    }
    one.deployment.advance(Settings::default().lease);
    let claim = one.store.claim_one(&id("t")).await.unwrap().expect("its node is gone");
    for attempt in [1, 2] {
        one.store.write(&claim.id, claim.epoch, Batch::new().with_attempt(attempt)).await.unwrap();
    }
    let other = one.deployment.join();
    one.deployment.advance(Settings::default().lease);
    assert_eq!(other.claim_one(&id("t")).await.unwrap().map(|claim| claim.attempt), Some(3), "it had begun");
}

/// D1 of `conformance/REQUIREMENTS.md`.
pub(super) async fn nodes_that_race_to_claim_share_nothing(backend: &dyn Backend) {
    let one = one(backend);
    for number in 0..40 {
        create(&*one.store, queued(&format!("t{number}"), &*one.store)).await;
    }
    let nodes: Vec<_> = (0..4).map(|_| one.deployment.join()).collect();
    let taken = race(4, |index| {
        let mut taken = Vec::new();
        loop {
            let claims = block_on(nodes[index].claim(3, None)).unwrap();
            if claims.is_empty() {
                return taken;
            }
            taken.extend(ids(claims));
        }
    });
    let all: Vec<_> = taken.into_iter().flatten().collect();
    assert_eq!((all.len(), all.into_iter().collect::<BTreeSet<_>>().len()), (40, 40));
}

/// Nothing a worker does at this record's epoch is accepted.
async fn assert_fenced(store: &dyn TaskStore, held: &Record) {
    let (id, epoch) = (&held.id, held.epoch);
    let fenced = |result: Result<(), StoreError>| {
        assert!(
            matches!(&result, Err(StoreError::Fenced { id, held: at }) if (id, *at) == (&held.id, epoch)),
            "{result:?}"
        );
    };
    fenced(store.write(id, epoch, Batch::new().with_status_message("late")).await.map(drop));
    fenced(store.release(id, epoch).await.map(drop));
    fenced(store.finish(id, epoch, Outcome::lost("late"), Batch::new()).await.map(drop));
    assert_eq!(store.renew(&[(id.clone(), epoch)]).await.unwrap(), std::slice::from_ref(id));
}

fn ids(claims: Vec<Record>) -> Vec<String> {
    let mut ids: Vec<_> = claims.into_iter().map(|claim| claim.id.to_string()).collect();
    ids.sort();
    ids
}
