//! How much one page reads and holds.

use longhaul_store::{Filter, Scope, TaskStore};

use super::{ann, create, open, task};

#[tokio::test]
async fn a_rare_task_is_found_in_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let store = open(&path);
    let mut rare = task("rare", 2);
    rare.tool = "rare".into();
    store.create(rare).await.unwrap();
    create(&store, "common").await;
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute_batch(
        "WITH RECURSIVE n(x) AS (VALUES (3) UNION ALL SELECT x + 1 FROM n WHERE x < 12000) \
         INSERT INTO tasks (ord, id, owner, nth, seq, phase, lease_node, lease_until, epoch, attempt, started, rerun, \
         dialect, retention, retention_ms, created_at, status_changed_at, updated_at, tool, caller, arguments) \
         SELECT x, 'c' || x, owner, x, x, phase, lease_node, lease_until, epoch, attempt, started, rerun, dialect, \
         retention, retention_ms, created_at, status_changed_at, updated_at, tool, caller, arguments \
         FROM n, tasks WHERE id = 'common'",
    )
    .unwrap();
    let owner = ann();
    for scope in [Scope::Owner(&owner), Scope::Operator] {
        for filter in [Filter::all().of_tool("rare"), Filter::open().of_tool("rare")] {
            let (mut pages, mut found, mut cursor) = (0, Vec::new(), None);
            loop {
                let page = store.list(scope, &filter, cursor.as_ref(), 10).await.unwrap();
                pages += 1;
                found.extend(page.tasks.into_iter().map(|task| task.id.to_string()));
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(found, ["rare"]);
            assert!(pages > 2, "12,000 rows were read in {pages} pieces");
        }
    }
}

#[tokio::test]
async fn a_page_of_large_tasks_ends_early() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("tasks.db"));
    for number in 0..5 {
        store.create(task(&format!("t{number}"), 3_000_000)).await.unwrap();
    }
    let (mut sizes, mut cursor) = (Vec::new(), None);
    loop {
        let page = store.list(Scope::Owner(&ann()), &Filter::all(), cursor.as_ref(), 1000).await.unwrap();
        sizes.push(page.tasks.len());
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(sizes, [2, 2, 1]);
}
