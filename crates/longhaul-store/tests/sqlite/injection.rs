//! What is stored is data, whatever it looks like.

use longhaul_store::{Filter, Json, NewTask, Owner, Scope, TaskId, TaskStore};

use super::{get, open};

/// Names that would be something else in a statement, a path or a shell.
const NAMES: [&str; 8] = [
    "ann' OR '1'='1",
    "ann'; DROP TABLE tasks; --",
    "ann\" OR \"\"=\"",
    "ann%",
    "ann_",
    "$1",
    "{ann}",
    "ann\\' --",
];

#[tokio::test]
async fn s26_a_name_is_never_part_of_a_statement() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("tasks.db"));
    let owners: Vec<_> = NAMES.iter().chain(&["ann"]).map(|name| Owner::principal(*name).unwrap()).collect();
    for (number, owner) in owners.iter().enumerate() {
        let task = TaskId::new(format!("t{number}")).unwrap();
        let arguments = Json::parse(serde_json::to_string(NAMES[number % NAMES.len()]).unwrap()).unwrap();
        store
            .create(NewTask::new(task, owner.clone(), NAMES[number % NAMES.len()], arguments))
            .await
            .unwrap();
    }
    for (number, owner) in owners.iter().enumerate() {
        let page = store.list(Scope::Owner(owner), &Filter::default(), None, 10).await.unwrap();
        let seen: Vec<_> = page.tasks.iter().map(|record| record.id.as_str().to_owned()).collect();
        assert_eq!(seen, [format!("t{number}")], "{owner:?} sees its own and nothing else");
    }
    for id in NAMES {
        // What is no id is refused before it comes near the store.
        if let Ok(id) = TaskId::new(id) {
            assert!(store.get(Scope::Operator, &id).await.unwrap().is_none());
        }
    }
    assert!(get(&store, "t0").await.is_some(), "and everything is still there");
}
