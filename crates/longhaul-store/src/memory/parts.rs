//! The parts that the work of one task has given.

use std::{collections::HashSet, sync::Arc};

use crate::{
    Part, PartContent, Parts, Record,
    part::{LARGEST_STRETCH, LONGEST_STRETCH},
};

#[derive(Debug, Default)]
pub(super) struct Given {
    list: Vec<PartContent>,
    keys: HashSet<Arc<str>>,
}

impl Given {
    pub(super) fn has(&self, key: &str) -> bool {
        self.keys.contains(key)
    }

    pub(super) fn append(&mut self, parts: Vec<Part>) {
        for Part { key, content } in parts {
            self.keys.insert(key);
            self.list.push(content);
        }
    }

    /// Those of a task behind the first `after`; `given`: what there is of it.
    pub(super) fn stretch(given: Option<&Self>, record: &Record, after: u64, limit: usize) -> Parts {
        let total = u64::from(record.parts);
        let start = after.min(total);
        let (mut parts, mut bytes) = (Vec::new(), 0);
        let list = given.map_or(&[][..], |given| &given.list);
        for part in list.iter().skip(start as usize).take(limit.clamp(1, LONGEST_STRETCH)) {
            bytes += part.as_str().len();
            if bytes > LARGEST_STRETCH && !parts.is_empty() {
                break;
            }
            parts.push(part.clone());
        }
        Parts::new(start, parts, total, record.is_terminal())
    }
}
