//! The public suites, unchanged.

use std::{sync::Arc, time::Duration};

use longhaul_store::{
    EventStore, PostgresOptions, Registry, Settings, StepClock, TaskStore, Time,
    conformance::{Backend, Deployment, run_all, run_events, run_registry},
};

use crate::rig::{block_on, shared};

const START: Time = Time::from_unix_ms(1_800_000_000_000);

/// Stores in databases of one server, each its own.
struct OnPostgres {
    pooler: bool,
}

struct OneDatabase {
    url: String,
    options: PostgresOptions,
    clock: StepClock,
}

impl Drop for OneDatabase {
    fn drop(&mut self) {
        shared().give_back(std::mem::take(&mut self.url));
    }
}

macro_rules! backends {
    ($($contract:ident),+) => {$(
        impl Backend<dyn $contract> for OnPostgres {
            fn deploy(&self, settings: Settings) -> Box<dyn Deployment<dyn $contract>> {
                let clock = StepClock::at(START);
                let options = PostgresOptions::new().with_settings(settings).with_clock(Arc::new(clock.clone()));
                let options = options.with_pooler(self.pooler).with_connections(4);
                Box::new(OneDatabase { url: shared().emptied_database(), options, clock })
            }
        }

        impl Deployment<dyn $contract> for OneDatabase {
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
    run_all(&OnPostgres { pooler: false }).await;
}

#[tokio::test]
async fn a_store_of_events_keeps_every_promise() {
    run_events(&OnPostgres { pooler: false }).await;
}

#[tokio::test]
async fn a_registry_keeps_every_promise() {
    run_registry(&OnPostgres { pooler: false }).await;
}

#[tokio::test]
async fn every_promise_is_kept_without_anything_that_a_pooler_would_break() {
    let pooled = OnPostgres { pooler: true };
    run_all(&pooled).await;
    run_events(&pooled).await;
    run_registry(&pooled).await;
}
