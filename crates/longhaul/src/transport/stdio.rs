//! This process's standard input and output.

use std::io::{self, IsTerminal as _, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};

/// The reader and writer of this process's standard streams.
///
/// A stray line on standard output is a protocol error at the other end. So on Unix, for as long as the writer is there,
/// whatever else this process prints, and the programs that it starts, goes to standard error instead. Take them once at
/// a time, and let nothing else read standard input.
pub fn stdio() -> (impl AsyncRead + Unpin, impl AsyncWrite + Unpin) {
    (tokio::io::stdin(), Output::take())
}

/// Standard output.
enum Output {
    /// Nobody else's.
    #[cfg(unix)]
    Own(guarded::Stdout),
    /// Everybody's.
    Shared(tokio::io::Stdout),
}

impl Output {
    fn take() -> Self {
        #[cfg(unix)]
        match guarded::Stdout::take() {
            Ok(own) => return Self::Own(own),
            Err(error) => {
                tracing::warn!(%error, "what is printed disturbs the protocol: standard output is not guarded");
            }
        }
        Self::Shared(tokio::io::stdout())
    }

    fn writer(self: Pin<&mut Self>) -> Pin<&mut (dyn AsyncWrite + Unpin)> {
        match self.get_mut() {
            #[cfg(unix)]
            Self::Own(own) => Pin::new(&mut own.ours),
            Self::Shared(stdout) => Pin::new(stdout),
        }
    }
}

impl AsyncWrite for Output {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.writer().poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writer().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writer().poll_shutdown(cx)
    }
}

#[cfg(unix)]
mod guarded {
    use std::fs;
    use std::io::{self, Write as _};
    use std::os::fd::{AsFd as _, OwnedFd};

    use rustix::stdio::dup2_stdout;
    use tokio::fs::File;

    /// Standard output as it was, in the place of which is standard error until this is dropped.
    pub(super) struct Stdout {
        pub(super) ours: File,
        as_it_was: OwnedFd,
    }

    impl Stdout {
        pub(super) fn take() -> io::Result<Self> {
            // What was printed before belongs there. No program that is started has these.
            io::stdout().flush()?;
            let as_it_was = io::stdout().as_fd().try_clone_to_owned()?;
            let ours = File::from_std(fs::File::from(as_it_was.try_clone()?));
            dup2_stdout(io::stderr())?;
            Ok(Self { ours, as_it_was })
        }
    }

    impl Drop for Stdout {
        fn drop(&mut self) {
            // Where this fails nothing can be printed any more, which harms nobody.
            let _ = io::stdout().flush();
            let _ = dup2_stdout(&self.as_it_was);
        }
    }
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
