//! How a server stops: once a signal asks it to, in its time, and at once if it is asked again.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use longhaul::tasks::runner::Engine;
use longhaul_gateway::config;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit;
use crate::term::note;

/// What asks a process to stop: SIGTERM and SIGINT.
pub(crate) type Signals = (Signal, Signal);

/// Those that come from here on, which is from before it says that it is ready; without handlers they end the process as they
/// always did.
pub(crate) fn signals() -> Option<Signals> {
    Some((signal(SignalKind::terminate()).ok()?, signal(SignalKind::interrupt()).ok()?))
}

/// The stop of one server, which has so long for it.
pub(crate) struct Stopping {
    engine: Engine,
    within: Duration,
    asked: Arc<OnceLock<Instant>>,
}

impl Stopping {
    pub(crate) fn new(engine: &Engine, within: Duration) -> Self {
        Self { engine: engine.clone(), within, asked: Arc::default() }
    }

    /// Completes when the process is asked to stop, and says what it waits for. Asked again, it is gone at once: what is
    /// durable lives on as it does whatever ends a server.
    pub(crate) fn asked(&self, signals: Option<Signals>) -> impl Future<Output = ()> + Send + 'static {
        let Self { engine, within, asked } = self;
        let (engine, within, asked) = (engine.clone(), *within, Arc::clone(asked));
        async move {
            let Some(mut signals) = signals else { return std::future::pending().await };
            either(&mut signals).await;
            asked.get_or_init(Instant::now);
            tokio::spawn(async move { exit::at_once(either(&mut signals).await) });
            // What is at work may have no caller any more.
            let waiting = match engine.waiting().max(engine.at_work()) {
                0 => return,
                1 => "1 call".to_owned(),
                several => format!("{several} calls"),
            };
            let most = config::format_duration(within);
            note(&format!("stopping: waiting for {waiting}, at most {most}; again to stop at once"));
        }
    }

    /// Lets the work end that ends with the process, in what is left of the time. Its client may have gone without a signal: then it
    /// stops as it does when it is asked to, and the first that comes is one too many.
    pub(crate) async fn finish(&self) {
        let began = match self.asked.get() {
            Some(asked) => *asked,
            None => {
                tokio::spawn(async {
                    if let Some(mut signals) = signals() {
                        exit::at_once(either(&mut signals).await)
                    }
                });
                let began = Instant::now();
                // Nothing more is taken up here, and what can go on elsewhere is given back.
                self.engine.drain(self.within).await;
                began
            }
        };
        self.engine.finish(self.within.saturating_sub(began.elapsed())).await;
    }
}

/// The first of them that comes.
async fn either((terminate, interrupt): &mut Signals) -> SignalKind {
    let (kind, came) = tokio::select! {
        came = terminate.recv() => (SignalKind::terminate(), came),
        came = interrupt.recv() => (SignalKind::interrupt(), came),
    };
    // No more will come while the runtime ends.
    if came.is_none() {
        std::future::pending::<()>().await;
    }
    kind
}
