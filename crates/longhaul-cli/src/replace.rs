//! Files that are replaced as a whole: whoever reads one sees what it was or what it is now, even after a crash.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Puts a file with this content in the place of another, or of none; `mode` says who may read and write it, where the system
/// has such a thing.
///
/// It is written beside the other first, so two at once would be in each other's way: whoever replaces a file holds a lock, or
/// is a person's command.
pub(crate) fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let new = beside(path, ".new");
    // One that was left by a crash may be anybody's.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = create_new(&new, mode)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    // Elsewhere a folder cannot be opened.
    if cfg!(unix) { File::open(folder_of(path))?.sync_all() } else { Ok(()) }
}

/// Makes a file that is not there, which those may read and write whom `mode` names, where the system has such a thing.
pub(crate) fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    options.open(path)
}

/// The path of a file whose name is this one's with an ending more.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    path.with_file_name(name)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_whatever_a_crash_has_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tasks.json");
        replace(&path, b"one", 0o600).unwrap();
        let elsewhere = folder.path().join("elsewhere");
        fs::write(&elsewhere, "theirs").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(&elsewhere, folder.path().join("tasks.json.new")).unwrap();
        replace(&path, b"two", 0o600).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read(&elsewhere).unwrap(), b"theirs");
        let mut names: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["elsewhere", "tasks.json"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}
