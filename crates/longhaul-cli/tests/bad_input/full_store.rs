//! A disk that fills up under the store, at every kind of write: what is refused says so, and what was begun ends
//! once there is space again.

use std::fs;

use serde_json::json;

use crate::rig::eventually;
use crate::rig::modern::{self, begin, call, ended, text};
use crate::rig::place::Place;
use crate::rig::server::Server;
use crate::rig::small_disk::SmallDisk;
use crate::stores::until_ready;

/// A server whose store is on a disk of a megabyte, its run files elsewhere.
fn on_small_disk(place: &Place) -> (SmallDisk, Server) {
    let disk = SmallDisk::mount(place, 1024);
    let server = Server::start_with(place, &["--store", "sqlite:disk/tasks.db", "--state", "state"], &[]);
    (disk, server)
}

#[test]
fn a_call_on_a_full_disk_is_refused_in_words_and_nothing_runs() {
    let place = Place::new("");
    let (disk, mut server) = on_small_disk(&place);
    disk.fill();
    // The log has room for some writes more; then there is none.
    let mut begun = Vec::new();
    let refused = (0..2000).find_map(|number| {
        let answer = call(server.address(), "gate", json!({"key": format!("n{number}")}));
        begun.extend(answer["result"]["taskId"].as_str().map(|id| (number, id.to_owned())));
        answer["error"]["message"].as_str().map(|message| (number, message.to_owned()))
    });
    let (number, message) = refused.unwrap();
    assert!(message.contains("no space is left") && message.contains("free some"), "{message}");
    assert_eq!(place.begun(&format!("n{number}")), 0, "what was refused did not run");
    let (_, why) = until_ready(&server, 503);
    assert!(why.contains("no space is left for the store"), "{why}");
    // What is not a task needs no store.
    assert_eq!(text(&call(server.address(), "echo", json!({"text": "x"}))["result"]), "x");
    disk.free();
    assert_eq!(until_ready(&server, 200).1, "ready", "though nobody has sent anything since");
    let answer = call(server.address(), "gate", json!({"key": "again"}));
    begun.extend(answer["result"]["taskId"].as_str().map(|id| (9999, id.to_owned())));
    fs::write(place.path("again"), "").unwrap();
    for (number, id) in &begun {
        fs::write(place.path(&format!("n{number}")), "").unwrap();
        assert_eq!(text(&ended(server.address(), id)["result"]), "open");
    }
    server.kill();
}

/// K28 of `conformance/REQUIREMENTS.md`.
#[test]
fn what_ends_on_a_full_disk_is_recorded_once_there_is_space() {
    let reporter = "[tools.reporter]\ndescription = \"Reports\"\ntask = \"always\"\ngrace = \"100ms\"\n\
        command = [\"sh\", \"-c\", 'n=0; while [ ! -e \"$1\" ]; do n=$((n+1)); echo \"$n/100000 step\" >&3; sleep 0.02; done; echo counted', \"r\", \"{key}\"]\n\
        input.key = { type = \"string\" }";
    let place = Place::new(reporter);
    let (disk, mut server) = on_small_disk(&place);
    let address = server.address();
    let finishing = begin(address, "gate", json!({"key": "finishing"}));
    let reporting = begin(address, "reporter", json!({"key": "reporting"}));
    let cancelled = begin(address, "gate", json!({"key": "cancelled"}));
    disk.fill();
    // Reports use up what the log has left.
    eventually("a full disk", || server.said().contains("no space is left").then_some(()));
    fs::write(place.path("finishing"), "").unwrap();
    let answer = modern::ask(address, "tasks/cancel", &cancelled, json!({"taskId": cancelled})).message();
    if let Some(message) = answer["error"]["message"].as_str() {
        assert!(message.contains("the task store could not be used; try again"), "{message}");
        assert_eq!(
            modern::task(address, &cancelled)["status"],
            "working",
            "what was not acknowledged is not done"
        );
    }
    assert_eq!(text(&call(address, "echo", json!({"text": "x"}))["result"]), "x");
    disk.free();
    assert_eq!(text(&ended(address, &finishing)["result"]), "open");
    assert_eq!(modern::cancel(address, &cancelled)["status"], "cancelled");
    fs::write(place.path("reporting"), "").unwrap();
    assert_eq!(text(&ended(address, &reporting)["result"]), "counted\n");
    server.is_alone(&place);
    server.kill();
}

#[test]
fn a_full_disk_outlasts_a_server_and_costs_no_task() {
    let place = Place::new("");
    let (disk, mut server) = on_small_disk(&place);
    let task = begin(server.address(), "gate", json!({"key": "patient"}));
    disk.fill();
    fs::write(place.path("patient"), "").unwrap();
    server.kill();
    // Whether the next one can serve on no space at all or says that it cannot: nothing is lost.
    let mut next = Server::launch(&place, &["--store", "sqlite:disk/tasks.db", "--state", "state"], &[]);
    let said = eventually("a word of the next server", || {
        let said = next.said();
        (said.contains("ready") || said.contains("error: ")).then_some(said)
    });
    if said.contains("error: ") {
        assert_eq!(next.ended().code(), Some(1));
        let said = next.said();
        assert!(said.contains("no space is left") && said.contains("free some"), "{said}");
    }
    drop(next);
    disk.free();
    let mut server =
        Server::start_with(&place, &["--store", "sqlite:disk/tasks.db", "--state", "state"], &[]);
    assert_eq!(text(&ended(server.address(), &task)["result"]), "open");
    assert_eq!(place.begun("patient"), 1);
    server.kill();
}

#[test]
fn tasks_can_be_looked_at_where_nothing_can_be_written() {
    let place = Place::new("");
    let (disk, mut server) = on_small_disk(&place);
    let task = begin(server.address(), "gate", json!({"key": "seen"}));
    eventually("the command", || (place.begun("seen") == 1).then_some(()));
    let look = || {
        for verb in [&["list"][..], &["get", &task][..]] {
            let place_of = ["--store", "sqlite:disk/tasks.db", "--state", "state", "--json"];
            let said = place.program().arg("tasks").args(verb).args(place_of).output().unwrap();
            assert_eq!(said.status.code(), Some(0), "{verb:?}: {}", String::from_utf8_lossy(&said.stderr));
            let shown = String::from_utf8(said.stdout).unwrap();
            assert!(shown.contains(&task), "{verb:?}: {shown}");
        }
    };
    disk.fill();
    look();
    server.kill();
    disk.remount("ro");
    look();
    disk.remount("rw");
    disk.free();
    fs::write(place.path("seen"), "").unwrap();
    let mut server =
        Server::start_with(&place, &["--store", "sqlite:disk/tasks.db", "--state", "state"], &[]);
    assert_eq!(text(&ended(server.address(), &task)["result"]), "open");
    server.kill();
}

/// K28 of `conformance/REQUIREMENTS.md`.
#[test]
fn a_disk_that_becomes_read_only_refuses_in_words() {
    let place = Place::new("");
    let (disk, mut server) = on_small_disk(&place);
    let address = server.address();
    let task = begin(address, "gate", json!({"key": "patient"}));
    server.kill();
    disk.remount("ro");
    let mut refused = Server::launch(&place, &["--store", "sqlite:disk/tasks.db", "--state", "state"], &[]);
    assert_eq!(refused.ended().code(), Some(1));
    let said = refused.said();
    assert!(said.contains("cannot be written") && said.contains("mounted read-only"), "{said}");
    drop(refused);
    disk.remount("rw");
    let mut server =
        Server::start_with(&place, &["--store", "sqlite:disk/tasks.db", "--state", "state"], &[]);
    fs::write(place.path("patient"), "").unwrap();
    assert_eq!(text(&ended(server.address(), &task)["result"]), "open");
    server.kill();
}
