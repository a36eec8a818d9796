//! Which descriptors the supervisor has, so that the command gets 0, 1, 2 and 3 and nothing else.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd},
        unix::net::UnixStream,
    },
};

use rustix::{
    fs::{FileType, fstat},
    stdio::{dup2_stderr, dup2_stdin, dup2_stdout},
};

/// What the process keeps of what it was started with.
#[derive(Debug)]
pub(super) struct Descriptors {
    /// The server that started this supervisor.
    pub(super) owner: Option<UnixStream>,
    /// Descriptor 3, kept free for the command's progress.
    pub(super) third: OwnedFd,
}

/// Closes what was inherited, puts `/dev/null` on 0, 1 and 2, and keeps the socket that was on 0.
pub(super) fn take_over() -> io::Result<Descriptors> {
    close_inherited();
    // The lowest free number is taken, so with everything closed this is 3.
    let null = File::options().read(true).write(true).open("/dev/null")?;
    if null.as_raw_fd() != PROGRESS_FD {
        return Err(io::Error::other("descriptor 3 is taken"));
    }
    let stdin = io::stdin();
    let is_socket = FileType::from_raw_mode(fstat(&stdin)?.st_mode) == FileType::Socket;
    let owner = is_socket.then(|| stdin.as_fd().try_clone_to_owned().map(UnixStream::from)).transpose()?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    Ok(Descriptors { owner, third: null.into() })
}

/// Descriptors that the server's parent left open to it, and it to us. A pipe among them would keep that parent
/// waiting for its end as long as the command runs.
fn close_inherited() {
    let listed = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    let Ok(entries) = std::fs::read_dir(listed) else { return };
    let numbers: Vec<RawFd> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2)
        .collect();
    for number in numbers {
        // Nothing in this process has opened any of them: it has just begun. The list's own is closed already.
        let _closed_or_was = nix::unistd::close(number);
    }
}

/// Where the command writes its progress.
pub(super) const PROGRESS_FD: RawFd = 3;
