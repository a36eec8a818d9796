//! Steps: what a handler does once, however often it is entered again.

use std::fmt;
use std::future::{Future, IntoFuture, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longhaul_proto::jsonrpc::ErrorObject;
use longhaul_tasks::environment::BoxFuture;
use longhaul_tasks::journal::{Fingerprint, Known};
use longhaul_tasks::machine::Refusal;
use longhaul_tasks::runner::{Keeper, StepError};
use longhaul_tasks::store::{Epoch, Json, Step as Recorded, StepState, TaskId, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use super::caught;
use super::context::Cx;
use super::scope::in_key;
use super::tool_result::ToolError;
use crate::hex::hex;

tokio::task_local! {
    /// The key of the step whose body is polled: what is made in it is numbered apart, for it may not run again.
    static IN_STEP: String;
}

type Doing<'a, T> = Pin<Box<dyn Future<Output = Result<T, ToolError>> + Send + 'a>>;
type Body<'a, T> = Box<dyn FnOnce() -> Doing<'a, T> + Send + 'a>;
type Undo = Arc<dyn Fn(Json, String) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;
type Ask<'a, T> = Box<dyn FnOnce(String) -> Doing<'a, Option<T>> + Send + 'a>;

impl Cx {
    /// Does something once: what `body` gives is recorded under `name`, and a handler that is entered again, by a
    /// process that took over, is given that instead. So is an error.
    ///
    /// A tool whose policy lets it be entered again ([`Rerun`](longhaul_tasks::store::Rerun)) should touch the outside
    /// world in steps only, and decide by nothing but its arguments and what steps and answers have told it. In a tool
    /// that is never entered again a step just runs.
    ///
    /// Steps of the same name are numbered in the order in which they are made. Where that order is not always the
    /// same, name them apart, for a pair such as `("shard", 7)` is a name, or make each branch a [scope](Self::scope). A
    /// loop without a bound has a [checkpoint](Self::checkpointed). What a step has recorded as something else than it is
    /// read as now ends the call with `-32603`, `reason: "step_changed"`: a new [version](super::Tool::version) says so
    /// beforehand.
    ///
    /// In a call that is made in rounds (2026-07-28) the first step that is not [`pure`](StepCall::pure) spends the state that
    /// the client has brought: brought again, it leads to what came of the first time, and to no other effect.
    ///
    /// A crash can come between the effect of a step and its record. What is done then is the step's to say: by default
    /// it is done again ([`StepCall::at_most_once`], [`StepCall::reconcile`], [`StepCall::pure`]).
    ///
    /// ```
    /// # use longhaul::{Cx, server::ToolError};
    /// # async fn resolve(name: &str) -> Result<String, std::io::Error> { Ok(name.to_owned()) }
    /// # async fn bill(amount: u64, key: &str) -> Result<String, std::io::Error> { Ok(key.to_owned()) }
    /// async fn order(cx: Cx, name: String) -> Result<String, ToolError> {
    ///     let item = cx.step("resolve", || resolve(&name)).pure().await?;
    ///     let key = cx.effect_key("charge");
    ///     let receipt = cx.step("charge", || bill(250, &key)).at_most_once().await?;
    ///     Ok(format!("{item}: {receipt}"))
    /// }
    /// ```
    pub fn step<'a, T, E, F>(
        &self,
        name: impl StepName,
        body: impl FnOnce() -> F + Send + 'a,
    ) -> StepCall<'a, T>
    where
        T: Serialize + DeserializeOwned + Send + 'a,
        E: Into<ToolError>,
        F: Future<Output = Result<T, E>> + Send + 'a,
    {
        let body: Body<'a, T> = Box::new(move || {
            let doing = body();
            Box::pin(async move { doing.await.map_err(Into::into) })
        });
        let key = self.reserve(&format!("step:{}", in_key(name)));
        StepCall { cx: self.clone(), key, body, care: Care::AtLeastOnce, undo: None }
    }

    /// A key for the effect of the next step of this name: the same in every attempt, and no other step's, in any
    /// task. A service that takes such a key does once what it is asked twice.
    pub fn effect_key(&self, name: impl StepName) -> String {
        let key = self.interview().next(&self.scoped(&format!("step:{}", in_key(name))));
        match self.keeper().and_then(Keeper::id) {
            Some(id) => format!("{id}/{key}"),
            // Nothing of this call is ever done again.
            None => {
                let mut random = [0; 16];
                getrandom::fill(&mut random).expect("the system has randomness");
                format!("{}/{key}", hex(&random))
            }
        }
    }

    /// Waits for so long, counted from when it was first asked for: a crash does not start it anew, and a task that may
    /// be entered again takes no memory meanwhile.
    pub async fn sleep(&self, duration: Duration) {
        let key = self.reserve("sleep");
        self.rest(&key, duration, |now| now.after(duration)).await;
    }

    /// Waits until then, as [`sleep`](Self::sleep) does. A time that is past is not waited for.
    pub async fn sleep_until(&self, time: SystemTime) {
        let key = self.reserve("sleep_until");
        let duration = time.duration_since(SystemTime::now()).unwrap_or_default();
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let due = Time::from_unix_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
        self.rest(&key, duration, |_| due).await;
    }

    async fn rest(&self, key: &str, duration: Duration, due: impl Fn(Time) -> Time) {
        match self.keeper().filter(|keeper| keeper.is_entered_again()) {
            Some(keeper) => {
                if let Err(error) = self.rest_in_task(keeper, key, duration, due).await {
                    self.end(error).await
                }
            }
            None => tokio::time::sleep(duration).await,
        }
    }

    async fn rest_in_task(
        &self,
        keeper: &Keeper,
        key: &str,
        duration: Duration,
        due: impl Fn(Time) -> Time,
    ) -> Result<(), StepError> {
        let of = fingerprint("sleep");
        if keeper.has_let_go(key) {
            // Something else came first, and does again.
            return pending().await;
        }
        let due = match keeper.find(key, of)? {
            Some(StepState::Due(due)) => due,
            Some(StepState::Learnt { .. }) => return Ok(()),
            Some(_) | None => {
                keeper.become_durable(false).await?;
                let Some(now) = keeper.now().filter(|_| keeper.is_durable()) else {
                    tokio::time::sleep(duration).await;
                    return Ok(());
                };
                let due = due(now);
                keeper.record(Recorded::new(key, of, StepState::Due(due))).await?;
                due
            }
        };
        let mut rest = Rest { keeper, key, of, is_over: false };
        keeper.until(due).await;
        rest.is_over = true;
        Ok(())
    }

    /// The time, the same whenever the handler is entered again.
    pub async fn now_once(&self) -> Result<SystemTime, ToolError> {
        let millis = self
            .step("now", || async {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Ok::<_, ToolError>(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
            })
            .pure()
            .await?;
        Ok(UNIX_EPOCH + Duration::from_millis(millis))
    }

    /// A random number, the same whenever the handler is entered again.
    pub async fn random_once(&self) -> Result<u64, ToolError> {
        let draw = || async {
            let mut bytes = [0; 8];
            getrandom::fill(&mut bytes).map_err(|error| ToolError::new(error.to_string()))?;
            Ok::<_, ToolError>(u64::from_le_bytes(bytes))
        };
        self.step("random", draw).pure().await
    }

    /// A random UUID (version 4) in its usual form, the same whenever the handler is entered again.
    ///
    /// # Errors
    ///
    /// When the system has no randomness.
    pub async fn uuid_once(&self) -> Result<String, ToolError> {
        let draw = || async {
            let mut bytes = [0; 16];
            getrandom::fill(&mut bytes).map_err(|error| ToolError::new(error.to_string()))?;
            bytes[6] = bytes[6] & 0x0f | 0x40;
            bytes[8] = bytes[8] & 0x3f | 0x80;
            let hex = hex(&bytes);
            Ok::<_, ToolError>([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
        };
        self.step("uuid", draw).pure().await
    }

    /// The task's id and the fencing number of this attempt, greater than that of every earlier one; `None` while the
    /// call is no task. Whatever keeps the greatest number it has seen of a task can refuse an attempt that does not
    /// know yet that it was taken over.
    pub fn fence(&self) -> Option<(TaskId, Epoch)> {
        let keeper = self.keeper()?;
        Some((keeper.id()?, keeper.epoch()?))
    }

    /// Ends the call: its handler did not do what it had done before, or what it did cannot be kept.
    pub(super) async fn end(&self, error: StepError) -> ! {
        let reason = match error {
            StepError::Diverged { .. } => "nondeterminism",
            StepError::Changed { .. } => "step_changed",
            StepError::Refused(_) => "step_refused",
            _ => "not_durable",
        };
        tracing::error!(%error, reason, "a task's work cannot go on");
        let mut data = serde_json::json!({ "reason": reason });
        if let Some(key) = error.key() {
            data["step"] = key.into();
        }
        if let StepError::Changed { version, .. } = &error {
            data["version"] = version.to_string().into();
        }
        self.interview().end(ErrorObject::internal(super::failure::in_words(&error)).with_data(&data));
        pending().await
    }
}

/// The key of the step in whose body this is asked, if it is in one.
pub(super) fn current() -> Option<String> {
    IN_STEP.try_with(Clone::clone).ok()
}

/// What names a step.
pub trait StepName {
    /// The name.
    fn step_name(&self) -> String;
}

impl StepName for &str {
    fn step_name(&self) -> String {
        (*self).to_owned()
    }
}

impl StepName for String {
    fn step_name(&self) -> String {
        self.clone()
    }
}

impl<N: StepName, K: fmt::Display> StepName for (N, K) {
    fn step_name(&self) -> String {
        format!("{}[{}]", self.0.step_name(), self.1)
    }
}

/// What is done about a step that may have had its effect before a crash.
enum Care<'a, T> {
    /// There is no effect: nothing is written before it.
    Pure,
    AtLeastOnce,
    AtMostOnce,
    Reconcile(Ask<'a, T>),
}

/// A step, done once it is awaited.
#[must_use = "a step is done once it is awaited"]
pub struct StepCall<'a, T> {
    cx: Cx,
    key: String,
    body: Body<'a, T>,
    care: Care<'a, T>,
    undo: Option<Undo>,
}

impl<'a, T> StepCall<'a, T> {
    /// It only reads or computes: to do it again does no harm, and nothing is written before it. It makes no task of
    /// its call.
    pub fn pure(mut self) -> Self {
        self.care = Care::Pure;
        self
    }

    /// It is never done twice: after a crash that may have come behind its effect it is an error.
    pub fn at_most_once(mut self) -> Self {
        self.care = Care::AtMostOnce;
        self
    }

    /// After a crash that may have come behind its effect, `ask` tells by the effect's key what it came to; `None`
    /// where it never happened, and then it is done.
    pub fn reconcile<E, F>(mut self, ask: impl FnOnce(String) -> F + Send + 'a) -> Self
    where
        E: Into<ToolError>,
        F: Future<Output = Result<Option<T>, E>> + Send + 'a,
    {
        self.care = Care::Reconcile(Box::new(move |key| {
            let asking = ask(key);
            Box::pin(async move { asking.await.map_err(Into::into) })
        }));
        self
    }
}

impl<T: DeserializeOwned + Send + 'static> StepCall<'_, T> {
    /// What undoes it: should the task be cancelled or fail, this is done with what the step came to, and with a key
    /// for the effect of undoing it. The steps of a task are undone one after the other, the latest first, when its
    /// caller has long been told how it ended.
    ///
    /// It is done at least once, and again where it fails, panics or takes longer than [`Pace::undo_try`], up to
    /// [`Pace::max_attempts`] times; what then is not undone is logged, and stays with the task for its operator. A crash does not end it: the handler is entered again for it, by
    /// any server that accepts its version, and is given what it had learnt. It goes no further than it had come.
    ///
    /// So what undoes a step is made before anything that could fail, by nothing but arguments and what was learnt. Only
    /// what was recorded is undone: of a step that a crash or a cancel has cut off nobody knows whether it had its effect.
    /// Its tool must be one that [is entered again](longhaul_tasks::store::Rerun) and may become a task: in any other the
    /// call ends before the step is made.
    ///
    /// ```
    /// # use longhaul::{Cx, server::ToolError};
    /// # async fn bill(amount: u64) -> Result<String, std::io::Error> { Ok(amount.to_string()) }
    /// # async fn refund(receipt: String, key: String) -> Result<(), std::io::Error> { Ok(()) }
    /// # async fn ship() -> Result<(), std::io::Error> { Ok(()) }
    /// async fn order(cx: Cx) -> Result<String, ToolError> {
    ///     let receipt = cx.step("charge", || bill(250)).compensate(refund).await?;
    ///     // Should this fail, what was charged is refunded.
    ///     cx.step("ship", ship).await?;
    ///     Ok(receipt)
    /// }
    /// ```
    ///
    /// [`Pace::max_attempts`]: longhaul_tasks::runner::Pace::max_attempts
    /// [`Pace::undo_try`]: longhaul_tasks::runner::Pace::undo_try
    pub fn compensate<E, F>(mut self, undo: impl Fn(T, String) -> F + Send + Sync + 'static) -> Self
    where
        E: Into<ToolError>,
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        let undo = Arc::new(undo);
        self.undo = Some(Arc::new(move |value, key| {
            let undo = Arc::clone(&undo);
            Box::pin(caught::undoing(async move {
                let undone = match serde_json::from_str(value.as_str()) {
                    Ok(value) => undo(value, key),
                    Err(error) => return Err(format!("what it came to cannot be read: {error}")),
                };
                undone.await.map_err(|error| {
                    let error: ToolError = error.into();
                    error.in_words()
                })
            }))
        }));
        self
    }
}

impl<'a, T: Serialize + DeserializeOwned + Send + 'a> IntoFuture for StepCall<'a, T> {
    type Output = Result<T, ToolError>;
    type IntoFuture = Doing<'a, T>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let cx = self.cx.clone();
            match cx.keeper().filter(|keeper| keeper.is_entered_again()) {
                None if self.undo.is_some() => cx.end(not_undone(&self.key)).await,
                None => self.in_rounds().await,
                Some(keeper) => match self.in_task(keeper).await {
                    Ok(outcome) => outcome,
                    Err(error) => cx.end(error).await,
                },
            }
        })
    }
}

impl<T: Serialize + DeserializeOwned + Send> StepCall<'_, T> {
    /// In a call that is no task: where it may be made again in rounds, its journal travels.
    async fn in_rounds(self) -> Result<T, ToolError> {
        let Self { cx, key, body, care, .. } = self;
        let of = fingerprint("step");
        if let Known::Learnt(json) = cx.interview().known(&key, of)
            && let Ok(value) = serde_json::from_str(json.as_str())
        {
            return Ok(value);
        }
        let has_effect = !matches!(care, Care::Pure);
        let _under_way = has_effect.then(|| cx.interview().begin_effect());
        if has_effect {
            cx.spend_state().await;
        }
        let value = match has_effect {
            true => IN_STEP.scope(key.clone(), body()).await?,
            false => body().await?,
        };
        if let Ok(json) = serde_json::value::to_raw_value(&value) {
            cx.interview().learn(&key, of, json.into());
        }
        Ok(value)
    }

    async fn in_task(self, keeper: &Keeper) -> Result<Result<T, ToolError>, StepError> {
        let Self { cx, key, body, care, undo } = self;
        let of = fingerprint("step");
        if keeper.is_undoing() {
            return again(keeper, &key, undo).await;
        }
        let began = match keeper.find(&key, of)? {
            Some(StepState::Learnt { value, is_error: false }) => return read(keeper, &key, &value).map(Ok),
            Some(StepState::Learnt { value, is_error: true }) => return Ok(Err(ToolError::recorded(&value))),
            Some(_) => true,
            None => false,
        };
        if matches!(care, Care::Pure)
            && let Known::Learnt(json) = cx.interview().known(&key, of)
        {
            return read(keeper, &key, &json).map(Ok);
        }
        let is_pure = matches!(care, Care::Pure);
        // Before there is a row a question would end the round in the middle of it.
        let _has_effect = (!is_pure).then(|| cx.interview().begin_effect());
        let effect = || keeper.id().map_or_else(|| key.clone(), |id| format!("{id}/{key}"));
        let _under_way = keeper.body();
        let known = match care {
            Care::AtMostOnce if began => {
                let why = "a crash came before its end was recorded, and it is not done twice";
                let in_doubt = ToolError::new(format!("{key} is in doubt: {why}"));
                return failed(keeper, &key, in_doubt).await;
            }
            Care::Reconcile(ask) if began => match ask(effect()).await {
                Ok(known) => known,
                Err(error) => return failed(keeper, &key, error).await,
            },
            Care::Pure if undo.is_none() => None,
            _ => {
                keeper.become_durable(false).await?;
                if undo.is_some() && !keeper.is_durable() {
                    return Err(not_undone(&key));
                }
                keeper.record(Recorded::new(key.as_str(), of, StepState::Begun)).await?;
                None
            }
        };
        // Nothing was written before it, so nobody else knows when it began.
        let began = if is_pure { keeper.now() } else { None };
        let outcome = match known {
            Some(value) => Ok(value),
            None => IN_STEP.scope(key.clone(), body()).await,
        };
        let state = match &outcome {
            Ok(value) => match serde_json::value::to_raw_value(value) {
                Ok(json) => {
                    let json = Json::from(json);
                    cx.interview().learn(&key, of, json.clone());
                    StepState::learnt(json)
                }
                Err(error) => {
                    let no_json = ToolError::new(format!("{key} gave what is no JSON: {error}"));
                    return failed(keeper, &key, no_json).await;
                }
            },
            Err(error) => StepState::Learnt { value: error.to_record(), is_error: true },
        };
        let owed = undo.filter(|_| outcome.is_ok());
        let owed = owed.map(|_| Recorded::new(owed_key(&key), fingerprint("undo"), StepState::Owed));
        let learnt = began.and_then(|_| keeper.now());
        let step = Recorded::new(key.as_str(), of, state).between(began, learnt);
        let recorded = match owed {
            Some(owed) => keeper.record_owing(step, owed).await,
            None => keeper.record(step).await,
        };
        match recorded {
            Err(StepError::Refused(error)) => {
                if outcome.is_ok() && !is_pure {
                    let task = keeper.id();
                    let task = task.as_ref().map(TaskId::as_str);
                    tracing::error!(task, step = key, %error, "a step has had its effect, which cannot be recorded and will not be undone");
                }
                failed(keeper, &key, ToolError::new(format!("{key}: {error}"))).await
            }
            Err(error) => Err(error),
            Ok(()) => Ok(outcome),
        }
    }
}

/// What its handler is given in place of a result, recorded as one would be: entered again, if only to be undone, it is
/// given the same.
async fn failed<T>(keeper: &Keeper, key: &str, error: ToolError) -> Result<Result<T, ToolError>, StepError> {
    let state = StepState::Learnt { value: error.to_record(), is_error: true };
    match keeper.record(Recorded::new(key, fingerprint("step"), state)).await {
        // There is no room even for that.
        Ok(()) | Err(StepError::Refused(_)) => Ok(Err(error)),
        Err(error) => Err(error),
    }
}

/// A step of work that is entered to learn how it is undone: it says so of what is recorded, and goes no further.
async fn again<T: DeserializeOwned>(
    keeper: &Keeper,
    key: &str,
    undo: Option<Undo>,
) -> Result<Result<T, ToolError>, StepError> {
    match keeper.find(key, fingerprint("step"))? {
        Some(StepState::Learnt { value, is_error: false }) => {
            if let Some(undo) = undo {
                let owed = owed_key(key);
                let effect = keeper.id().map_or_else(|| owed.clone(), |id| format!("{id}/{owed}"));
                let value = value.clone();
                keeper.undo_by(&owed, Box::new(move || undo(value.clone(), effect.clone())));
            }
            read(keeper, key, &value).map(Ok)
        }
        Some(StepState::Learnt { value, is_error: true }) => Ok(Err(ToolError::recorded(&value))),
        _ => pending().await,
    }
}

/// A sleep of work that is entered again. If something else came first it is let go of, so that it is never over for
/// whoever enters the work later.
struct Rest<'a> {
    keeper: &'a Keeper,
    key: &'a str,
    of: Fingerprint,
    is_over: bool,
}

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.keeper.let_go(self.key, self.of);
        }
    }
}

/// The key of what undoes a step.
fn owed_key(key: &str) -> String {
    format!("{key}/undo")
}

fn not_undone(key: &str) -> StepError {
    let why = format!(
        "{key} could not be undone after a crash: its tool needs `rerun = \"resumable\"` and `task`, or the step no `compensate`"
    );
    StepError::NotDurable(Refusal::new(why, false))
}

fn read<T: DeserializeOwned>(keeper: &Keeper, key: &str, value: &Json) -> Result<T, StepError> {
    serde_json::from_str(value.as_str()).map_err(|why| keeper.changed(key, why))
}

/// What kind of step it is: one that is entered again as another is not the same.
pub(super) fn fingerprint(kind: &str) -> Fingerprint {
    let digest: [u8; 32] = Sha256::digest(kind).into();
    let mut first = [0; Fingerprint::LEN];
    first.copy_from_slice(&digest[..Fingerprint::LEN]);
    Fingerprint::new(first)
}

impl<T> fmt::Debug for StepCall<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepCall").field("key", &self.key).finish_non_exhaustive()
    }
}
