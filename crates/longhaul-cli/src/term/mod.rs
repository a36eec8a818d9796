//! The terminal: results on standard output, all else on standard error, nothing of it able to do harm.

mod show;

use std::io::{ErrorKind, IsTerminal, Write};

pub(crate) use longhaul_gateway::clean;
pub(crate) use show::{Manner, Show, counted};

use crate::failure::{Failure, Outcome};

/// Writes a line to standard output.
pub(crate) fn print(line: &str) -> Outcome<()> {
    write(line.as_bytes())?;
    if line.ends_with('\n') { Ok(()) } else { write(b"\n") }
}

/// Writes bytes to standard output. That its reader has gone ends the program quietly.
pub(crate) fn write(bytes: &[u8]) -> Outcome<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Failure::reader_gone()),
        Err(error) => Err(anyhow::Error::new(error).context("the output cannot be written").into()),
    }
}

/// Writes a line to standard error. If nobody reads it, nobody is told.
pub(crate) fn note(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Whether a person reads standard error.
pub(crate) fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}

/// How many characters a line of the terminal has that standard output goes to, if it goes to one that says so.
pub(crate) fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then(|| usize::from(size.ws_col))
}

/// The same of the one that standard error goes to.
fn watched_width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col)
}

/// Whether standard output goes to a terminal.
pub(crate) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}
