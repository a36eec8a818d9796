//! What the keys are called.

use std::sync::Arc;

use serde::Serialize;

use crate::{EntryKey, Holder, NodeId, Owner, Share, Stream, TaskId};

/// The names of one store's keys. All begin with its name in braces, by which a cluster keeps them on one of its nodes: else no
/// script could see several of them.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    tag: Arc<str>,
}

impl Keys {
    pub(super) fn new(store: &str) -> Self {
        Self { tag: format!("{{{store}}}:").into() }
    }

    /// A key of which there is one.
    pub(super) fn one(&self, name: &str) -> String {
        format!("{}{name}", self.tag)
    }

    /// A task: a hash.
    pub(super) fn task(&self, id: &TaskId) -> String {
        format!("{}task:{id}", self.tag)
    }

    /// How the names of tasks begin.
    pub(super) fn tasks(&self) -> String {
        format!("{}task:", self.tag)
    }

    /// The steps of a task, by their keys: a hash.
    pub(super) fn steps(&self, id: &TaskId) -> String {
        format!("{}steps:{id}", self.tag)
    }

    /// The parts of a task: a list.
    pub(super) fn parts(&self, id: &TaskId) -> String {
        format!("{}parts:{id}", self.tag)
    }

    /// The keys under which parts were given: a hash.
    pub(super) fn given(&self, id: &TaskId) -> String {
        format!("{}given:{id}", self.tag)
    }

    /// The open tasks that one has made, by when: a sorted set.
    pub(super) fn children(&self, id: &TaskId) -> String {
        format!("{}children:{id}", self.tag)
    }

    /// Who [stands](super::tx::Tx) before a task and those that it has made: a hash, which is there for a moment.
    pub(super) fn stand(&self, id: &TaskId) -> String {
        format!("{}stand:{id}", self.tag)
    }

    /// The tasks on which a node has a lease: a sorted set.
    pub(super) fn held(&self, node: &NodeId) -> String {
        format!("{}held:{node}", self.tag)
    }

    /// An owner's tasks by their numbers: a sorted set.
    pub(super) fn tasks_of(&self, owner: &Owner) -> String {
        format!("{}tasks:{}", self.tag, word(owner))
    }

    /// Those of them that are open.
    pub(super) fn open_of(&self, owner: &Owner) -> String {
        format!("{}open:{}", self.tag, word(owner))
    }

    /// The open tasks of a share, by when: a sorted set.
    pub(super) fn open_of_share(&self, share: Share) -> String {
        format!("{}share:{:016x}", self.tag, share.get())
    }

    /// Which open task of an owner's another call joins: a hash.
    pub(super) fn joins_of(&self, owner: &Owner) -> String {
        format!("{}joins:{}", self.tag, word(owner))
    }

    /// Which task an owner made under which key: a hash.
    pub(super) fn calls_of(&self, owner: &Owner) -> String {
        format!("{}calls:{}", self.tag, word(owner))
    }

    /// The streams of a session: a set.
    pub(super) fn session(&self, owner: &Owner, session: &str) -> String {
        format!("{}session:{}", self.tag, word(&(owner, session)))
    }

    /// The channel on which a node listens as long as it lives.
    pub(super) fn node(&self, node: &str) -> String {
        format!("{}node:{node}", self.tag)
    }

    /// The names of a holder's entries of one kind: a sorted set.
    pub(super) fn names(&self, holder: Holder<'_>, kind: &str) -> String {
        format!("{}names:{}", self.tag, word(&(holder.account(), kind)))
    }
}

/// A pattern that is met by these words alone.
pub(super) fn literally(words: &str) -> String {
    let escaped = |c| if "*?[]^\\".contains(c) { vec!['\\', c] } else { vec![c] };
    words.chars().flat_map(escaped).collect()
}

/// What a stream is called among all.
pub(super) fn stream(stream: Stream<'_>) -> String {
    word(&(stream.owner, stream.session, stream.name))
}

/// What an entry is called among all.
pub(super) fn entry(key: EntryKey<'_>) -> String {
    word(&(key.holder.account(), key.kind, key.name))
}

/// As JSON, in which no two different ones are the same.
pub(super) fn word<T: Serialize>(of: &T) -> String {
    serde_json::to_string(of).expect("names can be written")
}
