//! Tasks as SEP-1686 drafted them, before servers that have those of a revision.

use std::sync::Arc;

use longhaul::client::Options;
use longhaul::proto::dialect::{Dialect, Revision};
use longhaul::server::TaskPolicy;
use longhaul::store::{Dialect as Door, Filter, Memory, Record, Scope, TaskStore as _};
use longhaul::{Cx, Server, Tool};
use tokio::sync::Semaphore;

use super::rig::{Front, Nothing, at, begun, eventually, over_http};

/// The tasks of a store, the latest first.
async fn tasks(store: &Memory) -> Vec<Record> {
    store.list(Scope::Operator, &Filter::default(), None, 10).await.unwrap().tasks
}

#[tokio::test]
async fn a_drafted_task_is_one_of_its_servers_own_revision_behind() {
    let without_tasks = Revision::from_date("2025-06-18").unwrap();
    for (behind, door_there) in [(Dialect::newest_legacy(), Door::D2), (Dialect::newest_modern(), Door::D3)] {
        let behind = behind.revision();
        let (here, there, door) = (Memory::new(), Memory::new(), Arc::new(Semaphore::new(0)));
        let way = Arc::clone(&door);
        let work = Tool::typed("work", "Work until it may end", move |cx: Cx, Nothing {}| {
            let door = Arc::clone(&way);
            async move {
                cx.status("at work");
                door.acquire().await.unwrap().forget();
                "worked"
            }
        });
        let server = Server::new("behind", "1.0.0").store(there.another_node());
        let url = over_http(server.tool(work.task(TaskPolicy::always())).dispatcher().unwrap()).await;
        let drafts = |server: Server| server.store(here.another_node()).drafted_tasks(true);
        let servers = vec![at("behind", &url, "task = \"always\"\njoin = \"never\"\n")];
        let front = Front::with(servers, behind, |upstreams| upstreams, drafts).once_listed().await;
        let client = front.caller(Options::default().revision(without_tasks).drafted_tasks(true)).await;
        for is_cancelled in [false, true] {
            let task = begun(&client, "work").await;
            let before = usize::from(is_cancelled);
            eventually("it is no task there", async || tasks(&there).await.len() == before + 1).await;
            eventually("it is not followed", async || {
                let here = tasks(&here).await;
                here.iter().any(|its| !its.is_terminal() && its.status_message.as_deref() == Some("at work"))
            })
            .await;
            assert!(tasks(&there).await.iter().all(|its| its.dialect == door_there), "{behind}");
            assert!(tasks(&here).await.iter().all(|its| its.dialect == Door::D1), "{behind}");
            if is_cancelled {
                task.cancel().await.unwrap();
            } else {
                door.add_permits(1);
                let worked = task.wait().await.unwrap();
                assert_eq!(worked.content[0].as_text(), Some("worked"), "{behind}: {worked:?}");
            }
            eventually("it goes on there", async || tasks(&there).await.iter().all(Record::is_terminal))
                .await;
        }
        front.upstreams.close().await;
    }
}
