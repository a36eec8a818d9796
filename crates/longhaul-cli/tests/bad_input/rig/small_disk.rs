//! A disk that fills up: a small tmpfs. Needs the right to mount one; elsewhere tests say that they did not run.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::place::Place;

/// A file system of its own, unmounted when dropped.
#[derive(Debug)]
pub(crate) struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// Mounts one at `disk` in the place.
    pub(crate) fn mount(place: &Place, kilobytes: u32) -> Option<Self> {
        let path = place.path("disk");
        fs::create_dir(&path).unwrap();
        let options = format!("size={kilobytes}k,mode=700");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&path).stderr(Stdio::null());
        if mount.status().is_ok_and(|status| status.success()) {
            return Some(Self { path });
        }
        std::io::stderr().write_all(b"NOT RUN: this user may not mount a file system\n").unwrap();
        None
    }

    /// Takes all the space there is.
    pub(crate) fn fill(&self) {
        let mut file =
            fs::OpenOptions::new().create(true).append(true).open(self.path.join("filler")).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
        while file.write_all(&[0; 16]).is_ok() {}
    }

    /// Gives it back.
    pub(crate) fn free(&self) {
        fs::remove_file(self.path.join("filler")).unwrap();
    }

    /// Makes it unwritable, or writable again.
    pub(crate) fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        let status = Command::new("mount").args(["-o", &options]).arg(&self.path).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a supervisor may be at its last steps.
        let unmounted = Command::new("umount").arg("-l").arg(&self.path).status();
        assert!(std::thread::panicking() || unmounted.is_ok_and(|status| status.success()));
    }
}
