//! A library of 100,000 molecules in 20 shards, two of which are pipes that give nothing until the server was killed: it is
//! killed in the middle for sure.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use longhaul::Client;
use longhaul::client::TaskHandle;
use longhaul::proto::model::Task;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::served::{Served, begin, ends_with, parts, until};

const SHARDS: usize = 20;
const PER_SHARD: usize = 5_000;
/// What is screened before the server is killed.
const BEFORE: usize = SHARDS - 2;

fn shard(number: usize) -> String {
    let molecules = number * PER_SHARD..(number + 1) * PER_SHARD;
    molecules.map(|molecule| format!("C1CC{molecule}NO\n")).collect()
}

fn write_library(folder: &Path) {
    std::fs::create_dir(folder.join("library")).unwrap();
    for number in 0..SHARDS {
        let file = folder.join(format!("library/{number:03}"));
        if number < BEFORE {
            std::fs::write(file, shard(number)).unwrap();
        } else {
            assert!(Command::new("mkfifo").arg(file).status().unwrap().success());
        }
    }
}

/// How many parts a task has given.
fn given(task: &Task) -> usize {
    let said =
        task.meta.find("dev.longhaul/parts").map(|parts| serde_json::from_str::<Value>(parts.get()).unwrap());
    said.and_then(|parts| parts["total"].as_u64()).map_or(0, |total| usize::try_from(total).unwrap())
}

/// How many molecules each part is of that the screen has given behind the first `after`.
async fn counts(client: &Client, screen: &TaskHandle, after: usize) -> Vec<usize> {
    let parts = parts(client, screen.id(), after).await;
    let part = |part: &String| serde_json::from_str::<Value>(part).unwrap()["molecules"].as_u64().unwrap();
    parts.iter().map(|text| usize::try_from(part(text)).unwrap()).collect()
}

#[tokio::test]
async fn each_of_100_000_molecules_is_scored_once() {
    let folder = tempfile::tempdir().unwrap();
    write_library(folder.path());
    let mut server = Served::start("molecule-screen", folder.path()).await;
    let chemist = server.connect().await;
    let screen = begin(&chemist, "screen", json!({})).await;
    until(&screen, async |task| given(task) == BEFORE).await;
    assert_eq!(counts(&chemist, &screen, 0).await, [PER_SHARD; BEFORE], "it is not over, and can be read");
    server.kill_and_restart().await;

    for number in BEFORE..SHARDS {
        let pipe = folder.path().join(format!("library/{number:03}"));
        // Ready once somebody reads: nobody waits for this.
        std::thread::spawn(move || std::fs::write(pipe, shard(number)));
    }
    let result: Value = serde_json::from_str(&ends_with(&screen).await).unwrap();
    assert_eq!(result["molecules"], SHARDS * PER_SHARD);
    assert_eq!(
        counts(&chemist, &screen, BEFORE).await,
        [PER_SHARD; SHARDS - BEFORE],
        "the rest, from a cursor on"
    );

    let scores = Connection::open(folder.path().join("scores.db")).unwrap();
    let mut rows = scores.prepare("SELECT molecule, score FROM score ORDER BY score DESC, molecule").unwrap();
    let rows = rows.query_map((), |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let rows: Vec<(String, u32)> = rows.map(Result::unwrap).collect();
    assert_eq!(rows.len(), SHARDS * PER_SHARD, "none has two scores");
    let scored: BTreeSet<&str> = rows.iter().map(|(molecule, _)| molecule.as_str()).collect();
    assert_eq!(scored.len(), SHARDS * PER_SHARD, "each has one");
    let best = rows[..5].iter().map(|(molecule, score)| json!({"molecule": molecule, "score": score}));
    assert_eq!(result["best"], best.collect::<Value>());
}
