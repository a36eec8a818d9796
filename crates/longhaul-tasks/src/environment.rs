//! What the engine takes from its surroundings: time, randomness and somewhere to run.
//!
//! This is the only file that names the runtime's clock and spawn, so that a simulator can put its own in
//! their place and run the engine as it ships.
#![expect(clippy::disallowed_methods, reason = "the one place that may name the runtime")]

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::oneshot;

/// A future in a box.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The surroundings of an engine.
pub trait Environment: fmt::Debug + Send + Sync + 'static {
    /// Completes after `duration`.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;

    /// Runs `future` to its end, apart from the caller.
    fn spawn(&self, future: BoxFuture<'static, ()>);

    /// Runs `future`, which never ends and does little, so that work that blocks does not keep it waiting. Where all work has a
    /// thread to itself, as by default is assumed, that is [`spawn`](Self::spawn).
    fn spawn_apart(&self, future: BoxFuture<'static, ()>) {
        self.spawn(future);
    }

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

    /// In a thread of its own, until the runtime that this is called in is gone.
    fn spawn_apart(&self, future: BoxFuture<'static, ()>) {
        let (give, given) = mpsc::channel::<BoxFuture<'static, ()>>();
        let (stop, mut stopped) = oneshot::channel::<()>();
        let begun = Builder::new_current_thread().enable_time().build().and_then(|runtime| {
            let run = move || {
                let Ok(future) = given.recv() else { return };
                runtime.block_on(async {
                    tokio::select! {
                        () = future => {}
                        _ = &mut stopped => {}
                    }
                });
            };
            std::thread::Builder::new().name("longhaul-apart".to_owned()).spawn(run)
        });
        match begun {
            Ok(thread) => {
                let apart = Apart { stop: Some(stop), thread: Some(thread) };
                // It hears at once: it has not ended.
                let _ = give.send(future);
                tokio::spawn(async move {
                    let _apart = apart;
                    std::future::pending::<()>().await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "no thread could be begun: what should run apart runs among the work");
                tokio::spawn(future);
            }
        }
    }

    fn random(&self, bytes: &mut [u8]) {
        POOL.with_borrow_mut(|pool| pool.fill(bytes));
    }
}

/// A thread that ends when this is dropped, and what it ran is dropped by then.
struct Apart {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Apart {
    fn drop(&mut self) {
        drop(self.stop.take());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("what ran apart has panicked");
        }
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
    fn what_runs_apart_goes_on_beside_work_that_blocks_and_ends_with_the_runtime() {
        let (tell, told) = mpsc::channel();
        let held = std::sync::Arc::new(());
        let kept = std::sync::Arc::clone(&held);
        Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
            Tokio.spawn_apart(Box::pin(async move {
                let _kept = kept;
                loop {
                    Tokio.sleep(Duration::from_millis(1)).await;
                    tell.send(()).unwrap();
                }
            }));
            // The runtime's only thread does nothing else meanwhile.
            for _ in 0..3 {
                told.recv_timeout(Duration::from_secs(10)).unwrap();
            }
        });
        assert_eq!(std::sync::Arc::strong_count(&held), 1);
    }

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
