//! The parts that the work of one task has given.

use std::{collections::HashSet, ops::Range, sync::Arc};

use crate::{
    Part, Parts, Record,
    part::{LARGEST_STRETCH, LONGEST_STRETCH},
};

#[derive(Debug, Default, PartialEq)]
pub(super) struct Given {
    list: Vec<Part>,
    keys: HashSet<Arc<str>>,
}

impl Given {
    pub(super) fn has(&self, key: &str) -> bool {
        self.keys.contains(key)
    }

    /// Puts these behind the others; tells the numbers that they have, from 0 on.
    pub(super) fn append(&mut self, parts: Vec<Part>) -> Range<u64> {
        let before = self.count();
        self.keys.extend(parts.iter().map(|part| Arc::clone(&part.key)));
        self.list.extend(parts);
        before..self.count()
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.list.len() as u64
    }

    /// The part of this number.
    pub(super) fn at(&self, number: u64) -> Option<&Part> {
        self.list.get(usize::try_from(number).ok()?)
    }

    /// Those of a task behind the first `after`; `given`: what there is of it.
    pub(super) fn stretch(given: Option<&Self>, record: &Record, after: u64, limit: usize) -> Parts {
        let total = u64::from(record.parts);
        let start = after.min(total);
        let (mut parts, mut bytes) = (Vec::new(), 0);
        let list = given.map_or(&[][..], |given| &given.list);
        for part in list.iter().skip(start as usize).take(limit.clamp(1, LONGEST_STRETCH)) {
            bytes += part.content.as_str().len();
            if bytes > LARGEST_STRETCH && !parts.is_empty() {
                break;
            }
            parts.push(part.content.clone());
        }
        Parts::new(start, parts, total, record.is_terminal())
    }
}
