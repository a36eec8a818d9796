//! Which states are spent, and what came of it: entries that nodes share, or of this process.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longhaul_proto::jsonrpc::ErrorObject;
use longhaul_tasks::store::{
    EntryKey, Memory, Owner, Registry, Settings, StoreError, Swap, SystemClock, Value, Version,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::chain::Chain;
use super::held::Nonce;
use crate::hex::hex;
use crate::seal::random;

/// How many spent states a process remembers that shares no registry; the next effect is refused.
const REMEMBERED: u64 = 50_000;

/// Bytes of an answer that is kept for other nodes.
const LONGEST_ANSWER: usize = 16 << 10;

/// How long whoever is at work is believed to be so without a word, where other nodes wait for it.
pub(super) const LEASE: Duration = Duration::from_secs(30);

/// After how many states there is a look for those that nobody needs to remember any more.
const SWEEP_EVERY: usize = 64;

/// One use of a state.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) owner: Owner,
    pub(super) chain: Chain,
    /// Which of its uses.
    pub(super) usage: Nonce,
}

/// What is known of a spent state.
#[derive(Deserialize, Serialize)]
struct Note {
    /// Which use of it has spent it, in which process.
    usage: String,
    process: String,
    came: Came,
}

/// What came of a spent state.
#[derive(Deserialize, Serialize)]
pub(super) enum Came {
    /// Whoever has spent it is at work, and says so [again and again](Hearing).
    UnderWay,
    /// This result, as it was written.
    Result(Box<RawValue>),
    Error(ErrorObject),
    /// Something that is not kept here.
    NotKept,
    /// Nobody knows: whoever was at work is gone.
    Lost,
}

/// Who waits hears from whoever is at work, word by word. How long ago the last one came is told by the listener's own
/// clock, for those of nodes differ.
pub(super) struct Hearing {
    last: Option<Version>,
    at: Instant,
}

impl Hearing {
    pub(super) fn new() -> Self {
        Self { last: None, at: Instant::now() }
    }

    /// Whether whoever has said this last may still be at work.
    pub(super) fn believes(&mut self, word: Version) -> bool {
        if self.last.replace(word) != Some(word) {
            self.at = Instant::now();
        }
        self.at.elapsed() <= LEASE
    }
}

/// The spent states of one server.
pub(super) struct Ledger {
    registry: Arc<dyn Registry>,
    /// Other nodes read it, too.
    pub(super) is_shared: bool,
    /// For how long a state is good.
    patience: Duration,
    process: String,
    spent: AtomicUsize,
}

impl Ledger {
    pub(super) fn new(shared: Option<Arc<dyn Registry>>, patience: Duration) -> Self {
        let is_shared = shared.is_some();
        let registry = shared.unwrap_or_else(|| {
            let mut settings = Settings::default();
            settings.limits.max_entries = REMEMBERED;
            Arc::new(Memory::with(settings, Arc::new(SystemClock::new())))
        });
        Self { registry, is_shared, patience, process: hex(&random::<16>()), spent: AtomicUsize::new(0) }
    }

    /// Spends a state; `None` if another use has.
    pub(super) async fn spend(&self, by: &Use) -> Result<Option<Version>, StoreError> {
        if self.spent.fetch_add(1, Ordering::Relaxed) % SWEEP_EVERY == SWEEP_EVERY - 1 {
            self.registry.sweep_entries(2 * SWEEP_EVERY).await?;
        }
        Ok(match self.swap(by, None).await? {
            Swap::Done(entry) => entry.map(|entry| entry.version),
            // Whoever let go of this while it was written may have written it all the same.
            Swap::Found(Some(entry)) => {
                let ours = |note: &Note| note.usage == hex(&by.usage) && note.process == self.process;
                read(&entry.value).filter(ours).map(|_| entry.version)
            }
            Swap::Found(None) => None,
        })
    }

    /// Says that whoever has spent it is still at work; `None` if something else was said since.
    pub(super) async fn renew(&self, by: &Use, version: Version) -> Result<Option<Version>, StoreError> {
        Ok(match self.swap(by, Some(version)).await? {
            Swap::Done(entry) => entry.map(|entry| entry.version),
            Swap::Found(_) => None,
        })
    }

    /// Keeps what came of it.
    pub(super) async fn keep(&self, by: &Use, came: Came) -> Result<(), StoreError> {
        let (name, note) = (hex(&by.chain.nonce), self.note(by, came));
        let value = Value::lasting(&note, by.chain.outlasting(self.patience));
        self.registry.put(EntryKey::of(&by.owner, KIND, &name), value).await.map(drop)
    }

    /// What is known of a state, if it is spent. What this process was at work on, and is not any more, is lost; of what
    /// another is at work on, something has to be `heard` now and then. Whoever has waited in vain says so to all who come later.
    pub(super) async fn find(&self, by: &Use, heard: &mut Hearing) -> Result<Option<Came>, StoreError> {
        let name = hex(&by.chain.nonce);
        let entry = self.registry.entry(EntryKey::of(&by.owner, KIND, &name)).await?;
        let Some(entry) = entry else { return Ok(None) };
        Ok(Some(match read(&entry.value) {
            Some(note @ Note { came: Came::UnderWay, .. }) if note.process != self.process => {
                if heard.believes(entry.version) || !self.lose(by, entry.version, note).await {
                    Came::UnderWay
                } else {
                    Came::Lost
                }
            }
            Some(Note { came: Came::UnderWay, .. }) | None => Came::Lost,
            Some(note) => note.came,
        }))
    }

    /// Says that whoever is at work is gone, unless there is a newer word; whether it is so.
    async fn lose(&self, by: &Use, last: Version, note: Note) -> bool {
        let name = hex(&by.chain.nonce);
        let value = written(&Note { came: Came::Lost, ..note });
        let value = Value::lasting(&value, by.chain.outlasting(self.patience));
        let swap = self
            .registry
            .compare_and_set(EntryKey::of(&by.owner, KIND, &name), Some(last), Some(value))
            .await;
        match swap {
            Ok(swap) => matches!(swap, Swap::Done(_)),
            Err(error) => {
                tracing::warn!(%error, "that a call in rounds is lost cannot be told to who comes later");
                true
            }
        }
    }

    async fn swap(&self, by: &Use, expected: Option<Version>) -> Result<Swap, StoreError> {
        let (name, note) = (hex(&by.chain.nonce), self.note(by, Came::UnderWay));
        let value = Value::lasting(&note, by.chain.outlasting(self.patience));
        self.registry.compare_and_set(EntryKey::of(&by.owner, KIND, &name), expected, Some(value)).await
    }

    fn note(&self, by: &Use, came: Came) -> Vec<u8> {
        written(&Note { usage: hex(&by.usage), process: self.process.clone(), came })
    }
}

impl Came {
    /// What is kept of an answer for those who cannot ask this process for it.
    pub(super) fn of_answer(message: &[u8]) -> Self {
        Self::of_answer_within(message, LONGEST_ANSWER)
    }

    /// The same of an answer of so many bytes at most.
    pub(super) fn of_answer_within(message: &[u8], longest: usize) -> Self {
        #[derive(Deserialize)]
        struct Answer {
            result: Option<Box<RawValue>>,
            error: Option<ErrorObject>,
        }
        if message.len() > longest {
            return Self::NotKept;
        }
        match serde_json::from_slice(message) {
            Ok(Answer { result: Some(result), .. }) => Self::Result(result),
            Ok(Answer { error: Some(error), .. }) => Self::Error(error),
            Ok(Answer { .. }) | Err(_) => Self::NotKept,
        }
    }
}

fn written(note: &Note) -> Vec<u8> {
    serde_json::to_vec(note).expect("texts, numbers and JSON are JSON")
}

fn read(value: &[u8]) -> Option<Note> {
    let note = serde_json::from_slice(value);
    note.inspect_err(|error| tracing::warn!(%error, "what became of a spent state cannot be read")).ok()
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("registry", &self.registry).finish_non_exhaustive()
    }
}

/// How often whoever is at work says so.
pub(super) const RENEWAL: Duration = Duration::from_secs(LEASE.as_secs() / 3);

/// What its entries are called among those of the registry.
const KIND: &str = "spent-state";

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_new_for_long_is_gone_and_who_does_is_not() {
        let mut heard = Hearing::new();
        for word in 1..=9 {
            assert!(heard.believes(Version::new(word)), "{word}");
            tokio::time::advance(LEASE).await;
            assert!(heard.believes(Version::new(word)), "{word}");
        }
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!heard.believes(Version::new(9)));
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_waited_in_vain_tells_all_who_come_later() {
        let registry: Arc<dyn Registry> =
            Arc::new(Memory::with(Settings::default(), Arc::new(SystemClock::new())));
        let ledger = || Ledger::new(Some(Arc::clone(&registry)), Duration::from_secs(600));
        let by = Use { owner: Owner::Anonymous, chain: Chain::begin(), usage: random() };
        let (gone, here, there) = (ledger(), ledger(), ledger());
        let spent = gone.spend(&by).await.unwrap().unwrap();
        let is_lost = async |at: &Ledger, heard: &mut Hearing| match at.find(&by, heard).await.unwrap() {
            Some(Came::UnderWay) => false,
            Some(Came::Lost) => true,
            _ => panic!("it is spent, and nothing came of it"),
        };
        let mut heard = Hearing::new();
        assert!(!is_lost(&here, &mut heard).await);
        tokio::time::advance(LEASE + Duration::from_millis(1)).await;
        // It was at work all the while, and the next word is waited for.
        let spent = gone.renew(&by, spent).await.unwrap().unwrap();
        assert!(!is_lost(&here, &mut heard).await);
        tokio::time::advance(LEASE + Duration::from_millis(1)).await;
        assert!(is_lost(&here, &mut heard).await);
        assert!(is_lost(&there, &mut Hearing::new()).await, "who comes later waits for nothing");
        assert!(gone.renew(&by, spent).await.unwrap().is_none());
    }
}
