//! A server whose store fails from when it is told to until it is told otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use longhaul::server::TaskPolicy;
use longhaul::store::{Memory, Operation, Overlay, StoreError, StoreFuture, TaskStore};
use longhaul::{Server, Tool};

use crate::{Build, Nothing};

/// A store in memory that can be cut off.
#[derive(Debug)]
struct Cut {
    store: Memory,
    is_off: AtomicBool,
}

impl Overlay for Cut {
    type Below = Memory;

    fn below(&self) -> &Memory {
        &self.store
    }

    fn around<'a, T: Send + 'a>(&'a self, _: Operation, doing: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        if !self.is_off.load(Ordering::SeqCst) {
            return doing;
        }
        let source = Arc::new(std::io::Error::other("the disk at /dev/secret is gone"));
        Box::pin(std::future::ready(Err(StoreError::Backend { doing: "reading", source })))
    }
}

pub(crate) fn server() -> Server {
    let store = Arc::new(Cut { store: Memory::new(), is_off: AtomicBool::new(false) });
    let turns = |name: &str, is_off: bool| {
        let store = Arc::clone(&store);
        Tool::inline(name, "Turn the store off, or on", move |_, Nothing {}| {
            store.is_off.store(is_off, Ordering::SeqCst);
            "turned"
        })
    };
    let build = |_, Build { seconds }| async move {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        "built"
    };
    Server::new("cut", "1.0.0")
        .tool(Tool::typed("build", "Build", build).task(TaskPolicy::always()))
        .tool(turns("cut", true))
        .tool(turns("mend", false))
        .store(Arc::clone(&store) as Arc<dyn TaskStore>)
}
