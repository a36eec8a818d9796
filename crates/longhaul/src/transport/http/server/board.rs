//! What nodes that share sessions tell each other: what has come to one of them and is for another.
//!
//! Each has an entry with what it has said within some seconds, which the others read twice a second. No request waits for another
//! node, and nothing is promised: what is said is lost with the node that said it, for those who cannot read that long, and beyond
//! what an entry holds.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_tasks::store::{EntryKey, Holder, Registry, StoreError, Value};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::Endpoint;
use super::session::new_id;
use super::waiting::Standing;
use crate::server::{Elsewhere, News};

/// What is said.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Word {
    /// This node has the session, too.
    TakenOver { session: String },
    /// The client of the session has sent this, which is for a call of another node.
    Sent { session: String, message: String },
    /// This is for the client of the session, and belongs to no request.
    Pushed { session: String, message: String },
    /// What is offered has changed, or a resource has.
    Changed(News),
    /// The same of what every node sees for itself.
    Seen(News),
}

impl Word {
    /// The session that has it said by its doing.
    fn by(&self) -> Option<&str> {
        match self {
            Self::Sent { session, .. } | Self::Pushed { session, .. } => Some(session),
            Self::TakenOver { .. } | Self::Changed(_) | Self::Seen(_) => None,
        }
    }

    /// Whether it may be lost. That a session was taken over its entry says, too.
    fn is_hint(&self) -> bool {
        match self {
            Self::TakenOver { .. } | Self::Pushed { .. } | Self::Changed(_) | Self::Seen(_) => true,
            Self::Sent { .. } => false,
        }
    }

    /// How much there may be of everything with this: what is only a hint leaves room for what somebody waits for.
    fn room(&self) -> usize {
        if self.is_hint() { LARGEST - LARGEST / 4 } else { LARGEST }
    }

    /// Whether it is of use to whoever was not there when it was said. A push was for a client that has been elsewhere since: there it
    /// was told, and maybe newer ones after it. An answer has been accepted, so that somebody waits for it. And what has changed
    /// may have done so since whoever is here came, who would never hear of it; to hear of it once more costs a look.
    fn outlasts(&self) -> bool {
        match self {
            Self::TakenOver { .. } | Self::Sent { .. } | Self::Changed(_) | Self::Seen(_) => true,
            Self::Pushed { .. } => false,
        }
    }
}

/// Where a node says what is for others, and reads what they say.
#[derive(Debug)]
pub(super) struct Board {
    registry: Arc<dyn Registry>,
    name: String,
    said: Mutex<Said>,
    /// Whoever has it writes: what was said first is written first.
    writing: tokio::sync::Mutex<()>,
    /// There is something to write.
    spoken: Notify,
}

/// What this node has said.
#[derive(Debug, Default)]
struct Said {
    /// How much, ever.
    number: u64,
    /// How much of it was written.
    written: u64,
    /// What was too old before it could be, the last time that anything was.
    lost: Range<u64>,
    words: VecDeque<Told>,
    bytes: usize,
}

/// Something that was said, and by whose doing.
#[derive(Debug)]
struct Told {
    spoken: Spoken,
    whose: Option<Standing>,
    at: Instant,
    size: usize,
}

/// What was said, by its number among what its node has said.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Spoken {
    number: u64,
    word: Word,
}

/// Up to where each other node was heard, and when it was last.
type Heard = HashMap<Arc<str>, (u64, Instant)>;

impl Said {
    fn forget_old(&mut self) {
        while let Some(old) = self.words.pop_front_if(|told| told.at.elapsed() > SAID) {
            self.bytes -= old.size;
            if old.spoken.number > self.written {
                self.lost = self.written + 1..old.spoken.number + 1;
            }
        }
    }

    /// How large such a word may be.
    fn room(&self, word: &Word, whose: Option<&Standing>) -> usize {
        let left = |share: usize, counts: &dyn Fn(&Told) -> bool| {
            let its = self.words.iter().filter(|told| counts(told));
            share.saturating_sub(its.map(|told| told.size).sum())
        };
        let mut room = word.room().saturating_sub(self.bytes);
        if let Some(session) = word.by() {
            room = room.min(left(SHARE, &|told| told.spoken.word.by() == Some(session)));
        }
        if whose.is_some() {
            room = room.min(left(OWNERS_SHARE, &|told| told.whose.as_ref() == whose));
        }
        if whose.is_some() && word.is_hint() {
            let is_hint = |told: &Told| told.whose.as_ref() == whose && told.spoken.word.is_hint();
            room = room.min(left(SHARE, &is_hint));
        }
        room
    }

    /// Its number; `None` if there is no room for it.
    fn add(&mut self, word: Word, whose: Option<Standing>) -> Option<u64> {
        self.forget_old();
        let room = self.room(&word, whose.as_ref());
        let spoken = Spoken { number: self.number + 1, word };
        let size = serde_json::to_string(&spoken).map_or(usize::MAX, |said| said.len() + 1);
        if size > room {
            return None;
        }
        self.number += 1;
        self.bytes += size;
        self.words.push_back(Told { spoken, whose, at: Instant::now(), size });
        Some(self.number)
    }

    /// Whether what has this number could be read.
    fn was_told(&self, number: u64) -> bool {
        number <= self.written && !self.lost.contains(&number)
    }
}

impl Board {
    pub(super) fn new(registry: Arc<dyn Registry>) -> Self {
        Self {
            registry,
            name: new_id(),
            said: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
            spoken: Notify::new(),
        }
    }

    /// Says something as soon as it can be, at the cost of `whose` doing it is. `false` if there is no room for it: then it is lost.
    pub(super) fn say(&self, word: Word, whose: Option<Standing>) -> bool {
        let is_said = self.said().add(word, whose).is_some();
        if is_said {
            self.spoken.notify_one();
        } else {
            tracing::debug!("there is no room for what other servers are to be told");
        }
        is_said
    }

    /// Says something, and waits until the others can read it. `false` if they cannot. Dropping the future leaves it said.
    pub(super) async fn say_now(self: &Arc<Self>, word: Word, whose: Option<Standing>) -> bool {
        let number = self.said().add(word, whose);
        let Some(number) = number else { return false };
        self.write().await;
        self.said().was_told(number)
    }

    /// Writes and hears what is said, for as long as it is polled.
    pub(super) async fn keep(self: &Arc<Self>, endpoint: &Endpoint) -> Infallible {
        endpoint.dispatcher.tell_elsewhere(Arc::clone(self) as Arc<dyn Elsewhere>);
        let (mut heard, mut listened, mut written) = (Heard::new(), Instant::now(), Instant::now());
        let mut begins = true;
        loop {
            tokio::select! {
                () = sleep(EVERY.saturating_sub(listened.elapsed())) => {}
                // Nobody reads it more often than that.
                () = self.spoken.notified() => sleep(MOMENT.max((EVERY / 2).saturating_sub(written.elapsed()))).await,
            }
            if !self.is_written() {
                written = Instant::now();
                self.write().await;
            }
            if listened.elapsed() < EVERY {
                continue;
            }
            listened = Instant::now();
            // Nobody is here whom it could concern.
            if !endpoint.sessions.any_open() && !endpoint.dispatcher.is_listened_to() {
                begins = true;
                continue;
            }
            let mut words = Vec::new();
            let read = self.hear(&mut heard, &mut words).await;
            // What was heard is not heard again, whatever could not be read behind it.
            for (node, word) in words.into_iter().filter(|(_, word)| !begins || word.outlasts()) {
                endpoint.hear(&node, word);
            }
            begins = begins && read.is_err();
            if let Err(error) = read {
                tracing::debug!(%error, "what other servers say cannot be read now");
            }
        }
    }

    /// Writes what is said. That goes on though whoever waits for it goes away: an older value that is on its way would else come
    /// after the next one.
    async fn write(self: &Arc<Self>) {
        let this = Arc::clone(self);
        if let Err(error) = tokio::spawn(async move { this.write_in_turn().await }).await {
            tracing::debug!(%error, "other servers were not told what is for them");
        }
    }

    async fn write_in_turn(&self) {
        let _turn = self.writing.lock().await;
        // Whoever had the turn before may have written it.
        if self.is_written() {
            return;
        }
        let (number, words) = {
            let mut said = self.said();
            said.forget_old();
            let words: Vec<_> = said.words.iter().map(|told| &told.spoken).collect();
            (said.number, serde_json::to_vec(&words).expect("numbers and strings are JSON"))
        };
        let key = EntryKey::of_server(KIND, &self.name);
        match self.registry.put(key, Value::lasting(&words, KEPT)).await {
            Ok(_) => self.said().written = number,
            Err(error) => tracing::debug!(%error, "other servers cannot be told now what is for them"),
        }
    }

    /// Says it in as many parts as there is room for.
    fn say_in_parts(&self, news: &News, word: fn(News) -> Word) {
        let mut left = vec![news.clone()];
        while let Some(news) = left.pop() {
            // In parts there may be room for some of it.
            if !self.say(word(news.clone()), None) {
                left.extend(news.halves().into_iter().flatten().rev());
            }
        }
    }

    fn is_written(&self) -> bool {
        let said = self.said();
        said.written == said.number
    }

    /// Adds what the others have said since they were heard last, and who has said it. What cannot be read takes nothing from what was
    /// read before it.
    async fn hear(&self, heard: &mut Heard, words: &mut Vec<(Arc<str>, Word)>) -> Result<(), StoreError> {
        let names = self.registry.names(Holder::Server, KIND, None, EntryKey::LONGEST_NAMES).await?;
        heard.retain(|_, (_, at)| at.elapsed() < REMEMBERED);
        for name in names.into_iter().filter(|name| *name != self.name) {
            let Some(entry) = self.registry.entry(EntryKey::of_server(KIND, &name)).await? else { continue };
            let Ok(said) = serde_json::from_slice::<Vec<&RawValue>>(&entry.value) else { continue };
            let name = Arc::<str>::from(name);
            let (last, at) = heard.entry(Arc::clone(&name)).or_insert_with(|| (0, Instant::now()));
            *at = Instant::now();
            // One of another release may say more than this one can read.
            let said = said.into_iter().filter_map(|said| serde_json::from_str(said.get()).ok());
            for Spoken { number, word } in said {
                if number > *last {
                    *last = number;
                    words.push((Arc::clone(&name), word));
                }
            }
        }
        Ok(())
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Elsewhere for Board {
    fn tell(&self, news: &News) {
        self.say_in_parts(news, Word::Changed);
    }

    fn tell_seen(&self, news: &News) {
        self.say_in_parts(news, Word::Seen);
    }
}

/// How often the others are heard.
const EVERY: Duration = Duration::from_millis(500);

/// How long what is said is gathered before it is written.
const MOMENT: Duration = Duration::from_millis(50);

/// How long what was said is said still: whoever looks late misses none of it.
const SAID: Duration = Duration::from_secs(5);

/// How long it can be read.
const KEPT: Duration = Duration::from_secs(10);

/// How long it is remembered up to where another was heard.
const REMEMBERED: Duration = Duration::from_secs(600);

/// How many bytes are said at once at most.
const LARGEST: usize = 48 << 10;

/// How much of that one session may have said, and how much of it may be hints of one owner's: no client takes all of it from the
/// others.
const SHARE: usize = 12 << 10;

/// How much of it all sessions of one owner may have said.
const OWNERS_SHARE: usize = 24 << 10;

/// What these entries are called.
const KIND: &str = "board";

#[cfg(test)]
mod tests;
