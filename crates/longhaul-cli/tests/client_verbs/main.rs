//! The verbs that use a server: the built program, as somebody types it.

#![expect(clippy::unwrap_used, reason = "what fails to unwrap fails the test")]

mod answers;
mod check;
mod connecting;
mod ends;
mod exit_codes;
mod hostile;
mod hosts;
mod programs;
mod shown;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use longhaul::client::{CallOptions, Client, Started};
use longhaul::server::{Json, TaskPolicy, ToolError};
use longhaul::transport::http::server::{Options, serve};
use longhaul::{Cx, Tool};
use longhaul_store::Sqlite;
use serde_json::Value;
use tempfile::TempDir;

const LONGHAUL: &str = env!("CARGO_BIN_EXE_longhaul");

const CONFIGURATION: &str = r#"
[server]
name = "bench"

[tools.say]
description = "Say a word"
command = ["printf", "%s", "{word}"]
input.word = { type = "string", enum = ["hello", "bye"], description = "Which word" }
input.loud = { type = "boolean", required = false }

[tools.raw]
description = "Print what a terminal must not see"
command = ["printf", 'a\033]0;title\007b\033[31mc\n']

[tools.fail]
description = "Fail"
command = ["sh", "-c", "echo half; echo why >&2; exit 3"]

[tools.steps]
description = "Say how far it is"
command = ["sh", "-c", "echo '3/10 compiling' >&3; while [ -e longhaul.toml ] && [ ! -e seen ]; do sleep 0.02; done; printf done"]
task = "never"

[tools.work]
description = "Work until one file is there, or another is not"
command = ["sh", "-c", "echo began; while [ -e longhaul.toml ] && [ ! -e go ]; do sleep 0.02; done; printf 'ended\\377'"]
task = "after 50ms"
"#;

/// A folder with a configuration.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("longhaul.toml"), CONFIGURATION).unwrap();
    folder
}

fn longhaul(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(LONGHAUL);
    command
        .args(words)
        .current_dir(folder)
        .env("XDG_STATE_HOME", folder.join("state"))
        // Somebody sits at the terminals of these tests.
        .env_remove("CI")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs the program to its end: its code, its standard output and its standard error.
fn run(folder: &Path, words: &[&str]) -> (i32, String, String) {
    ended(longhaul(folder, words).output().unwrap())
}

fn ended(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

/// A server over HTTP that ends with the test.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(folder: &Path) -> Self {
        let mut child = longhaul(folder, &["serve", "--http", "127.0.0.1:0"]).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = loop {
            let line = lines.next().expect("the server says where it listens").unwrap();
            if let Some(at) = line.find("http://") {
                break line[at..].split_whitespace().next().unwrap().to_owned();
            }
        };
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `-- longhaul serve --stdio`
const BY_COMMAND: [&str; 4] = ["--", LONGHAUL, "serve", "--stdio"];

fn with_command<'a>(words: &[&'a str]) -> Vec<&'a str> {
    words.iter().copied().chain(BY_COMMAND).collect()
}

#[test]
fn tools_are_shown_as_one_calls_them() {
    let folder = folder();
    let (code, out, _) = run(folder.path(), &with_command(&["tools"]));
    assert_eq!(code, 0);
    assert!(out.contains("say(word: hello|bye, loud?: boolean)\n    Say a word\n"), "{out}");
    let (code, out, _) = run(folder.path(), &with_command(&["tools", "say"]));
    assert_eq!(code, 0);
    assert!(out.contains("  word: hello|bye\n      Which word\n"), "{out}");
    let (_, out, _) = run(folder.path(), &with_command(&["tools", "--json"]));
    let list: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(list["tools"][0]["name"], "say");
    assert_eq!(list["tools"][0]["inputSchema"]["required"], serde_json::json!(["word"]));
}

#[test]
fn a_call_prints_what_the_tool_answers_over_either_transport() {
    let folder = folder();
    assert_eq!(run(folder.path(), &with_command(&["call", "say", "word=hello"])).1, "hello\n");
    let server = Server::start(folder.path());
    for revision in ["2025-11-25", "2026-07-28"] {
        let call = ["call", "--revision", revision, &server.url, "say", "word=bye", "loud=no"];
        let (code, out, err) = run(folder.path(), &call);
        assert_eq!((code, out.as_str()), (0, "bye\n"), "{revision}: {err}");
        let (code, out, _) =
            run(folder.path(), &["call", "--revision", revision, &server.url, "fail", "--json"]);
        assert_eq!(code, 1);
        let result: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(result["isError"], true, "{revision}");
        assert_eq!(result["content"][0]["text"], "half\n");
    }
}

#[test]
fn mistakes_are_explained_before_anything_is_called() {
    let folder = folder();
    let at = |words: &[&str]| run(folder.path(), &with_command(words));
    for (words, code, said) in [
        (&["call", "sya"][..], 5, "did you mean `say`?"),
        (&["call", "frobnicate"], 5, "there are say, raw, fail, steps, work"),
        (&["call", "say", "wrod=hello"], 2, "did you mean `word`?    say(word: hello|bye, loud?: boolean)"),
        (&["call", "say", "word=helo"], 2, "did you mean `hello`?"),
        (&["call", "say"], 2, "tool `say` needs `word`"),
        (&["call", "say", "word=hello", "loud=perhaps"], 2, "`loud` takes a boolean, not `perhaps`"),
        (&["call", "say", "hello"], 2, "`hello` is no argument"),
        (&["call", "http://127.0.0.1:1/mcp", "say"], 2, "two servers are named"),
        (&["tools", "say", "too many"], 2, "one word too many"),
    ] {
        let (ended, out, err) = at(words);
        assert_eq!((ended, out.as_str()), (code, ""), "{words:?}: {err}");
        assert!(err.contains(said), "{words:?}: {err}");
    }
    std::os::unix::fs::symlink("gone.db", folder.path().join("link.db")).unwrap();
    for (words, code, said) in [
        (&["call"][..], 2, "Usage"),
        (&["call", "say"], 2, "`say` is no URL"),
        (&["call", "localhost:8420/mcp", "say"], 2, "did you mean `http://localhost:8420/mcp`?"),
        (&["call", "http://127.0.0.1:1/mcp"], 2, "no tool is named"),
        (&["call", "http://127.0.0.1:1/mcp", "say"], 4, "cannot reach http://127.0.0.1:1/mcp"),
        (&["tools"], 2, "no server is named"),
        (
            &["tools", "--", "/nowhere/at/all"],
            4,
            "the command `/nowhere/at/all` cannot be started: No such file",
        ),
        (&["tools", "--", "sh", "-c", "echo no licence >&2; exit 9"], 4, "no licence"),
        (&["tools", "ftp://host"], 2, "http://HOST"),
        (&["tasks", "list", "--url", "http://127.0.0.1:1/mcp"], 4, "cannot reach"),
        (&["tasks", "--store", "memory:"], 2, "known to its server alone"),
        (&["tasks", "--store", "sqlite:none.db"], 2, "there is no store none.db"),
        (&["tasks", "--store", "none.db"], 2, "did you mean `sqlite:none.db`?"),
        (&["tasks", "--store", "sqlite:."], 1, "it is a folder; name a file"),
        (&["serve", "--stdio", "--store", "sqlite:no/folder/x.db"], 1, "there is no folder no/folder"),
        (
            &["serve", "--stdio", "--store", "sqlite:link.db"],
            1,
            "it is a link to gone.db, which is not there",
        ),
        (&["tasks", "log", "x", "--after", "-1"], 2, "bytes are counted from 0"),
    ] {
        let (ended, _, err) = run(folder.path(), words);
        assert_eq!(ended, code, "{words:?}: {err}");
        assert!(err.contains(said), "{words:?}: {err}");
    }
}

#[test]
fn a_failure_is_one_line_of_json_where_json_is_asked_for() {
    let folder = folder();
    let cases = [
        (vec!["call", "--json", "sya", "--", LONGHAUL, "serve", "--stdio"], "no_such_tool"),
        (vec!["call", "--json", "http://127.0.0.1:1/mcp", "x"], "unreachable"),
        (vec!["tasks", "--json", "--store", "sqlite:none.db"], "usage"),
    ];
    for (words, code) in cases {
        let (_, out, err) = run(folder.path(), &words);
        assert_eq!(out, "");
        let line = err.strip_suffix('\n').unwrap();
        let error: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{words:?}: {err}"));
        assert_eq!(error["error"]["code"], code);
        assert!(error["error"]["message"].is_string() && error["error"]["next"].is_string(), "{err}");
    }
}

/// A8 of `conformance/REQUIREMENTS.md`.
#[test]
fn s35_what_a_terminal_must_not_see_is_never_shown() {
    let folder = folder();
    assert_eq!(run(folder.path(), &with_command(&["call", "raw"])).1, "abc\n");
    let (_, out, _) = run(folder.path(), &with_command(&["call", "raw", "--json"]));
    assert!(!out.contains('\u{1b}'));
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["content"][0]["text"], "a\u{1b}]0;title\u{7}b\u{1b}[31mc\n", "but JSON says all of it");
}

#[test]
fn arguments_come_from_files_and_standard_input_too() {
    let folder = folder();
    std::fs::write(folder.path().join("word"), "hello").unwrap();
    assert_eq!(run(folder.path(), &with_command(&["call", "say", "word=@word"])).1, "hello\n");
    let mut calling = longhaul(folder.path(), &with_command(&["call", "say", "-", "word=bye"]));
    let mut calling = calling.stdin(Stdio::piped()).spawn().unwrap();
    calling.stdin.take().unwrap().write_all(br#"{"word": "hello", "loud": true}"#).unwrap();
    assert_eq!(ended(calling.wait_with_output().unwrap()).1, "bye\n");
}

/// A call that is under way, and ends with the test.
struct Calling(Child);

impl Calling {
    /// Interrupts it as Ctrl-C does.
    fn interrupt(&self) {
        self.signal(rustix::process::Signal::INT);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    fn code(&mut self) -> Option<i32> {
        self.0.wait().unwrap().code()
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a call of `work` with events, and reads on until it is a task.
fn start_work(folder: &Path, url: &str, more: &[&str]) -> (Calling, BufReader<ChildStdout>, String) {
    let words: Vec<&str> =
        ["call", "--events", url, "work"].into_iter().chain(more.iter().copied()).collect();
    let mut calling = Calling(longhaul(folder, &words).spawn().unwrap());
    let mut lines = BufReader::new(calling.0.stdout.take().unwrap());
    loop {
        let mut line = String::new();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "it became no task");
        let event: Value = serde_json::from_str(&line).unwrap();
        if event["event"] == "task" {
            return (calling, lines, event["taskId"].as_str().unwrap().to_owned());
        }
    }
}

fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..500 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{what}");
}

fn let_go(folder: &Path) {
    std::fs::write(folder.join("go"), "").unwrap();
}

#[test]
fn whoever_leaves_can_come_back_until_the_result_is_there() {
    for revision in ["2025-11-25", "2026-07-28"] {
        let folder = folder();
        let server = Server::start(folder.path());
        let (mut calling, _out, id) = start_work(folder.path(), &server.url, &["--revision", revision]);
        calling.interrupt();
        let mut err = String::new();
        calling.0.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!(calling.code(), Some(130));
        let way_back = format!("longhaul tasks watch {id} --url {}", server.url);
        assert!(err.contains("\"detached\"") && err.contains(&way_back), "{err}");

        let by_url = ["--url", &server.url, "--revision", revision];
        let on_server = |words: &[&str]| {
            let words: Vec<&str> = ["tasks"].into_iter().chain(words.iter().copied()).chain(by_url).collect();
            run(folder.path(), &words)
        };
        let (code, _, err) = on_server(&["result", &id]);
        assert_eq!(code, 7, "{err}");
        let (code, out, _) = on_server(&["get", &id, "--json"]);
        let task: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, task["status"].as_str()), (0, Some("working")));
        eventually("the command wrote nothing", || on_server(&["log", &id]).1 == "began\n");

        let watching = longhaul(folder.path(), &["tasks", "watch", &id]).spawn().unwrap();
        let_go(folder.path());
        let (code, out, err) = ended(watching.wait_with_output().unwrap());
        assert_eq!((code, out.as_str()), (0, "began\nended\u{fffd}\n"), "{err}");
        assert_eq!(on_server(&["watch", &id]).1, "began\nended\u{fffd}\n");
        assert_eq!(on_server(&["result", &id]).0, 0);
        let shown = run(folder.path(), &["tasks", "get", &id]).1;
        assert!(shown.contains("attempt 1\n"), "a living server's task was taken up: {shown}");
    }
}

#[test]
fn a_store_is_looked_into_without_its_server() {
    let folder = folder();
    let mut server = Server::start(folder.path());
    let (calling, _out, id) = start_work(folder.path(), &server.url, &[]);
    drop(calling);
    server.child.kill().unwrap();
    server.child.wait().unwrap();

    let here = |words: &[&str]| run(folder.path(), words);
    let (code, out, err) = here(&["tasks"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("STATUS") && out.contains(&id) && out.contains("working"), "{out}");
    let (_, out, _) = here(&["tasks", "list", "--open", "--tool", "work", "--json"]);
    let list: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(list["tasks"][0]["taskId"], id.as_str());
    assert_eq!(here(&["tasks", "list", "--tool", "say"]).2, "no tasks\n");

    let prefix = &id[..8];
    assert!(here(&["tasks", "get", prefix]).1.starts_with(&format!("{id}  work  working")));
    eventually("the command wrote nothing", || here(&["tasks", "log", prefix]).1 == "began\n");
    assert_eq!(here(&["tasks", "result", prefix]).0, 7);
    assert_eq!(here(&["tasks", "get", "nothing-like-it"]).0, 5);
    assert_eq!(here(&["tasks", "get", "no/id"]).0, 2);

    let (code, _, err) = here(&["tasks", "cancel", prefix]);
    assert_eq!(code, 0, "{err}");
    let_go(folder.path());
    let (code, _, err) = here(&["tasks", "watch", prefix]);
    assert_eq!(code, 8, "{err}");
    assert_eq!(here(&["tasks", "log", prefix, "--follow"]).1, "began\n", "the command was ended, not let go");
    assert_eq!(here(&["tasks", "cancel", prefix]).0, 0, "it is what was asked for");
}

/// A task whose server was killed while its command ran.
fn orphan(folder: &Path) -> String {
    let mut server = Server::start(folder);
    let (calling, _out, id) = start_work(folder, &server.url, &[]);
    drop(calling);
    eventually("the command wrote nothing", || run(folder, &["tasks", "log", &id]).1 == "began\n");
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    id
}

/// The same, its command ended since.
fn orphan_that_ended(folder: &Path) -> String {
    let id = orphan(folder);
    let_go(folder);
    let exit = folder.join("longhaul.db.runs").join(&id).join("exit");
    eventually("the command has not ended", || exit.exists());
    id
}

#[test]
fn a_command_that_ended_without_its_server_has_its_result_whichever_verb_asks_first() {
    let result = "began\nended\u{fffd}\n";
    for (words, code, shown) in [
        (&["watch"][..], 0, result),
        (&["result"], 0, result),
        (&["get"], 0, "  work  completed"),
        (&["list"], 0, "completed  "),
        (&["cancel"], 1, ""),
    ] {
        let folder = folder();
        let id = orphan_that_ended(folder.path());
        // Nothing but the store is known: the configuration is of no use.
        std::fs::write(folder.path().join("longhaul.toml"), "").unwrap();
        let store = ["--store", "sqlite:longhaul.db"];
        let task = (words[0] != "list").then_some(&id[..]);
        let words: Vec<&str> = ["tasks"].iter().chain(words).copied().chain(task).chain(store).collect();
        let (found, out, err) = run(folder.path(), &words);
        assert_eq!(found, code, "{words:?}: {out}{err}");
        assert!(out.contains(shown), "{words:?}: {out}{err}");
        if words[1] == "cancel" {
            assert!(err.contains("has ended already: completed"), "{err}");
        }
        let again: Vec<&str> = ["tasks", "result", &id].into_iter().chain(store).collect();
        assert_eq!(run(folder.path(), &again).1, result, "after {words:?}");
    }
}

#[test]
fn whoever_watches_without_a_server_sees_the_end_and_may_leave_before() {
    let folder = folder();
    let id = orphan(folder.path());
    let watch = || Calling(longhaul(folder.path(), &["tasks", "watch", &id]).spawn().unwrap());
    // The server's was the first.
    let taken_up = |attempt: &str| {
        eventually("nobody works on it", || run(folder.path(), &["tasks", "get", &id]).1.contains(attempt));
    };
    let mut leaving = watch();
    taken_up("attempt 2, on node ");
    leaving.interrupt();
    assert_eq!(leaving.code(), Some(130));
    assert!(run(folder.path(), &["tasks", "get", &id]).1.contains("  work  working"));

    let mut staying = watch();
    taken_up("attempt 3, on node ");
    // A server that comes meanwhile leaves it to who has it, and serves it all the same.
    let server = Server::start(folder.path());
    let (code, _, err) = run(folder.path(), &["tasks", "result", &id, "--url", &server.url]);
    assert_eq!(code, 7, "{err}");
    let_go(folder.path());
    let mut out = String::new();
    staying.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!((staying.code(), out.as_str()), (Some(0), "began\nended\u{fffd}\n"));
    let (code, out, _) = run(folder.path(), &["tasks", "result", &id, "--url", &server.url]);
    assert_eq!((code, out.as_str()), (0, "began\nended\u{fffd}\n"));
}

#[test]
fn whoever_can_have_no_run_files_watches_all_the_same() {
    let folder = folder();
    let server = Server::start(folder.path());
    let (calling, _out, id) = start_work(folder.path(), &server.url, &[]);
    drop(calling);
    let_go(folder.path());
    // No folder can be made there, as in one that may only be read.
    let elsewhere = ["--store", "sqlite:longhaul.db", "--state", "longhaul.toml"];
    let words: Vec<&str> = ["tasks", "watch", &id].into_iter().chain(elsewhere).collect();
    let (code, out, err) = run(folder.path(), &words);
    assert_eq!((code, out.as_str()), (0, "began\nended\u{fffd}\n"), "{err}");
    assert!(err.contains("note: ") && err.contains("cannot hold run files"), "{err}");
}

#[test]
fn a_server_finds_what_a_watcher_left_at_once() {
    let folder = folder();
    let id = orphan(folder.path());
    let mut leaving = Calling(longhaul(folder.path(), &["tasks", "watch", &id]).spawn().unwrap());
    let taken_up = || run(folder.path(), &["tasks", "get", &id]).1.contains("attempt 2, on node ");
    eventually("nobody works on it", taken_up);
    leaving.interrupt();
    assert_eq!(leaving.code(), Some(130));
    let server = Server::start(folder.path());
    let_go(folder.path());
    let (code, out, err) = run(folder.path(), &["tasks", "watch", &id, "--url", &server.url]);
    assert_eq!((code, out.as_str()), (0, "began\nended\u{fffd}\n"), "{err}");
}

#[test]
fn output_is_followed_to_its_last_byte() {
    let folder = folder();
    let server = Server::start(folder.path());
    let (_calling, _out, id) = start_work(folder.path(), &server.url, &[]);
    let by_url = ["tasks", "log", &id, "--follow", "--url", &server.url];
    let logs = [longhaul(folder.path(), &["tasks", "log", &id, "-f"]), longhaul(folder.path(), &by_url)];
    let following: Vec<Child> = logs.into_iter().map(|mut log| log.spawn().unwrap()).collect();
    let_go(folder.path());
    for log in following {
        let output = log.wait_with_output().unwrap();
        assert!(output.status.success());
        assert_eq!(output.stdout, b"began\nended\xff");
    }
    let (_, out, _) = run(folder.path(), &["tasks", "log", &id, "--stderr"]);
    assert_eq!(out, "");
    for by in [&[][..], &["--url", &server.url]] {
        let words: Vec<&str> = ["tasks", "log", &id, "--json"].iter().chain(by).copied().collect();
        let (code, out, err) = run(folder.path(), &words);
        let line: Value = serde_json::from_str(&out).unwrap();
        let expected =
            serde_json::json!({ "blob": "YmVnYW4KZW5kZWT/", "missing": 0, "next": 12, "done": true });
        assert_eq!((code, line), (0, expected), "{err}");
    }
    let (code, _, err) = run(folder.path(), &["tasks", "log", &id, "--after", "99"]);
    assert!(code == 0 && err.contains("there is no byte 99: "), "no more will come: {err}");
    let (_, out, _) = run(folder.path(), &["tasks", "log", &id, "--json", "--after", "6"]);
    assert!(out.contains("\"next\":12"), "{out}");
}

#[test]
fn a_wait_that_runs_out_leaves_the_task_and_says_so() {
    let folder = folder();
    let server = Server::start(folder.path());
    let err = ends::leave(folder.path(), &[&server.url, "work"]);
    assert!(err.contains("is still running\nhelp: longhaul tasks watch work-"), "{err}");
    let (wait, code, _, err) =
        ends::call_for(|words| run(folder.path(), words), &ends::WAITS, &["--no-task", &server.url, "work"]);
    assert_eq!(code, 8, "{err}");
    assert!(err.contains(&format!("no answer within {wait}")), "{err}");
}

#[test]
fn a_reader_that_goes_away_ends_the_program_quietly() {
    let folder = folder();
    let mut listing = longhaul(folder.path(), &with_command(&["tools"])).spawn().unwrap();
    drop(listing.stdout.take());
    let (code, _, err) = ended(listing.wait_with_output().unwrap());
    assert_eq!((code, err.as_str()), (0, ""));
}

#[test]
fn a_person_at_a_terminal_sees_a_bar_and_a_program_none() {
    let folder = folder();
    let server = Server::start(folder.path());
    let (master, terminal) = open_terminal();
    // The command is dropped with its end of the terminal.
    let calling = longhaul(folder.path(), &["call", &server.url, "work"]).stderr(terminal).spawn();
    let mut calling = Calling(calling.unwrap());
    let mut seen = String::new();
    let mut master = std::fs::File::from(master);
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut bytes = [0; 4096];
    while !seen.contains("work-") && Instant::now() < deadline {
        let read = master.read(&mut bytes).unwrap();
        seen.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    assert!(seen.contains("work-") && seen.contains('\r'), "a line drawn over and over: {seen:?}");
    calling.interrupt();
    while let Ok(read @ 1..) = master.read(&mut bytes) {
        seen.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    assert_eq!(calling.code(), Some(130));
    assert!(seen.contains("keeps running.") && seen.contains("longhaul tasks cancel work-"), "{seen}");
    let_go(folder.path());
}

#[test]
fn progress_is_in_plain_lines_where_no_person_watches() {
    let folder = folder();
    for revision in ["2025-11-25", "2026-07-28"] {
        let call = with_command(&["call", "--revision", revision, "steps"]);
        let mut calling = longhaul(folder.path(), &call).spawn().unwrap();
        let (mut said, mut err) = (BufReader::new(calling.stderr.take().unwrap()), String::new());
        while !err.ends_with("\nsteps  3/10  compiling\n") {
            assert_ne!(said.read_line(&mut err).unwrap(), 0, "{err}");
        }
        std::fs::write(folder.path().join("seen"), "").unwrap();
        said.read_to_string(&mut err).unwrap();
        let (code, out, _) = ended(calling.wait_with_output().unwrap());
        assert_eq!((code, out.as_str()), (0, "done\n"), "{err}");
        assert!(!err.contains(['\r', '\u{1b}']), "{err:?}");
        std::fs::remove_file(folder.path().join("seen")).unwrap();
    }
}

/// A terminal: the end that a person holds, and the end that a program gets.
fn open_terminal() -> (std::os::fd::OwnedFd, std::fs::File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let terminal = std::fs::OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    (master, terminal)
}

#[test]
fn every_verb_explains_itself_with_an_example() {
    let folder = folder();
    for verb in [
        &[][..],
        &["serve"],
        &["check"],
        &["schema"],
        &["server-json"],
        &["connect"],
        &["targets"],
        &["doctor"],
        &["call"],
        &["tools"],
        &["tasks"],
        &["tasks", "list"],
        &["tasks", "get"],
        &["tasks", "watch"],
        &["tasks", "log"],
        &["tasks", "result"],
        &["tasks", "cancel"],
        &["tasks", "wait"],
        &["tasks", "answer"],
        &["tasks", "again"],
        &["audit"],
        &["audit", "verify"],
        &["audit", "show"],
        &["page"],
        &["login"],
        &["logout"],
        &["completions"],
        &["man"],
    ] {
        let words: Vec<&str> = verb.iter().copied().chain(["--help"]).collect();
        let (code, out, _) = run(folder.path(), &words);
        assert_eq!(code, 0);
        assert!(out.contains("Example"), "{verb:?}: {out}");
    }
}

#[test]
fn a_call_that_is_handed_over_still_runs() {
    let folder = tempfile::tempdir().unwrap();
    let held = "[tools.held]\ndescription = \"Work\"\nhold = \"1s\"\njoin = \"never\"\ncommand = [\"sh\", \"-c\", \
                'while [ -e longhaul.toml ] && [ ! -e go ]; do sleep 0.02; done; printf ended']\n";
    std::fs::write(folder.path().join("longhaul.toml"), held).unwrap();
    let server = Server::start(folder.path());
    let mut ids = Vec::new();
    for revision in ["2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"] {
        let call = ["call", "--no-task", "--revision", revision, &server.url, "held"];
        let (code, out, err) = run(folder.path(), &call);
        assert_eq!((code, out.as_str()), (7, ""), "{revision}: {err}");
        let at = err.find("longhaul tasks watch ").unwrap_or_else(|| panic!("{revision}: {err}"));
        let words: Vec<&str> = err[at..].split_whitespace().collect();
        assert_eq!(words[4..6], ["--url", &server.url], "{err}");
        ids.push(words[3].to_owned());
    }
    let (code, out, err) = run(folder.path(), &["call", "--no-task", "--json", &server.url, "held"]);
    assert_eq!(code, 7, "{err}");
    assert!(out.contains("dev.longhaul/handedOver") && err.contains("\"still_running\""), "{out}{err}");
    let_go(folder.path());
    for id in ids {
        let (code, out, err) = run(folder.path(), &["tasks", "watch", &id, "--url", &server.url]);
        assert_eq!((code, out.as_str()), (0, "ended\n"), "{err}");
    }
}

#[test]
fn a_command_that_writes_nothing_answers_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let tools = "[tools.silent]\ndescription = \"d\"\ncommand = [\"true\"]\n\
                 [tools.broken]\ndescription = \"d\"\ncommand = [\"sh\", \"-c\", \"kill -SEGV $$\"]\n";
    std::fs::write(folder.path().join("longhaul.toml"), tools).unwrap();
    let (code, out, err) = run(folder.path(), &with_command(&["call", "silent"]));
    assert_eq!((code, out.as_str()), (0, ""), "{err}");
    let json = |tool: &str| -> Value {
        serde_json::from_str(&run(folder.path(), &with_command(&["call", "--json", tool])).1).unwrap()
    };
    let silent = json("silent");
    assert_eq!(silent["content"], serde_json::json!([]), "{silent}");
    assert_eq!(silent["structuredContent"]["exitCode"], 0, "{silent}");
    let text = serde_json::json!([{"type": "text", "text": "ended by SIGSEGV (signal 11)"}]);
    assert_eq!(json("broken")["content"], text);
}

#[test]
fn what_a_command_says_of_itself_is_its_status() {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo '3/10 compiling' >&3; sleep 0.1; echo noise; \
                  while [ -e longhaul.toml ] && [ ! -e go ]; do sleep 0.02; done";
    let tools = format!(
        "[tools.says]\ndescription = \"d\"\ncommand = [\"sh\", \"-c\", \"{script}\"]\ntask = \"after 50ms\"\n\
         [tools.counts]\ndescription = \"d\"\nprogress = '^(\\d+)/(\\d+)'\ntask = \"after 50ms\"\n\
         command = [\"sh\", \"-c\", \"echo '9/20 found'; while [ -e longhaul.toml ]; do sleep 0.02; done\"]\n"
    );
    std::fs::write(folder.path().join("longhaul.toml"), tools).unwrap();
    let server = Server::start(folder.path());
    for tool in ["says", "counts"] {
        ends::leave(folder.path(), &[&server.url, tool]);
    }
    let list = || run(folder.path(), &["tasks"]).1;
    eventually("no status", || list().contains("3/10 compiling") && list().contains("9/20 found"));
    assert!(!list().contains("noise") && !list().contains("9/20 9/20"), "{}", list());
}

#[test]
fn a_hint_finds_the_same_tasks_and_names_those_that_could_be_meant() {
    let folder = folder();
    let server = Server::start(folder.path());
    let (_older, _out, older) = start_work(folder.path(), &server.url, &[]);
    let (_newer, _out, newer) = start_work(folder.path(), &server.url, &[]);
    let store = ["--store", "sqlite:longhaul.db"];
    let (code, _, err) = run(folder.path(), &[&["tasks", "result", &newer], &store[..]].concat());
    assert_eq!(code, 7, "{err}");
    let hint = format!("help: longhaul tasks watch {newer} --store sqlite:longhaul.db\n");
    assert!(err.ends_with(&hint), "{err}");
    let (code, _, err) = run(folder.path(), &["tasks", "get", "work-"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.ends_with(&format!("the newest first:\n  {newer}\n  {older}\n")), "{err}");
    std::fs::rename(folder.path().join("longhaul.toml"), folder.path().join("other name.toml")).unwrap();
    // A server lists nothing, so its URL alone is of no help to who has no id.
    let (code, _, err) = run(folder.path(), &["tasks", "--config", "gone.toml"]);
    assert!(code == 2 && err.contains("; or, with the id of a task, --url "), "{err}");
    let (code, _, err) = run(folder.path(), &["tasks", "get", "nobody", "--config", "other name.toml"]);
    assert!(code == 5 && err.contains("`longhaul tasks --config 'other name.toml'`"), "{err}");
    let_go(folder.path());
}

#[test]
fn who_waits_for_a_server_that_dies_learns_what_to_do() {
    let folder = folder();
    let mut server = Server::start(folder.path());
    let call = longhaul(folder.path(), &["call", "--no-task", &server.url, "work"]).spawn().unwrap();
    eventually("the call has not begun", || {
        run(folder.path(), &["tasks", "list", "--open"]).1.contains("working")
    });
    server.child.kill().unwrap();
    let (code, _, err) = ended(call.wait_with_output().unwrap());
    assert_eq!(code, 4, "{err}");
    let lines: Vec<&str> = err.lines().collect();
    assert!(lines.contains(&"error: the connection ended before the answer came"), "{err}");
    assert!(lines.iter().any(|line| line.starts_with("help: the call may have run all the same")), "{err}");
    let_go(folder.path());
}

#[test]
fn the_parts_that_a_function_has_given_are_shown_by_its_server_and_by_its_store() {
    let folder = folder();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let find = |cx: Cx, _: BTreeMap<String, String>| async move {
        cx.emit("one").await?;
        cx.emit(Json(serde_json::json!({"n": 2}))).await?;
        Ok::<_, ToolError>("found")
    };
    let store = Sqlite::open(folder.path().join("longhaul.db")).unwrap();
    let (url, id) = runtime.block_on(async {
        let find = Tool::typed("find", "Find", find).task(TaskPolicy::always());
        let dispatcher = longhaul::Server::new("finds", "1").tool(find).store(store).dispatcher().unwrap();
        dispatcher.start().await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        tokio::spawn(serve(dispatcher, listener, Options::default(), std::future::pending()));
        let client = Client::connect(url.as_str()).await.unwrap();
        let Started::Task(task) = client.start("find", &(), CallOptions::default()).await.unwrap() else {
            panic!("it is a task");
        };
        task.wait().await.unwrap();
        (url, task.id().to_owned())
    });
    for by in [&["--url", &url][..], &[]] {
        let log = |more: &[&str]| {
            let words: Vec<&str> = ["tasks", "log", &id].iter().chain(by).chain(more).copied().collect();
            let (code, out, err) = run(folder.path(), &words);
            assert_eq!(code, 0, "{by:?} {more:?}: {err}");
            out
        };
        assert_eq!(log(&["--follow"]), "one\n{\"n\":2}\n", "{by:?}");
        assert_eq!(log(&["--after", "1"]), "{\"n\":2}\n", "{by:?}");
        let lines: Vec<Value> =
            log(&["--json"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(
            (&lines[0]["text"], &lines[0]["next"], &lines[0]["done"]),
            (&"one".into(), &1.into(), &false.into())
        );
        assert_eq!((&lines[1]["value"]["n"], &lines[1]["done"]), (&2.into(), &true.into()), "{lines:?}");
    }
    runtime.shutdown_background();
}
