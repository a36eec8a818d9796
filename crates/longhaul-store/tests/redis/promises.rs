//! The public suites, unchanged.

use std::{sync::Arc, time::Duration};

use longhaul_store::{
    EventStore, RedisOptions, Registry, Settings, StepClock, TaskStore, Time,
    conformance::{Backend, Deployment, run_all, run_events, run_registry},
};

use crate::rig::{block_on, shared};

const START: Time = Time::from_unix_ms(1_800_000_000_000);

/// Stores on one server, each of another name.
struct OnRedis;

struct OneName {
    url: String,
    options: RedisOptions,
    clock: StepClock,
}

macro_rules! backends {
    ($($contract:ident),+) => {$(
        impl Backend<dyn $contract> for OnRedis {
            fn deploy(&self, settings: Settings) -> Box<dyn Deployment<dyn $contract>> {
                let clock = StepClock::at(START);
                let options = RedisOptions::new().with_settings(settings).with_clock(Arc::new(clock.clone()));
                Box::new(OneName { url: shared().store(), options, clock })
            }
        }

        impl Deployment<dyn $contract> for OneName {
            fn join(&self) -> Arc<dyn $contract> {
                Arc::new(block_on(self.options.clone().open(&self.url)).expect("the store opens"))
            }

            fn advance(&self, by: Duration) {
                self.clock.advance(by);
            }
        }
    )+};
}

backends!(TaskStore, EventStore, Registry);

#[tokio::test]
async fn a_store_of_tasks_keeps_every_promise() {
    run_all(&OnRedis).await;
}

/// Most of what changes tasks is done there, then, and some on threads of the store's own.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_store_of_tasks_keeps_every_promise_where_it_was_opened() {
    run_all(&OnRedis).await;
}

#[tokio::test]
async fn a_store_of_events_keeps_every_promise() {
    run_events(&OnRedis).await;
}

#[tokio::test]
async fn a_registry_keeps_every_promise() {
    run_registry(&OnRedis).await;
}
