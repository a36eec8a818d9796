//! This process's standard input and output.

use std::io::{self, IsTerminal as _, Write as _};

use tokio::io::{AsyncRead, AsyncWrite};

/// The reader and writer of this process's standard streams.
///
/// Whoever uses them must be the only one that does: a stray line on standard output is a protocol
/// error at the other end.
pub fn stdio() -> (impl AsyncRead + Unpin, impl AsyncWrite + Unpin) {
    (tokio::io::stdin(), tokio::io::stdout())
}

/// Tells a person who types at standard input whom the server waits for.
pub(crate) fn greet_person() {
    if io::stdin().is_terminal() {
        let words =
            "this server waits for a host's messages on its standard input: name it to one as a command";
        // Nobody may be there to read it, which is no reason not to serve.
        let _ = writeln!(io::stderr(), "{words} (Ctrl-C ends it)");
    }
}
