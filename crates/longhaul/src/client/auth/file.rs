//! Tokens in a file that nobody else reads.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul_tasks::environment::BoxFuture;
use sha2::{Digest as _, Sha256};

use super::error::AuthError;
use super::secret::Secret;
use super::store::{Held, TokenStore};
use crate::client::private;
use crate::hex::hex;

/// Keeps tokens in one file, which only its user can read and write (0600 where the system has such a thing). Several
/// processes may have it at once: one of them renews a token at a time, while it has the lock of an empty file beside it.
///
/// A file that is another user's, or that others can read, is refused, and so is a folder in which anybody may put another
/// one in its place.
#[derive(Clone, Debug)]
pub struct FileTokens {
    path: PathBuf,
}

/// What the file holds: texts by name.
type Content = BTreeMap<String, Secret>;

impl FileTokens {
    /// Keeps tokens in the file at `path`, which is made when there is something to keep, with its folder.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, AuthError>> {
        let path = self.path.clone();
        Box::pin(async move {
            let worked = tokio::task::spawn_blocking(move || {
                work(&path)
                    .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
            });
            worked.await.map_err(AuthError::store)?.map_err(AuthError::store)
        })
    }
}

impl TokenStore for FileTokens {
    fn load<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Secret>, AuthError>> {
        let name = name.to_owned();
        self.with(move |path| Ok(read(path)?.remove(&name)))
    }

    fn save<'a>(&'a self, name: &'a str, text: Secret) -> BoxFuture<'a, Result<(), AuthError>> {
        let name = name.to_owned();
        self.with(move |path| {
            change(path, |content| {
                content.insert(name, text);
                true
            })
        })
    }

    fn remove<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), AuthError>> {
        let name = name.to_owned();
        self.with(move |path| change(path, |content| content.remove(&name).is_some()))
    }

    fn hold<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Held, AuthError>> {
        let extension = format!("{}.lock", hex(&Sha256::digest(name)[..8]));
        Box::pin(async move {
            let lock = self.with(move |path| open_lock(path, &extension)).await?;
            loop {
                // A thread that waits for the system would outlive who gave up waiting, and the whole runtime with it.
                match lock.try_lock() {
                    Ok(()) => return Ok(Box::new(lock) as Held),
                    Err(TryLockError::WouldBlock) => tokio::time::sleep(LOOK).await,
                    Err(TryLockError::Error(error)) => return Err(AuthError::store(error)),
                }
            }
        })
    }
}

/// How often it is looked whether another process still holds a name.
const LOOK: Duration = Duration::from_millis(20);

fn read(path: &Path) -> io::Result<Content> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Content::new()),
        Err(error) => return Err(error),
    };
    private::check_folder(path, NOT_OURS)?;
    check_private(&file)?;
    // What is in it stays out of the error.
    serde_json::from_reader(io::BufReader::new(file)).map_err(|error| {
        let what =
            format!("this is no file of tokens (line {}); move it away and sign in again", error.line());
        io::Error::new(io::ErrorKind::InvalidData, what)
    })
}

/// Changes what is kept, if `change` says that it does. Whoever reads sees all of it or nothing, even after a crash.
fn change(path: &Path, change: impl FnOnce(&mut Content) -> bool) -> io::Result<()> {
    let lock = open_lock(path, "lock")?;
    lock.lock()?;
    let mut content = read(path)?;
    if !change(&mut content) {
        return Ok(());
    }
    let (_file, new) = private::beside(path, &serde_json::to_vec_pretty(&content)?)?;
    // What got this one counts no more: without it the user would have to sign in again.
    private::put(&new, path)
}

/// An empty file beside the tokens, to be locked.
fn open_lock(path: &Path, extension: &str) -> io::Result<File> {
    private::folder().create(private::folder_of(path))?;
    private::check_folder(path, NOT_OURS)?;
    private::file().create(true).truncate(false).open(path.with_extension(extension))
}

/// What to do about a folder of others.
const NOT_OURS: &str = "anybody may put another file in its place; keep tokens in a folder of your own";

#[cfg(unix)]
fn check_private(file: &File) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = file.metadata()?;
    let what = if metadata.uid() != rustix::process::geteuid().as_raw() {
        "it is another user's, who would have you act as they like; remove it and sign in again"
    } else if metadata.mode() & 0o077 != 0 {
        "others can read it, and with it act as you; `chmod 600` it, or remove it and sign in again"
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

#[cfg(not(unix))]
fn check_private(_: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn c18_what_is_kept_is_its_users_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/tokens.json");
        let (one, other) = (FileTokens::new(&path), FileTokens::new(&path));
        assert!(one.load("x").await.unwrap().is_none());
        one.remove("x").await.unwrap();
        assert!(!path.exists(), "there is nothing to keep");
        tokio::try_join!(one.save("x", "1".into()), other.save("y", "2".into())).unwrap();
        other.save("x", "3".into()).await.unwrap();
        assert_eq!(one.load("x").await.unwrap(), Some("3".into()));
        assert_eq!(one.load("y").await.unwrap(), Some("2".into()));
        one.remove("y").await.unwrap();
        assert!(other.load("y").await.unwrap().is_none());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
            let error = one.load("x").await.unwrap_err();
            let shown = format!("{error:?}");
            assert!(shown.contains("chmod 600") && !shown.contains("3\""), "{shown}");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        fs::write(&path, "s3cret").unwrap();
        let error = format!("{:?}", one.save("x", "4".into()).await.unwrap_err());
        assert!(error.contains("no file of tokens") && !error.contains("s3cret"), "{error}");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn s53_what_others_have_put_there_is_neither_read_nor_written() {
        use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("tokens.json"), folder.path().join("victim"));
        let tokens = FileTokens::new(&path);
        // A link that leads elsewhere, where a lock or the next file would be.
        for name in ["tokens.lock", "tokens.new"] {
            symlink(&victim, folder.path().join(name)).unwrap();
            let saved = tokens.save("x", "1".into()).await;
            assert_eq!(saved.is_ok(), name == "tokens.new", "{name}: {saved:?}");
            assert!(!victim.exists(), "{name}");
            let _ = fs::remove_file(folder.path().join(name));
        }
        assert_eq!(tokens.load("x").await.unwrap(), Some("1".into()));
        // Anybody may put another file there.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        for shown in
            [format!("{:?}", tokens.load("x").await), format!("{:?}", tokens.save("x", "2".into()).await)]
        {
            assert!(shown.contains("a folder of your own"), "{shown}");
        }
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        // Somebody has: only who may give files away can try this.
        if rustix::process::geteuid().is_root() {
            chown(&path, Some(1), None).unwrap();
            let shown = format!("{:?}", tokens.load("x").await);
            assert!(shown.contains("another user's"), "{shown}");
        }
    }

    #[tokio::test]
    async fn s53_a_name_is_held_by_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        let (one, other) = (FileTokens::new(&path), FileTokens::new(&path));
        let held = one.hold("x").await.unwrap();
        let late = tokio::time::timeout(LOOK * 3, other.hold("x"));
        assert!(late.await.is_err(), "it is held");
        drop(other.hold("y").await.unwrap());
        // What is kept is read and written all the while.
        other.save("x", "1".into()).await.unwrap();
        drop(held);
        other.hold("x").await.unwrap();
    }
}
