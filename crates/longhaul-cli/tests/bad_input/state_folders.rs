//! A folder for run files that is full, read-only, or no folder.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};

use serde_json::json;

use crate::rig::modern::{begin, call, ended, output, text};
use crate::rig::place::Place;
use crate::rig::scene::Scene;
use crate::rig::server::Server;
use crate::rig::small_disk::SmallDisk;

const FLOOD: &str = "[tools.flood]\ndescription = \"Writes\"\ncommand = [\"sh\", \"-c\", \"seq 1 300000; echo end\"]\ntask = \"always\"";

#[test]
fn a_state_folder_that_is_no_folder_is_refused() {
    let place = Place::new("");
    fs::write(place.path("file"), "").unwrap();
    for state in ["file", "file/state", "longhaul.toml"] {
        let mut server = Server::launch(&place, &["--state", state], &[]);
        assert_eq!(server.ended().code(), Some(1));
        let said = server.said();
        assert!(said.contains("cannot hold run files") && said.contains(state), "{said}");
    }
    Server::start(&place).kill();
}

#[test]
fn a_state_folder_on_a_full_disk_refuses_calls_and_keeps_what_runs() {
    let place = Place::new(FLOOD);
    let disk = SmallDisk::mount(&place, 1024);
    let mut server = Server::start_with(&place, &["--state", "disk"], &[]);
    let address = server.address();
    let running = begin(address, "gate", json!({"key": "running"}));
    // Only once its command runs it has all the space it needs.
    crate::rig::eventually("the command", || (place.begun("running") == 1).then_some(()));
    disk.fill();
    let refused = call(address, "echo", json!({"text": "x"}));
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    let said = text(&refused["result"]);
    assert!(said.contains("did not start") && said.contains("space"), "{said}");
    fs::write(place.path("running"), "").unwrap();
    let result = ended(address, &running);
    assert_eq!(result["status"], "completed", "its end had a place from the start: {result}");
    disk.free();
    assert_eq!(text(&call(address, "echo", json!({"text": "x"}))["result"]), "x");
    // Output that fills the disk costs output, and nothing else.
    let flood = begin(address, "flood", json!({}));
    let result = ended(address, &flood);
    assert_eq!(
        result["result"]["_meta"]["dev.longhaul/run"]["truncated"], true,
        "{}",
        result["result"]["_meta"]
    );
    assert_eq!(result["result"]["_meta"]["dev.longhaul/run"]["exitCode"], 0);
    server.kill();
}

#[test]
fn a_state_folder_that_becomes_read_only_refuses_calls() {
    let place = Place::new("");
    let disk = SmallDisk::mount(&place, 1024);
    let mut server = Server::start_with(&place, &["--state", "disk"], &[]);
    disk.remount("ro");
    let refused = call(server.address(), "echo", json!({"text": "x"}));
    let said = text(&refused["result"]);
    assert!(refused["result"]["isError"] == true && said.contains("ead-only"), "{refused}");
    disk.remount("rw");
    assert_eq!(text(&call(server.address(), "echo", json!({"text": "x"}))["result"]), "x");
    server.kill();
}

#[test]
fn a_doctor_finds_what_a_server_could_not_write() {
    let place = Place::new("");
    let disk = SmallDisk::mount(&place, 4096);
    fs::copy(place.path("longhaul.toml"), place.path("disk/longhaul.toml")).unwrap();
    let doctor = |file: &str| {
        let said = place.program().args(["doctor", "--json", "--config", file]).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
        let state = |name: &str| {
            let checks = report["checks"].as_array().unwrap();
            let check = checks.iter().find(|check| check["check"] == name).unwrap();
            (check["state"].as_str().unwrap().to_owned(), check["found"].as_str().unwrap().to_owned())
        };
        (state("store"), state("runs"), state("audit"))
    };
    let more =
        format!("\n[http]\nlisten = \"127.0.0.1:0\"\n[audit]\npath = {:?}\n", place.path("disk/audit/trail"));
    for file in ["longhaul.toml", "disk/longhaul.toml"] {
        let text = fs::read_to_string(place.path(file)).unwrap();
        fs::write(place.path(file), text + &more).unwrap();
        let (store, runs, audit) = doctor(file);
        assert_eq!((&*store.0, &*runs.0, &*audit.0), ("ok", "ok", "ok"), "{store:?} {runs:?} {audit:?}");
    }
    assert!(!place.path("disk/audit").exists(), "nothing is changed");
    // One that is there already, and one that is to be made.
    Server::start_with(&place, &["--store", "sqlite:disk/longhaul.db"], &[]).kill();
    for there in [true, false] {
        if !there {
            fs::remove_file(place.path("disk/longhaul.db")).unwrap();
        }
        disk.remount("ro");
        let (store, runs, audit) = doctor("disk/longhaul.toml");
        for (state, found) in [&store, &runs, &audit] {
            assert!(state == "fail" && found.contains("cannot be written: Read-only file system"), "{found}");
        }
        let (store, runs, audit) = doctor("longhaul.toml");
        assert_eq!((&*store.0, &*runs.0, &*audit.0), ("ok", "ok", "fail"), "{store:?} {runs:?} {audit:?}");
        disk.remount("rw");
    }
}

#[test]
fn s34_run_files_are_for_their_owner_only() {
    let scene = Scene::new("");
    let mut found = vec![
        scene.place.path("tasks.db"),
        scene.place.path("tasks.db.runs"),
        scene.place.path("tasks.db.nodes"),
    ];
    let mut index = 0;
    while index < found.len() {
        if found[index].is_dir() {
            found.extend(fs::read_dir(&found[index]).unwrap().map(|entry| entry.unwrap().path()));
        }
        index += 1;
    }
    assert!(found.len() > 8, "{found:?}");
    for path in found {
        let found = fs::symlink_metadata(&path).unwrap();
        if found.file_type().is_socket() {
            // What leads to it is their owner's only.
            continue;
        }
        let mode = found.permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
    }
    scene.ends_well();
}

#[test]
fn output_whose_files_are_gone_is_said_to_be_missing() {
    let scene = Scene::new("");
    let address = scene.server.address();
    let robbed = begin(address, "gate", json!({"key": "robbed"}));
    fs::write(scene.place.path("robbed"), "").unwrap();
    assert_eq!(text(&ended(address, &robbed)["result"]), "open");
    fs::remove_dir_all(scene.place.path("tasks.db.runs").join(&robbed)).unwrap();

    let read = output(address, &robbed, "stdout");
    let position = &read[0]["_meta"]["dev.longhaul/output"];
    assert_eq!(position["gap"], json!({"from": 0, "to": 4}), "{read:?}");
    assert_eq!((&position["total"], &position["done"]), (&json!(4), &json!(true)), "{read:?}");
    let log = |more: &[&str]| {
        let words = ["tasks", "log", &robbed, "--store", "sqlite:tasks.db"];
        let said = scene.place.program().args(words).args(more).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (said.status.code(), text(said.stdout), text(said.stderr))
    };
    let (code, out, _) = log(&["--json"]);
    assert_eq!(code, Some(0));
    let line: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(line, json!({"text": "", "missing": 4, "next": 4, "done": true}));
    let (_, out, err) = log(&[]);
    assert!(out.is_empty() && err.contains("4 bytes are not kept"), "{out} {err}");
    let (_, out, err) = log(&["--stderr"]);
    assert!(out.is_empty() && err.is_empty(), "nothing was written there: {out} {err}");
    scene.ends_well();
}

#[test]
fn run_files_that_vanish_lose_one_task_honestly_and_no_other() {
    let scene = Scene::new("");
    let address = scene.server.address();
    let robbed = begin(address, "gate", json!({"key": "robbed"}));
    crate::rig::eventually("the command", || (scene.place.begun("robbed") == 1).then_some(()));
    fs::remove_dir_all(scene.place.path("tasks.db.runs").join(&robbed)).unwrap();
    fs::write(scene.place.path("robbed"), "").unwrap();
    let result = ended(address, &robbed);
    let told = result.to_string();
    assert!(told.contains("worker_lost"), "{told}");
    scene.ends_well();
}
