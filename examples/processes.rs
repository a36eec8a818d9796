//! Processes of a server, one after the other: the first ends at one operation of its store, and with it all that waits. Where
//! time is stepped no work does anything that lasts between two of them, so that to end it at each is to end it wherever it awaits
//! something.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::Server;
use longhaul::proto::dialect::Dialect;
use longhaul::proto::jsonrpc::{Limits, Message};
use longhaul::proto::model::RequestMeta;
use longhaul::server::{Caller, Dispatched, Dispatcher, Exchange, Principal};
use longhaul_store::wrap::{Fault, Faults, Moment, Wrapped};
use longhaul_store::{Clock, Memory, Settings, SystemClock, Time};
use serde_json::{Value, json};
use tokio::runtime::{Handle, Runtime};
use tokio::time::Instant;

use super::host::REVISIONS;

/// How time passes for them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Passing {
    /// As soon as nothing is left to be done, up to what is waited for next.
    Stepped,
    /// As it does: others are waited for, who have their own.
    Real,
}

/// Processes on one store.
pub(crate) struct Processes<F> {
    server: F,
    memory: Memory,
    /// Unless time is real.
    clock: Option<Paused>,
    /// Where the first ends.
    end: Option<(usize, Moment)>,
    running: Option<Process>,
    /// The first has ended.
    has_ended: bool,
}

struct Process {
    runtime: Runtime,
    dispatcher: Dispatcher,
    faults: Faults,
    /// Between two requests.
    pause: Duration,
}

impl<F: Fn() -> Server> Processes<F> {
    /// The first ends at its operation of this number.
    pub(crate) fn new(server: F, number: usize, moment: Moment, passing: Passing) -> Self {
        let (clock, source): (_, Arc<dyn Clock>) = match passing {
            Passing::Stepped => {
                let clock = Paused::default();
                (Some(clock.clone()), Arc::new(clock))
            }
            Passing::Real => (None, Arc::new(SystemClock::new())),
        };
        let memory = Memory::with(Settings::default(), source);
        Self { server, memory, clock, end: Some((number, moment)), running: None, has_ended: false }
    }

    /// Whether the first got there.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The result of a request, made again of the next process if one ends meanwhile.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        for _ in 0..2 {
            let process = self.running.take().unwrap_or_else(|| self.start());
            let answered = process.runtime.block_on(async {
                tokio::select! {
                    biased;
                    () = process.faults.crashed() => None,
                    answer = process.ask(method, params) => Some(answer),
                }
            });
            let Some(mut answer) = answered else {
                self.has_ended = true;
                continue;
            };
            self.running = Some(process);
            assert!(answer.get("result").is_some(), "{answer}");
            return answer["result"].take();
        }
        panic!("only the first process ends");
    }

    fn start(&mut self) -> Process {
        let faults = Faults::new();
        if let Some((number, moment)) = self.end.take() {
            faults.plan(number, moment, Fault::Crash);
        }
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(self.clock.is_some()).build().unwrap();
        let store = Wrapped::new(self.memory.another_node(), faults.clone());
        let dispatcher = runtime.block_on(async {
            self.clock.iter().for_each(Paused::follow);
            let dispatcher = (self.server)().store(store).dispatcher().unwrap();
            tokio::select! {
                biased;
                () = faults.crashed() => {}
                started = dispatcher.start() => drop(started.unwrap()),
            }
            dispatcher
        });
        // In real time whoever asks often makes many operations at which to end.
        let pause = Duration::from_millis(if self.clock.is_some() { 20 } else { 200 });
        Process { runtime, dispatcher, faults, pause }
    }
}

impl Process {
    async fn ask(&self, method: &str, params: &Value) -> Value {
        let mut params = params.clone();
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": REVISIONS[1],
            "io.modelcontextprotocol/clientCapabilities":
                {"elicitation": {"form": {}}, "sampling": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        let text = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let Message::Request(request) = Message::decode(text.as_bytes(), &Limits::default()).unwrap() else {
            panic!("{text}");
        };
        let meta: RequestMeta<'_> = request.params.read("_meta").unwrap().unwrap();
        let dialect = Dialect::of_request(&meta, None, method).unwrap();
        let mut caller = Caller::new(Some(Principal::new("ann").unwrap()));
        caller.capabilities = meta.client_capabilities.unwrap();
        let method = dialect.request(method).unwrap();
        let mut exchange = Exchange::new(&request.id, dialect, method, &request.params, caller);
        // A call that is made again is the same.
        exchange.idempotency_key = Some("once".into());
        let mut out = Vec::new();
        if let Dispatched::Pending(answer) = self.dispatcher.dispatch(exchange, &mut out) {
            (_, out) = answer.await;
        }
        // Time passes between two requests.
        tokio::time::sleep(self.pause).await;
        serde_json::from_slice(&out).unwrap()
    }
}

/// The clock of the store, which goes as that of the runtime does which follows it, so that nothing sleeps for real.
#[derive(Clone, Debug, Default)]
struct Paused(Arc<Mutex<(Duration, Option<Instant>)>>);

impl Paused {
    fn follow(&self) {
        self.0.lock().unwrap().1 = Some(Instant::now());
    }

    fn passed(&self) -> Duration {
        let mut state = self.0.lock().unwrap();
        if let (Some(seen), Ok(_)) = (state.1, Handle::try_current()) {
            let now = Instant::now();
            *state = (state.0 + now.saturating_duration_since(seen), Some(now));
        }
        state.0
    }
}

impl Clock for Paused {
    fn wall(&self) -> Time {
        Time::from_unix_ms(1_800_000_000_000).after(self.passed())
    }

    fn steady(&self) -> Duration {
        Duration::from_secs(1000) + self.passed()
    }

    fn boot(&self) -> &str {
        "one boot"
    }
}
