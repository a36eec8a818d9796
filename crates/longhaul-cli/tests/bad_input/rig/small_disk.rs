//! A disk that fills up: a small tmpfs. Needs the right to mount one: a test that has not run must not pass.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use super::place::Place;

/// A file system of its own, unmounted when dropped.
#[derive(Debug)]
pub(crate) struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// Mounts one at `disk` in the place.
    pub(crate) fn mount(place: &Place, kilobytes: u32) -> Self {
        let path = place.path("disk");
        fs::create_dir(&path).unwrap();
        let options = format!("size={kilobytes}k,mode=700");
        let mut mount = Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&path).output().unwrap();
        let said = String::from_utf8_lossy(&mounted.stderr);
        assert!(
            mounted.status.success(),
            "this test mounts a tmpfs and may not ({said}); run it as root, or under `unshare -Urm`"
        );
        Self { path }
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
