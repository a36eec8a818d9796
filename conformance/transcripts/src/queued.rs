//! A server that answers and works on nothing, and where somebody can be hired who works.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longhaul::proto::jsonrpc::ErrorObject;
use longhaul::server::{Dispatcher, TaskPolicy};
use longhaul::store::{Memory, TaskStore};
use longhaul::{Server, Tool};
use serde_json::json;

use crate::{Nothing, quietly};

pub(crate) fn server() -> Server {
    let store: Arc<dyn TaskStore> = Arc::new(Memory::new());
    let (shared, hired) = (Arc::clone(&store), Arc::<Mutex<Option<Dispatcher>>>::default());
    named("front").store(store).front(true).drafted_tasks(true).method("test/hire", move |_, Nothing {}| {
        let (worker, hired) = (named("worker").store(Arc::clone(&shared)), Arc::clone(&hired));
        async move {
            let worker = worker.dispatcher().map_err(|error| ErrorObject::internal(error.to_string()))?;
            worker.start().await.map_err(|error| ErrorObject::internal(error.to_string()))?;
            *hired.lock().unwrap_or_else(PoisonError::into_inner) = Some(worker);
            Ok::<_, ErrorObject>(json!({}))
        }
    })
}

fn named(name: &str) -> Server {
    let mut policy = TaskPolicy::always();
    policy.poll_interval = Duration::from_millis(50);
    Server::new(name, "1.0.0").tool(Tool::typed("build", "Build without a word", quietly).task(policy))
}
