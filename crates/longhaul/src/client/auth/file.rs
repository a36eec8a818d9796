//! Tokens in a file that nobody else reads.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use longhaul_tasks::environment::BoxFuture;

use super::error::AuthError;
use super::secret::Secret;
use super::store::TokenStore;

/// Keeps tokens in one file, which only its user can read and write (0600 where the system has such a thing). Several
/// processes may have it at once.
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
}

fn read(path: &Path) -> io::Result<Content> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Content::new()),
        Err(error) => return Err(error),
    };
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
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        private_folder().create(folder)?;
    }
    let lock = private_file().create(true).truncate(false).open(path.with_extension("lock"))?;
    lock.lock()?;
    let mut content = read(path)?;
    if !change(&mut content) {
        return Ok(());
    }
    let new = path.with_extension("new");
    // One that was left by a crash may be anybody's.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = private_file().create_new(true).open(&new)?;
    file.write_all(&serde_json::to_vec_pretty(&content)?)?;
    file.sync_all()?;
    fs::rename(&new, path)
}

fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn private_folder() -> DirBuilder {
    let mut folder = DirBuilder::new();
    folder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
    folder
}

#[cfg(unix)]
fn check_private(file: &File) -> io::Result<()> {
    let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata()?.permissions());
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let what = "others can read it, and with it act as you; `chmod 600` it, or remove it and sign in again";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

#[cfg(not(unix))]
fn check_private(_: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
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
}
