//! A suite of tests whose log is read by a cursor while it runs, over the death of the server: no line is lost, and none comes
//! twice. It is that of `examples/use-cases/test-run`, with its configuration.

use std::fs;
use std::process::Command;

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
        let lines = self.text.lines().filter_map(|line| line.strip_prefix("test t")?.split_once(" ... "));
        lines.filter(|(_, end)| ["ok", "FAILED"].contains(end)).map(|(name, _)| name).collect()
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
    let tests: Vec<String> = (0..100).map(|number| format!("{}::n{}", number / 10, number % 10)).collect();
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
