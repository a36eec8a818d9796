//! What is known of each job, in the registry of the store: it is there before the job is started, and until the task
//! has ended and the API has been told.
//!
//! It is no part of the task, for nothing of a task that has ended can be changed, and whether the API knows of a
//! cancel is learnt after that.

use std::sync::Arc;
use std::time::Duration;

use longhaul::store::{EntryKey, Holder, Registry, StoreError, Swap, TaskId, TaskStore, Value, Version};
use serde::{Deserialize, Serialize};

use super::patience::Patience;

/// What is known of the jobs of one store, by that store's time: what the date is on a node matters to no job.
#[derive(Clone, Debug)]
pub struct Ledger {
    registry: Arc<dyn Registry>,
    store: Arc<dyn TaskStore>,
}

/// What is known of one job.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Known {
    /// When it was begun by the store's time, in milliseconds since 1970.
    pub(super) begun_at: u64,
    /// The name of its tool; nothing where an older release has begun it.
    #[serde(default)]
    pub(super) tool: String,
    /// What the API calls it; `None` while it is being started.
    pub(super) job: Option<Handle>,
    /// The API has said that it is over, so that there is nothing to cancel.
    #[serde(default)]
    pub(super) over: bool,
    /// The token by which the API signs in when it calls back: a start that is sent again is the same to the letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<String>,
    /// The latest call, once one has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) called: Option<Called>,
    /// How it was followed when its task was last put aside.
    #[serde(default, skip_serializing_if = "is_new")]
    pub(super) patience: Patience,
}

fn is_new(patience: &Patience) -> bool {
    *patience == Patience::default()
}

/// An API has called back.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Called {
    /// Which call it is, counted from 1: by that it is known whether it was heard. An older release took one.
    #[serde(default = "first")]
    pub(super) nth: u32,
    /// When it came by the store's time, in milliseconds since 1970.
    #[serde(default)]
    at: u64,
    /// What it says.
    #[serde(flatten)]
    pub(super) said: Said,
}

/// What an API says as it calls back.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Said {
    /// The job's status, where the body of a call is believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<serde_json::Value>,
    /// By that the job has ended: no other call is taken after this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_end: bool,
}

fn first() -> u32 {
    1
}

/// What an API calls a job.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Handle {
    /// Its id, or nothing where its status has a URL.
    pub(super) id: String,
    /// Where its status is, if the API has said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) status_url: Option<String>,
}

/// What is known, as this process has last seen it.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) known: Known,
    version: Version,
}

impl Known {
    fn begun(begun_at: u64, tool: &str, token: Option<String>) -> Self {
        Self {
            begun_at,
            tool: tool.to_owned(),
            job: None,
            over: false,
            token,
            called: None,
            patience: Patience::default(),
        }
    }

    /// What two know together: nothing of it is ever taken back, and the first handle stays. Whoever follows it says how.
    fn with(self, found: &Self) -> Self {
        Self {
            begun_at: self.begun_at.min(found.begun_at),
            tool: if found.tool.is_empty() { self.tool } else { found.tool.clone() },
            job: found.job.clone().or(self.job),
            over: self.over || found.over,
            token: found.token.clone().or(self.token),
            called: found.called.clone().or(self.called),
            patience: self.patience,
        }
    }

    /// The latest call, if whoever is as patient as `patience` has not heard of it.
    pub(super) fn unheard(&self, patience: &Patience) -> Option<&Called> {
        self.called.as_ref().filter(|called| !patience.has_heard(called.nth))
    }

    /// Whether the API has called, and whoever followed it last has not heard of that.
    pub(super) fn is_unheard(&self) -> bool {
        self.unheard(&self.patience).is_some()
    }
}

impl Ledger {
    /// That of this store, whose registry it is.
    #[must_use]
    pub fn new(registry: Arc<dyn Registry>, store: Arc<dyn TaskStore>) -> Self {
        Self { registry, store }
    }

    /// The store's time, in milliseconds since 1970.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.store.now().unix_ms()).unwrap_or(0)
    }

    /// How long ago a job was begun.
    pub(super) fn age(&self, known: &Known) -> Duration {
        Duration::from_millis(self.now().saturating_sub(known.begun_at))
    }

    /// What is known of a job.
    pub(super) async fn find(&self, key: &TaskId) -> Result<Option<Kept>, StoreError> {
        let entry = self.registry.entry(name(key)).await?;
        Ok(entry.map(|entry| Kept { known: self.read(&entry.value), version: entry.version }))
    }

    /// Notes that a job is about to be started, or gives what is known of it already: whether it is new.
    ///
    /// What somebody else began and has not recorded is written again: who began it can forget it no more. `token` is for
    /// the API to call back with, if nothing is known of another one.
    pub(super) async fn begin(
        &self,
        key: &TaskId,
        tool: &str,
        token: Option<String>,
    ) -> Result<(Kept, bool), StoreError> {
        loop {
            let known = Known::begun(self.now(), tool, token.clone());
            let bytes = write(&known);
            match self.registry.compare_and_set(name(key), None, Some(Value::for_ever(&bytes))).await? {
                Swap::Done(Some(entry)) => return Ok((Kept { known, version: entry.version }, true)),
                Swap::Found(Some(entry)) => {
                    let known = self.read(&entry.value);
                    if known.job.is_some() {
                        return Ok((Kept { known, version: entry.version }, false));
                    }
                    let again = Value::for_ever(&entry.value);
                    let swap =
                        self.registry.compare_and_set(name(key), Some(entry.version), Some(again)).await?;
                    if let Swap::Done(Some(entry)) = swap {
                        return Ok((Kept { known, version: entry.version }, false));
                    }
                }
                // Removed as it was looked at.
                Swap::Done(None) | Swap::Found(None) => {}
            }
        }
    }

    /// Adds to what is known; `None` if nothing is any more, for the task has ended.
    ///
    /// What has been written meanwhile is kept, and this is added to it: a node that had stalled may have written it, or
    /// this one, by a write that was said to have failed. Whose the job is, the epoch of its task says.
    pub(super) async fn change(
        &self,
        key: &TaskId,
        kept: &Kept,
        known: Known,
    ) -> Result<Option<Kept>, StoreError> {
        let (mut known, mut version) = (known, kept.version);
        loop {
            let bytes = write(&known);
            // What is over is removed with the end of its task; this is for when nobody comes to do so.
            let value = if known.over { Value::lasting(&bytes, OVER) } else { Value::for_ever(&bytes) };
            match self.registry.compare_and_set(name(key), Some(version), Some(value)).await? {
                Swap::Done(Some(entry)) => return Ok(Some(Kept { known, version: entry.version })),
                Swap::Found(Some(entry)) => {
                    let found = self.read(&entry.value);
                    (known, version) = (known.with(&found), entry.version);
                    if known == found {
                        return Ok(Some(Kept { known, version }));
                    }
                }
                Swap::Done(None) | Swap::Found(None) => return Ok(None),
            }
        }
    }

    /// Notes that the API has called back with this token: `false` if nothing waits for that, for the job has ended.
    ///
    /// A call that says nothing needs no note where another came a moment ago: that one has the job looked at again and again.
    pub(super) async fn call(&self, key: &TaskId, token: &str, said: &Said) -> Result<bool, StoreError> {
        loop {
            let Some(kept) = self.find(key).await? else { return Ok(false) };
            let (known, at) = (kept.known, self.now());
            let is_spent = known.over || known.called.as_ref().is_some_and(|called| called.said.is_end);
            if known.token.as_deref() != Some(token) || is_spent {
                return Ok(false);
            }
            let nth = match &known.called {
                Some(called) if said.status.is_none() && at.abs_diff(called.at) < A_MOMENT => {
                    return Ok(true);
                }
                Some(called) => called.nth.wrapping_add(1),
                None => first(),
            };
            let called = Some(Called { nth, at, said: said.clone() });
            let bytes = write(&Known { called, ..known });
            let value = Value::for_ever(&bytes);
            if self.registry.compare_and_set(name(key), Some(kept.version), Some(value)).await?.is_done() {
                return Ok(true);
            }
        }
    }

    /// The tasks whose jobs it knows, after this one: some, and none only at the end.
    pub(super) async fn keys(&self, after: Option<&str>) -> Result<Vec<String>, StoreError> {
        self.registry.names(Holder::Server, KIND, after, EntryKey::LONGEST_NAMES).await
    }

    /// One that cannot be read is of a later release: it has begun, and that is all there is to say.
    fn read(&self, bytes: &[u8]) -> Known {
        serde_json::from_slice(bytes).unwrap_or_else(|error| {
            tracing::warn!(%error, "what is known of a job cannot be read");
            Known::begun(self.now(), "", None)
        })
    }

    /// Forgets a job, if it is as it was seen.
    pub(super) async fn forget(&self, key: &TaskId, kept: &Kept) -> Result<(), StoreError> {
        self.registry.compare_and_set(name(key), Some(kept.version), None).await.map(|_| ())
    }
}

fn name(key: &TaskId) -> EntryKey<'_> {
    EntryKey::of_server(KIND, key.as_str())
}

fn write(known: &Known) -> Vec<u8> {
    serde_json::to_vec(known).expect("texts and numbers are JSON")
}

const KIND: &str = "http-job";
/// How soon after another call one that says nothing is none, in milliseconds: no sooner is a job looked at again after a call.
const A_MOMENT: u64 = 1000;
const OVER: Duration = Duration::from_secs(30 * 24 * 3600);

#[cfg(test)]
mod tests {
    use longhaul::store::{Memory, Settings, StepClock, Time};

    use super::*;

    fn ledger() -> (Ledger, TaskId) {
        let store = Arc::new(Memory::new());
        (Ledger::new(store.clone(), store), TaskId::new("task-1").unwrap())
    }

    fn handle(id: &str) -> Option<Handle> {
        Some(Handle { id: id.to_owned(), status_url: None })
    }

    #[tokio::test]
    async fn how_old_a_job_is_goes_by_the_time_of_the_store() {
        let clock = StepClock::at(Time::from_unix_ms(1_000_000));
        let store = Arc::new(Memory::with(Settings::default(), Arc::new(clock.clone())));
        let ledger = Ledger::new(store.clone(), store);
        let (begun, _) = ledger.begin(&TaskId::new("task-1").unwrap(), "render", None).await.unwrap();
        clock.advance(Duration::from_secs(90));
        assert_eq!(ledger.age(&begun.known), Duration::from_secs(90));
    }

    #[tokio::test]
    async fn what_a_node_that_had_stalled_wrote_is_no_end_for_the_other() {
        let (ledger, key) = ledger();
        let (begun, _) = ledger.begin(&key, "render", None).await.unwrap();
        let known = Known { job: handle("7"), ..begun.known.clone() };
        let stalled = ledger.change(&key, &begun, known).await.unwrap().unwrap();
        let other = ledger.find(&key).await.unwrap().unwrap();
        let over = Known { over: true, ..stalled.known.clone() };
        ledger.change(&key, &stalled, over.clone()).await.unwrap().unwrap();
        let kept = ledger.change(&key, &other, over.clone()).await.unwrap().unwrap();
        assert_eq!(kept.known, over);
        ledger.forget(&key, &kept).await.unwrap();
        assert!(ledger.find(&key).await.unwrap().is_none(), "it was of the version that was found");
    }

    #[tokio::test]
    async fn of_two_that_start_a_job_the_first_to_record_names_it() {
        let (ledger, key) = ledger();
        let (begun, new) = ledger.begin(&key, "render", None).await.unwrap();
        let (again, new_again) = ledger.begin(&key, "render", None).await.unwrap();
        assert_eq!((new, new_again), (true, false));
        let known = |id| Known { job: handle(id), ..begun.known.clone() };
        ledger.change(&key, &begun, known("7")).await.unwrap().unwrap();
        let kept = ledger.change(&key, &again, known("8")).await.unwrap().unwrap();
        assert_eq!(kept.known.job, handle("7"));
        let over = Known { over: true, ..known("8") };
        let kept = ledger.change(&key, &again, over).await.unwrap().unwrap();
        assert_eq!((kept.known.job, kept.known.over), (handle("7"), true));
    }

    /// A6 of `conformance/REQUIREMENTS.md`.
    #[tokio::test]
    async fn an_api_is_heard_with_its_own_token_until_it_has_said_that_a_job_has_ended() {
        let (ledger, key) = ledger();
        let (begun, _) = ledger.begin(&key, "render", Some("ours".to_owned())).await.unwrap();
        let said = |status: &str| Said { status: Some(status.into()), is_end: status == "done" };
        let hear = |token, status| {
            let (ledger, key, said) = (&ledger, &key, said(status));
            async move { ledger.call(key, token, &said).await.unwrap() }
        };
        let found = || async { ledger.find(&key).await.unwrap().unwrap().known };
        assert!(!hear("another", "done").await && !hear("", "done").await);
        assert!(hear("ours", "begun").await && hear("ours", "half").await);
        let called = found().await.called.unwrap();
        assert_eq!((called.nth, &called.said), (2, &said("half")));
        assert!(hear("ours", "done").await);
        assert!(!hear("ours", "failed").await, "it has said that it has ended");
        assert_eq!(found().await.called.map(|called| called.said), Some(said("done")));
        // Who has not heard of the call takes nothing of it back.
        let over = Known { over: true, ..begun.known.clone() };
        let kept = ledger.change(&key, &begun, over).await.unwrap().unwrap();
        assert_eq!(kept.known.called.map(|called| called.said), Some(said("done")));
        assert!(!ledger.call(&key, "ours", &Said::default()).await.unwrap());
    }

    /// D7 of `conformance/REQUIREMENTS.md`.
    #[tokio::test]
    async fn each_call_of_an_api_is_heard_once_and_many_in_a_moment_are_one() {
        let clock = StepClock::at(Time::from_unix_ms(1_000_000));
        let store = Arc::new(Memory::with(Settings::default(), Arc::new(clock.clone())));
        let (ledger, key) = (Ledger::new(store.clone(), store), TaskId::new("task-1").unwrap());
        ledger.begin(&key, "render", Some("ours".to_owned())).await.unwrap();
        let call = || async { ledger.call(&key, "ours", &Said::default()).await.unwrap() };
        let found = || async { ledger.find(&key).await.unwrap().unwrap() };
        assert!(call().await && call().await);
        let mut patience = Patience::default();
        let known = found().await.known;
        assert_eq!(known.unheard(&patience).map(|called| called.nth), Some(1));
        patience.call(1);
        assert_eq!(known.unheard(&patience), None);
        clock.advance(Duration::from_secs(1));
        assert!(call().await);
        assert_eq!(found().await.known.unheard(&patience).map(|called| called.nth), Some(2));
        patience.call(2);
        // A node of an older release has written the entry: it counts no calls, and one too many is heard.
        let older: Called = serde_json::from_str("{}").unwrap();
        assert_eq!((older.nth, patience.has_heard(older.nth)), (1, false));
    }

    #[tokio::test]
    async fn who_began_first_cannot_forget_what_another_starts() {
        let (ledger, key) = ledger();
        let (begun, _) = ledger.begin(&key, "render", None).await.unwrap();
        let (again, _) = ledger.begin(&key, "render", None).await.unwrap();
        assert_eq!(again.known, begun.known, "it is as old as it was");
        ledger.forget(&key, &begun).await.unwrap();
        let known = Known { job: handle("7"), ..again.known.clone() };
        assert!(ledger.change(&key, &again, known).await.unwrap().is_some());
    }
}
