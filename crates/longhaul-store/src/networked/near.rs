//! Doing something on the runtime of who waits for it, where that reaches the server by itself: much of what a small operation cost
//! were the ways between that runtime and the store's own threads.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    task::JoinError,
    time::{Sleep, sleep},
};

type Doing<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Has a task of `near` do it, which goes on whoever goes away. One of `own` does it where it has not begun after a moment: who waits on a
/// thread of that runtime may be what keeps it from going on.
pub(super) async fn run<T: Send + 'static>(
    near: &Handle,
    own: &Handle,
    doing: impl Future<Output = T> + Send + 'static,
) -> Result<T, JoinError> {
    let offered = Arc::new(Mutex::new(Some(Box::pin(doing) as Doing<T>)));
    let taken = Arc::clone(&offered);
    let mut begun = near.spawn(async move {
        match take(&taken) {
            Some(doing) => doing.await,
            // The others do it, and end this.
            None => std::future::pending().await,
        }
    });
    let late = on(own, MOMENT);
    tokio::select! {
        biased;
        done = &mut begun => return done,
        () = late => {}
    }
    match take(&offered) {
        Some(doing) => {
            begun.abort();
            own.spawn(doing).await
        }
        None => begun.await,
    }
}

fn take<T>(offered: &Mutex<Option<T>>) -> Option<T> {
    offered.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// A pause by the timers of this runtime, whichever runtime or none at all waits.
fn on(runtime: &Handle, pause: Duration) -> Sleep {
    let _entered = runtime.enter();
    sleep(pause)
}

/// How long it may take until something begins.
const MOMENT: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use std::{
        task::{Context, Poll, Waker},
        thread,
        time::Instant,
    };

    use tokio::runtime::{Builder, Runtime};

    use super::*;

    fn runtime() -> Runtime {
        Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    }

    /// Waits without a runtime, as whoever holds up one.
    fn wait<T>(doing: impl Future<Output = T>) -> T {
        let mut doing = Box::pin(doing);
        let patience = Instant::now() + Duration::from_secs(60);
        loop {
            match doing.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(done) => return done,
                Poll::Pending => assert!(Instant::now() < patience, "it does not end"),
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn it_is_done_near_and_elsewhere_only_where_nothing_begins_there() {
        let (near, own) = (runtime(), runtime());
        let [there, here] = [near.handle(), own.handle()].map(Handle::clone);
        let id = || async { Handle::current().id() };
        assert_eq!(wait(run(&there, &here, id())).unwrap(), there.id());
        let held_up = near.spawn({
            let here = here.clone();
            async move { wait(run(&there, &here, id())) }
        });
        assert_eq!(wait(held_up).unwrap().unwrap(), here.id());
    }

    #[test]
    fn it_is_done_though_nobody_waits_any_more() {
        let (near, own) = (runtime(), runtime());
        let (tell, told) = std::sync::mpsc::channel();
        let [there, here] = [near.handle(), own.handle()].map(Handle::clone);
        let doing = async move {
            sleep(Duration::from_millis(20)).await;
            tell.send(()).unwrap();
        };
        near.block_on(async {
            tokio::select! {
                biased;
                done = run(&there, &here, doing) => panic!("{done:?}"),
                () = async { for _ in 0..3 { tokio::task::yield_now().await } } => {}
            }
        });
        told.recv_timeout(Duration::from_secs(60)).unwrap();
    }
}
