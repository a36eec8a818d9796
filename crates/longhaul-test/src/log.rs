//! What is logged, for tests that read it.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Everything that is written to it. Clones are one log.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// What makes writers of it, for a subscriber.
    pub fn writer(&self) -> impl Fn() -> Self + Send + Sync + use<> {
        let log = self.clone();
        move || log.clone()
    }

    /// What has been written so far.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
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
