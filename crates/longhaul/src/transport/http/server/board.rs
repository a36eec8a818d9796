//! What nodes that share sessions tell each other: what has come to one of them and is for another.
//!
//! Each has an entry with what it has said within some seconds, which the others read twice a second. No request waits for another
//! node, and nothing is promised: what is said is lost with the node that said it, for those who cannot read that long, and beyond
//! what an entry holds.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_tasks::store::{EntryKey, Holder, Registry, StoreError, Value};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::Endpoint;
use super::session::new_id;
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
}

impl Word {
    /// The session that has it said by its doing.
    fn by(&self) -> Option<&str> {
        match self {
            Self::Sent { session, .. } | Self::Pushed { session, .. } => Some(session),
            Self::TakenOver { .. } | Self::Changed(_) => None,
        }
    }

    /// How much there may be of everything with this: what is only a hint leaves room for what somebody waits for.
    fn room(&self) -> usize {
        match self {
            Self::TakenOver { .. } | Self::Sent { .. } => LARGEST,
            Self::Pushed { .. } | Self::Changed(_) => LARGEST - LARGEST / 4,
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
    number: u64,
    words: VecDeque<(Spoken, Instant, usize)>,
    bytes: usize,
    is_written: bool,
}

/// What was said, by its number among what its node has said.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Spoken {
    number: u64,
    word: Word,
}

/// Up to where each other node was heard, and when it was last.
type Heard = HashMap<String, (u64, Instant)>;

impl Said {
    fn forget_old(&mut self) {
        while self.words.front().is_some_and(|(_, at, _)| at.elapsed() > SAID) {
            self.bytes -= self.words.pop_front().map_or(0, |(.., size)| size);
        }
    }

    /// How large such a word may be.
    fn room(&self, word: &Word) -> usize {
        let room = word.room().saturating_sub(self.bytes);
        let Some(session) = word.by() else { return room };
        let its = self.words.iter().filter(|(spoken, ..)| spoken.word.by() == Some(session));
        room.min(SHARE.saturating_sub(its.map(|(.., size)| size).sum()))
    }

    /// `false` if there is no room for it.
    fn add(&mut self, word: Word) -> bool {
        self.forget_old();
        let room = self.room(&word);
        let spoken = Spoken { number: self.number + 1, word };
        let size = serde_json::to_string(&spoken).map_or(usize::MAX, |said| said.len() + 1);
        if size > room {
            return false;
        }
        self.number += 1;
        self.bytes += size;
        self.words.push_back((spoken, Instant::now(), size));
        self.is_written = false;
        true
    }
}

impl Board {
    pub(super) fn new(registry: Arc<dyn Registry>) -> Self {
        let said = Said { is_written: true, ..Said::default() };
        Self {
            registry,
            name: new_id(),
            said: Mutex::new(said),
            writing: tokio::sync::Mutex::default(),
            spoken: Notify::new(),
        }
    }

    /// Says something as soon as it can be. `false` if there is no room for it: then it is lost.
    pub(super) fn say(&self, word: Word) -> bool {
        let is_said = self.said().add(word);
        if is_said {
            self.spoken.notify_one();
        } else {
            tracing::debug!("there is no room for what other servers are to be told");
        }
        is_said
    }

    /// Says something, and waits until the others can read it. `false` if they cannot.
    pub(super) async fn say_now(&self, word: Word) -> bool {
        let is_said = self.said().add(word);
        is_said && self.write().await.is_ok()
    }

    /// Writes and hears what is said, for as long as it is polled.
    pub(super) async fn keep(self: &Arc<Self>, endpoint: &Endpoint) -> Infallible {
        endpoint.dispatcher.tell_elsewhere(Arc::clone(self) as Arc<dyn Elsewhere>);
        let (mut heard, mut listened, mut written) = (Heard::new(), Instant::now(), Instant::now());
        loop {
            tokio::select! {
                () = sleep(EVERY.saturating_sub(listened.elapsed())) => {}
                // Nobody reads it more often than that.
                () = self.spoken.notified() => sleep(MOMENT.max((EVERY / 2).saturating_sub(written.elapsed()))).await,
            }
            let is_written = self.said().is_written;
            if !is_written {
                written = Instant::now();
                if let Err(error) = self.write().await {
                    tracing::debug!(%error, "other servers cannot be told now what is for them");
                }
            }
            if listened.elapsed() < EVERY {
                continue;
            }
            listened = Instant::now();
            // Nobody is here whom it could concern.
            if !endpoint.sessions.any_open() && !endpoint.dispatcher.is_listened_to() {
                continue;
            }
            match self.hear(&mut heard).await {
                Ok(words) => words.into_iter().for_each(|word| endpoint.hear(word)),
                Err(error) => tracing::debug!(%error, "what other servers say cannot be read now"),
            }
        }
    }

    async fn write(&self) -> Result<(), StoreError> {
        let _turn = self.writing.lock().await;
        let words = {
            let mut said = self.said();
            said.forget_old();
            said.is_written = true;
            let words: Vec<_> = said.words.iter().map(|(spoken, ..)| spoken).collect();
            serde_json::to_vec(&words).expect("numbers and strings are JSON")
        };
        let written =
            self.registry.put(EntryKey::of_server(KIND, &self.name), Value::lasting(&words, KEPT)).await;
        if written.is_err() {
            self.said().is_written = false;
        }
        written.map(drop)
    }

    /// What the others have said since they were heard last.
    async fn hear(&self, heard: &mut Heard) -> Result<Vec<Word>, StoreError> {
        let names = self.registry.names(Holder::Server, KIND, None, EntryKey::LONGEST_NAMES).await?;
        heard.retain(|_, (_, at)| at.elapsed() < REMEMBERED);
        let mut words = Vec::new();
        for name in names.into_iter().filter(|name| *name != self.name) {
            let Some(entry) = self.registry.entry(EntryKey::of_server(KIND, &name)).await? else { continue };
            // One of another release may say more than this one can read.
            let Ok(said) = serde_json::from_slice::<Vec<Spoken>>(&entry.value) else { continue };
            let (last, at) = heard.entry(name).or_insert_with(|| (0, Instant::now()));
            *at = Instant::now();
            for Spoken { number, word } in said {
                if number > *last {
                    *last = number;
                    words.push(word);
                }
            }
        }
        Ok(words)
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Elsewhere for Board {
    fn tell(&self, news: &News) {
        let mut left = vec![news.clone()];
        while let Some(news) = left.pop() {
            // In parts there may be room for some of it.
            if !self.say(Word::Changed(news.clone())) {
                left.extend(news.halves().into_iter().flatten().rev());
            }
        }
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

/// How much of that one session may have said: no client takes all of it from the others.
const SHARE: usize = LARGEST / 4;

/// What these entries are called.
const KIND: &str = "board";

#[cfg(test)]
mod tests {
    use longhaul_tasks::store::Memory;

    use super::*;

    fn word(session: &str) -> Word {
        Word::TakenOver { session: session.to_owned() }
    }

    #[tokio::test]
    async fn each_node_hears_once_what_the_others_say() {
        let registry = Arc::new(Memory::new());
        let [one, two] = [(); 2].map(|()| Board::new(Arc::<Memory>::clone(&registry)));
        let [mut heard, mut late] = [Heard::new(), Heard::new()];
        assert!(one.say_now(word("a")).await && one.say_now(word("b")).await);
        assert_eq!(two.hear(&mut heard).await.unwrap(), [word("a"), word("b")]);
        assert_eq!(one.hear(&mut Heard::new()).await.unwrap(), [], "its own it knows");
        assert!(one.say_now(word("c")).await);
        assert_eq!(two.hear(&mut heard).await.unwrap(), [word("c")]);
        assert_eq!(two.hear(&mut late).await.unwrap().len(), 3, "who looks late misses none");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_said_has_a_bound_and_its_time() {
        let board = Board::new(Arc::new(Memory::new()));
        let long = "x".repeat(LARGEST / 2);
        assert!(board.say(word(&long)));
        assert!(!board.say(word(&long)), "there is no room");
        assert!(board.say(word("short")));
        tokio::time::advance(SAID + Duration::from_secs(1)).await;
        assert!(board.say(word(&long)), "what was said long enough makes room");
    }

    #[test]
    fn no_session_and_no_hint_takes_all_the_room() {
        let board = Board::new(Arc::new(Memory::new()));
        let message = "x".repeat(SHARE / 2);
        let sent = |session: &str| Word::Sent { session: session.to_owned(), message: message.clone() };
        let pushed = |session: &str| Word::Pushed { session: session.to_owned(), message: message.clone() };
        assert!(board.say(pushed("a")) && !board.say(pushed("a")), "a session has its share");
        assert!(!board.say(sent("a")));
        let hints = ["b", "c", "d", "e", "f"].map(|session| board.say(pushed(session)));
        assert_eq!(hints, [true, true, true, true, false]);
        assert!(board.say(sent("f")), "there is room for what is no hint");
    }

    #[test]
    fn news_that_are_too_large_are_told_in_parts() {
        let board = Board::new(Arc::new(Memory::new()));
        let uris: Vec<_> = (0..3).map(|n| format!("app://{n}/{}", "x".repeat(LARGEST / 3))).collect();
        let news = serde_json::from_value(serde_json::json!({"tools": true, "uris": uris})).unwrap();
        board.tell(&news);
        let said = board.said();
        let told =
            serde_json::to_string(&said.words.iter().map(|(spoken, ..)| &spoken.word).collect::<Vec<_>>());
        let told = told.unwrap();
        let heard = uris.iter().filter(|uri| told.contains(uri.as_str())).count();
        assert_eq!((heard, told.contains(r#""tools":true"#)), (2, true));
    }
}
