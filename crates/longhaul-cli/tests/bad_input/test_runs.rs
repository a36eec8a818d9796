//! A suite of tests whose log is read by a cursor while it runs, over the death of the server: no line is lost, and none comes
//! twice. With the configuration of `examples/use-cases/test-run` it is once the suite there, and once one of ours.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::rig::eventually;
use crate::rig::modern::{ask, begin, ended, output, task};
use crate::rig::place::Place;
use crate::rig::server::Server;

const CONFIGURATION: &str = include_str!("../../../../examples/use-cases/test-run/longhaul.toml");
const SUITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/use-cases/test-run/suite.rs");

/// What was read of a log.
#[derive(Default)]
struct Log {
    text: String,
    /// Where to go on.
    after: u64,
    is_done: bool,
}

impl Log {
    /// Reads what is there by now.
    fn read(&mut self, server: &Server, task: &str) {
        let uri = format!("longhaul://tasks/{task}/stdout?after={}", self.after);
        let answer = ask(server.address(), "resources/read", &uri, json!({"uri": uri})).message();
        let read = &answer["result"]["contents"][0];
        self.text += read["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        let position = &read["_meta"]["dev.longhaul/output"];
        self.after = position["next"].as_u64().unwrap_or_else(|| panic!("{answer}"));
        self.is_done = position["done"] == true;
    }

    /// The names of the tests that have ended. The line of one that runs is there as far as it goes.
    fn tests(&self) -> Vec<&str> {
        let lines = self.text.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "));
        let ended = lines.filter(|(_, end)| ["ok", "FAILED"].contains(end)).map(|(name, _)| name);
        ended.map(|name| name.trim_end_matches(" - should panic")).collect()
    }
}

#[test]
fn a_log_that_is_read_while_its_suite_runs_has_each_line_once_over_a_crash() {
    let place = Place::new(&CONFIGURATION.replace("[server]\nname = \"tests\"\n", ""));
    let built = Command::new("rustc")
        .args(["--edition=2024", "--test", SUITE, "-o"])
        .arg(place.path("suite"))
        .status();
    assert!(built.unwrap().success());
    let mut server = Server::start(&place);
    let run = begin(server.address(), "test", json!({}));
    let mut log = Log::default();
    eventually("half of the log", || {
        log.read(&server, &run);
        (log.tests().len() == 50).then_some(())
    });
    // What has failed is seen while the suite runs.
    assert!(log.text.contains("test t0::n7 ... FAILED\n"), "{}", log.text);
    assert_eq!(task(server.address(), &run)["status"], "working");
    // One that waits for this to end has a log, too, which says where to go on.
    let next = begin(server.address(), "test", json!({"filter": "t1"}));
    let mut next_log = Log::default();
    next_log.read(&server, &next);
    assert_eq!((next_log.text.as_str(), next_log.after, next_log.is_done), ("", 0, false));
    server.kill();

    // The suite goes on without it.
    fs::write(place.path("ready"), "").unwrap();
    let mut server = Server::start(&place);
    eventually("the rest of the log", || {
        log.read(&server, &run);
        log.is_done.then_some(())
    });
    let tests: Vec<String> = (0..100).map(|number| format!("t{}::n{}", number / 10, number % 10)).collect();
    assert_eq!(log.tests(), tests);
    assert_eq!(log.text.matches("running 100 tests").count(), 1, "it ran once");
    assert!(log.text.contains("test result: FAILED. 85 passed; 15 failed;"), "{}", log.text);
    let whole: String =
        output(server.address(), &run, "stdout").iter().filter_map(|part| part["text"].as_str()).collect();
    assert_eq!(log.text, whole, "what was read bit by bit is what there is");
    let ended = ended(server.address(), &run);
    assert_eq!(ended["result"]["isError"], true, "{ended}");
    assert_eq!(ended["result"]["structuredContent"]["exitCode"], 101, "{ended}");
    eventually("the other log", || {
        next_log.read(&server, &next);
        next_log.is_done.then_some(())
    });
    assert_eq!(next_log.tests(), tests[10..20]);
    server.kill();
}

/// A suite that nobody wrote for this: the unit tests of `longhaul-proto`, as they are built beside these. Whoever has built these
/// alone has them built now.
fn real_suite() -> PathBuf {
    let newest = || {
        let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let files = fs::read_dir(deps).unwrap().map(|entry| entry.unwrap().path());
        let is_it = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with("longhaul_proto-") && path.extension().is_none()
        };
        files.filter(is_it).max_by_key(|path| path.metadata().unwrap().modified().unwrap())
    };
    newest().unwrap_or_else(|| {
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["test", "--no-run", "--locked", "--package", "longhaul-proto", "--lib"]);
        assert!(build.status().unwrap().success(), "longhaul-proto does not build");
        newest().expect("cargo has built it beside these")
    })
}

#[test]
fn the_log_of_a_suite_of_our_own_has_each_line_once_over_a_crash() {
    let suite = real_suite();
    let list = Command::new(&suite).args(["--list", "--format=terse"]).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    let tests: Vec<&str> = list.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    assert!(tests.len() > 50, "{tests:?}");
    let configuration = CONFIGURATION.replace("[server]\nname = \"tests\"\n", "");
    let place = Place::new(&configuration.replace("\"./suite\"", &format!("{suite:?}")));
    let mut server = Server::start(&place);
    let run = begin(server.address(), "test", json!({}));
    let is_it = |(_, line): &(i32, String)| line.starts_with(suite.to_str().unwrap());
    let running = eventually("the suite", || place.processes().into_iter().find(is_it)).0;
    let signal = |signal| kill_process(Pid::from_raw(running).unwrap(), signal).unwrap();
    // It goes on for a moment at a time, and then stands still in the middle for as long as this takes.
    let mut log = Log::default();
    eventually("the first of the log", || {
        signal(Signal::STOP);
        log.read(&server, &run);
        if log.tests().is_empty() {
            signal(Signal::CONT);
            return None;
        }
        Some(())
    });
    let seen = log.tests().len();
    assert!(seen < tests.len() && !log.is_done, "it is over before it could be stopped");
    assert_eq!(task(server.address(), &run)["status"], "working");
    server.kill();

    let mut server = Server::start(&place);
    assert_eq!(task(server.address(), &run)["status"], "working");
    signal(Signal::CONT);
    eventually("the rest of the log", || {
        log.read(&server, &run);
        log.is_done.then_some(())
    });
    assert!(seen > 0 && log.tests() == tests, "{}", log.text);
    assert_eq!(log.text.matches(&format!("running {} tests", tests.len())).count(), 1, "it ran once");
    let ended = ended(server.address(), &run);
    assert_eq!(ended["result"]["structuredContent"]["exitCode"], 0, "{ended}");
    server.kill();
}
