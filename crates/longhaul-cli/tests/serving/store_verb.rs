//! `longhaul store`: the store itself.

use longhaul_store::{
    EntryKey, Json, NewTask, Owner, Postgres, Redis, Registry as _, Sqlite, TaskId, TaskStore, Value as Kept,
};
use serde_json::Value;

use super::fleet::{redis, rig};
use super::{Server, folder, left_running, run};

#[test]
fn a_store_is_checked_while_it_is_served_and_what_is_wrong_with_it_is_told() {
    let folder = folder("");
    let at = folder.path();
    let server = Server::start(at, &["--http", "127.0.0.1:0"]);
    let (code, _, err) = left_running(|wait| run(at, &["call", "--wait", wait, server.url(), "work"]));
    assert_eq!(code, 7, "{err}");
    let check = |more: &[&str]| run(at, &[&["store", "check", "sqlite:longhaul.db"], more].concat());
    let (code, said, err) = check(&[]);
    assert_eq!(code, 0, "{said}{err}");
    assert!(
        said.contains("as this release writes it\n") && said.contains("tasks     1 kept, 1 of them open"),
        "{said}"
    );
    let (_, said, _) = check(&["--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&said["tasks"], &said["open"], &said["problems"]),
        (&1.into(), &1.into(), &Value::Array(vec![]))
    );
    drop(server);

    let conn = rusqlite::Connection::open(at.join("longhaul.db")).unwrap();
    let spoil = "UPDATE store SET open = 7, retained = 8; UPDATE tasks SET phase = 2, lease_node = NULL, lease_until = NULL";
    conn.execute_batch(spoil).unwrap();
    let (code, said, err) = check(&[]);
    assert_eq!(code, 1, "{said}{err}");
    assert!(said.contains("it says that 7 tasks are open, and 1 can be read"), "{said}");
    assert!(said.contains("it says that 8 tasks take room, and 1 do"), "{said}");
    assert!(said.contains("it is open, and nothing will ever move it on"), "{said}");
    let (code, said, _) = check(&["--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, said["problems"].as_array().unwrap().len()), (1, 3), "{said}");
    let (code, _, err) = run(at, &["store", "check", "sqlite:nowhere.db"]);
    assert!(code == 2 && err.contains("there is no file nowhere.db"), "{err}");
}

#[test]
fn a_store_is_made_or_brought_to_this_release_once() {
    let folder = folder("");
    let at = folder.path();
    std::fs::write(at.join("empty.db"), "").unwrap();
    let stores = ["sqlite:empty.db".to_owned(), rig::shared().empty_database(), redis::shared().store()];
    for store in stores {
        let verb = |verb: &str| run(at, &["store", verb, &store]);
        let (code, _, err) = verb("check");
        assert!(code == 1 && err.contains("longhaul store migrate"), "{code} {err}");
        let (code, said, err) = verb("migrate");
        assert!(code == 0 && said.contains(" is a store now, of format "), "{said}{err}");
        let (code, said, err) = verb("migrate");
        assert!(code == 0 && said.contains("nothing was changed"), "{said}{err}");
        let (code, said, err) = verb("check");
        assert!(code == 0 && said.contains("0 kept, 0 of them open"), "{said}{err}");
    }
    let (code, _, err) = run(at, &["store", "migrate", "memory:"]);
    assert!(code == 2 && err.contains("there is nothing to look at"), "{err}");
}

#[test]
fn a_store_of_an_earlier_release_is_brought_to_this_one_by_the_verb() {
    let folder = folder("");
    let at = folder.path();
    let file = rusqlite::Connection::open(at.join("old.db")).unwrap();
    file.execute_batch(include_str!("../../../longhaul-store/tests/processes/format_1.sql")).unwrap();
    drop(file);
    let database = rig::shared().database();
    // What leads back from the last format of a database to the one before.
    rig::query(
        &database,
        "ALTER TABLE longhaul.tasks DROP COLUMN charged; ALTER TABLE longhaul.accounts DROP COLUMN task_bytes; \
         DELETE FROM longhaul.migrations WHERE version > 4",
    );
    for (store, from, kept) in [("sqlite:old.db", 1, 3), (&database, 4, 0)] {
        let verb = |words: &[&str]| run(at, &[&["store"], words, &[store]].concat());
        let (code, _, err) = verb(&["check"]);
        assert!(
            code == 1 && err.contains("its format is") && err.contains("longhaul store migrate"),
            "{err}"
        );
        let (code, said, err) = verb(&["migrate"]);
        assert!(
            code == 0 && said.contains(&format!(" was of format {from}, and is of format ")),
            "{said}{err}"
        );
        let (code, said, err) = verb(&["migrate"]);
        assert!(code == 0 && said.contains("nothing was changed"), "{said}{err}");
        let (code, said, err) = verb(&["check"]);
        assert!(code == 0 && said.contains(&format!("tasks     {kept} kept")), "{said}{err}");
    }
}

#[tokio::test]
async fn a_spoilt_row_on_a_server_is_found() {
    let folder = folder("");
    let (database, server) = (rig::shared().database(), redis::shared().store());
    let stores: [Box<dyn TaskStore>; 2] =
        [Box::new(Postgres::open(&database).await.unwrap()), Box::new(Redis::open(&server).await.unwrap())];
    for store in stores {
        for name in ["sound", "spoilt"] {
            let (id, ann) = (TaskId::new(name).unwrap(), Owner::principal("ann").unwrap());
            store.create(NewTask::new(id, ann, "work", Json::parse("{}").unwrap())).await.unwrap();
        }
    }
    let check = |store: &str| run(folder.path(), &["store", "check", store]);
    for store in [&database, &server] {
        let (code, said, err) = check(store);
        assert!(code == 0 && said.contains("2 kept, 2 of them open"), "{said}{err}");
    }
    rig::query(&database, "UPDATE longhaul.tasks SET phase = 77 WHERE id = 'spoilt'");
    let (_, name) = server.rsplit_once("name=").unwrap();
    redis::shared().say(&["HSET", &format!("{{{name}}}:task:spoilt"), "r", "no record"]);
    for store in [&database, &server] {
        let (code, said, err) = check(store);
        assert_eq!(code, 1, "{said}{err}");
        assert!(said.contains("it says that 2 tasks are open, and 1 can be read"), "{said}{err}");
    }
}

#[test]
fn what_cannot_be_copied_is_said_before_anything_is_touched() {
    let folder = folder("");
    let at = folder.path();
    let copy = |from: &str, to: &str| run(at, &["store", "copy", from, to]);
    for (from, to, why) in [
        ("memory:", "sqlite:new.db", "a store in memory"),
        ("sqlite:nowhere.db", "sqlite:new.db", "there is no file nowhere.db"),
        ("sqlite:a.db", "sqlite:./a.db", "into itself"),
    ] {
        let (code, _, err) = copy(from, to);
        assert!(code == 2 && err.contains(why) && err.contains("help: "), "{code} {err}");
    }
    assert!(!at.join("new.db").exists() && !at.join("nowhere.db").exists());
}

#[tokio::test]
async fn a_copy_is_given_up_only_where_there_is_one() {
    let folder = folder("");
    let at = folder.path();
    let give_up = || run(at, &["store", "copy", "sqlite:a.db", "sqlite:new.db", "--abandon"]);
    drop(Sqlite::open(at.join("a.db")).unwrap());
    let (code, said, err) = give_up();
    assert!(code == 0 && said.contains("there is nothing to give up"), "{said}{err}");
    // One that was broken off leaves this.
    let name = |file: &str| format!("sqlite:{}", at.canonicalize().unwrap().join(file).display());
    let mark = serde_json::json!({"copying": name("new.db")}).to_string();
    let key = EntryKey::of_server("transfer", "mark");
    let store = Sqlite::open(at.join("a.db")).unwrap();
    store.put(key, Kept::for_ever(mark.as_bytes())).await.unwrap();
    drop(store);
    for verb in [["tasks", "list"].as_slice(), &["serve", "--stdio"]] {
        let (code, _, err) = run(at, &[verb, &["--store", "sqlite:a.db"]].concat());
        let finish = format!("longhaul store copy {} {} --abandon", name("a.db"), name("new.db"));
        assert!(code == 1 && err.contains("is being copied to") && err.contains(&finish), "{code} {err}");
    }
    let (code, said, err) = give_up();
    assert!(code == 0 && said.contains("can be served again"), "{said}{err}");
    let (code, _, err) = run(at, &["tasks", "list", "--store", "sqlite:a.db"]);
    assert!(code == 0, "{err}");
    assert!(!at.join("new.db").exists(), "the other one need not be there");
}
