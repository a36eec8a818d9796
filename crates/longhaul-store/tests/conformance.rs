//! Every backend keeps every promise, used directly and through an `Arc<dyn TaskStore>`.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use longhaul_store::{
    EntryKey, EventStore, Memory, Operation, Owner, Registry, Settings, Sqlite, SqliteOptions, StepClock,
    StoreError, TaskStore, Time, Value,
    conformance::{
        Backend, CHECKS, Deployment, EVENT_CHECKS, Payload, REGISTRY_CHECKS, run_all, run_events,
        run_registry,
    },
    sealed::{Sealed, SealingKeys},
    wrap::{Fault, Faults, Moment, Wrapped},
};

const START: Time = Time::from_unix_ms(1_800_000_000_000);

struct InMemory;
struct OneMemory(Memory, StepClock);

struct OnSqlite;
struct OneFile {
    folder: tempfile::TempDir,
    settings: Settings,
    clock: StepClock,
}

impl OneFile {
    fn path(&self) -> PathBuf {
        self.folder.path().join("tasks.db")
    }

    fn open(&self) -> Sqlite {
        let options = SqliteOptions::new().with_settings(self.settings.clone());
        options.with_clock(Arc::new(self.clock.clone())).open(self.path()).expect("the store opens")
    }
}

/// The same stores behind one more pointer.
struct Boxed<B>(B);
struct BoxedDeployment<S: ?Sized>(Box<dyn Deployment<S>>);

/// The same stores of tasks, and of what nodes share, in a wrap that lets nothing go wrong.
struct Planless<B>(B);
struct PlanlessDeployment<S: ?Sized>(Box<dyn Deployment<S>>);

macro_rules! planless {
    ($($contract:path),+) => {$(
        impl<B: Backend<dyn $contract>> Backend<dyn $contract> for Planless<B> {
            fn deploy(&self, settings: Settings) -> Box<dyn Deployment<dyn $contract>> {
                Box::new(PlanlessDeployment(self.0.deploy(settings)))
            }
        }

        impl Deployment<dyn $contract> for PlanlessDeployment<dyn $contract> {
            fn join(&self) -> Arc<dyn $contract> {
                Arc::new(Wrapped::new(self.0.join(), Faults::new()))
            }

            fn advance(&self, by: Duration) {
                self.0.advance(by);
            }
        }
    )+};
}

planless!(TaskStore, Registry);

/// Stores that are sealed.
struct SealedMemory;
struct SealedOneMemory(OneMemory);

fn sealed<S>(store: S) -> Sealed<S> {
    let keys = SealingKeys::new("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").expect("a good key");
    Sealed::new(store, keys)
}

/// The name of a key, a nonce and a tag come along, the mark of what is sealed, and as text a third of it all.
fn sealed_size(payload: Payload, bytes: usize) -> usize {
    let text = "sealed1.".len() + ((bytes + 44) * 4).div_ceil(3);
    match payload {
        Payload::Text => text,
        Payload::Json => text + "\"\"".len(),
        Payload::Entry => bytes + 46,
        other => panic!("how long is {other:?}?"),
    }
}

/// Each backend here is a store of every kind.
macro_rules! backends {
    ($($contract:ident),+) => {$(
        impl Backend<dyn $contract> for InMemory {
            fn deploy(&self, settings: Settings) -> Box<dyn Deployment<dyn $contract>> {
                let clock = StepClock::at(START);
                Box::new(OneMemory(Memory::with(settings, Arc::new(clock.clone())), clock))
            }
        }

        impl Deployment<dyn $contract> for OneMemory {
            fn join(&self) -> Arc<dyn $contract> {
                Arc::new(self.0.another_node())
            }

            fn advance(&self, by: Duration) {
                self.1.advance(by);
            }
        }

        impl Backend<dyn $contract> for OnSqlite {
            fn deploy(&self, settings: Settings) -> Box<dyn Deployment<dyn $contract>> {
                let folder = tempfile::tempdir().expect("a temporary folder");
                Box::new(OneFile { folder, settings, clock: StepClock::at(START) })
            }
        }

        impl Deployment<dyn $contract> for OneFile {
            fn join(&self) -> Arc<dyn $contract> {
                Arc::new(self.open())
            }

            fn advance(&self, by: Duration) {
                self.clock.advance(by);
            }
        }

        impl Backend<dyn $contract> for SealedMemory {
            fn deploy(&self, settings: Settings) -> Box<dyn Deployment<dyn $contract>> {
                let clock = StepClock::at(START);
                let memory = Memory::with(settings, Arc::new(clock.clone()));
                Box::new(SealedOneMemory(OneMemory(memory, clock)))
            }

            fn kept(&self, payload: Payload, bytes: usize) -> usize {
                sealed_size(payload, bytes)
            }
        }

        impl Deployment<dyn $contract> for SealedOneMemory {
            fn join(&self) -> Arc<dyn $contract> {
                Arc::new(sealed(self.0.0.another_node()))
            }

            fn advance(&self, by: Duration) {
                self.0.1.advance(by);
            }
        }

        impl<B: Backend<dyn $contract>> Backend<dyn $contract> for Boxed<B> {
            fn deploy(&self, settings: Settings) -> Box<dyn Deployment<dyn $contract>> {
                Box::new(BoxedDeployment(self.0.deploy(settings)))
            }
        }

        impl Deployment<dyn $contract> for BoxedDeployment<dyn $contract> {
            fn join(&self) -> Arc<dyn $contract> {
                Arc::new(self.0.join())
            }

            fn advance(&self, by: Duration) {
                self.0.advance(by);
            }
        }
    )+};
}

backends!(TaskStore, EventStore, Registry);

async fn run_every_suite<B>(backend: &B)
where
    B: Backend<dyn TaskStore> + Backend<dyn EventStore> + Backend<dyn Registry>,
{
    run_all(backend).await;
    run_events(backend).await;
    run_registry(backend).await;
}

#[tokio::test]
async fn memory_keeps_every_promise() {
    run_every_suite(&InMemory).await;
}

#[tokio::test]
async fn memory_behind_a_pointer_keeps_every_promise() {
    run_every_suite(&Boxed(InMemory)).await;
}

#[tokio::test]
async fn sqlite_keeps_every_promise() {
    run_every_suite(&OnSqlite).await;
}

#[tokio::test]
async fn sqlite_behind_a_pointer_keeps_every_promise() {
    run_every_suite(&Boxed(OnSqlite)).await;
}

#[tokio::test]
async fn a_wrap_that_lets_nothing_go_wrong_keeps_every_promise() {
    run_all(&Planless(InMemory)).await;
    run_all(&Planless(OnSqlite)).await;
    run_registry(&Planless(InMemory)).await;
    run_registry(&Planless(OnSqlite)).await;
}

#[tokio::test]
async fn what_goes_wrong_with_tasks_goes_wrong_with_what_nodes_share() {
    let (memory, faults, ann) = (Memory::new(), Faults::new(), Owner::principal("ann").unwrap());
    faults.plan(2, Moment::After, Fault::Fail(StoreError::Closed));
    faults.plan(3, Moment::Before, Fault::Crash);
    let registry = Wrapped::new(memory.another_node(), faults.clone());
    let key = EntryKey::of(&ann, "kind", "name");
    assert_eq!(registry.entry(key).await.unwrap(), None);
    let refused = registry.put(key, Value::for_ever(b"there")).await;
    assert!(matches!(refused, Err(StoreError::Closed)), "{refused:?}");
    tokio::select! {
        swapped = registry.compare_and_set(key, None, None) => panic!("{swapped:?}"),
        () = faults.crashed() => {}
    }
    assert_eq!(faults.operations(), [Operation::Entry, Operation::Put, Operation::CompareAndSet]);
    assert_eq!(&*memory.entry(key).await.unwrap().unwrap().value, b"there");
}

#[tokio::test]
async fn a_sealed_store_keeps_every_promise() {
    // What is sealed is the same in every store; `tests/sqlite/sealed.rs` looks into a file.
    run_every_suite(&SealedMemory).await;
}

#[test]
fn every_check_has_a_name_of_its_own() {
    let names = CHECKS.iter().map(|(name, _)| *name);
    let names = names.chain(EVENT_CHECKS.iter().map(|(name, _)| *name));
    let names: Vec<_> = names.chain(REGISTRY_CHECKS.iter().map(|(name, _)| *name)).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
}
