//! Signals to the supervisor, as something a poll can wait for.

use std::{
    io::{self, Read as _},
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::process::Signal;

/// The signals that the supervisor handles. A handler, unlike an ignored signal, is not inherited by the command.
#[derive(Debug)]
pub(super) struct Signals {
    wake: UnixStream,
    terminate: Arc<AtomicBool>,
}

impl Signals {
    /// Handles SIGTERM (a person's cancel) and SIGCHLD, and makes harmless what is meant for others: SIGHUP, SIGINT
    /// and SIGQUIT of a terminal, and SIGXFSZ, whose cause the writer learns as an error.
    pub(super) fn handle() -> io::Result<Self> {
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let terminate = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(Signal::TERM.as_raw(), Arc::clone(&terminate))?;
        signal_hook::low_level::pipe::register(Signal::TERM.as_raw(), woken.try_clone()?)?;
        signal_hook::low_level::pipe::register(Signal::CHILD.as_raw(), woken)?;
        let unheeded = Arc::new(AtomicBool::new(false));
        for signal in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::XFSZ] {
            signal_hook::flag::register(signal.as_raw(), Arc::clone(&unheeded))?;
        }
        Ok(Self { wake, terminate })
    }

    /// Readable after a signal.
    pub(super) const fn wake(&self) -> &UnixStream {
        &self.wake
    }

    /// Takes note of the signals that came. Whether one of them asked for the end.
    pub(super) fn take_terminate(&mut self) -> bool {
        let mut bytes = [0; 64];
        while self.wake.read(&mut bytes).is_ok_and(|read| read == bytes.len()) {}
        self.terminate.swap(false, Ordering::Relaxed)
    }
}
