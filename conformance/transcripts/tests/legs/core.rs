//! The stepped core: two connection machines on a wire that only time moves, and the server's dispatcher behind one.

use std::sync::Arc;
use std::time::Duration;

use longhaul::proto::connection::Serial;
use longhaul::proto::dialect::Dialect;
use longhaul::proto::jsonrpc::{Limits, Message};
use longhaul::proto::method::Method;
use longhaul::proto::model::RequestMeta;
use longhaul::server::{
    CallCanceller, Caller, ConnectionPush, Dispatched, Dispatcher, Exchange, Outgoing, Outlet, Principal,
    Push,
};
use longhaul_test::transcript::{Leg, Said};
use longhaul_test::{Asked, Pair, Side};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::SILENCE;
use super::clients::{Beside, FIRST};

pub(crate) struct Core {
    pair: Pair,
    dispatcher: Dispatcher,
    principal: Principal,
    /// Its dialect and its room.
    of: (&'static Dialect, usize),
    sender: mpsc::Sender<Outgoing>,
    outgoing: mpsc::Receiver<Outgoing>,
    push: Arc<dyn Push>,
    running: Vec<(Serial, JoinHandle<()>, CallCanceller)>,
}

impl Core {
    pub(crate) fn new(dispatcher: Dispatcher, dialect: &'static Dialect, room: usize) -> Self {
        Self::of(FIRST, dispatcher, dialect, room)
    }

    fn of(who: &str, dispatcher: Dispatcher, dialect: &'static Dialect, room: usize) -> Self {
        let (sender, outgoing) = mpsc::channel(256);
        let mut pair = Pair::new(dialect, Duration::from_millis(1), room);
        pair.asked = Some(Vec::new());
        let push = Arc::new(ConnectionPush::new(sender.clone()));
        let (principal, of) = (Principal::new(who).unwrap(), (dialect, room));
        Self { pair, dispatcher, principal, of, sender, outgoing, push, running: Vec::new() }
    }

    /// Lets everything happen that is due.
    fn step(&mut self) {
        while self.pair.step() {
            for asked in self.pair.asked.as_mut().map(std::mem::take).unwrap_or_default() {
                self.dispatch(&asked);
            }
            let open = &self.pair.running;
            for (_, task, call) in
                self.running.extract_if(.., |(serial, ..)| !open.iter().any(|(_, running)| running == serial))
            {
                call.cancel();
                task.abort();
            }
        }
    }

    fn dispatch(&mut self, asked: &Asked) {
        let Ok(Message::Request(request)) = Message::decode(&asked.bytes, &Limits::default()) else {
            panic!("only requests are admitted")
        };
        let meta: RequestMeta<'_> = request.params.read("_meta").unwrap().unwrap_or_default();
        let mut caller = Caller::new(Some(self.principal.clone()));
        match (meta.client_capabilities, self.pair.server.session()) {
            (Some(capabilities), _) => {
                (caller.capabilities, caller.log_level) = (capabilities, meta.log_level);
            }
            (None, Some(session)) => {
                (caller.capabilities, caller.log_level) =
                    (session.capabilities.clone(), Some(session.log_level));
                caller = caller.with_client(&session.client_info);
            }
            (None, None) => {}
        }
        let mut exchange = Exchange::new(&request.id, asked.dialect, asked.method, &request.params, caller);
        exchange.name = &request.method;
        exchange.progress_token = meta.progress_token;
        exchange.idempotency_key = meta.idempotency_key.map(Into::into);
        exchange.outlet = Outlet::shared(asked.serial, self.sender.clone());
        exchange.push = Some(Arc::clone(&self.push));
        if asked.method == Method::Initialize {
            self.dispatcher.attend(asked.dialect, &self.push);
        }
        let mut out = Vec::new();
        if asked.method == Method::SetLogLevel {
            match request.params.require("level") {
                Ok(level) => self.pair.server.handle_log_level(level),
                Err(error) => {
                    asked.dialect.write_error(&mut out, &request.id, &error);
                    return self.pair.answer_with(&request.id, asked.serial, out);
                }
            }
        }
        match self.dispatcher.dispatch(exchange, &mut out) {
            Dispatched::Answered(_) => self.pair.answer_with(&request.id, asked.serial, out),
            Dispatched::Pending(answer) => {
                let (canceller, delivery) = (answer.canceller(), answer.delivery());
                let (id, serial, sender) = (request.id.clone(), asked.serial, self.sender.clone());
                let task = tokio::spawn(async move {
                    let (answered, message) = answer.await;
                    let _ = sender.send(Outgoing::answer(id, serial, answered, message)).await;
                    delivery.done();
                });
                self.running.push((asked.serial, task, canceller));
            }
        }
    }

    fn handle(&mut self, outgoing: Outgoing) {
        let runs = |serial: &Serial| self.pair.running.iter().any(|(_, running)| running == serial);
        match outgoing {
            Outgoing::Notification { serial, message, .. } if serial.as_ref().is_none_or(runs) => {
                self.pair.send(Side::Server, message);
            }
            Outgoing::Answer { id, serial, message, .. } => {
                self.running.retain(|(running, ..)| *running != serial);
                self.pair.answer_with(&id, serial, message);
            }
            _ => {}
        }
    }
}

impl Beside for Core {
    async fn beside(&self, who: &str) -> Result<Self, String> {
        let (dialect, room) = self.of;
        Ok(Self::of(who, self.dispatcher.clone(), dialect, room))
    }
}

impl Leg for Core {
    async fn say(&mut self, said: Said<'_>) -> Result<(), String> {
        self.pair.send(Side::Client, said.text.as_bytes().to_vec());
        self.step();
        Ok(())
    }

    async fn hear(&mut self, _: &Value, _: &[String]) -> Result<Value, String> {
        loop {
            self.step();
            if !self.pair.received.is_empty() {
                return serde_json::from_slice(&self.pair.received.remove(0))
                    .map_err(|error| error.to_string());
            }
            match tokio::time::timeout(SILENCE, self.outgoing.recv()).await {
                Ok(Some(outgoing)) => self.handle(outgoing),
                _ => return Err("nothing came".to_owned()),
            }
        }
    }

    fn status(&mut self) -> Result<u16, String> {
        Err("there is no status without HTTP".to_owned())
    }

    async fn wait(&mut self, time: Duration) {
        self.step();
        tokio::time::sleep(time).await;
        while let Ok(outgoing) = self.outgoing.try_recv() {
            self.handle(outgoing);
        }
        self.step();
    }
}
