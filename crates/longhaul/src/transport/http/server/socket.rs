//! A socket of this machine, which only its user can connect to.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Extensions;
use tokio::net::{UnixListener, UnixSocket, UnixStream};

use super::Listen;
use crate::server::{Caller, local_principal};

/// A Unix socket to [`serve`](super::serve) on. Only its user can connect to it, and the superuser; callers are the
/// principal `local:UID`, as over standard input. Dropping it removes its file.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
    /// Its file's, which may be replaced under its name.
    identity: (u64, u64),
}

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 1024;

impl Socket {
    /// Listens at `path`. A socket there that nobody listens on any more is replaced.
    ///
    /// # Errors
    ///
    /// [`AddrInUse`](io::ErrorKind::AddrInUse) when a server listens there, [`AlreadyExists`](io::ErrorKind::AlreadyExists)
    /// when something else than a socket is there, and whatever the system says.
    pub async fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let _turn = turn(path.parent().unwrap_or(&path)).await?;
        make_way(&path).await?;
        let socket = UnixSocket::new_stream()?;
        // Before it has a name, so that nobody else can connect at any time.
        #[cfg(target_os = "linux")]
        rustix::fs::fchmod(&socket, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
        socket.bind(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        let listener = socket.listen(BACKLOG)?;
        let identity = identity(&path)?;
        Ok(Self { listener, path, identity })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Listen for Socket {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, Extensions)> {
        let (stream, _) = self.listener.accept().await?;
        let user = stream.peer_cred()?.uid();
        let mut known = Extensions::new();
        known.insert(Caller::new(Some(local_principal(user))));
        Ok((stream, known))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::debug!(%error, path = %self.path.display(), "a socket's file remains");
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let file = fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino()))
}

/// Held while one server finds out whether a socket in `folder` is stale, so that of two that start at once neither
/// removes what the other has just made. Whoever holds it for longer keeps nobody from starting.
async fn turn(folder: &Path) -> io::Result<File> {
    let folder = File::open(folder)?;
    for _ in 0..TRIES {
        if folder.try_lock().is_ok() {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(folder)
}

const TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(50);

/// Removes a socket that nobody listens on.
async fn make_way(path: &Path) -> io::Result<()> {
    let is_socket = match fs::symlink_metadata(path) {
        Ok(file) => file.file_type().is_socket(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !is_socket {
        let what = "there is something else than a socket";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        // One that is too busy to answer is alive as well.
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "a server listens there")),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(io::Error::new(io::ErrorKind::AddrInUse, "a server listens there, and is busy"))
        }
        Err(error) => Err(error),
    }
}
