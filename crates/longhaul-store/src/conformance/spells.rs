//! Who has worked on a task, and when.

use std::time::Duration;

use super::{Backend, create, finish, get, id, one, queued, task};
use crate::{Batch, NodeId, Park, Record, Spell, SpellOver, TaskStore, Time};

const MOMENT: Duration = Duration::from_secs(1);

fn spell(nth: u32, node: &NodeId, from: Time, over: Option<SpellOver>) -> Spell {
    Spell { nth, node: node.clone(), from, over }
}

/// Puts a task aside for a moment.
async fn put_aside(store: &dyn TaskStore, held: &Record) {
    let park = Park::new(Vec::new(), Some(store.now().after(MOMENT)));
    store.write(&held.id, held.epoch, Batch::new().with_park(park)).await.unwrap();
}

async fn spells(store: &dyn TaskStore) -> Vec<Spell> {
    get(store, &id("t")).await.expect("it exists").spells
}

pub(super) async fn each_spell_of_work_is_kept_with_how_it_was_over(backend: &dyn Backend) {
    let one = one(backend);
    let (store, other) = (&*one.store, one.deployment.join());
    let (here, there) = (store.node().clone(), other.node().clone());
    create(store, queued("t", store)).await;
    assert_eq!(spells(store).await, []);
    one.deployment.advance(MOMENT);
    let from = store.now();
    let held = store.claim_one(&id("t")).await.unwrap().expect("it is due");
    assert_eq!(held.spells, [spell(1, &here, from, None)]);
    one.deployment.advance(MOMENT);
    let aside = store.now();
    put_aside(store, &held).await;
    let mut kept = vec![spell(1, &here, from, Some(SpellOver::Aside(aside)))];
    assert_eq!(spells(&*other).await, kept);
    one.deployment.advance(MOMENT * 2);
    let from = store.now();
    let held = other.claim_one(&id("t")).await.unwrap().expect("its time has come");
    one.deployment.advance(MOMENT);
    kept.push(spell(2, &there, from, Some(SpellOver::Back(store.now()))));
    other.release(&held.id, held.epoch).await.unwrap();
    assert_eq!(spells(store).await, kept);
    let from = store.now();
    other.claim_one(&id("t")).await.unwrap().expect("it was given back");
    one.deployment.advance(MOMENT);
    drop(other);
    let held = store.claim_one(&id("t")).await.unwrap().expect("its node is dead");
    kept.push(spell(3, &there, from, Some(SpellOver::Lost(store.now()))));
    kept.push(spell(4, &here, store.now(), None));
    assert_eq!(held.spells, kept);
    one.deployment.advance(MOMENT);
    assert_eq!(finish(store, &held).await.spells, kept, "it is over with its task");
    assert_eq!(spells(store).await, kept);
}

pub(super) async fn work_that_began_with_its_task_is_written_down_when_it_is_put_aside(
    backend: &dyn Backend,
) {
    let one = one(backend);
    let store = &*one.store;
    let made = create(store, task("t")).await;
    assert_eq!(made.spells, []);
    one.deployment.advance(MOMENT);
    put_aside(store, &made).await;
    let aside = SpellOver::Aside(store.now());
    assert_eq!(spells(store).await, [spell(1, store.node(), made.created_at, Some(aside))]);
    let done = create(store, task("done")).await;
    assert_eq!(finish(store, &done).await.spells, []);
}

pub(super) async fn the_first_spell_and_the_latest_are_kept(backend: &dyn Backend) {
    let one = one(backend);
    let store = &*one.store;
    create(store, queued("t", store)).await;
    for _ in 0..40 {
        let held = store.claim_one(&id("t")).await.unwrap().expect("it was given back");
        store.release(&held.id, held.epoch).await.unwrap();
    }
    let kept: Vec<u32> = spells(store).await.iter().map(|spell| spell.nth).collect();
    let latest: Vec<u32> = [1].into_iter().chain(26..=40).collect();
    assert_eq!(kept, latest);
}
