//! Reaps the children of a process that has more of them than it started: as subreaper it is the parent of every orphan.

use rustix::{
    io::Errno,
    process::{Pid, WaitOptions, WaitStatus, wait},
};

/// What [`reap`] found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reaped {
    /// How the program ended, if it was among those that have.
    pub(super) program: Option<WaitStatus>,
    /// Some child is left, which has not ended.
    pub(super) has_children: bool,
}

/// Reaps every child that has ended: `program`, and what it left behind.
pub(super) fn reap(program: Pid) -> Reaped {
    let mut ended = None;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == program => ended = Some(status),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return Reaped { program: ended, has_children: true },
            Err(_none_left) => return Reaped { program: ended, has_children: false },
        }
    }
}
