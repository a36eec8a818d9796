//! How much one page reads and holds.

use std::{collections::BTreeSet, path::Path};

use longhaul_store::{Filter, Scope, Start, TaskStore};

use super::{ann, create, open, task};

/// Has 12,000 tasks in all, of which all but the first are like the second, which is called `common`.
fn crowd(path: &Path) -> rusqlite::Connection {
    let conn = rusqlite::Connection::open(path).unwrap();
    conn.execute_batch(
        "WITH RECURSIVE n(x) AS (VALUES (3) UNION ALL SELECT x + 1 FROM n WHERE x < 12000) \
         INSERT INTO tasks (ord, id, owner, nth, seq, phase, lease_node, lease_until, epoch, attempt, started, rerun, \
         dialect, retention, retention_ms, created_at, status_changed_at, updated_at, tool, caller, arguments) \
         SELECT x, 'c' || x, owner, x, x, phase, lease_node, lease_until, epoch, attempt, started, rerun, dialect, \
         retention, retention_ms, created_at, status_changed_at, updated_at, tool, caller, arguments \
         FROM n, tasks WHERE id = 'common'",
    )
    .unwrap();
    conn
}

#[tokio::test]
async fn what_a_claim_could_take_is_found_however_much_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let store = open(&path);
    let mut queued = task("queued", 2);
    queued.start = Start::Queued { not_before: store.now() };
    store.create(queued).await.unwrap();
    create(&store, "common").await;
    let conn = crowd(&path);
    let page = store.list(Scope::Operator, &Filter::claimable(), None, 10).await.unwrap();
    assert_eq!(page.tasks.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["queued"]);
    assert_eq!(page.next, None, "and nothing else is read");
    // All of them can be claimed.
    conn.execute("UPDATE tasks SET lease_until = 1 WHERE lease_until IS NOT NULL", []).unwrap();
    let (mut found, mut cursor) = (BTreeSet::new(), None);
    loop {
        let page = store.list(Scope::Operator, &Filter::claimable(), cursor.as_ref(), 1000).await.unwrap();
        for task in page.tasks {
            assert!(found.insert(task.id.clone()), "{} is met twice", task.id);
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(found.len(), 12_000);
}

#[tokio::test]
async fn a_rare_task_is_found_in_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let store = open(&path);
    let mut rare = task("rare", 2);
    rare.tool = "rare".into();
    store.create(rare).await.unwrap();
    create(&store, "common").await;
    crowd(&path);
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
