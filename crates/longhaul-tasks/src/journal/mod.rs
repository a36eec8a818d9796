//! What a handler has learnt from outside itself, each under a stable key, so that it can be entered again and go on
//! where it was.
//!
//! Entered again, a handler asks for the same things under the same keys, and is given what it was given before. A
//! request that is made in several rounds carries its journal along; a task keeps it in its
//! store ([`Keeper`](crate::runner::Keeper)).

mod code;

use longhaul_store::{Json, Step, StepState};

pub use code::Damaged;
pub use longhaul_store::Fingerprint;

/// What a handler has learnt, in the order in which it first asked.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    entries: Vec<(Box<str>, Entry)>,
}

/// What is known under one key.
#[derive(Clone, Debug)]
struct Entry {
    of: Fingerprint,
    learnt: Option<Json>,
}

/// What a journal knows of a question.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a caller must decide what to do in each case")]
pub enum Known {
    /// It was never asked.
    Nothing,
    /// It was asked, and nothing was learnt yet.
    Asked,
    /// This was learnt.
    Learnt(Json),
    /// Something else was asked under this key.
    Otherwise,
}

impl Journal {
    /// Nothing learnt yet.
    pub const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing was asked.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What is known of the question `of` under `key`.
    pub fn find(&self, key: &str, of: Fingerprint) -> Known {
        match self.entry(key) {
            None => Known::Nothing,
            Some(entry) if entry.of != of => Known::Otherwise,
            Some(Entry { learnt: Some(json), .. }) => Known::Learnt(json.clone()),
            Some(_) => Known::Asked,
        }
    }

    /// Notes that this was asked under `key`, in the place of what else was.
    pub fn ask(&mut self, key: &str, of: Fingerprint) {
        self.set(key, Entry { of, learnt: None });
    }

    /// Notes what was learnt.
    pub fn learn(&mut self, key: &str, of: Fingerprint, json: Json) {
        self.set(key, Entry { of, learnt: Some(json) });
    }

    /// Forgets what stands under keys that begin with `prefix`.
    pub fn forget(&mut self, prefix: &str) {
        self.entries.retain(|(key, _)| !key.starts_with(prefix));
    }

    /// All that was learnt, as the steps of a task.
    pub fn learnt(&self) -> impl Iterator<Item = Step> {
        self.entries.iter().filter_map(|(key, entry)| {
            let learnt = entry.learnt.clone()?;
            Some(Step::new(&**key, entry.of, StepState::learnt(learnt)))
        })
    }

    fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|(known, _)| **known == *key).map(|(_, entry)| entry)
    }

    fn set(&mut self, key: &str, entry: Entry) {
        match self.entries.iter_mut().find(|(known, _)| **known == *key) {
            Some((_, known)) => *known = entry,
            None => self.entries.push((key.into(), entry)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Fingerprint = Fingerprint::new([1; 16]);
    const TWO: Fingerprint = Fingerprint::new([2; 16]);

    #[test]
    fn what_was_learnt_answers_its_own_question_and_no_other() {
        let mut journal = Journal::new();
        assert!(matches!(journal.find("k", ONE), Known::Nothing));
        journal.ask("k", ONE);
        assert!(matches!(journal.find("k", ONE), Known::Asked));
        assert!(matches!(journal.find("k", TWO), Known::Otherwise));
        journal.learn("k", ONE, Json::parse("1").unwrap());
        assert!(matches!(journal.find("k", ONE), Known::Learnt(json) if json.as_str() == "1"));
        assert!(matches!(journal.find("k", TWO), Known::Otherwise));
        journal.ask("k", TWO);
        assert!(matches!(journal.find("k", ONE), Known::Otherwise));
        assert_eq!(journal.len(), 1);
    }
}
