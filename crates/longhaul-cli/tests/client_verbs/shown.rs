//! What the list of tasks shows a person.

use std::io::Read as _;
use std::time::Duration;

use serde_json::Value;

use super::{Server, folder, let_go, longhaul, open_terminal, orphan_that_ended, run, start_work};

#[test]
fn a_list_fits_the_terminal_it_is_shown_in() {
    let folder = folder();
    let server = Server::start(folder.path());
    let (_calling, _out, id) = start_work(folder.path(), &server.url, &[]);
    for width in [40, 80, 200] {
        let (master, terminal) = open_terminal();
        let mut size = rustix::termios::tcgetwinsize(&terminal).unwrap();
        size.ws_col = width;
        rustix::termios::tcsetwinsize(&terminal, size).unwrap();
        // The command is dropped with its end of the terminal.
        let mut listing = longhaul(folder.path(), &["tasks"]).stdout(terminal).spawn().unwrap();
        let (mut master, mut bytes, mut shown) = (std::fs::File::from(master), [0; 4096], String::new());
        while let Ok(read @ 1..) = master.read(&mut bytes) {
            shown += &String::from_utf8_lossy(&bytes[..read]);
        }
        assert!(listing.wait().unwrap().success());
        let lengths = || shown.lines().map(|line| line.trim_end().chars().count());
        assert!(lengths().all(|length| length <= usize::from(width)), "{width}: {shown}");
        assert!(shown.contains(&id) && shown.contains("working"), "{width}: {shown}");
        assert!(width == 80 || shown.contains("STARTED") == (width == 200), "{shown}");
    }
    let_go(folder.path());
}

#[test]
fn a_mistake_is_shown_in_colour_to_whoever_wants_that() {
    let folder = folder();
    std::fs::write(folder.path().join("wrong.toml"), "[tools.test]\ncommand = \"cargo test\"\n").unwrap();
    for (no_color, is_coloured) in [("", true), ("1", false)] {
        let (master, terminal) = open_terminal();
        let out = terminal.try_clone().unwrap();
        // The command is dropped with its end of the terminal.
        let mut checking = longhaul(folder.path(), &["check", "wrong.toml"])
            .env("NO_COLOR", no_color)
            .env("TERM", "xterm")
            .stdout(out)
            .stderr(terminal)
            .spawn()
            .unwrap();
        let (mut master, mut bytes, mut shown) = (std::fs::File::from(master), [0; 4096], String::new());
        while let Ok(read @ 1..) = master.read(&mut bytes) {
            shown += &String::from_utf8_lossy(&bytes[..read]);
        }
        assert_eq!(checking.wait().unwrap().code(), Some(2), "{shown}");
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
