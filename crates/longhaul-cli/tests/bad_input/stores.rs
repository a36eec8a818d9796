//! Stores that cannot be used, or stop being usable while a server uses them.

use std::fs;
use std::time::Duration;

use rusqlite::Connection;
use serde_json::json;

use crate::rig::eventually;
use crate::rig::http;
use crate::rig::modern::{self, begin, call, cancel, ended, text};
use crate::rig::place::Place;
use crate::rig::scene::Scene;
use crate::rig::server::Server;

/// Runs a server that must refuse this store; what it says.
#[track_caller]
fn refused(place: &Place, url: &str) -> String {
    let mut server = Server::launch(place, &["--store", url], &[]);
    assert!(!server.serves(), "it serves {url}; it said:\n{}", server.said());
    assert_eq!(server.ended().code(), Some(1));
    let said = server.said();
    assert!(said.starts_with(&format!("error: the store {url} cannot be opened: ")), "{said}");
    said
}

#[test]
fn what_is_no_store_is_refused_and_left_as_it_is() {
    let place = Place::new("");
    for (name, bytes) in [
        ("text.db", b"dear diary\n".repeat(1000)),
        ("short.db", b"x".to_vec()),
        ("note.db", b"dear diary".to_vec()),
        ("zeros.db", vec![0; 8192]),
    ] {
        fs::write(place.path(name), &bytes).unwrap();
        let said = refused(&place, &format!("sqlite:{name}"));
        assert!(said.contains("is not a longhaul store") && said.contains("name another file"), "{said}");
        assert_eq!(fs::read(place.path(name)).unwrap(), bytes, "{name}");
    }
    let other = Connection::open(place.path("other.db")).unwrap();
    other.execute_batch("CREATE TABLE diary (entry TEXT); INSERT INTO diary VALUES ('dear')").unwrap();
    drop(other);
    let before = fs::read(place.path("other.db")).unwrap();
    let said = refused(&place, "sqlite:other.db");
    assert!(said.contains("is not a longhaul store"), "{said}");
    assert_eq!(fs::read(place.path("other.db")).unwrap(), before);
    fs::create_dir(place.path("folder.db")).unwrap();
    refused(&place, "sqlite:folder.db");
    let said = refused(&place, "sqlite:no/such/folder/tasks.db");
    assert!(said.contains("no/such/folder"), "{said}");
}

#[test]
fn a_database_that_cannot_be_reached_is_named_without_its_password() {
    let place = Place::new("");
    let mut server =
        Server::launch(&place, &["--store", "postgres://ann:hunter2@127.0.0.1:1/tasks?sslmode=prefer"], &[]);
    assert!(!server.serves(), "it serves; it said:\n{}", server.said());
    assert_eq!(server.ended().code(), Some(1));
    let said = server.said();
    let shown = "postgres://127.0.0.1:1/tasks";
    assert!(said.starts_with(&format!("error: the store {shown} cannot be opened: ")), "{said}");
    assert!(said.contains(&format!("the database {shown} cannot be reached")), "{said}");
    assert!(!said.contains("hunter2") && !said.contains("ann:"), "{said}");
}

#[test]
fn a_store_of_a_newer_release_is_refused_and_left_as_it_is() {
    let place = Place::new("");
    let mut server = Server::start(&place);
    let task = begin(server.address(), "gate", json!({"key": "kept"}));
    server.kill();
    let version = |version: Option<u32>| {
        let conn = Connection::open(place.path("tasks.db")).unwrap();
        let found: u32 = conn.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        if let Some(version) = version {
            conn.pragma_update(None, "user_version", version).unwrap();
        }
        found
    };
    let ours = version(Some(999));
    let said = refused(&place, "sqlite:tasks.db");
    assert!(said.contains("format 999") && said.contains("install a newer release"), "{said}");
    assert_eq!(version(Some(ours)), 999);
    let mut server = Server::start(&place);
    fs::write(place.path("kept"), "").unwrap();
    assert_eq!(text(&ended(server.address(), &task)["result"]), "open");
    server.kill();
}

#[test]
fn a_damaged_store_is_refused_with_what_to_do() {
    let place = Place::new("");
    let mut server = Server::start(&place);
    for _ in 0..30 {
        call(server.address(), "echo", json!({"text": "x"}));
    }
    let task = begin(server.address(), "gate", json!({"key": "damaged"}));
    server.kill();
    // Everything into the file itself, which is then torn.
    let conn = Connection::open(place.path("tasks.db")).unwrap();
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(conn);
    let whole = fs::read(place.path("tasks.db")).unwrap();
    let mut torn = whole.clone();
    let from = 4096.min(torn.len() / 2);
    torn[from..].fill(0x5a);
    fs::write(place.path("tasks.db"), &torn).unwrap();
    let mut server = Server::launch(&place, &[], &[]);
    let status = server.ended();
    let said = server.said();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("damaged") && said.contains("restore it from a backup"), "{said}");
    drop(server);
    // With the backup back, nothing is lost: the command never knew.
    fs::write(place.path("tasks.db"), &whole).unwrap();
    let mut server = Server::start(&place);
    fs::write(place.path("damaged"), "").unwrap();
    assert_eq!(text(&ended(server.address(), &task)["result"]), "open");
    assert_eq!(place.begun("damaged"), 1);
    server.kill();
}

#[test]
fn a_store_that_another_process_locks_is_waited_for_and_nothing_is_lost() {
    let scene = Scene::new("");
    let address = scene.server.address();
    let finishing = begin(address, "gate", json!({"key": "finishing"}));
    let conn = Connection::open(scene.place.path("tasks.db")).unwrap();
    conn.busy_timeout(Duration::from_secs(30)).unwrap();
    conn.execute_batch("PRAGMA locking_mode = NORMAL; BEGIN EXCLUSIVE").unwrap();
    // Reads go on; a write is refused after a while, in words.
    scene.is_unharmed();
    let refused = call(address, "gate", json!({"key": "refused"}));
    let message = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{refused}"));
    assert!(message.contains("locked by") && message.contains("try again"), "{message}");
    let cancel = modern::ask(address, "tasks/cancel", &finishing, json!({"taskId": finishing})).message();
    assert!(cancel["error"]["message"].as_str().is_some_and(|text| text.contains("try again")), "{cancel}");
    fs::write(scene.place.path("finishing"), "").unwrap();
    eventually("a complaint about the outcome", || {
        scene.server.said().contains("an outcome could not be written yet").then_some(())
    });
    assert_eq!(modern::task(address, &finishing)["status"], "working");
    conn.execute_batch("COMMIT").unwrap();
    drop(conn);
    assert_eq!(text(&ended(address, &finishing)["result"]), "open");
    assert_eq!(scene.place.begun("refused"), 0, "what was refused did not run");
    scene.ends_well();
}

#[test]
fn a_server_that_cannot_take_up_a_task_because_another_writes_says_so() {
    let mut scene = Scene::new("");
    scene.server.kill();
    let conn = Connection::open(scene.place.path("tasks.db")).unwrap();
    conn.execute_batch("BEGIN EXCLUSIVE").unwrap();
    // Reading it would do, if there were nothing to take up.
    let mut server = Server::launch(&scene.place, &[], &[]);
    assert_eq!(server.ended().code(), Some(1));
    is_locked(&server);
    conn.execute_batch("COMMIT").unwrap();
    drop(conn);
    scene.server = Server::start(&scene.place);
    scene.ends_well();
}

#[test]
fn a_server_started_while_another_has_the_store_to_itself_says_so() {
    let place = Place::new("");
    Server::start(&place).kill();
    let conn = Connection::open(place.path("tasks.db")).unwrap();
    conn.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").unwrap();
    let mut server = Server::launch(&place, &[], &[]);
    assert_eq!(server.ended().code(), Some(1));
    is_locked(&server);
    drop(conn);
    Server::start(&place).kill();
}

#[track_caller]
fn is_locked(server: &Server) {
    let said = server.said();
    assert!(said.contains("locked by") && said.contains("try again"), "{said}");
}

#[test]
fn a_store_whose_file_is_removed_refuses_loudly_until_it_is_back() {
    let scene = Scene::new("");
    let (file, away) = (scene.place.path("tasks.db"), scene.place.path("away.db"));
    fs::rename(&file, &away).unwrap();
    for _ in 0..2 {
        let refused = call(scene.server.address(), "gate", json!({"key": "refused"}));
        let message = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{refused}"));
        assert!(message.contains("was removed or replaced") && message.contains("restart"), "{message}");
    }
    // What it says comes over a pipe, later than its answers.
    let said = eventually("a word of both refusals", || {
        let said = scene.server.said();
        let refusals = said.lines().filter(|line| line.contains("could not be made durable")).count();
        (refusals == 2).then_some(said)
    });
    let loud = said.lines().filter(|line| line.contains("ERROR") && line.contains("tasks.db"));
    assert_eq!(loud.count(), 1, "it is said once: {said}");
    let (status, why) = until_ready(&scene.server, 503);
    assert!(status == 503 && why.contains("was removed or replaced") && !why.contains("tasks.db"), "{why}");
    let config = fs::read_to_string(scene.place.path("longhaul.toml")).unwrap();
    fs::write(
        scene.place.path("doctor.toml"),
        format!("{config}\n[store]\nurl = \"sqlite:tasks.db\"\n[http]\nlisten = \"127.0.0.1:0\"\n"),
    )
    .unwrap();
    let doctor = scene.place.program().args(["doctor", "--config", "doctor.toml"]).output().unwrap();
    let found = String::from_utf8(doctor.stdout).unwrap();
    assert!(
        doctor.status.code() == Some(1)
            && found.contains("FAIL  store")
            && found.contains("a server has it open"),
        "{found}"
    );
    fs::rename(&away, &file).unwrap();
    assert_eq!(until_ready(&scene.server, 200), (200, "ready".to_owned()));
    assert_eq!(scene.place.begun("refused"), 0, "what was refused did not run");
    scene.ends_well();
}

/// Waits until a server is told to be ready, or not to be; gives what it says last.
pub(crate) fn until_ready(server: &Server, status: u16) -> (u16, String) {
    eventually("another readiness", || {
        let answer = http::send(server.address(), &http::request("GET", "/readyz", &[], b""));
        (answer.status == status).then(|| (answer.status, answer.text()))
    })
}

#[test]
fn a_store_whose_file_is_cut_short_refuses_until_it_is_back() {
    let place = Place::new("");
    let file = place.path("tasks.db");
    let mut server = Server::start(&place);
    let task = begin(server.address(), "gate", json!({"key": "kept"}));
    eventually("the command", || (place.begun("kept") == 1).then_some(()));
    let whole = fs::read(&file).unwrap();
    fs::File::create(&file).unwrap();
    let refused = call(server.address(), "gate", json!({"key": "refused"}));
    let message = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{refused}"));
    assert!(message.contains("cut short"), "{message}");
    assert_eq!(place.begun("refused"), 0, "what was refused did not run");
    server.kill();
    // It is not taken for a new one, which would cost the log that is still there.
    let mut server = Server::launch(&place, &[], &[]);
    let (status, said) = (server.ended(), server.said());
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("tasks.db-wal") && said.contains("put the file back"), "{said}");
    fs::write(&file, whole).unwrap();
    let mut server = Server::start(&place);
    fs::write(place.path("kept"), "").unwrap();
    assert_eq!(text(&ended(server.address(), &task)["result"]), "open");
    server.kill();
}

#[test]
fn a_store_that_was_away_finds_the_output_of_its_tasks() {
    let place = Place::new("");
    // Whatever SQLite has left of its log goes with the file.
    let names = ["tasks.db", "tasks.db-wal", "tasks.db-shm"];
    let away = |name: &str| place.path(&format!("away-{name}"));
    let mut server = Server::start(&place);
    let task = begin(server.address(), "gate", json!({"key": "kept"}));
    fs::write(place.path("kept"), "").unwrap();
    assert_eq!(text(&ended(server.address(), &task)["result"]), "open");
    server.terminate();
    server.ended();
    for name in names.into_iter().filter(|name| place.path(name).exists()) {
        fs::rename(place.path(name), away(name)).unwrap();
    }
    let mut server = Server::start(&place);
    eventually("a word of the runs", || {
        server.said().contains("1 run(s) in ").then(|| assert!(server.said().contains("another store")))
    });
    server.terminate();
    server.ended();
    for name in names {
        let _none_of_it = fs::remove_file(place.path(name));
        if away(name).exists() {
            fs::rename(away(name), place.path(name)).unwrap();
        }
    }
    let mut server = Server::start(&place);
    assert_eq!(modern::output(server.address(), &task, "stdout")[0]["text"], "open");
    server.kill();
}

#[test]
fn a_store_in_memory_serves_and_ends_with_its_process() {
    let place = Place::new("");
    let mut server = Server::start_with(&place, &["--store", "memory:"], &[]);
    let task = begin(server.address(), "gate", json!({"key": "brief"}));
    assert_eq!(text(&call(server.address(), "echo", json!({"text": "x"}))["result"]), "x");
    fs::write(place.path("brief"), "").unwrap();
    assert_eq!(text(&ended(server.address(), &task)["result"]), "open");
    let left = begin(server.address(), "gate", json!({"key": "left"}));
    server.kill();
    let server = Server::start_with(&place, &["--store", "memory:"], &[]);
    let answer = modern::ask(server.address(), "tasks/get", &left, json!({"taskId": left})).message();
    assert_eq!(answer["error"]["code"], -32602);
    fs::write(place.path("left"), "").unwrap();
    drop(server);
}

/// N9 of `conformance/REQUIREMENTS.md`.
#[test]
fn two_servers_on_one_store_are_one_service() {
    let place = Place::new("");
    let (mut one, mut two) = (Server::start(&place), Server::start(&place));
    let first = begin(one.address(), "gate", json!({"key": "first"}));
    let second = begin(two.address(), "gate", json!({"key": "second"}));
    assert_eq!(modern::task(two.address(), &first)["status"], "working");
    eventually("both commands", || (place.begun("first") + place.begun("second") == 2).then_some(()));
    // Cancelled by the other, and taken over by the other.
    assert_eq!(cancel(one.address(), &second)["status"], "cancelled");
    let running = || place.processes().iter().any(|(_, line)| line.contains("gate second"));
    eventually("the end of the cancelled command", || (!running()).then_some(()));
    one.kill();
    fs::write(place.path("first"), "").unwrap();
    assert_eq!(text(&ended(two.address(), &first)["result"]), "open");
    assert_eq!((place.begun("first"), place.begun("second")), (1, 1));
    two.kill();
}

#[test]
fn a_task_that_another_server_cancels_as_it_starts_is_ended() {
    let place = Place::new("");
    let (mut one, mut two) = (Server::start(&place), Server::start(&place));
    for number in 0..10 {
        let key = format!("race{number}");
        let task = begin(one.address(), "gate", json!({"key": key}));
        assert_eq!(cancel(two.address(), &task)["status"], "cancelled");
    }
    // Some were not begun at all; what was begun in spite of it must not be left running.
    let quiet = || !place.processes().iter().any(|(_, line)| line.contains("gate race"));
    std::thread::sleep(Duration::from_secs(1));
    eventually("the end of every cancelled command", || quiet().then_some(()));
    std::thread::sleep(Duration::from_secs(1));
    assert!(quiet(), "{:?}", place.processes());
    one.kill();
    two.kill();
}

#[test]
fn commands_of_a_store_in_memory_end_with_their_server() {
    let place = Place::new("");
    let folder = place.path("tmp");
    fs::create_dir(&folder).unwrap();
    let start =
        || Server::start_with(&place, &["--store", "memory:"], &[("TMPDIR", folder.to_str().unwrap())]);
    let kept = || fs::read_dir(&folder).unwrap().count();
    let mut server = start();
    begin(server.address(), "gate", json!({"key": "memory"}));
    eventually("the gate's command", || (place.begun("memory") == 1).then_some(()));
    server.kill();
    // Nobody knows of the task any more, so nobody could find its command.
    eventually("the end of the command", || place.processes().is_empty().then_some(()));

    let left = kept();
    let mut server = start();
    begin(server.address(), "gate", json!({"key": "again"}));
    assert_eq!(kept(), left + 1, "each server has a folder of its own");
    server.terminate();
    server.ended();
    eventually("the end of the folder", || (kept() == left).then_some(()));
}
