//! The one connection to a server: opened when it is needed, and again when it has ended.

use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use longhaul::client::{Client, Error, Options};
use longhaul::proto::jsonrpc::Code;
use longhaul::proto::model::LoggingLevel;
use tokio::sync::{Mutex, Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::asking::Callers;
use super::itself::Instance;
use super::line::Line;
use super::logging::Log;
use super::pins::Cleared;
use super::pulse::Pulse;
use super::seen::Seen;
use crate::config::{UpstreamServer, format_duration};

/// A server whose tools are served on.
pub struct Upstream {
    pub(super) config: UpstreamServer,
    pub(super) options: Options,
    /// This program can tend the other one.
    pub(super) is_tended: bool,
    /// Which server serves it on.
    before: OnceLock<Instance>,
    /// Who waits for it.
    pub(super) callers: Callers,
    /// Who waits to call it.
    pub(super) line: Line,
    pub(super) log: Arc<Log>,
    /// Whether it lives.
    pub(super) pulse: Arc<Pulse>,
    state: Mutex<State>,
    /// How many connections there have been.
    opened: watch::Sender<u64>,
    /// This process ends: nothing is opened any more.
    closing: watch::Sender<bool>,
    /// Told when a call has failed such that it may have been away.
    pub(super) doubted: Notify,
    /// What is known of what it offers.
    pub(super) seen: watch::Sender<Seen>,
    /// The kinds of things that it has, as it said last.
    kinds: std::sync::Mutex<Kinds>,
    /// What may be called of it, where it has pins.
    pub(super) cleared: watch::Sender<Cleared>,
    /// The latest line of its standard error.
    last_line: Arc<std::sync::Mutex<Option<String>>>,
}

/// The kinds of things that a server has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Kinds {
    pub(super) resources: bool,
    /// It tells of their changes.
    pub(super) resource_updates: bool,
}

#[derive(Default)]
struct State {
    open: Option<Open>,
    /// How often in a row it could not be reached, or ended at once.
    failures: u32,
    /// When it is tried again, and why it has to be.
    again: Option<(Instant, Unreached)>,
}

struct Open {
    reached: Reached,
    since: Instant,
}

/// A connection to a server.
#[derive(Clone, Debug)]
pub(super) struct Reached {
    pub(super) client: Client,
    /// Which it is of those that there have been.
    pub(super) number: u64,
}

/// A server could not be reached.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the server {server} cannot be reached: {why}")]
#[non_exhaustive]
pub struct Unreached {
    /// Its name in the configuration.
    pub server: String,
    /// What went wrong, as anybody may be told.
    pub why: Arc<str>,
    /// What it wrote to its standard error before it ended. There may be secrets in it: it is for its operator alone.
    pub(super) last_words: Option<Arc<str>>,
    /// It lets nobody in who has not signed in, or as somebody else: waiting does not help.
    pub is_denied: bool,
    /// How long it asks to be left alone.
    pub(super) retry_after: Option<Duration>,
}

impl Upstream {
    /// A server as it is configured. `options` say who signs in there, if anybody does.
    pub fn new(config: UpstreamServer, options: Options) -> Arc<Self> {
        Self::with(config, options, false)
    }

    /// The same, by a program that does what [`tend`](crate::command::tend) does when it is called
    /// `tend PID PROGRAM …`: then nothing of a server that is a program outlives this one. On Linux; elsewhere as
    /// [`new`](Self::new).
    pub fn tended(config: UpstreamServer, options: Options) -> Arc<Self> {
        Self::with(config, options, cfg!(target_os = "linux"))
    }

    fn with(config: UpstreamServer, options: Options, is_tended: bool) -> Arc<Self> {
        let (opened, seen) = (watch::Sender::new(0), watch::Sender::new(Seen::default()));
        let (name, callers) = (config.name.clone(), Callers::default());
        let asked = callers.clone();
        let pulse = Arc::new(Pulse::new());
        let (asks, logs) = (Arc::clone(&pulse), Arc::clone(&pulse));
        let log = Arc::new(Log::new(&name, callers.clone()));
        let its = Arc::clone(&log);
        let last_line = Arc::<std::sync::Mutex<_>>::default();
        let latest = Arc::clone(&last_line);
        let mut options = options
            // What it gives is for the caller to judge.
            .validate(false)
            // Who waits for one that is away says so.
            .retry_for(Duration::ZERO)
            // It is listed when it may have changed.
            .cache(false)
            .on_question(move |question| {
                asks.hear();
                let callers = asked.clone();
                async move { callers.ask(question).await }
            })
            .on_log(LoggingLevel::Info, move |message| {
                logs.hear();
                its.pass(&message);
            })
            .on_stderr(move |line| {
                tracing::info!(server = name, line, "a server said");
                *latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
            });
        // It is asked to log once a caller wants to read it.
        options.log_level = None;
        options.revision = config.revision.or(options.revision);
        Arc::new(Self {
            line: Line::new(config.at_once),
            config,
            options,
            is_tended,
            before: OnceLock::new(),
            callers,
            log,
            pulse,
            state: Mutex::default(),
            opened,
            closing: watch::Sender::new(false),
            doubted: Notify::new(),
            seen,
            kinds: std::sync::Mutex::default(),
            cleared: watch::Sender::default(),
            last_line,
        })
    }

    /// It is that server which serves it on.
    pub(super) fn be_behind(&self, server: &Instance) {
        // Of those that one process puts together each is of one.
        let _ = self.before.set(server.clone());
    }

    /// The server as it is configured.
    #[must_use]
    pub fn config(&self) -> &UpstreamServer {
        &self.config
    }

    /// How often a connection to it was opened.
    #[must_use]
    pub fn connections(&self) -> u64 {
        *self.opened.borrow()
    }

    /// What is known of what it offers, as that changes.
    #[must_use]
    pub fn seen(&self) -> watch::Receiver<Seen> {
        self.seen.subscribe()
    }

    /// The latest line that it wrote to its standard error, if it is a program that did.
    #[must_use]
    pub fn last_line(&self) -> Option<String> {
        self.last_line.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The connection, opened if there is none.
    ///
    /// One that could not be opened is tried again after 1 s, 2 s, 4 s, up to a minute: who comes shortly before waits for
    /// that.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached now.
    pub async fn client(self: &Arc<Self>) -> Result<Client, Unreached> {
        self.reach().await.map(|reached| reached.client)
    }

    /// The same, with which connection it is.
    pub(super) async fn reach(self: &Arc<Self>) -> Result<Reached, Unreached> {
        // Apart, so that who goes away meanwhile does not end the start for those who wait for it as well.
        let this = Arc::clone(self);
        match tokio::spawn(async move { this.open().await }).await {
            Ok(opened) => opened,
            Err(error) => Err(self.unreached(error.to_string())),
        }
    }

    /// Completes once there has been another connection than the first `known`.
    pub(super) async fn opened_after(&self, known: u64) -> u64 {
        let mut opened = self.opened.subscribe();
        match opened.wait_for(|count| *count > known).await {
            Ok(count) => *count,
            // It is part of what is waited on.
            Err(_) => known,
        }
    }

    /// How many connections there have been.
    pub(super) fn openings(&self) -> u64 {
        *self.opened.borrow()
    }

    /// The kinds of things that it has, as far as that is known.
    pub(super) fn kinds(&self) -> Kinds {
        *self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn be(&self, kinds: Kinds) {
        *self.kinds.lock().unwrap_or_else(PoisonError::into_inner) = kinds;
    }

    /// Serves what was begun and nothing else: whenever nobody uses it, its connection ends, with the process at the other end.
    pub(super) fn retire(self: &Arc<Self>) {
        let (mut users, retired) = (self.callers.users(), Arc::downgrade(self));
        // Nobody lists it any more.
        self.cleared.send_modify(Cleared::be_final);
        tokio::spawn(async move {
            while users.wait_for(|users| *users == 0).await.is_ok() {
                match retired.upgrade() {
                    Some(upstream) => {
                        upstream.close_if_unused().await;
                    }
                    None => return,
                }
                if users.changed().await.is_err() {
                    return;
                }
            }
        });
    }

    /// Ends the connection, with the process at its other end, unless somebody uses it; whether it did. Who comes from here on waits
    /// until that is over, and opens another connection.
    pub(super) async fn close_if_unused(&self) -> bool {
        let mut state = self.state.lock().await;
        let open = state.open.take_if(|_| *self.callers.users().borrow() == 0);
        if let Some(open) = &open {
            open.reached.client.close().await;
        }
        open.is_some()
    }

    /// Whether there is a connection, or will be in a moment.
    pub(super) async fn is_open(&self) -> bool {
        self.state.lock().await.open.as_ref().is_some_and(|open| !open.reached.client.has_ended())
    }

    /// Ends the connection in order, with the process at its other end.
    pub async fn close(&self) {
        let open = self.state.lock().await.open.take();
        if let Some(open) = open {
            open.reached.client.close().await;
        }
    }

    /// The same for good: what is being opened is given up, and nothing else is opened.
    pub async fn close_for_good(&self) {
        self.closing.send_replace(true);
        self.close().await;
    }

    /// The connection that there is, if there is one; it may have ended.
    pub(super) async fn current(&self) -> Option<Reached> {
        self.state.lock().await.open.as_ref().map(|open| open.reached.clone())
    }

    /// Ends that connection, whose server hangs, with the process at the other end. Who comes meanwhile waits until that is over, and
    /// opens another.
    pub(super) async fn end(&self, hung: &Reached) {
        let mut state = self.state.lock().await;
        if let Some(open) = state.open.take_if(|open| open.reached.number == hung.number) {
            self.end_hung(&mut state, &open).await;
        }
    }

    async fn end_hung(&self, state: &mut State, open: &Open) {
        tracing::warn!(server = self.config.name, "a server answers no ping, and its connection is ended");
        let within = format_duration(self.config.ping_within);
        self.miss(
            format!("it answered no ping within {within}, and is started anew by the next call").into(),
        );
        open.reached.client.close().await;
        state.lose(open, self.unreached("it answered no ping soon after it had started"));
    }

    async fn open(&self) -> Result<Reached, Unreached> {
        let mut state = self.state.lock().await;
        if let Some(open) = state.open.take() {
            let is_mute = self.is_mute(&open.reached.client).await;
            if open.reached.client.has_ended() {
                tracing::warn!(server = self.config.name, "a server has ended its connection");
                state.lose(&open, self.unreached("it ended soon after it had started"));
            } else if is_mute {
                self.end_hung(&mut state, &open).await;
            } else {
                let reached = open.reached.clone();
                state.open = Some(open);
                return Ok(reached);
            }
        }
        if let Some((again, unreached)) = state.again.clone() {
            if again > Instant::now() + PATIENCE {
                let left = format_duration(Duration::from_secs((again - Instant::now()).as_secs() + 1));
                let why = format!("{}; it is tried again in {left}", unreached.why).into();
                return Err(Unreached { why, retry_after: None, ..unreached });
            }
            self.unless_closing(sleep_until(again)).await?;
        }
        self.callers.begin_anew();
        self.log.begin_anew();
        match self.unless_closing(self.connect()).await? {
            Ok(client) => {
                // Nobody else opens one meanwhile.
                let reached = Reached { client, number: self.openings() + 1 };
                let open = Open { reached: reached.clone(), since: Instant::now() };
                (state.open, state.again) = (Some(open), None);
                self.pulse.hear();
                self.opened.send_replace(reached.number);
                Ok(reached)
            }
            Err(unreached) => {
                let why = unreached.for_operator();
                tracing::warn!(server = self.config.name, %why, "a server cannot be reached");
                state.fail(unreached.clone());
                self.miss(why);
                Err(unreached)
            }
        }
    }

    /// What comes of it, unless this process ends first.
    async fn unless_closing<T>(&self, doing: impl Future<Output = T>) -> Result<T, Unreached> {
        let mut closing = self.closing.subscribe();
        tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => Err(self.unreached("the server before it is ending")),
            done = doing => Ok(done),
        }
    }

    async fn connect(&self) -> Result<Client, Unreached> {
        let (target, options) = self.target().map_err(|why| self.unreached(why))?;
        let within = self.config.start_within;
        match timeout(within, Client::connect_with(target, options)).await {
            Ok(Ok(client)) if self.before.get().is_some_and(|before| before.is_behind(&client)) => {
                client.close().await;
                Err(self.unreached(ITSELF))
            }
            Ok(Ok(client)) => Ok(client),
            Ok(Err(Error::Died { status, last_words, .. })) => {
                let last_words = Some(last_words.trim()).filter(|words| !words.is_empty()).map(Into::into);
                Err(Unreached { last_words, ..self.unreached(format!("it ended ({status})")) })
            }
            Ok(Err(error)) => {
                let (is_denied, retry_after) = (error.is_denied(), error.retry_after());
                let why = self.not_spoken(&error).unwrap_or_else(|| self.why(&error));
                Err(Unreached { is_denied, retry_after, ..self.unreached(why) })
            }
            Err(_) => Err(self.unreached(format!("it has not answered within {}", format_duration(within)))),
        }
    }

    /// That it does not speak the one revision in which it may be spoken to, if that is what it means by refusing the greeting.
    fn not_spoken(&self, error: &Error) -> Option<String> {
        let (asked, Error::Answer(answer)) = (self.config.revision?, error) else { return None };
        let (name, message) = (&self.config.name, &answer.message);
        (answer.code == Code::METHOD_NOT_FOUND).then(|| {
            format!("it does not speak {asked}, as `revision` of `[servers.{name}]` wants it to: {message}")
        })
    }

    /// It cannot be reached, for that reason.
    pub(super) fn unreached(&self, why: impl Into<Arc<str>>) -> Unreached {
        let server = self.config.name.clone();
        Unreached { server, why: why.into(), last_words: None, is_denied: false, retry_after: None }
    }
}

impl Unreached {
    /// What went wrong, with its last words, if there are any: there may be secrets in them.
    #[must_use]
    pub fn for_operator(&self) -> Arc<str> {
        match &self.last_words {
            Some(words) => format!("{}; its last words: {words}", self.why).into(),
            None => Arc::clone(&self.why),
        }
    }
}

impl State {
    /// A connection has ended: at once another is opened, unless it was none.
    fn lose(&mut self, open: &Open, why: Unreached) {
        if open.since.elapsed() < LASTING {
            self.fail(why);
        } else {
            self.failures = 0;
        }
    }

    /// It is left alone for a while.
    fn fail(&mut self, why: Unreached) {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(16)).min(LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        self.again = Some((Instant::now() + pause, why));
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("config", &self.config).finish_non_exhaustive()
    }
}

const ITSELF: &str = "it is this server itself, to which its address leads back: nothing is served twice";

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A connection that was shorter than this was none.
const LASTING: Duration = Duration::from_secs(10);

/// How long a call waits for a server to be tried again.
const PATIENCE: Duration = Duration::from_secs(5);
