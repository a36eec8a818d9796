//! Every backend keeps every promise, used directly and through an `Arc<dyn TaskStore>`.
#![cfg(all(feature = "conformance", feature = "sqlite"))]

use std::{path::PathBuf, sync::Arc, time::Duration};

use longhaul_store::{
    Memory, Settings, Sqlite, SqliteOptions, StepClock, TaskStore, Time,
    conformance::{Backend, CHECKS, Deployment, run_all},
};

const START: Time = Time::from_unix_ms(1_800_000_000_000);

struct InMemory;
struct OneMemory(Memory, StepClock);

impl Backend for InMemory {
    fn deploy(&self, settings: Settings) -> Box<dyn Deployment> {
        let clock = StepClock::at(START);
        Box::new(OneMemory(Memory::with(settings, Arc::new(clock.clone())), clock))
    }
}

impl Deployment for OneMemory {
    fn join(&self) -> Arc<dyn TaskStore> {
        Arc::new(self.0.another_node())
    }

    fn advance(&self, by: Duration) {
        self.1.advance(by);
    }
}

struct OnSqlite;
struct OneFile {
    folder: tempfile::TempDir,
    settings: Settings,
    clock: StepClock,
}

impl Backend for OnSqlite {
    fn deploy(&self, settings: Settings) -> Box<dyn Deployment> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Box::new(OneFile { folder, settings, clock: StepClock::at(START) })
    }
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

impl Deployment for OneFile {
    fn join(&self) -> Arc<dyn TaskStore> {
        Arc::new(self.open())
    }

    fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

/// The same stores behind one more `Arc<dyn TaskStore>`.
struct Boxed<B>(B);
struct BoxedDeployment(Box<dyn Deployment>);

impl<B: Backend> Backend for Boxed<B> {
    fn deploy(&self, settings: Settings) -> Box<dyn Deployment> {
        Box::new(BoxedDeployment(self.0.deploy(settings)))
    }
}

impl Deployment for BoxedDeployment {
    fn join(&self) -> Arc<dyn TaskStore> {
        Arc::new(self.0.join())
    }

    fn advance(&self, by: Duration) {
        self.0.advance(by);
    }
}

#[tokio::test]
async fn memory_keeps_every_promise() {
    run_all(&InMemory).await;
}

#[tokio::test]
async fn memory_behind_a_pointer_keeps_every_promise() {
    run_all(&Boxed(InMemory)).await;
}

#[tokio::test]
async fn sqlite_keeps_every_promise() {
    run_all(&OnSqlite).await;
}

#[tokio::test]
async fn sqlite_behind_a_pointer_keeps_every_promise() {
    run_all(&Boxed(OnSqlite)).await;
}

#[test]
fn every_check_has_a_name_of_its_own() {
    let mut names: Vec<_> = CHECKS.iter().map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), CHECKS.len());
}
