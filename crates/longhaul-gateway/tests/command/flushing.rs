//! What a run promises is on the disk before anybody hears of it. A killed process leaves the page cache behind, so that only
//! its system calls show that.

use std::{collections::HashMap, fs, path::Path};

use super::{scene::Scene, server::Server};

#[test]
fn what_is_said_of_a_run_was_flushed_before() {
    let scene = Scene::new();
    let (runs, trace, go) = (scene.file("runs"), scene.file("trace"), scene.file("go"));
    let script = format!("until [ -e {} ]; do sleep 0.02; done; echo done", go.display());
    let mut server = Server::traced(&runs, "a", &script, &["start", "commit", "wait"], &trace);
    assert!(server.hear("commit"), "strace must be installed, and be allowed to trace");
    fs::write(go, "").unwrap();
    assert!(server.hear("wait"));
    server.end();
    let trace = fs::read_to_string(trace).unwrap();
    let events = events(&trace, runs.parent().unwrap());
    let told = ["starts", "said commit", "said wait"];
    assert_eq!(events.iter().filter(|event| told.contains(&event.as_str())).count(), told.len(), "{trace}");
    let mut rest = events.iter();
    for wanted in IN_ORDER {
        assert!(rest.any(|event| event == wanted), "{wanted} does not come in its place: {events:#?}");
    }
}

/// What must happen, each behind the one before.
const IN_ORDER: &[&str] = &[
    // The folder was there when the server came: whether its name is on the disk was not known.
    "flush ..",
    // A run that is found has all that was asked for.
    "flush a/spec.json",
    "flush a/exit.reserved",
    "flush a",
    "rename a",
    "flush .",
    // A command is not started again.
    "flush a/started",
    "flush a",
    "starts",
    "rename a/committed",
    "flush a",
    "said commit",
    // An end has its output.
    "flush a/stdout",
    "flush a/stderr",
    "flush a/exit.reserved",
    "rename a/exit",
    "flush a",
    "said wait",
];

/// What was flushed, renamed, started and said, by names in the folder of runs, which is in `parent`.
fn events(trace: &str, parent: &Path) -> Vec<String> {
    let (mut events, mut under_way) = (Vec::new(), HashMap::new());
    for line in trace.lines() {
        let Some((process, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        if let Some(begun) = call.strip_suffix(" <unfinished ...>") {
            under_way.insert(process, begun);
            continue;
        }
        let resumed = call.strip_prefix("<... ").and_then(|call| call.split_once('>'));
        let call = match resumed {
            Some((_, end)) => format!("{}{end}", under_way.remove(process).unwrap_or_default()),
            None => call.to_owned(),
        };
        events.extend(event(&call, parent));
    }
    events
}

fn event(call: &str, parent: &Path) -> Option<String> {
    let (before, result) = call.rsplit_once(" = ")?;
    if result.starts_with('-') {
        return None;
    }
    if before.starts_with("fsync(") || before.starts_with("fdatasync(") {
        let path = before.split_once('<')?.1.split_once('>')?.0;
        if Path::new(path) == parent {
            return Some("flush ..".to_owned());
        }
        return Some(format!("flush {}", name(path)?));
    }
    if before.starts_with("rename") {
        let folder = before.split_once('<').and_then(|(_, path)| path.split_once('>')).map(|(path, _)| path);
        let to = before.rsplit('"').nth(1)?;
        let path = folder.map_or_else(|| to.to_owned(), |folder| format!("{folder}/{to}"));
        return Some(format!("rename {}", name(&path)?));
    }
    if before.starts_with("execve(\"/bin/sh\"") {
        return Some("starts".to_owned());
    }
    let said = before.strip_prefix("write(1")?.split_once("server: ")?.1;
    Some(format!("said {}", said.split_once('\\')?.0))
}

/// A name in the folder of runs, in which a run has another one until it is whole.
fn name(path: &str) -> Option<String> {
    let name = path.split_once("/runs")?.1.trim_start_matches('/');
    let (first, rest) = name.split_once('/').unwrap_or((name, ""));
    let first = if first.starts_with(".new-a-") { "a" } else { first };
    Some(match (first, rest) {
        ("", _) => ".".to_owned(),
        (first, "") => first.to_owned(),
        (first, rest) => format!("{first}/{rest}"),
    })
}
