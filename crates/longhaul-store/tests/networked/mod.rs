//! What is true of every store on a server, whichever it is.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use longhaul_store::{Json, NewTask, Owner, Settings, StoreError, TaskId, TaskStore};
use tokio::time::{Instant, sleep};

pub(crate) mod claims;
pub(crate) mod families;
pub(crate) mod lists;
pub(crate) mod nodes;
pub(crate) mod outages;
pub(crate) mod partitions;
pub(crate) mod sweeps;
pub(crate) mod tls;
pub(crate) mod way;

use self::way::Way;

/// A server that tests start, on which stores are.
pub(crate) trait Rig: Send + Sized + 'static {
    /// One that all tests share which do it no harm.
    fn shared() -> &'static Self;

    /// One of one's own, which keeps what it has acknowledged.
    fn start() -> Self;

    /// The same, to be spoken to over TLS, with a certificate of its own.
    fn over_tls() -> Self;

    /// Whoever vouches for that.
    fn authority(&self) -> PathBuf;

    /// Starts it in its folder, once it has ended.
    fn launch(&mut self);

    /// Ends it as a loss of power to its machine would.
    fn kill(&mut self);

    /// How often it has been written to, as a whole or not at all each time.
    fn writes(&self) -> u64;

    /// The URL of a store that holds nothing.
    fn store(&self) -> String;

    /// Binds a task of the store at this URL to a host, behind the back of all nodes.
    fn bind(&self, url: &str, task: &str, host: &str);

    /// Damages this step of a task of the store at this URL.
    fn damage_step(&self, url: &str, task: &str, step: &str);

    /// Has more open tasks of the store at this URL than are read at once, which are listed behind this one and are held as it is.
    fn crowd(&self, url: &str, task: &str);

    /// A way there for a node, whose weather is the test's to make.
    fn way(&self) -> Way;

    /// The URL of this store, by that way.
    fn by(way: &Way, url: &str) -> String;

    /// The URL of a store over TLS, at a host of that name, for whose certificate this authority is to vouch.
    fn store_over_tls(&self, host: &str, authority: &Path) -> String;

    /// Another node of this store, if it can be opened.
    fn open(
        url: &str,
        settings: Settings,
    ) -> impl Future<Output = Result<Arc<dyn TaskStore>, StoreError>> + Send;

    /// Another node of this store.
    fn join(url: &str, settings: Settings) -> impl Future<Output = Arc<dyn TaskStore>> + Send {
        async move { Self::open(url, settings).await.expect("the store opens") }
    }
}

/// Has a test for each of these scenarios.
macro_rules! scenarios {
    ($server:ty: $($module:ident::$name:ident),+ $(,)?) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            crate::networked::$module::$name::<$server>().await;
        }
    )+};
}

pub(crate) use scenarios;

/// A task of ann's.
pub(crate) fn task(name: &str) -> NewTask {
    let ann = Owner::principal("ann").unwrap();
    NewTask::new(TaskId::new(name).unwrap(), ann, "build", Json::parse("{}").unwrap())
}

/// Waits until it is so.
pub(crate) async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !is_so().await {
        assert!(Instant::now() < patience, "it does not become so");
        sleep(Duration::from_millis(20)).await;
    }
}
