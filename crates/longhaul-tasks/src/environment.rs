//! What the engine takes from its surroundings: time, randomness and somewhere to run.
//!
//! This is the only file that names the runtime's clock and spawn, so that a simulator can put its own in
//! their place and run the engine as it ships.
#![expect(clippy::disallowed_methods, reason = "the one place that may name the runtime")]

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// A future in a box.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The surroundings of an engine.
pub trait Environment: fmt::Debug + Send + Sync + 'static {
    /// Completes after `duration`.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;

    /// Runs `future` to its end, apart from the caller.
    fn spawn(&self, future: BoxFuture<'static, ()>);

    /// Fills `bytes` with randomness that nobody can guess.
    fn random(&self, bytes: &mut [u8]);
}

/// The tokio runtime and the system's randomness.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Tokio;

impl Tokio {
    /// The runtime this is called in, whenever it is used.
    pub fn new() -> Self {
        Self
    }
}

impl Environment for Tokio {
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) {
        tokio::spawn(future);
    }

    fn random(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the system has randomness");
    }
}
