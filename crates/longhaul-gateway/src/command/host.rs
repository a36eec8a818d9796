//! Which host a directory of runs is: a name in a file of it, drawn by the first node that uses it. All nodes that use the directory
//! are of that host, in whichever container or process they are; what they cannot see of each other's they do not share.

use std::{
    fs::OpenOptions,
    io::{Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use longhaul::store::HostId;

use super::{
    layout::FileError,
    runs::{RunsError, sync_dir},
};

/// The name that the directory at `dir` has, and from now on `name` if it has none: on the disk, for what is bound to it is found
/// by no other.
pub(super) fn of(dir: &Path, name: impl FnOnce() -> Result<HostId, RunsError>) -> Result<HostId, RunsError> {
    let path = dir.join(HOST);
    let failed = |doing| FileError::at(doing, &path);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(failed("open"))?;
    // Several may come first at once. Whoever holds it is gone in a moment, or for good.
    file.lock().map_err(failed("lock"))?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(failed("read"))?;
    if text.is_empty() {
        let name = name()?;
        writeln!(file, "{name}").and_then(|()| file.sync_all()).map_err(failed("write"))?;
        sync_dir(dir)?;
        return Ok(name);
    }
    let name = text.strip_suffix('\n').and_then(|name| HostId::new(name).ok());
    name.ok_or(RunsError::NoHost { path })
}

/// The file; no run has such a name.
const HOST: &str = ".host";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::RunsDir;

    fn host(path: &Path) -> HostId {
        let runs = RunsDir::open(path).unwrap().as_host().unwrap();
        runs.host().unwrap().clone()
    }

    #[test]
    fn nodes_of_one_directory_are_one_host_and_those_of_two_are_two() {
        let root = tempfile::tempdir().unwrap();
        let (one, other) = (root.path().join("one"), root.path().join("other"));
        let first = host(&one);
        assert_eq!(host(&one), first);
        assert_ne!(host(&other), first);
        let at_once: Vec<_> = (0..8)
            .map(|_| {
                std::thread::spawn({
                    let path = root.path().join("new");
                    move || host(&path)
                })
            })
            .collect();
        let mut names: Vec<_> = at_once.into_iter().map(|thread| thread.join().unwrap()).collect();
        names.dedup();
        assert_eq!(names.len(), 1, "whoever came first named it");
        assert!(RunsDir::open(&one).unwrap().ids().unwrap().is_empty(), "it is no run");
    }

    #[test]
    fn a_directory_that_is_made_again_is_the_same_host() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("runs");
        let runs = RunsDir::open(&path).unwrap().as_host().unwrap();
        std::fs::remove_dir_all(&path).unwrap();
        runs.prepare("t", &crate::command::Spec::new(["/bin/true"], "/")).unwrap();
        assert_eq!(Some(&host(&path)), runs.host());
    }

    #[test]
    fn what_is_no_name_is_told_of_and_left() {
        let root = tempfile::tempdir().unwrap();
        let runs = RunsDir::open(root.path().join("runs")).unwrap();
        let file = runs.path().join(HOST);
        std::fs::write(&file, "no name").unwrap();
        let refusal = runs.as_host().unwrap_err().to_string();
        assert!(refusal.contains(".host") && refusal.contains("remove"), "{refusal}");
        assert_eq!(std::fs::read_to_string(file).unwrap(), "no name");
    }
}
