//! Who is alive: each node holds a lock on a file of its own, which its end releases however it comes.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{fault::io_error, file_lock, writer_lock::private};
use crate::{NodeId, StoreError};

/// This node's proof of life.
#[derive(Debug)]
pub(super) struct Presence {
    folder: PathBuf,
    node: NodeId,
    _held: File,
}

impl Presence {
    /// Enters under a fresh random name and removes what dead nodes left behind.
    pub(super) fn enter(folder: PathBuf) -> Result<Self, StoreError> {
        make_private(&folder).map_err(|error| io_error(&folder, "making the nodes' folder", error))?;
        let (node, held) = loop {
            let mut bits = [0; 10];
            getrandom::fill(&mut bits).map_err(|error| StoreError::Backend {
                doing: "drawing a node's name",
                source: Arc::new(error),
            })?;
            let node = NodeId::from_entropy(bits);
            let path = folder.join(node.as_str());
            match create_held(&path)
                .map_err(|error| io_error(&path, "creating this node's lock file", error))?
            {
                Some(held) => break (node, held),
                // Someone cleaning up found it before it was locked. Another name is as good.
                None => continue,
            }
        };
        let presence = Self { folder, node, _held: held };
        presence.clean_up()?;
        Ok(presence)
    }

    pub(super) fn node(&self) -> &NodeId {
        &self.node
    }

    /// Whether a node can be proved dead. If so it stays so, for no name is used twice.
    pub(super) fn is_dead(&self, node: &NodeId) -> bool {
        if *node == self.node {
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

    /// How many others are alive.
    pub(super) fn others(&self) -> Result<usize, StoreError> {
        Ok(self.clean_up()?.saturating_sub(1))
    }

    /// Removes the files of the dead; returns how many nodes are alive, this one included.
    fn clean_up(&self) -> Result<usize, StoreError> {
        let failed = |error| io_error(&self.folder, "reading the nodes' folder", error);
        let mut alive = 0;
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let here = path.file_name().is_some_and(|name| name == self.node.as_str());
            if here
                || !bury(&path).map_err(|error| io_error(&path, "looking at a node's lock file", error))?
            {
                alive += 1;
            }
        }
        Ok(alive)
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let path = self.folder.join(self.node.as_str());
        if let Err(error) = fs::remove_file(&path) {
            // Harmless: the lock goes with the file handle, and the next newcomer removes the file.
            tracing::debug!(path = %path.display(), %error, "this node's lock file stays behind");
        }
    }
}

/// Creates a file and locks it; `None` if a cleaner was faster.
fn create_held(path: &Path) -> io::Result<Option<File>> {
    let file = private(OpenOptions::new().create_new(true).write(true)).open(path)?;
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
        let (one, two) = (Presence::enter(folder.clone()).unwrap(), Presence::enter(folder).unwrap());
        assert_ne!(one.node(), two.node());
        assert!(!one.is_dead(two.node()) && !one.is_dead(one.node()));
        assert_eq!(one.others().unwrap(), 1);
        let gone = two.node().clone();
        drop(two);
        assert!(one.is_dead(&gone));
        assert_eq!(one.others().unwrap(), 0);
    }

    #[test]
    fn what_the_dead_left_behind_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("nodes");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("left-behind"), "").unwrap();
        let one = Presence::enter(folder.clone()).unwrap();
        assert!(!folder.join("left-behind").exists());
        drop(one);
        assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
    }
}
