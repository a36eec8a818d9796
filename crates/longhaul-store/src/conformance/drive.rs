//! Running futures without a runtime: on threads of their own, and against time.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

/// Runs a future to its end on this thread.
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// Does the same on several threads at once and gathers what came of it.
pub(super) fn race<T: Send>(times: usize, act: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let act = &act;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..times).map(|index| scope.spawn(move || act(index))).collect();
        threads.into_iter().map(|thread| thread.join().expect("the thread ends well")).collect()
    })
}

/// Waits for a future that must end; far longer than it may take, so that only one that never would is caught.
pub(super) async fn must_end<T>(what: &str, future: impl Future<Output = T>) -> T {
    let late = Arc::new(AtomicBool::new(false));
    let mut alarm = None;
    let mut future = pin!(future);
    poll_fn(|cx| {
        if let Poll::Ready(value) = future.as_mut().poll(cx) {
            return Poll::Ready(value);
        }
        assert!(!late.load(Ordering::Acquire), "{what} did not happen within {FOR_EVER:?}");
        alarm.get_or_insert_with(|| {
            let (late, waker) = (late.clone(), cx.waker().clone());
            thread::spawn(move || {
                thread::sleep(FOR_EVER);
                late.store(true, Ordering::Release);
                waker.wake();
            })
        });
        Poll::Pending
    })
    .await
}

/// Polls a future once.
pub(super) fn poll_once<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Longer than anyone waits for a hint.
const FOR_EVER: Duration = Duration::from_secs(60);
