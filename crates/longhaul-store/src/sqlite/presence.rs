//! Who is alive: each node holds a lock on a file of its own, which its end releases however it comes.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{fault::io_error, file_lock, writer_lock::private};
use crate::{NodeId, StoreError, error::corrupt};

/// This node's proof of life.
#[derive(Debug)]
pub(super) struct Presence {
    folder: PathBuf,
    node: NodeId,
    /// `None` for who only reads, and is no node.
    held: Option<File>,
}

impl Presence {
    /// Enters under a fresh random name, telling the newest format this release knows, and removes what dead nodes
    /// left behind.
    pub(super) fn enter(folder: PathBuf, format: usize) -> Result<Self, StoreError> {
        make_private(&folder).map_err(|error| io_error(&folder, "making the nodes' folder", error))?;
        let (node, held) = loop {
            let node = fresh_name()?;
            let path = folder.join(node.as_str());
            match create_held(&path, format)
                .map_err(|error| io_error(&path, "creating this node's lock file", error))?
            {
                Some(held) => break (node, held),
                // Someone cleaning up found it before it was locked. Another name is as good.
                None => continue,
            }
        };
        let presence = Self { folder, node, held: Some(held) };
        presence.clean_up()?;
        Ok(presence)
    }

    /// Of who only reads: it proves no life, its own or another's, and writes nothing.
    pub(super) fn of_reader(folder: PathBuf) -> Result<Self, StoreError> {
        Ok(Self { folder, node: fresh_name()?, held: None })
    }

    pub(super) fn node(&self) -> &NodeId {
        &self.node
    }

    /// Whether a node can be proved dead. If so it stays so, for no name is used twice.
    pub(super) fn is_dead(&self, node: &NodeId) -> bool {
        if *node == self.node || self.held.is_none() {
            return false;
        }
        match bury(&self.folder.join(node.as_str())) {
            Ok(dead) => dead,
            Err(error) => {
                // What cannot be proved is not assumed; its leases run out in their time.
                tracing::warn!(%node, %error, "cannot tell whether a node is alive");
                false
            }
        }
    }

    /// How many nodes are alive that do not know this format.
    pub(super) fn strangers_to(&self, format: usize) -> Result<usize, StoreError> {
        let alive = self.clean_up()?;
        Ok(alive.iter().filter(|path| known_format(path).is_none_or(|known| known < format)).count())
    }

    /// Which other nodes are alive.
    pub(super) fn others(&self) -> Result<Vec<NodeId>, StoreError> {
        let alive = self.clean_up()?;
        let others = alive.iter().filter(|path| !self.is_own(path));
        let names = others.filter_map(|path| path.file_name());
        names.map(|name| NodeId::new(name.to_string_lossy()).map_err(corrupt)).collect()
    }

    fn is_own(&self, path: &Path) -> bool {
        path.file_name().is_some_and(|name| name == self.node.as_str())
    }

    /// Removes the files of the dead; returns those of the living.
    fn clean_up(&self) -> Result<Vec<PathBuf>, StoreError> {
        let failed = |error| io_error(&self.folder, "reading the nodes' folder", error);
        let mut alive = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if self.is_own(&path)
                || !bury(&path).map_err(|error| io_error(&path, "looking at a node's lock file", error))?
            {
                alive.push(path);
            }
        }
        Ok(alive)
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if self.held.is_none() {
            return;
        }
        let path = self.folder.join(self.node.as_str());
        if let Err(error) = fs::remove_file(&path) {
            // Harmless: the lock goes with the file handle, and the next newcomer removes the file.
            tracing::debug!(path = %path.display(), %error, "this node's lock file stays behind");
        }
    }
}

/// Whether a node is alive that has its file in this folder; `false` where that cannot be seen. What the dead left stays.
pub(super) fn is_any_alive(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.filter_map(Result::ok).any(|entry| {
        let file = OpenOptions::new().write(true).open(entry.path());
        file.is_ok_and(|file| file_lock::try_lock(&file).is_ok_and(|is_ours| !is_ours))
    })
}

fn fresh_name() -> Result<NodeId, StoreError> {
    let mut bits = [0; 10];
    let failed = |error| StoreError::Backend { doing: "drawing a node's name", source: Arc::new(error) };
    getrandom::fill(&mut bits).map_err(failed)?;
    Ok(NodeId::from_entropy(bits))
}

/// Creates a file and locks it; `None` if a cleaner was faster.
fn create_held(path: &Path, format: usize) -> io::Result<Option<File>> {
    let mut file = private(OpenOptions::new().create_new(true).write(true)).open(path)?;
    // Before it is locked: a file that is locked says what its node knows.
    writeln!(file, "format {format}")?;
    Ok((file_lock::try_lock(&file)? && fs::exists(path)?).then_some(file))
}

/// Removes a node's file if its lock can be taken; whether the node is dead.
fn bury(path: &Path) -> io::Result<bool> {
    let file = match OpenOptions::new().write(true).open(path) {
        Ok(file) => file,
        // A node locks its file before it takes its first lease, so one without a file has no life to prove.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    if !file_lock::try_lock(&file)? {
        return Ok(false);
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(true),
    }
}

/// What a living node wrote into its file.
fn known_format(path: &Path) -> Option<usize> {
    fs::read_to_string(path).ok()?.strip_prefix("format ")?.trim_end().parse().ok()
}

fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_dead_once_its_handle_is_gone_and_not_before() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("nodes");
        let (one, two) = (Presence::enter(folder.clone(), 1).unwrap(), Presence::enter(folder, 1).unwrap());
        assert_ne!(one.node(), two.node());
        assert!(!one.is_dead(two.node()) && !one.is_dead(one.node()));
        let gone = two.node().clone();
        drop(two);
        assert!(one.is_dead(&gone));
    }

    #[test]
    fn only_the_living_of_an_older_release_are_strangers_to_a_format() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("nodes");
        let enter = |format| Presence::enter(folder.clone(), format).unwrap();
        let (new, old, newest) = (enter(2), enter(1), enter(3));
        assert_eq!((new.strangers_to(1).unwrap(), new.strangers_to(2).unwrap()), (0, 1));
        drop(old);
        assert_eq!((newest.strangers_to(2).unwrap(), newest.strangers_to(3).unwrap()), (0, 1));
        let silent = folder.join("silent");
        let held = File::create(&silent).unwrap();
        assert!(file_lock::try_lock(&held).unwrap());
        assert_eq!(new.strangers_to(2).unwrap(), 1, "who does not say is taken for a stranger");
    }

    #[test]
    fn what_the_dead_left_behind_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("nodes");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("left-behind"), "").unwrap();
        let one = Presence::enter(folder.clone(), 1).unwrap();
        assert!(!folder.join("left-behind").exists());
        drop(one);
        assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
    }
}
