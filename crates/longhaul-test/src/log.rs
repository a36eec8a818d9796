//! What is logged, for tests that read it.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex, Once, PoisonError};

/// Everything that is written to it. Clones are one log.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// What this thread logs from now on, at every level.
    pub fn of_this_thread() -> Self {
        let log = Self::default();
        log.hear_this_thread();
        log
    }

    /// Hears what this thread logs from now on, too.
    ///
    /// One subscriber serves all threads. With one for each, what a thread without any came to first would be held to
    /// interest nobody, and be left out of every log from then on.
    pub fn hear_this_thread(&self) {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            let writer = || HERE.with_borrow(|log| log.clone().unwrap_or_default());
            let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(writer);
            subscriber.with_max_level(tracing_subscriber::filter::LevelFilter::TRACE).init();
        });
        HERE.set(Some(self.clone()));
    }

    /// What has been written so far.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

thread_local! {
    static HERE: RefCell<Option<Log>> = const { RefCell::new(None) };
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
