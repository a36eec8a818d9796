//! A trail in a folder: files of lines, each process its own.
//!
//! A thread writes what comes, as many entries at once as are waiting, and syncs them together. Files are named
//! `NODE-NUMBER.jsonl`; a file that is full, or is not there any more, is followed by the next, in the same chain. When there are
//! too many, the oldest go that no living process writes, and the trail says which.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use longhaul_tasks::store::NodeId;

use super::entry::{MISSED, NOTHING_BEFORE, REMOVED, digest};
use super::verify::{Line, each};
use super::{Audit, Entry, Event, Head};
use crate::locked::Locked;

/// Bounds on the files of a trail.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuditOptions {
    /// How many bytes a file may have before the next is begun. Default 16 MiB.
    pub max_file: u64,
    /// How many files may be in the folder before the oldest go, 1,000 at most. Default 256.
    pub max_files: usize,
    /// How many entries may wait while the disk is slow or full; what happens then is only counted. Default 65536.
    pub max_waiting: usize,
}

impl Default for AuditOptions {
    fn default() -> Self {
        Self { max_file: 16 << 20, max_files: 256, max_waiting: 1 << 16 }
    }
}

impl AuditOptions {
    /// Lets a file have this many bytes.
    #[must_use]
    pub fn max_file(mut self, max_file: u64) -> Self {
        self.max_file = max_file;
        self
    }

    /// Lets the folder have this many files.
    #[must_use]
    pub fn max_files(mut self, max_files: usize) -> Self {
        self.max_files = max_files;
        self
    }

    /// Lets this many entries wait.
    #[must_use]
    pub fn max_waiting(mut self, max_waiting: usize) -> Self {
        self.max_waiting = max_waiting;
        self
    }
}

/// A trail in files, one of this process. Dropping the last of its clones writes what is still waiting.
#[derive(Clone)]
pub struct AuditFolder(Arc<Shared>);

struct Shared {
    node: String,
    /// Until it is dropped.
    sender: Option<SyncSender<Order>>,
    missed: Arc<AtomicU64>,
    writing: Mutex<Option<JoinHandle<()>>>,
}

enum Order {
    Write(Box<Entry>),
    /// Say when all before is on disk, or cannot be now.
    Flush(SyncSender<()>),
}

/// How many entries are written together at most.
const TOGETHER: usize = 1024;

/// How many files there may be, and so how many heads an entry has.
const MOST_FILES: usize = 1000;

/// How soon is tried again what could not be written.
const TRY_AGAIN: Duration = Duration::from_secs(1);

impl AuditFolder {
    /// Begins the chain of `node`, which must have none there yet, in a folder that is made if it is not there.
    ///
    /// # Errors
    ///
    /// When the folder or its first file cannot be written.
    pub fn open(folder: impl AsRef<Path>, node: &NodeId, options: AuditOptions) -> io::Result<Self> {
        let (node, missed) = (node.as_str().to_owned(), Arc::new(AtomicU64::new(0)));
        let (sender, orders) = sync_channel(options.max_waiting.max(1));
        let writer = Writer::begin(folder.as_ref().to_owned(), node.clone(), options, Arc::clone(&missed))?;
        let thread = std::thread::Builder::new().name("audit".to_owned());
        let writing = thread.spawn(move || writer.run(&orders))?;
        let (sender, writing) = (Some(sender), Mutex::new(Some(writing)));
        Ok(Self(Arc::new(Shared { node, sender, missed, writing })))
    }

    /// Waits until what was noted so far is on disk, or cannot be for now.
    pub fn flush(&self) {
        let (done, wait) = sync_channel(1);
        if let Some(sender) = &self.0.sender
            && sender.send(Order::Flush(done)).is_ok()
        {
            // An error means that the thread has ended: nothing waits.
            let _ = wait.recv();
        }
    }
}

impl Audit for AuditFolder {
    fn note(&self, event: Event) {
        let Some(sender) = &self.0.sender else { return };
        let order = Order::Write(Box::new(Entry::of(&event, &self.0.node)));
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = sender.try_send(order) {
            miss(&self.0.missed);
        }
    }
}

/// One more event is not noted. Said once, until it works again and the trail says how many there were.
fn miss(missed: &AtomicU64) {
    if missed.fetch_add(1, Ordering::Relaxed) == 0 {
        tracing::error!("the audit trail misses events: more wait to be written than may");
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        drop(self.sender.take());
        let writing = self.writing.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if writing.is_some_and(|writing| writing.join().is_err()) {
            tracing::error!("the audit trail ended in a panic");
        }
    }
}

impl fmt::Debug for AuditFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditFolder").field("node", &self.0.node).finish_non_exhaustive()
    }
}

/// What the thread has.
struct Writer {
    folder: PathBuf,
    node: String,
    options: AuditOptions,
    file: Locked,
    number: u32,
    /// The last number under which a file was begun, or could not be.
    tried: u32,
    /// How many bytes of whole entries the file has.
    length: u64,
    /// The file may have more than these, and cannot be cut.
    torn: bool,
    /// The last entry.
    seq: u64,
    prev: String,
    waiting: VecDeque<Entry>,
    missed: Arc<AtomicU64>,
    failing: bool,
}

impl Writer {
    fn begin(
        folder: PathBuf,
        node: String,
        options: AuditOptions,
        missed: Arc<AtomicU64>,
    ) -> io::Result<Self> {
        make(&folder)?;
        let mut began = Entry::of_trail(&node, "began");
        began.heads = heads(&folder)?;
        let (number, prev) = (1, NOTHING_BEFORE.to_owned());
        let file = create(&folder, &node, number)?;
        let waiting = VecDeque::from([began]);
        let mut this = Self {
            folder,
            node,
            options,
            file,
            number,
            tried: number,
            length: 0,
            torn: false,
            seq: 0,
            prev,
            waiting,
            missed,
            failing: false,
        };
        this.write()?;
        this.prune();
        Ok(this)
    }

    fn run(mut self, orders: &Receiver<Order>) {
        loop {
            let first = match self.waiting.is_empty() {
                true => orders.recv().ok(),
                // What could not be written is tried again though nothing comes.
                false => match orders.recv_timeout(TRY_AGAIN) {
                    Ok(order) => Some(order),
                    Err(RecvTimeoutError::Timeout) => {
                        self.try_write();
                        continue;
                    }
                    Err(RecvTimeoutError::Disconnected) => None,
                },
            };
            let Some(first) = first else { break };
            let mut flushed = Vec::new();
            for order in std::iter::once(first).chain(orders.try_iter().take(TOGETHER)) {
                match order {
                    Order::Write(entry) if self.waiting.len() < self.options.max_waiting => {
                        self.waiting.push_back(*entry);
                    }
                    Order::Write(_) => miss(&self.missed),
                    Order::Flush(done) => flushed.push(done),
                }
            }
            self.try_write();
            for done in flushed {
                // Whoever waited may have gone.
                let _ = done.send(());
            }
        }
        self.try_write();
        if !self.waiting.is_empty() {
            tracing::error!(
                entries = self.waiting.len(),
                "the audit trail ends without what could not be written"
            );
        }
    }

    fn try_write(&mut self) {
        match self.write() {
            Ok(()) => {
                if std::mem::take(&mut self.failing) {
                    tracing::warn!("the audit trail is written again");
                }
            }
            Err(error) => {
                // Said once, until it works again.
                if !std::mem::replace(&mut self.failing, true) {
                    let (folder, most) = (self.folder.display(), self.options.max_waiting);
                    tracing::error!(%error, %folder, most, "the audit trail cannot be written: make room; until then its entries wait");
                }
            }
        }
    }

    /// Writes what waits, all of it or nothing.
    fn write(&mut self) -> io::Result<()> {
        let missed = self.missed.load(Ordering::Relaxed);
        if self.waiting.is_empty() && missed == 0 {
            // No file is begun that would have nothing in it, and push another out.
            return Ok(());
        }
        if self.is_gone()? {
            self.next_file()?;
            tracing::error!(
                folder = %self.folder.display(),
                "the audit trail's file was removed or replaced, or cut short, while it was in use: the trail goes on in another; \
                 what was in it is only where it is now"
            );
        } else if self.torn || self.length >= self.options.max_file {
            self.next_file()?;
        }
        if missed > 0 {
            let mut entry = Entry::of_trail(&self.node, MISSED);
            entry.count = Some(missed);
            self.waiting.push_back(entry);
        }
        let written = self.append();
        match &written {
            Ok(()) => {
                self.missed.fetch_sub(missed, Ordering::Relaxed);
                self.waiting.clear();
            }
            // It is made anew when there is more to count.
            Err(_) if missed > 0 => {
                self.waiting.pop_back();
            }
            Err(_) => {}
        }
        written
    }

    /// Whether the file is not where it was begun, or not all of it. What is written to one that was moved or removed is found by
    /// nobody.
    fn is_gone(&self) -> io::Result<bool> {
        match fs::metadata(path(&self.folder, &self.node, self.number)) {
            Ok(found) => Ok(found.len() < self.length || !is_same(&found, &self.file.metadata()?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn append(&mut self) -> io::Result<()> {
        let (mut text, mut seq, mut prev) = (Vec::new(), self.seq, self.prev.clone());
        for entry in &mut self.waiting {
            seq += 1;
            (entry.seq, entry.prev) = (seq, prev);
            let start = text.len();
            serde_json::to_writer(&mut text, entry)?;
            prev = digest(&text[start..]);
            text.push(b'\n');
        }
        if let Err(error) = (&*self.file).write_all(&text).and_then(|()| self.file.sync_data()) {
            // What is there of it is taken back, so that it is not there twice.
            self.torn = self.file.set_len(self.length).is_err();
            return Err(error);
        }
        self.length += text.len() as u64;
        (self.seq, self.prev) = (seq, prev);
        Ok(())
    }

    fn next_file(&mut self) -> io::Result<()> {
        make(&self.folder)?;
        // What could not be begun may be there all the same, and keeps its number.
        self.tried += 1;
        self.file = create(&self.folder, &self.node, self.tried)?;
        (self.number, self.length, self.torn) = (self.tried, 0, false);
        self.prune();
        Ok(())
    }

    /// Removes the oldest files if there are too many, and notes that it did.
    fn prune(&mut self) {
        let removed = match prune(&self.folder, self.options.max_files.clamp(1, MOST_FILES)) {
            Ok(removed) => removed,
            Err(error) => {
                let folder = self.folder.display();
                return tracing::warn!(%error, %folder, "old files of the audit trail cannot be removed");
            }
        };
        if !removed.is_empty() {
            let mut entry = Entry::of_trail(&self.node, REMOVED);
            entry.heads = removed;
            self.waiting.push_front(entry);
        }
    }
}

fn make(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn path(folder: &Path, node: &str, number: u32) -> PathBuf {
    folder.join(format!("{node}-{number:06}.jsonl"))
}

#[cfg(unix)]
fn is_same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Elsewhere a file that is open is neither moved nor removed.
#[cfg(not(unix))]
fn is_same(_: &fs::Metadata, _: &fs::Metadata) -> bool {
    true
}

/// A new file, which is this process's as long as it is open.
fn create(folder: &Path, node: &str, number: u32) -> io::Result<Locked> {
    let mut options = OpenOptions::new();
    options.append(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let path = path(folder, node, number);
    let began = begin(options.open(&path)?, folder);
    if began.is_err() {
        // Many that are tried and left would push others out. One that stays is in nobody's way: the next has another number.
        let _ = fs::remove_file(&path);
    }
    began
}

fn begin(file: File, folder: &Path) -> io::Result<Locked> {
    let file = Locked::take(file)?;
    // Its name is to last as long as what is in it.
    if cfg!(unix) {
        File::open(folder)?.sync_all()?;
    }
    Ok(file)
}

/// A file of a trail.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) path: PathBuf,
    pub(super) node: String,
    pub(super) number: u32,
}

/// The files of the trail in a folder, each node's in their order.
pub(super) fn parts(folder: &Path) -> io::Result<Vec<Part>> {
    let mut parts = Vec::new();
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some((node, number)) = name.strip_suffix(".jsonl").and_then(|stem| stem.rsplit_once('-')) else {
            continue;
        };
        let Ok(number) = number.parse() else { continue };
        parts.push(Part { node: node.to_owned(), number, path });
    }
    parts.sort_by(|a, b| (&a.node, a.number).cmp(&(&b.node, b.number)));
    Ok(parts)
}

/// The last entry of each chain in the folder.
fn heads(folder: &Path) -> io::Result<Vec<Head>> {
    let mut heads: Vec<Head> = Vec::new();
    for part in parts(folder)? {
        last(&part)?.into_iter().for_each(|head| add(&mut heads, head));
    }
    heads.truncate(MOST_FILES);
    Ok(heads)
}

/// The last whole entry of a file. An entry has at most a head for each file, so that it is near the end.
fn last(part: &Part) -> io::Result<Option<Head>> {
    const NEAR: u64 = 256 << 10;
    let mut file = match File::open(&part.path) {
        Ok(file) => file,
        // Another process has just removed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(NEAR)))?;
    let mut end = Vec::new();
    file.take(NEAR).read_to_end(&mut end)?;
    let Some(whole) = end.iter().rposition(|byte| *byte == b'\n') else { return Ok(None) };
    let line = end[..whole].rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let entry = serde_json::from_slice::<Entry>(line).ok();
    Ok(entry.map(|entry| Head { node: entry.node, seq: entry.seq, hash: digest(line) }))
}

/// Removes the oldest files of those that nobody writes until there are so many; gives the last entry of each, and those that
/// the removed files knew to be removed.
fn prune(folder: &Path, most: usize) -> io::Result<Vec<Head>> {
    let mut parts = parts(folder)?;
    let mut too_many = parts.len().saturating_sub(most);
    if too_many == 0 {
        return Ok(Vec::new());
    }
    let changed = |part: &Part| {
        fs::metadata(&part.path).and_then(|file| file.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
    };
    // Stable, so that files of one chain that are as old stay in their order.
    parts.sort_by_cached_key(changed);
    let (mut removed, mut kept) = (Vec::new(), HashSet::new());
    for part in parts {
        if too_many == 0 {
            break;
        }
        let file = OpenOptions::new().append(true).open(&part.path).ok();
        let file = file.filter(|_| !kept.contains(&part.node));
        let ours = file.and_then(|file| Locked::take(file).ok());
        if ours.is_none() {
            // What comes after it stays as well: nothing would tell the gap from what somebody has taken out.
            kept.insert(part.node);
            continue;
        }
        each(&part, |line| {
            if let Line::Entry(entry, _) = line
                && entry.what == REMOVED
            {
                entry.heads.into_iter().for_each(|head| add(&mut removed, head));
            }
        })?;
        let head = last(&part)?;
        fs::remove_file(&part.path)?;
        head.into_iter().for_each(|head| add(&mut removed, head));
        too_many -= 1;
    }
    removed.drain(..removed.len().saturating_sub(MOST_FILES));
    Ok(removed)
}

/// Of each chain the latest is enough.
fn add(heads: &mut Vec<Head>, head: Head) {
    let known = heads.iter().any(|known| known.node == head.node && known.seq >= head.seq);
    if !known {
        heads.retain(|known| known.node != head.node);
        heads.push(head);
    }
}
