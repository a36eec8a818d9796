//! Of what code something was found: whoever goes on with what was begun must not mix what two states of it came to.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::tidy;

/// The name of the file that has the stamp of a folder.
const FILE: &str = "of";

/// The files that `is_part` names, in a few characters.
///
/// # Errors
///
/// When one cannot be read.
pub(crate) fn of(root: &Path, is_part: impl Fn(&str) -> bool) -> Result<String> {
    let mut digest = DefaultHasher::new();
    for path in tidy::committable(root)?.into_iter().filter(|path| is_part(path)) {
        (&path, fs::read(root.join(&path))?).hash(&mut digest);
    }
    Ok(format!("{:016x}", digest.finish()))
}

/// Begins or goes on with what is found of this code, in a folder of its own.
///
/// # Errors
///
/// When what is there was found of other code.
pub(crate) fn begin(folder: &Path, stamp: &str) -> Result<()> {
    fs::create_dir_all(folder)?;
    if read(folder).is_some_and(|of| of != stamp) {
        bail!("what is tried has changed since: begin anew, without --resume");
    }
    Ok(fs::write(folder.join(FILE), stamp)?)
}

/// Of what code is what the folder has, if anything is there.
pub(crate) fn read(folder: &Path) -> Option<String> {
    fs::read_to_string(folder.join(FILE)).ok()
}

/// Forgets what was found.
///
/// # Errors
///
/// When it cannot be removed.
pub(crate) fn clear(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_of_other_code_is_not_gone_on_with() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("found");
        begin(&folder, "1").unwrap();
        begin(&folder, "1").unwrap();
        assert!(begin(&folder, "2").is_err());
        clear(&folder).unwrap();
        begin(&folder, "2").unwrap();
    }
}
