//! A disk that forgets: what a file system must still have after power is lost, by what was flushed to it.
//!
//! The strictest reading of POSIX: bytes are there once an `fsync` of their file, begun after they were written, has
//! returned; names are there once an `fsync` of their folder has. What was written and not flushed may be there too,
//! in any part.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::{Context, Result, bail};
use longhaul_test::Random;

use super::trace::{Call, Event};

/// The files and folders below a root, as they are and as they would be found again.
#[derive(Debug)]
pub(super) struct Disk {
    root: String,
    nodes: Vec<Node>,
    /// Flushes under way, by thread: of which node, and how much of it they cover.
    flushing: BTreeMap<u32, (usize, Covered)>,
    /// How many flushes have begun.
    begun: u64,
    lies: Lies,
}

/// What a disk that only claims to flush leaves out. An honest one leaves out nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lies {
    None,
    /// No file whose name ends so is ever flushed.
    Files(&'static str),
    /// No folder is ever flushed.
    Folders,
}

/// What has become of what was written and never flushed.
#[derive(Clone, Debug)]
pub(super) enum Unflushed {
    /// All of it is gone.
    Gone,
    /// All of it has reached the disk.
    Kept,
    /// Some of it has, in sectors.
    Some(Random),
}

#[derive(Debug)]
enum Node {
    /// What is durable is so as of the flush of that number.
    Folder {
        live: Names,
        durable: Names,
        as_of: u64,
    },
    File {
        changes: Vec<Change>,
        durable: usize,
    },
}

type Names = BTreeMap<String, usize>;

#[derive(Clone, Debug)]
enum Covered {
    /// These, and when: of two flushes at once the one that began first covers less, whichever ends last.
    Names(Names, u64),
    Changes(usize),
}

#[derive(Clone, Debug)]
enum Change {
    Write { at: u64, bytes: Vec<u8> },
    Length(u64),
}

const ROOT: usize = 0;

/// What a disk writes in one piece.
const SECTOR: usize = 512;

impl Disk {
    /// An empty folder `root`, which itself is on the disk.
    pub(super) fn new(root: &Path, lies: Lies) -> Self {
        let root = root.to_string_lossy().trim_end_matches('/').to_owned();
        Self {
            root,
            nodes: vec![Node::Folder { live: Names::new(), durable: Names::new(), as_of: 0 }],
            flushing: BTreeMap::new(),
            begun: 0,
            lies,
        }
    }

    /// The same, with a folder that was there and flushed before anything was recorded.
    pub(super) fn with_folder(mut self, name: &str) -> Self {
        let node = self.nodes.len();
        self.nodes.push(Node::Folder { live: Names::new(), durable: Names::new(), as_of: 0 });
        if let Node::Folder { live, durable, .. } = &mut self.nodes[ROOT] {
            live.insert(name.to_owned(), node);
            durable.insert(name.to_owned(), node);
        }
        self
    }

    /// Something happened.
    ///
    /// # Errors
    ///
    /// When it changes files in a way that is not understood: then nothing could be said of them.
    pub(super) fn see(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::Began(call) if is_flush(call) => self.begin_flush(call),
            Event::Began(_) => Ok(()),
            Event::Returned(call) if is_flush(call) => {
                self.end_flush(call.thread);
                Ok(())
            }
            Event::Returned(call) => self.change(call).with_context(|| format!("in {call:.400?}")),
        }
    }

    /// Whether it flushes what it is told to.
    pub(super) fn is_honest(&self) -> bool {
        self.lies == Lies::None
    }

    /// Whether a name would be found again.
    pub(super) fn has(&self, path: &str) -> bool {
        self.find_by(path, |node| match node {
            Node::Folder { durable, .. } => Some(durable),
            Node::File { .. } => None,
        })
        .is_some()
    }

    /// Writes what would be found again of `path`, a file or a whole folder, to `to`. Says whether it is there.
    pub(super) fn rebuild(&self, path: &str, to: &Path, unflushed: &mut Unflushed) -> Result<bool> {
        let Some((parent, name)) = path.rsplit_once('/') else { bail!("{path} is not below the root") };
        let mut at = ROOT;
        let below =
            parent.strip_prefix(&self.root).with_context(|| format!("{parent} is not below the root"))?;
        for part in below.split('/').filter(|part| !part.is_empty()) {
            match self.names(at, unflushed).get(part) {
                Some(next) => at = *next,
                None => return Ok(false),
            }
        }
        match self.names(at, unflushed).get(name) {
            Some(node) => self.write(*node, to, unflushed).map(|()| true),
            None => Ok(false),
        }
    }

    fn names(&self, node: usize, unflushed: &mut Unflushed) -> &Names {
        static NONE: Names = Names::new();
        let Node::Folder { live, durable, .. } = &self.nodes[node] else { return &NONE };
        let kept = match unflushed {
            Unflushed::Gone => false,
            Unflushed::Kept => true,
            Unflushed::Some(random) => random.percent(50),
        };
        if kept { live } else { durable }
    }

    fn write(&self, node: usize, to: &Path, unflushed: &mut Unflushed) -> Result<()> {
        match &self.nodes[node] {
            Node::Folder { .. } => {
                fs::DirBuilder::new().mode(0o700).create(to)?;
                let names = self.names(node, unflushed).clone();
                for (name, child) in names {
                    self.write(child, &to.join(name), unflushed)?;
                }
            }
            Node::File { changes, durable } => {
                use std::io::Write as _;
                let content = content(changes, *durable, unflushed);
                let mut file = fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(to)?;
                file.write_all(&content)?;
            }
        }
        Ok(())
    }

    fn change(&mut self, call: &Call) -> Result<()> {
        let target = |at: usize| call.targets.get(at).map(String::as_str).unwrap_or_default();
        match call.name.as_str() {
            "open" | "openat" | "openat2" | "creat" => self.open(call),
            "write" => self.append(target(0), &call.strings),
            "pwrite64" => self.write_at(target(0), call.number(3)?, call.strings.first()),
            "ftruncate" => self.set_length(target(0), call.number(1)?),
            "mkdir" => self.make(call.path(0, 0), true),
            "mkdirat" => self.make(call.path(0, 0), true),
            "mknod" | "mknodat" => self.make(call.path(0, 0), false),
            "unlink" | "unlinkat" | "rmdir" => {
                self.remove(call.path(0, 0));
                Ok(())
            }
            "rename" => self.rename(call.path(0, 0), call.path(1, 0)),
            "renameat" | "renameat2" => self.rename(call.path(0, 0), call.path(1, 1)),
            "sendto" | "sendmsg" => Ok(()),
            // None of these is used on a file of ours; if that changes, this test must learn them.
            _ => {
                let ours = call.targets.iter().any(|target| self.is_ours(target));
                let named = (0..call.strings.len()).filter_map(|at| call.path(at, 0));
                if ours || (call.name != "writev" && named.into_iter().any(|path| self.is_ours(&path))) {
                    bail!("{} on a file of the store is not understood", call.name);
                }
                Ok(())
            }
        }
    }

    fn open(&mut self, call: &Call) -> Result<()> {
        let Some(path) = call.opened.as_deref().filter(|path| self.is_ours(path)) else { return Ok(()) };
        if (call.name == "creat" || call.has_flag("O_CREAT")) && self.find(path).is_none() {
            self.make(Some(path.to_owned()), false)?;
        }
        if call.name == "creat" || call.has_flag("O_TRUNC") {
            self.set_length(path, 0)?;
        }
        Ok(())
    }

    /// A plain write goes to the end: files of ours that are written so were made by the writer.
    fn append(&mut self, path: &str, strings: &[Vec<u8>]) -> Result<()> {
        let Some(Node::File { changes, durable }) = self.find(path).map(|node| &self.nodes[node]) else {
            return Ok(());
        };
        let end = content(changes, *durable, &mut Unflushed::Kept).len() as u64;
        self.write_at(path, end, strings.first())
    }

    fn write_at(&mut self, path: &str, at: u64, bytes: Option<&Vec<u8>>) -> Result<()> {
        let bytes = bytes.context("a write has bytes")?.clone();
        self.push(path, Change::Write { at, bytes });
        Ok(())
    }

    fn set_length(&mut self, path: &str, length: u64) -> Result<()> {
        self.push(path, Change::Length(length));
        Ok(())
    }

    fn push(&mut self, path: &str, change: Change) {
        if let Some(node) = self.find(path)
            && let Node::File { changes, .. } = &mut self.nodes[node]
        {
            changes.push(change);
        }
    }

    fn make(&mut self, path: Option<String>, is_folder: bool) -> Result<()> {
        let Some(path) = path.filter(|path| self.is_ours(path)) else { return Ok(()) };
        let (parent, name) = self.place(&path)?;
        let node = self.nodes.len();
        self.nodes.push(if is_folder {
            Node::Folder { live: Names::new(), durable: Names::new(), as_of: 0 }
        } else {
            Node::File { changes: Vec::new(), durable: 0 }
        });
        self.live(parent)?.insert(name, node);
        Ok(())
    }

    fn remove(&mut self, path: Option<String>) {
        let Some(path) = path.filter(|path| self.is_ours(path)) else { return };
        // Sockets are made without a call that is recorded.
        if let Ok((parent, name)) = self.place(&path)
            && let Ok(names) = self.live(parent)
        {
            names.remove(&name);
        }
    }

    fn rename(&mut self, from: Option<String>, to: Option<String>) -> Result<()> {
        let (Some(from), Some(to)) = (from, to) else { bail!("a rename has two names") };
        if !self.is_ours(&from) && !self.is_ours(&to) {
            return Ok(());
        }
        let (parent, name) = self.place(&from)?;
        let node = self.live(parent)?.remove(&name).with_context(|| format!("{from} was never made"))?;
        let (parent, name) = self.place(&to)?;
        self.live(parent)?.insert(name, node);
        Ok(())
    }

    fn begin_flush(&mut self, call: &Call) -> Result<()> {
        let Some(path) = call.targets.first() else { bail!("a flush of everything is not understood") };
        let Some(node) = self.find(path) else { return Ok(()) };
        self.begun += 1;
        let covered = match &self.nodes[node] {
            Node::Folder { .. } if self.lies == Lies::Folders => return Ok(()),
            Node::File { .. } if matches!(self.lies, Lies::Files(end) if path.ends_with(end)) => {
                return Ok(());
            }
            Node::Folder { live, .. } => Covered::Names(live.clone(), self.begun),
            Node::File { changes, .. } => Covered::Changes(changes.len()),
        };
        self.flushing.insert(call.thread, (node, covered));
        Ok(())
    }

    fn end_flush(&mut self, thread: u32) {
        match self.flushing.remove(&thread) {
            Some((node, Covered::Names(names, when))) => {
                if let Node::Folder { durable, as_of, .. } = &mut self.nodes[node]
                    && when > *as_of
                {
                    (*durable, *as_of) = (names, when);
                }
            }
            Some((node, Covered::Changes(count))) => {
                if let Node::File { durable, .. } = &mut self.nodes[node] {
                    *durable = count.max(*durable);
                }
            }
            None => {}
        }
    }

    fn is_ours(&self, path: &str) -> bool {
        path.strip_prefix(&self.root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    fn find(&self, path: &str) -> Option<usize> {
        self.find_by(path, |node| match node {
            Node::Folder { live, .. } => Some(live),
            Node::File { .. } => None,
        })
    }

    fn find_by<'d>(&'d self, path: &str, names: impl Fn(&'d Node) -> Option<&'d Names>) -> Option<usize> {
        if !self.is_ours(path) {
            return None;
        }
        let mut at = ROOT;
        for part in path[self.root.len()..].split('/').filter(|part| !part.is_empty()) {
            at = *names(&self.nodes[at])?.get(part)?;
        }
        Some(at)
    }

    /// The folder that a path is in, and its name there.
    fn place(&self, path: &str) -> Result<(usize, String)> {
        let (parent, name) = path.rsplit_once('/').context("an absolute path")?;
        let node = self.find(parent).with_context(|| format!("the folder {parent} was never made"))?;
        Ok((node, name.to_owned()))
    }

    fn live(&mut self, node: usize) -> Result<&mut Names> {
        match &mut self.nodes[node] {
            Node::Folder { live, .. } => Ok(live),
            Node::File { .. } => bail!("a file is taken for a folder"),
        }
    }
}

fn is_flush(call: &Call) -> bool {
    matches!(call.name.as_str(), "fsync" | "fdatasync" | "sync" | "syncfs")
}

/// A file's bytes: what was flushed, and what else there may be.
fn content(changes: &[Change], durable: usize, unflushed: &mut Unflushed) -> Vec<u8> {
    let mut content = Vec::new();
    for (number, change) in changes.iter().enumerate() {
        match (change, &mut *unflushed) {
            _ if number < durable => apply(&mut content, change),
            (_, Unflushed::Gone) => {}
            (_, Unflushed::Kept) => apply(&mut content, change),
            (Change::Length(_), Unflushed::Some(random)) => {
                if random.percent(50) {
                    apply(&mut content, change);
                }
            }
            (Change::Write { at, bytes }, Unflushed::Some(random)) => {
                for (sector, part) in bytes.chunks(SECTOR).enumerate() {
                    if random.percent(50) {
                        let at = at + (sector * SECTOR) as u64;
                        apply(&mut content, &Change::Write { at, bytes: part.to_vec() });
                    }
                }
            }
        }
    }
    content
}

fn apply(content: &mut Vec<u8>, change: &Change) {
    let size = |number: u64| usize::try_from(number).expect("a recorded file fits into memory");
    match change {
        Change::Length(length) => content.resize(size(*length), 0),
        Change::Write { at, bytes } => {
            let (start, end) = (size(*at), size(*at) + bytes.len());
            if content.len() < end {
                content.resize(end, 0);
            }
            content[start..end].copy_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::power::trace::read;

    fn hex(text: &str) -> String {
        text.bytes().map(|byte| format!("\\x{byte:02x}")).collect()
    }

    fn disk(lies: Lies, lines: &[String]) -> Disk {
        let mut disk = Disk::new(Path::new("/r"), lies);
        for event in read(lines.join("\n").as_bytes()).unwrap() {
            disk.see(&event).unwrap();
        }
        disk
    }

    fn create(path: &str) -> String {
        format!("1  openat(AT_FDCWD<{}>, \"{1}\", O_RDWR|O_CREAT, 0600) = 4<{1}>", hex("/"), hex(path))
    }

    fn write(path: &str, text: &str, at: usize) -> String {
        format!("1  pwrite64(4<{}>, \"{}\", {}, {at}) = {}", hex(path), hex(text), text.len(), text.len())
    }

    fn flush(path: &str) -> String {
        format!("1  fsync(4<{}>) = 0", hex(path))
    }

    fn found(disk: &Disk, path: &str) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("file");
        let there = disk.rebuild(path, &to, &mut Unflushed::Gone).unwrap();
        there.then(|| fs::read_to_string(to).unwrap())
    }

    #[test]
    fn only_what_was_flushed_is_found_again() {
        let lines =
            [create("/r/a"), write("/r/a", "one", 0), flush("/r/a"), write("/r/a", "two", 1), flush("/r")];
        assert_eq!(found(&disk(Lies::None, &lines), "/r/a").as_deref(), Some("one"));
        assert_eq!(found(&disk(Lies::None, &lines[..4]), "/r/a"), None, "its name was not");
        assert_eq!(found(&disk(Lies::Files("a"), &lines), "/r/a").as_deref(), Some(""));
        assert_eq!(found(&disk(Lies::Folders, &lines), "/r/a"), None);
    }

    #[test]
    fn a_flush_covers_what_was_written_before_it_began() {
        let begun = format!("2  fsync(4<{}> <unfinished ...>", hex("/r/a"));
        let ended = "2  <... fsync resumed>) = 0".to_owned();
        let lines =
            [create("/r/a"), flush("/r"), write("/r/a", "one", 0), begun, write("/r/a", "two", 0), ended];
        assert_eq!(found(&disk(Lies::None, &lines), "/r/a").as_deref(), Some("one"));
        assert_eq!(found(&disk(Lies::None, &lines[..5]), "/r/a").as_deref(), Some(""), "it has not returned");
    }

    #[test]
    fn a_flush_that_ends_late_takes_nothing_back() {
        let begun = format!("2  fsync(4<{}> <unfinished ...>", hex("/r"));
        let ended = "2  <... fsync resumed>) = 0".to_owned();
        let lines = [begun, create("/r/a"), write("/r/a", "one", 0), flush("/r/a"), flush("/r"), ended];
        assert_eq!(found(&disk(Lies::None, &lines), "/r/a").as_deref(), Some("one"));
    }

    #[test]
    fn a_rename_is_found_again_once_its_folder_was_flushed() {
        let rename = format!("1  rename(\"{}\", \"{}\") = 0", hex("/r/a"), hex("/r/b"));
        let lines = [create("/r/a"), write("/r/a", "x", 0), flush("/r/a"), flush("/r"), rename, flush("/r")];
        let before = disk(Lies::None, &lines[..5]);
        assert_eq!((found(&before, "/r/a").as_deref(), found(&before, "/r/b")), (Some("x"), None));
        let after = disk(Lies::None, &lines);
        assert_eq!((found(&after, "/r/a"), found(&after, "/r/b").as_deref()), (None, Some("x")));
    }

    #[test]
    fn a_call_that_is_not_understood_is_an_error() {
        let line = format!("1  fallocate(4<{}>, 0, 0, 4096) = 0", hex("/r/a"));
        let mut disk = Disk::new(Path::new("/r"), Lies::None);
        let events = read(line.as_bytes()).unwrap();
        assert!(events.iter().any(|event| disk.see(event).is_err()));
    }
}
