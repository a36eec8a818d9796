//! How much the disk has left for a build from nothing.

use std::fmt;
use std::fs;

use anyhow::{Context, Result};

use crate::site::Site;

/// What everything takes from nothing: some 7 GB of builds, and what is downloaded and written beside them.
const NEEDED: u64 = 9_000_000_000;

/// The room there is where cargo builds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// In bytes.
    free: u64,
}

impl Room {
    /// Looks at the file system of the build folder.
    ///
    /// # Errors
    ///
    /// When the folder cannot be made, or the system does not say.
    pub(crate) fn of(site: &Site) -> Result<Self> {
        let folder = site.target.display();
        fs::create_dir_all(&site.target).with_context(|| format!("cannot make {folder}"))?;
        let disk = rustix::fs::statvfs(&site.target).with_context(|| format!("how full is {folder}"))?;
        Ok(Self { free: disk.f_bavail.saturating_mul(disk.f_frsize) })
    }

    /// Whether a build from nothing may fill it; one that has much of it already may still get by.
    pub(crate) const fn is_short(self) -> bool {
        self.free < NEEDED
    }
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [free, needed] = [self.free, NEEDED].map(|bytes| bytes as f64 / 1e9);
        write!(
            f,
            "{free:.1} GB are free where cargo builds; everything from nothing takes up to {needed:.0} GB"
        )?;
        if self.is_short() {
            f.write_str(": make room, or set CARGO_TARGET_DIR to another disk")
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_room_is_named_with_what_to_do() {
        let short = Room { free: 3_000_000_000 };
        assert!(short.is_short() && short.to_string().ends_with("to another disk"), "{short}");
        let enough = Room { free: 40_000_000_000 };
        assert!(!enough.is_short() && enough.to_string().starts_with("40.0 GB are free"), "{enough}");
    }
}
