//! Waits for file system work on the runtime's blocking threads.

use tokio::task::spawn_blocking;

/// Runs `work` where it may block. `None` when the runtime is shutting down and will not run it; a panic in it goes
/// on here.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match spawn_blocking(work).await {
        Ok(done) => Some(done),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_cancelled) => None,
    }
}
