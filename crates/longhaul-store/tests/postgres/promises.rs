//! The public suites, unchanged.

use std::{sync::Arc, time::Duration};

use longhaul_store::{
    EventStore, PostgresOptions, Registry, Settings, StepClock, TaskStore, Time,
    conformance::{Backend, Deployment, run_all, run_events, run_registry},
};

use crate::{
    pooler::pooler,
    rig::{block_on, shared},
};

const START: Time = Time::from_unix_ms(1_800_000_000_000);

/// Stores in databases of one server, each its own.
struct OnPostgres {
    is_pooled: bool,
}

struct OneDatabase {
    url: String,
    /// How it is reached without a pooler, if there is one.
    direct: Option<String>,
    options: PostgresOptions,
    clock: StepClock,
}

impl OnPostgres {
    fn database(&self, options: PostgresOptions, clock: StepClock) -> OneDatabase {
        let (url, direct) = if self.is_pooled {
            let (url, direct) = pooler().database();
            (url, Some(direct))
        } else {
            (shared().emptied_database(), None)
        };
        OneDatabase { url, direct, options, clock }
    }
}

impl Drop for OneDatabase {
    fn drop(&mut self) {
        match self.direct.take() {
            // Whoever panics has something else to say.
            Some(_) if std::thread::panicking() => {}
            Some(direct) => pooler().give_back(direct),
            None => shared().give_back(std::mem::take(&mut self.url)),
        }
    }
}

macro_rules! backends {
    ($($contract:ident),+) => {$(
        impl Backend<dyn $contract> for OnPostgres {
            fn deploy(&self, settings: Settings) -> Box<dyn Deployment<dyn $contract>> {
                let clock = StepClock::at(START);
                let options = PostgresOptions::new().with_settings(settings).with_clock(Arc::new(clock.clone()));
                Box::new(self.database(options.with_connections(4), clock))
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
    run_all(&OnPostgres { is_pooled: false }).await;
}

#[tokio::test]
async fn a_store_of_events_keeps_every_promise() {
    run_events(&OnPostgres { is_pooled: false }).await;
}

#[tokio::test]
async fn a_registry_keeps_every_promise() {
    run_registry(&OnPostgres { is_pooled: false }).await;
}

#[tokio::test]
async fn every_promise_is_kept_through_a_pooler_that_gives_each_transaction_another_connection() {
    let pooled = OnPostgres { is_pooled: true };
    run_all(&pooled).await;
    run_events(&pooled).await;
    run_registry(&pooled).await;
}
