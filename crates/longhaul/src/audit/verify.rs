//! Whether a trail in a folder is what was written.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::Path;

use super::entry::{MISSED, NOTHING_BEFORE, REMOVED, digest};
use super::folder::{Part, parts};
use super::{Entry, Head};

/// What was found of a trail.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Verdict {
    /// How many entries there are.
    pub entries: u64,
    /// In how many files.
    pub files: usize,
    /// The last entry of each chain: whoever keeps these elsewhere can show later that none before was changed.
    pub heads: Vec<Head>,
    /// What is not as it was written, a sentence each.
    pub problems: Vec<String>,
    /// What is odd and may be, a sentence each: an entry that was cut off when its process was killed, events that were missed.
    pub remarks: Vec<String>,
}

/// The longest line that is an entry.
const LONGEST: u64 = 1 << 20;

/// Reads the whole trail in `folder` and finds what was changed in it, taken out of it or put between; also whether these
/// digests of entries, kept from before, are in it.
///
/// Whoever may write the folder can write all of it anew, or remove it: only a digest that was kept elsewhere shows that.
///
/// # Errors
///
/// When it cannot be read. A folder that is not there is one without entries where digests were kept of it.
pub fn verify(folder: impl AsRef<Path>, kept: &[String]) -> io::Result<Verdict> {
    let parts = match parts(folder.as_ref()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !kept.is_empty() => Vec::new(),
        parts => parts?,
    };
    let mut expected = Expected::default();
    for part in &parts {
        each(part, |line| {
            if let Line::Entry(entry, _) = line {
                expected.learn(&entry);
            }
        })?;
    }
    let mut verdict = Verdict { files: parts.len(), ..Verdict::default() };
    let mut kept: HashSet<&str> = kept.iter().map(String::as_str).collect();
    for chain in parts.chunk_by(|one, next| one.node == next.node) {
        let mut last: Option<Head> = None;
        for part in chain {
            each(part, |line| match line {
                Line::Entry(entry, hash) => {
                    kept.remove(&*hash);
                    let head = Head { node: part.node.clone(), seq: entry.seq, hash };
                    verdict.problems.extend(expected.problem(&entry, &head, last.as_ref(), part));
                    verdict.remarks.extend(remark(&entry));
                    verdict.entries += 1;
                    last = Some(head);
                }
                Line::CutOff => verdict.remarks.push(format!(
                    "{}: the last entry is cut off, as when its process is killed while it writes",
                    part.path.display()
                )),
                Line::Unreadable(number) => verdict
                    .problems
                    .push(format!("{}: line {number} is no entry of a trail", part.path.display())),
            })?;
        }
        verdict.heads.extend(last);
    }
    verdict.problems.extend(expected.missing());
    verdict.problems.extend(kept.into_iter().map(|hash| format!("no entry has the digest {hash}")));
    Ok(verdict)
}

/// Every entry of the trail in `folder`, the earlier first.
///
/// # Errors
///
/// When it cannot be read.
pub fn entries(folder: impl AsRef<Path>, mut wanted: impl FnMut(&Entry) -> bool) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for part in parts(folder.as_ref())? {
        each(&part, |line| {
            if let Line::Entry(entry, _) = line
                && wanted(&entry)
            {
                entries.push(*entry);
            }
        })?;
    }
    entries.sort_by(|a, b| a.at.cmp(&b.at));
    Ok(entries)
}

pub(super) enum Line {
    /// An entry and its digest.
    Entry(Box<Entry>, String),
    /// The end of a file that is not the end of a line.
    CutOff,
    /// A line that is none, by its number.
    Unreadable(u64),
}

/// Each line of a file.
pub(super) fn each(part: &Part, mut take: impl FnMut(Line)) -> io::Result<()> {
    let mut file = BufReader::new(File::open(&part.path)?);
    let (mut line, mut number) = (Vec::new(), 0);
    loop {
        line.clear();
        if file.by_ref().take(LONGEST).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        number += 1;
        let whole = line.pop_if(|byte| *byte == b'\n').is_some();
        match serde_json::from_slice::<Entry>(&line) {
            Ok(entry) if whole => take(Line::Entry(Box::new(entry), digest(&line))),
            _ if !whole && (line.len() as u64) < LONGEST => take(Line::CutOff),
            _ => take(Line::Unreadable(number)),
        }
    }
}

fn remark(entry: &Entry) -> Option<String> {
    let count = entry.count.filter(|_| entry.what == MISSED)?;
    Some(format!("{}: {count} events before entry {} could not be noted", entry.node, entry.seq))
}

/// What entries say of others.
#[derive(Default)]
struct Expected {
    /// By whose chain and number, the digests of entries that must be there; not those that were found.
    heads: HashMap<(String, u64), HashSet<String>>,
    /// The last entries of files that were removed because there were too many.
    removed: HashMap<String, Vec<Head>>,
}

impl Expected {
    fn learn(&mut self, entry: &Entry) {
        for head in &entry.heads {
            match &*entry.what {
                REMOVED => self.removed.entry(head.node.clone()).or_default().push(head.clone()),
                _ => {
                    let at = (head.node.clone(), head.seq);
                    self.heads.entry(at).or_default().insert(head.hash.clone());
                }
            }
        }
    }

    /// What is wrong with an entry that follows `last` in its chain.
    fn problem(&mut self, entry: &Entry, head: &Head, last: Option<&Head>, part: &Part) -> Option<String> {
        let place = || format!("{}: entry {}", part.path.display(), entry.seq);
        let meant = self.heads.remove(&(head.node.clone(), head.seq));
        if entry.node != part.node {
            return Some(format!("{} is of another node, {}", place(), entry.node));
        }
        if meant.is_some_and(|meant| meant.iter().any(|hash| *hash != head.hash)) {
            return Some(format!("{} is not the one that a later chain knew", place()));
        }
        let Some(last) = last else {
            return self.problem_of_first(entry).map(|what| format!("{}{what}", place()));
        };
        match entry.seq {
            seq if seq != last.seq + 1 => {
                Some(format!("{} follows entry {}: there are others missing, or too many", place(), last.seq))
            }
            _ if entry.prev != last.hash => Some(format!("{}: the entry before it was changed", place())),
            _ => None,
        }
    }

    fn problem_of_first(&self, entry: &Entry) -> Option<&'static str> {
        if entry.seq == 1 {
            return (entry.prev != NOTHING_BEFORE).then_some(" is not how a chain begins");
        }
        let removed = self.removed.get(&entry.node).into_iter().flatten();
        let known = removed.into_iter().any(|head| head.seq + 1 == entry.seq && head.hash == entry.prev);
        (!known).then_some(" is the first of its chain: those before it are missing")
    }

    /// Entries that were there once, are not now, and of which nobody said that they were removed.
    fn missing(&self) -> Vec<String> {
        let gone = self.heads.keys().filter(|(node, seq)| {
            let removed = self.removed.get(node);
            !removed.is_some_and(|heads| heads.iter().any(|head| head.seq >= *seq))
        });
        let mut missing: Vec<_> = gone
            .map(|(node, seq)| format!("{node}: entry {seq} is missing, and maybe those around it"))
            .collect();
        missing.sort();
        missing
    }
}
