//! Of what code something was found: whoever goes on with what was begun must not mix what two states of it came to.

use std::fs;
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
    let mut paths: Vec<_> = tidy::committable(root)?.into_iter().filter(|path| is_part(path)).collect();
    paths.sort_unstable();
    let read = |path: String| Ok((fs::read(root.join(&path))?, path));
    let files: Result<Vec<_>> = paths.into_iter().map(read).collect();
    Ok(of_files(files?.iter().map(|(bytes, path)| (&**path, &**bytes))))
}

/// The same of these, by their paths. It may be committed, so it is FNV-1a, which no release of Rust changes.
pub(crate) fn of_files<'f>(files: impl IntoIterator<Item = (&'f str, &'f [u8])>) -> String {
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    let mut take = |bytes: &[u8]| {
        for byte in bytes.iter().chain(&[0xff]) {
            digest = (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for (path, bytes) in files {
        take(path.as_bytes());
        take(bytes);
    }
    format!("{digest:016x}")
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
    fn a_stamp_is_of_names_and_contents_and_is_for_ever() {
        let of = |files: &[(&str, &str)]| of_files(files.iter().map(|(path, text)| (*path, text.as_bytes())));
        let stamp = of(&[("a.rs", "fn a() {}"), ("b.rs", "")]);
        assert_eq!(stamp, "020bc6444a569c0a");
        for other in [
            &[("a.rs", "fn a() {}")][..],
            &[("a.rs", "fn a() { }"), ("b.rs", "")],
            &[("c.rs", "fn a() {}"), ("b.rs", "")],
            &[("a.rs", "fn a() {}b"), (".rs", "")],
        ] {
            assert_ne!(of(other), stamp, "{other:?}");
        }
    }

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
