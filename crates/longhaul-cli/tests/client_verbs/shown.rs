//! What a person is shown at a terminal, however wide it is and whatever a server says.

use std::io::Read as _;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use serde_json::Value;

use super::{Server, folder, let_go, longhaul, open_terminal, orphan_that_ended, run, start_work};

#[test]
fn a_list_fits_the_terminal_it_is_shown_in() {
    let folder = folder();
    let server = Server::start(folder.path());
    let (_calling, _out, id) = start_work(folder.path(), &server.url, &[]);
    for width in [40, 80, 200] {
        let (status, shown) = at_terminal(width, longhaul(folder.path(), &["tasks"]));
        assert!(status.success());
        // The hint under it is no part of the list.
        let shown = shown.split(" of 1.").next().unwrap().to_owned();
        let lengths = || shown.lines().map(|line| line.trim_end().chars().count());
        assert!(lengths().all(|length| length <= usize::from(width)), "{width}: {shown}");
        assert!(shown.contains(&id) && shown.contains("working"), "{width}: {shown}");
        assert!(width == 80 || shown.contains("STARTED") == (width == 200), "{shown}");
    }
    let_go(folder.path());
}

/// A tool that says what would do harm if a terminal believed it, and how far it is.
const HOSTILE: &str = r#"
[tools.hostile]
description = "Says \u202Eevil and much more than there is room for in one line of a small terminal, whatever it is"
command = ["sh", "-c", "for i in 1 2 3; do echo $i/3 'compiling \\033]0;owned\\007 what has a long name' >&3; sleep 0.4; done; printf 'said\\033[2J\\033]52;c;aGk=\\007\\342\\200\\256 all\\n'"]
task = "always"
"#;

#[test]
fn a_call_fits_the_terminal_and_nothing_of_what_is_said_reaches_it_raw() {
    let folder = folder();
    std::fs::write(folder.path().join("longhaul.toml"), HOSTILE).unwrap();
    let server = Server::start(folder.path());
    for (width, no_color) in [(40, ""), (40, "1"), (80, ""), (200, "1")] {
        let shown_of = |words: &[&str]| {
            let mut command = longhaul(folder.path(), words);
            command.env("NO_COLOR", no_color);
            let (status, shown) = at_terminal(width, command);
            assert!(status.success(), "{words:?}: {shown:?}");
            for harm in ["\u{1b}]", "\u{1b}[2J", "\u{202e}", "\u{7}"] {
                assert!(!shown.contains(harm), "{words:?}: {shown:?}");
            }
            shown
        };
        let called = shown_of(&["call", &server.url, "hostile"]);
        let frames: Vec<String> = called.split(['\r', '\n']).map(without_controls).collect();
        // What is drawn over and over would leave its rest behind if it went on in the next line.
        let drawn: Vec<&str> = frames
            .iter()
            .map(|frame| frame.trim_end())
            .filter(|frame| frame.starts_with("hostile-"))
            .collect();
        assert!(drawn.iter().any(|frame| frame.contains("compiling")), "{frames:#?}");
        assert!(drawn.iter().all(|frame| frame.chars().count() <= usize::from(width)), "{width}: {drawn:#?}");
        assert!(called.contains("said all"), "{called:?}");

        assert!(shown_of(&["tools", &server.url]).contains("hostile"));
        let listed = run(folder.path(), &["tasks", "list", "--json"]).1;
        let listed: Value = serde_json::from_str(&listed).unwrap();
        let id = listed["tasks"][0]["taskId"].as_str().unwrap_or_else(|| panic!("{listed}"));
        assert!(shown_of(&["tasks", "log", id]).contains("said all"));
        assert!(shown_of(&["tasks", "result", id]).contains("said all"));
        assert!(shown_of(&["tasks", "get", id]).contains("hostile"));
    }
}

/// What a command shows at a terminal that is so wide.
fn at_terminal(width: u16, mut command: Command) -> (ExitStatus, String) {
    let (master, terminal) = open_terminal();
    let mut size = rustix::termios::tcgetwinsize(&terminal).unwrap();
    (size.ws_col, size.ws_row) = (width, 24);
    rustix::termios::tcsetwinsize(&terminal, size).unwrap();
    let out = terminal.try_clone().unwrap();
    let mut running = command.env("TERM", "xterm").stdout(out).stderr(terminal).spawn().unwrap();
    // It has the other end of the terminal, too.
    drop(command);
    let (mut master, mut bytes, mut shown) = (std::fs::File::from(master), [0; 4096], Vec::new());
    while let Ok(read @ 1..) = master.read(&mut bytes) {
        shown.extend_from_slice(&bytes[..read]);
    }
    (running.wait().unwrap(), String::from_utf8_lossy(&shown).into_owned())
}

/// What is seen of it.
fn without_controls(text: &str) -> String {
    let (mut seen, mut is_control) = (String::new(), false);
    for character in text.chars() {
        match character {
            '\u{1b}' => is_control = true,
            'A'..='Z' | 'a'..='z' if is_control => is_control = false,
            _ if is_control => {}
            _ => seen.push(character),
        }
    }
    seen
}

#[test]
fn a_mistake_is_shown_in_colour_to_whoever_wants_that() {
    let folder = folder();
    std::fs::write(folder.path().join("wrong.toml"), "[tools.test]\ncommand = \"cargo test\"\n").unwrap();
    for (no_color, is_coloured) in [("", true), ("1", false)] {
        let mut checking = longhaul(folder.path(), &["check", "wrong.toml"]);
        checking.env("NO_COLOR", no_color);
        let (status, shown) = at_terminal(80, checking);
        assert_eq!(status.code(), Some(2), "{shown}");
        assert!(shown.contains("wrong.toml"), "{shown}");
        assert_eq!(shown.contains("\u{1b}["), is_coloured, "{shown:?}");
    }
}

#[test]
fn what_a_command_took_is_how_long_it_ran() {
    let folder = folder();
    let id = orphan_that_ended(folder.path());
    // Nobody is there to see that it has ended.
    std::thread::sleep(Duration::from_millis(1100));
    let (code, out, err) = run(folder.path(), &["tasks", "get", &id, "--json"]);
    assert_eq!(code, 0, "{err}");
    let task: Value = serde_json::from_str(&out).unwrap();
    let ran = task["result"]["_meta"]["dev.longhaul/run"]["durationMs"].as_u64();
    let ran = match ran.unwrap_or_else(|| panic!("{out}")) {
        ms @ ..1000 => format!("{ms}ms"),
        ms => format!("{}s", ms / 1000),
    };
    let list = run(folder.path(), &["tasks"]).1;
    let line = list.lines().find(|line| line.contains(&id)).unwrap_or_else(|| panic!("{list}"));
    assert_eq!(line.split_whitespace().last(), Some(ran.as_str()), "{list}");
    assert!(run(folder.path(), &["tasks", "get", &id]).1.contains(&format!("took {ran}\n")));
}
