//! Small file systems of our own.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use rustix::{
    io::Errno,
    mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount},
};

/// A file system in memory, gone when dropped.
pub(crate) struct Tmpfs {
    folder: tempfile::TempDir,
}

impl Tmpfs {
    /// Mounts one of this many bytes.
    pub(crate) fn of(bytes: usize) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let size = std::ffi::CString::new(format!("size={bytes}")).expect("digits have no NUL");
        if let Err(error) = mount("tmpfs", folder.path(), "tmpfs", MountFlags::empty(), &*size) {
            panic!("this test mounts a tmpfs and may not ({error}); run it as root, or under `unshare -Urm`");
        }
        Self { folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn make_read_only(&self) {
        self.remount(MountFlags::RDONLY);
    }

    pub(crate) fn make_writable(&self) {
        self.remount(MountFlags::empty());
    }

    fn remount(&self, flags: MountFlags) {
        // The kernel may still be removing files that were closed a moment ago; one that stays open fails this.
        for _ in 0..200 {
            match mount_remount(self.folder.path(), flags, "") {
                Err(Errno::BUSY) => thread::sleep(Duration::from_millis(25)),
                other => return other.expect("the file system is mounted again"),
            }
        }
        panic!("a file in {} is still open", self.folder.path().display());
    }

    /// Takes all space but this many bytes.
    pub(crate) fn fill_up(&self, but: usize) -> PathBuf {
        let path = self.folder.path().join("filler");
        let mut file = File::create(&path).expect("the filler is created");
        while file.write_all(&[1; 1024]).is_ok() {}
        let size = file.metadata().expect("its size").len();
        file.set_len(size.saturating_sub(but as u64)).expect("it gives some back");
        path
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // Detached, so that it goes even if a failed test still has a file open.
        if let Err(error) = unmount(self.folder.path(), UnmountFlags::DETACH) {
            assert!(thread::panicking(), "the file system stays mounted: {error}");
        }
    }
}

pub(crate) fn remove(filler: &Path) {
    fs::remove_file(filler).expect("the filler goes");
}
