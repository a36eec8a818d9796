//! What the engine takes from its surroundings: time, randomness and somewhere to run.
//!
//! This is the only file that names the runtime's clock and spawn, so that a simulator can put its own in
//! their place and run the engine as it ships.
#![expect(clippy::disallowed_methods, reason = "the one place that may name the runtime")]

use std::cell::RefCell;
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
        POOL.with_borrow_mut(|pool| pool.fill(bytes));
    }
}

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool { bytes: [0; POOL_SIZE], left: 0 }) };
}

/// The system's randomness, fetched for a dozen ids at once. Each byte is handed out once and kept no longer.
struct Pool {
    bytes: [u8; POOL_SIZE],
    /// How many at the end have not been handed out.
    left: usize,
}

const POOL_SIZE: usize = 256;

impl Pool {
    fn fill(&mut self, wanted: &mut [u8]) {
        if wanted.len() > POOL_SIZE {
            return system_random(wanted);
        }
        if wanted.len() > self.left {
            system_random(&mut self.bytes);
            self.left = POOL_SIZE;
        }
        let from = POOL_SIZE - self.left;
        let taken = &mut self.bytes[from..from + wanted.len()];
        wanted.copy_from_slice(taken);
        taken.fill(0);
        self.left -= wanted.len();
    }
}

fn system_random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the system has randomness");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_byte_of_the_pool_is_handed_out_twice() {
        let mut pool = Pool { bytes: [0; POOL_SIZE], left: 0 };
        let mut seen = std::collections::HashSet::new();
        for length in [20, 16, 32, 20, 100, 20, 20, 100, 300].repeat(20) {
            let mut bytes = vec![0; length];
            pool.fill(&mut bytes);
            for chunk in bytes.chunks_exact(8) {
                assert!(chunk.iter().any(|byte| *byte != 0) && seen.insert(chunk.to_vec()));
            }
            assert!(
                pool.bytes[..POOL_SIZE - pool.left].iter().all(|byte| *byte == 0),
                "what was handed out is gone"
            );
        }
    }
}
