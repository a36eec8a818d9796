//! How calls and tasks end, and what is said of it.

use std::path::Path;

use serde_json::Value;

use super::{BY_COMMAND, Server, eventually, folder, let_go, longhaul, run};

/// Waits that begin short and end with one that is enough wherever tests run.
pub(super) const WAITS: [&str; 7] = ["500ms", "1s", "2s", "4s", "8s", "16s", "32s"];

/// Calls a tool with the first of these waits within which its server says what it offers, for that takes as long as the machine
/// likes, and nothing is called before. Gives that wait, the code, the standard output and the standard error.
pub(super) fn call_for(
    run: impl Fn(&[&str]) -> (i32, String, String),
    waits: &[&'static str],
    words: &[&str],
) -> (&'static str, i32, String, String) {
    let mut calls = waits.iter().map(|&wait| {
        let (code, out, err) = run(&[&["call", "--wait", wait], words].concat());
        (wait, code, out, err)
    });
    let in_time = calls.find(|(_, code, _, err)| *code != 4 || !err.contains("nothing was called"));
    in_time.expect("a server says what it offers")
}

/// Begins a call that is a task before it ends, and leaves it. Gives what is said of that.
pub(super) fn leave(folder: &Path, words: &[&str]) -> String {
    let (_, code, _, err) = call_for(|words| run(folder, words), &WAITS, words);
    assert_eq!(code, 7, "{err}");
    err
}

/// A tool of the configuration that becomes a task when most do: after two seconds.
const SLOW: &str = "[tools.slow]\ndescription = \"Work until a file is there\"\n\
                    command = [\"sh\", \"-c\", 'while [ -e longhaul.toml ] && [ ! -e go ]; do sleep 0.02; done']\n";

#[test]
fn a_short_wait_leaves_a_call_that_its_server_makes_a_task_later() {
    let folder = tempfile::tempdir().unwrap();
    let never = SLOW.replace("[tools.slow]", "[tools.never]\ntask = \"never\"");
    std::fs::write(folder.path().join("longhaul.toml"), format!("{SLOW}{never}")).unwrap();
    let server = Server::start(folder.path());
    let call = |words: &[&str]| call_for(|words| run(folder.path(), words), &WAITS[1..], words);
    for revision in ["2025-11-25", "2026-07-28"] {
        let (_, code, _, err) = call(&["--revision", revision, &server.url, "slow"]);
        assert!(code == 7 && err.contains("is still running\nhelp: longhaul tasks watch slow-"), "{err}");
    }
    // One that is no task by then is cancelled, and that is no failure of its tool.
    let (wait, code, _, err) = call(&[&server.url, "never"]);
    let cancelled = format!("no answer within {wait}; the call was cancelled");
    assert!(code == 8 && err.contains(&cancelled), "{err}");
    let (_, code, _, err) = call(&["--json", "--no-task", &server.url, "slow"]);
    assert!(code == 8 && err.contains("\"timed_out\""), "{err}");
}

#[test]
fn a_task_whose_tool_failed_has_failed_wherever_it_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let fails = "[tools.fails]\ndescription = \"Fail\"\ntask = \"always\"\n\
                 command = [\"sh\", \"-c\", \"echo half; echo out of paper >&2; exit 7\"]\n";
    std::fs::write(folder.path().join("longhaul.toml"), fails).unwrap();
    let server = Server::start(folder.path());
    let at = |words: &[&str]| run(folder.path(), words);
    let (code, _, err) = at(&["call", &server.url, "fails"]);
    assert_eq!(code, 1, "{err}");
    let (_, out, _) = at(&["tasks", "list", "--json"]);
    let list: Value = serde_json::from_str(&out).unwrap();
    let task = &list["tasks"][0];
    assert_eq!((&task["status"], &task["failed"]), (&"completed".into(), &true.into()), "{task}");
    let id = task["taskId"].as_str().unwrap();
    for words in [&["tasks"][..], &["tasks", "list"], &["tasks", "get", id], &["tasks", "wait", id]] {
        let (_, out, err) = at(words);
        assert!(out.contains("failed") && !out.contains("completed"), "{words:?}: {out}{err}");
    }
    let there = ["--url", &server.url];
    let (_, out, _) = at(&[&["tasks", "get", id][..], &there].concat());
    assert!(out.contains("  failed") && !out.contains("completed"), "{out}");
    let (_, out, _) = at(&[&["tasks", "get", id, "--json"][..], &there].concat());
    assert!(out.contains("\"status\":\"completed\"") && out.contains("\"failed\":true"), "{out}");
    for words in [&["tasks", "cancel", id][..], &["tasks", "cancel", id, "--url", &server.url]] {
        let (code, _, err) = at(words);
        assert!(code == 1 && err.contains("has ended already: failed"), "{words:?}: {err}");
    }
    let (_, _, err) = at(&[&["tasks", "get", &id[..12]][..], &there].concat());
    assert!(err.contains("by the beginning of its id"), "{err}");
}

#[test]
fn a_list_is_chosen_with_or_without_its_verb() {
    let folder = folder();
    let server = Server::start(folder.path());
    leave(folder.path(), &[&server.url, "work"]);
    let at = |words: &[&str]| run(folder.path(), &[&["tasks"], words].concat());
    assert_eq!(at(&["--open", "--json"]).1, at(&["list", "--open", "--json"]).1);
    assert!(at(&["--open", "--tool", "work"]).1.contains("working"));
    assert!(at(&["--tool", "say"]).2.contains("no tasks"));
    let (code, _, err) = at(&["--open", "get", "x"]);
    assert!(code == 2 && err.contains("of the list"), "{err}");
    let_go(folder.path());
}

#[test]
fn a_call_made_again_where_no_server_has_its_tool_says_what_it_waits_for() {
    let folder = folder();
    let server = Server::start(folder.path());
    leave(folder.path(), &[&server.url, "work"]);
    let_go(folder.path());
    eventually("it does not end", || run(folder.path(), &["tasks"]).1.contains("completed"));
    drop(server);
    let (_, out, _) = run(folder.path(), &["tasks", "list", "--json"]);
    let list: Value = serde_json::from_str(&out).unwrap();
    let id = list["tasks"][0]["taskId"].as_str().unwrap();
    let (code, again, err) = run(folder.path(), &["tasks", "again", id]);
    assert_eq!(code, 0, "{err}");
    for words in [&["tasks"][..], &["tasks", "get", again.trim()]] {
        let (_, out, _) = run(folder.path(), words);
        assert!(out.contains("queued: waits for a server"), "{words:?}: {out}");
    }
}

#[test]
fn a_command_that_cannot_be_started_is_said_once_and_what_serves_nothing_is_not_reached() {
    let folder = folder();
    let (code, _, err) = run(folder.path(), &["call", "x", "--", "no-such-program-at-all"]);
    assert_eq!((code, err.matches("cannot be started").count()), (4, 1), "{err}");
    for program in ["cat", "true"] {
        let (code, _, err) = run(folder.path(), &["call", "x", "--", program]);
        assert_eq!(code, 4, "{program}: {err}");
    }
    // What a server says on its way is shown all the same.
    let script = "echo cannot be started: no >&2; exec \"$0\" serve --stdio";
    let words = ["call", "say", "word=hello", "--", "sh", "-c", script, BY_COMMAND[1]];
    let said = longhaul(folder.path(), &words).output().unwrap();
    assert!(String::from_utf8_lossy(&said.stderr).contains("cannot be started: no"));
}
