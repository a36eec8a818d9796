//! Tasks as they were seen last, those that were looked for lately, in so much room and no more.

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::RandomState;

use crate::{Outcome, Record, Spell, TaskId};

/// What is known of tasks, by their ids.
#[derive(Debug)]
pub(crate) struct Lately<T> {
    /// Those looked for since the others were put behind. Half the room is for each.
    young: Known<T>,
    /// Those of before, which go when the young ones take their place.
    old: Known<T>,
    /// How many bytes the young ones take.
    taken: usize,
}

type Known<T> = HashMap<TaskId, Arc<T>, RandomState>;

impl<T> Default for Lately<T> {
    fn default() -> Self {
        Self { young: Known::default(), old: Known::default(), taken: 0 }
    }
}

impl<T: AsRef<Record>> Lately<T> {
    pub(crate) fn find(&mut self, id: &TaskId) -> Option<Arc<T>> {
        if let Some(found) = self.young.get(id) {
            return Some(found.clone());
        }
        let (id, found) = self.old.remove_entry(id)?;
        let takes = takes((*found).as_ref());
        self.put(id, found.clone(), takes);
        Some(found)
    }

    /// Keeps a task in the place of what was known of it, unless it is too large for that.
    pub(crate) fn keep(&mut self, task: T) {
        let (id, takes) = (task.as_ref().id.clone(), takes(task.as_ref()));
        match takes <= LARGEST {
            true => self.put(id, Arc::new(task), takes),
            false => self.remove(&id),
        }
    }

    pub(crate) fn remove(&mut self, id: &TaskId) {
        self.young.remove(id);
        self.old.remove(id);
    }

    fn put(&mut self, id: TaskId, task: Arc<T>, takes: usize) {
        if self.taken + takes > ROOM / 2 {
            self.old = std::mem::take(&mut self.young);
            self.taken = 0;
        }
        self.old.remove(&id);
        self.taken += takes;
        self.young.insert(id, task);
    }
}

impl AsRef<Self> for Record {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// How many bytes a task takes here, roughly.
fn takes(record: &Record) -> usize {
    let texts = [&record.arguments, &record.caller].map(|json| json.as_str().len());
    let asked: usize = record.questions.iter().map(|question| question.request.as_str().len()).sum();
    let said = record.progress.as_ref().and_then(|progress| progress.message.as_ref());
    let words = [record.status_message.as_ref(), said, record.cancelling.as_ref()];
    let words: usize = words.into_iter().flatten().map(|words| words.len()).sum();
    let spells = record.spells.len() * size_of::<Spell>();
    let came_to = record.outcome().map_or(0, Outcome::len);
    SMALLEST + texts.iter().sum::<usize>() + asked + words + spells + came_to
}

/// What every task takes: itself, and its names.
pub(crate) const SMALLEST: usize = size_of::<Record>() + 512;

/// How much is kept, in bytes.
pub(crate) const ROOM: usize = 4 << 20;

/// The largest task that is kept, in bytes.
pub(crate) const LARGEST: usize = 64 << 10;
