//! What a person is shown at a terminal, however wide it is and whatever a server says.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

use super::ends::leave;
use super::{
    LONGHAUL, Server, eventually, folder, let_go, longhaul, open_terminal, orphan_that_ended, run, start_work,
};

/// How wide a terminal is, and what says that it is to have no colour.
const TERMINALS: [(u16, &str); 6] = [(40, ""), (40, "1"), (80, ""), (80, "1"), (200, ""), (200, "1")];

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
        // An id is shown whole however narrow it is, in a line of its own, for it is there to be copied.
        let mut lines = shown.lines().map(str::trim_end).filter(|line| line.trim_start() != id);
        assert!(lines.all(|line| line.chars().count() <= usize::from(width)), "{width}: {shown}");
        assert!(shown.contains(&id) && shown.contains("working"), "{width}: {shown}");
        assert!(width == 80 || shown.contains("STARTED") == (width == 200), "{shown}");
    }
    let_go(folder.path());
}

/// A tool that says what would do harm if a terminal believed it, and how far it is, where no file holds it up; one in whose words a
/// letter takes two columns, which works until a file is there, or another is not; and a server with what would do harm.
const HOSTILE: &str = r#"
[tools.hostile]
title = "\u202Etitle 翻訳"
description = "Says \u202Eevil and much more than there is room for in one line of a small terminal, whatever it is"
command = ["sh", "-c", "while [ -e hold ]; do sleep 0.02; done; for i in 1 2 3; do echo $i/3 'compiling \\033]0;owned\\007 what has a long name' >&3; sleep 0.4; done; printf 'said\\033[2J\\033]52;c;aGk=\\007\\342\\200\\256 all\\n'"]
task = "always"
input.word = { type = "string", description = "A word \u202Esdrawkcab 翻訳", required = false }

[tools.wide]
description = "長い名前のものを翻訳しています"
command = ["sh", "-c", "for i in 1 2 3; do echo $i/3 '長い名前のものを翻訳しています、かなり時間がかかります、しばらくお待ちください' >&3; sleep 0.4; done; while [ -e longhaul.toml ] && [ ! -e go ]; do sleep 0.02; done; printf 翻訳"]
task = "always"
"#;

/// A folder with those, and a server behind them that hides what one of its tools says.
fn hostile_folder() -> tempfile::TempDir {
    let folder = folder();
    let behind = format!(
        "[servers.behind]\ncommand = [{LONGHAUL:?}, \"serve\", \"behind.toml\", \"--stdio\", \"--store\", \"memory:\"]\n"
    );
    std::fs::write(folder.path().join("longhaul.toml"), format!("{HOSTILE}\n{behind}")).unwrap();
    let sly = "[tools.sly]\ndescription = \"翻訳 \\u202Eevil\"\ncommand = [\"true\"]\n";
    std::fs::write(folder.path().join("behind.toml"), sly).unwrap();
    folder
}

/// What a command shows at such a terminal, where it is asked to end once it says `until`: nothing that would do harm, and no
/// colour where none is to be.
fn harmless(
    folder: &Path,
    (width, no_color): (u16, &str),
    words: &[&str],
    until: Option<&str>,
) -> (ExitStatus, String) {
    let mut command = longhaul(folder, words);
    command.env("NO_COLOR", no_color);
    let (status, shown) = at_terminal_until(width, command, until, false);
    does_no_harm(words, no_color, &shown);
    (status, shown)
}

/// What a person is shown at such a terminal until they leave, once it says `until`.
fn harmless_to_a_person(folder: &Path, terminal: (u16, &str), words: &[&str], until: &str) -> String {
    let (width, no_color) = terminal;
    let mut command = longhaul(folder, words);
    command.env("NO_COLOR", no_color);
    let (_, shown) = at_terminal_until(width, command, Some(until), true);
    does_no_harm(words, no_color, &shown);
    assert!(shown.contains(until), "{words:?}: {shown:?}");
    shown
}

fn does_no_harm(words: &[&str], no_color: &str, shown: &str) {
    for harm in ["\u{1b}]", "\u{1b}[2J", "\u{9b}", "\u{202e}", "\u{7}"] {
        assert!(!shown.contains(harm), "{words:?}: {shown:?}");
    }
    assert!(no_color.is_empty() || !has_colour(shown), "{words:?}: {shown:?}");
}

/// Whether it has a word of colour or weight to the terminal.
fn has_colour(shown: &str) -> bool {
    shown.split("\u{1b}[").skip(1).any(|rest| {
        rest.find(|letter: char| letter.is_ascii_alphabetic()).is_some_and(|end| rest[end..].starts_with('m'))
    })
}

#[test]
fn letters_that_take_two_columns_fit_as_well() {
    let folder = hostile_folder();
    let server = Server::start(folder.path());
    leave(folder.path(), &[&server.url, "wide"]);
    eventually("it does not say how far it is", || {
        run(folder.path(), &["tasks", "list", "--json"]).1.contains("長い名前")
    });
    for terminal in TERMINALS {
        let width = usize::from(terminal.0);
        let (status, shown) = harmless(folder.path(), terminal, &["tasks"], None);
        assert!(status.success(), "{shown}");
        let list = shown.split(" of 1.").next().unwrap();
        let is_id = |line: &str| line.trim_start().starts_with("wide-") && !line.trim_start().contains(' ');
        let mut lines = list.lines().map(str::trim_end).filter(|line| !is_id(line));
        assert!(lines.all(|line| line.width() <= width), "{width}: {list}");
        assert!(list.contains("wide") && list.contains("working"), "{width}: {list}");
        assert!(width < 200 || list.contains("長い名前"), "{width}: {list}");
    }
    std::fs::write(folder.path().join("go"), "").unwrap();
    for terminal in TERMINALS {
        let width = usize::from(terminal.0);
        let (status, shown) = harmless(folder.path(), terminal, &["call", &server.url, "wide"], None);
        assert!(status.success() && shown.contains("翻訳"), "{shown}");
        let frames: Vec<String> = shown.split(['\r', '\n']).map(without_controls).collect();
        let mut drawn =
            frames.iter().map(|frame| frame.trim_end()).filter(|frame| frame.starts_with("wide-"));
        assert!(drawn.clone().any(|frame| frame.contains('長')), "{frames:#?}");
        assert!(drawn.all(|frame| frame.width() <= width), "{width}: {frames:#?}");
    }
}

#[test]
fn what_is_shown_of_servers_and_of_this_machine_is_harmless_at_every_terminal() {
    let folder = hostile_folder();
    let server = Server::start(folder.path());
    for terminal in TERMINALS {
        let shown_of = |words: &[&str], said: &[&str]| {
            let (status, shown) = harmless(folder.path(), terminal, words, None);
            assert!(status.success(), "{words:?}: {shown}");
            let seen = without_controls(&shown);
            assert!(said.iter().all(|said| seen.contains(said)), "{words:?}: {shown}");
        };
        shown_of(
            &["tools", &server.url],
            &["hostile(word?: string)", "evil", "長い名前のものを翻訳しています"],
        );
        shown_of(&["tools", &server.url, "hostile"], &["title 翻訳", "evil", "A word sdrawkcab 翻訳"]);
        shown_of(&["doctor", &server.url], &["ok"]);
        shown_of(&["doctor"], &["ok"]);
        let name = "名\u{202e}\u{1b}]0;owned\u{7}";
        shown_of(
            &["connect", "claude", "--print", "--url", &server.url, "--name", name],
            &["名", &server.url],
        );
        let serve = ["serve", "--http", "127.0.0.1:0", "--store", "memory:"];
        let (status, shown) = harmless(folder.path(), terminal, &serve, Some("ready"));
        assert!(status.success(), "it ends in order: {status} {shown}");
        // It warns of an input that no command has.
        assert_eq!(has_colour(&shown), terminal.1.is_empty(), "{shown:?}");
        let banner = without_controls(&shown);
        for said in ["  tools    hostile wide", "  server   behind", "`sly` is not served", "ready"] {
            assert!(banner.contains(said), "{said}: {shown}");
        }
    }
}

/// A8 of `conformance/REQUIREMENTS.md`.
#[test]
fn a_call_fits_the_terminal_and_nothing_of_what_is_said_reaches_it_raw() {
    let folder = hostile_folder();
    let server = Server::start(folder.path());
    for terminal in TERMINALS {
        let width = usize::from(terminal.0);
        let shown_of = |words: &[&str]| {
            let (status, shown) = harmless(folder.path(), terminal, words, None);
            assert!(status.success(), "{words:?}: {shown:?}");
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
        assert!(drawn.iter().all(|frame| frame.width() <= width), "{width}: {drawn:#?}");
        assert!(called.contains("said all"), "{called:?}");

        let listed = run(folder.path(), &["tasks", "list", "--json"]).1;
        let listed: Value = serde_json::from_str(&listed).unwrap();
        let id = listed["tasks"][0]["taskId"].as_str().unwrap_or_else(|| panic!("{listed}"));
        assert!(shown_of(&["tasks", "log", id]).contains("said all"));
        assert!(shown_of(&["tasks", "result", id]).contains("said all"));
        assert!(shown_of(&["tasks", "get", id]).contains("hostile"));
    }
}

/// The task that a failed call has left.
fn left(err: &str) -> String {
    let id = err.lines().find_map(|line| line.strip_prefix("error: task ")?.split(' ').next());
    id.unwrap_or_else(|| panic!("{err}")).to_owned()
}

#[test]
fn a_task_that_is_watched_fits_the_terminal_and_is_harmless() {
    let folder = hostile_folder();
    let server = Server::start(folder.path());
    let wide = left(&leave(folder.path(), &[&server.url, "wide"]));
    for terminal in TERMINALS {
        let width = usize::from(terminal.0);
        let (_, shown) = harmless(folder.path(), terminal, &["tasks", "watch", &wide], Some("長"));
        let frames: Vec<String> = shown.split(['\r', '\n']).map(without_controls).collect();
        let drawn = || frames.iter().map(|frame| frame.trim_end()).filter(|frame| frame.starts_with("wide-"));
        assert!(drawn().any(|frame| frame.contains('長')), "{frames:#?}");
        assert!(drawn().all(|frame| frame.width() <= width), "{width}: {frames:#?}");

        let hold = folder.path().join("hold");
        std::fs::write(&hold, "").unwrap();
        let hostile = left(&leave(folder.path(), &[&server.url, "hostile"]));
        std::fs::remove_file(hold).unwrap();
        let (status, shown) = harmless(folder.path(), terminal, &["tasks", "watch", &hostile], None);
        assert!(status.success() && shown.contains("said all"), "{shown:?}");
    }
    std::fs::write(folder.path().join("go"), "").unwrap();
}

#[test]
fn what_a_task_asks_is_harmless_to_whoever_answers_it_at_every_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let (_runtime, url) = super::hostile::start(folder.path());
    let (code, _, err) = run(folder.path(), &["call", &url, "ask"]);
    assert_eq!(code, 6, "{err}");
    let line = err.lines().find_map(|line| line.strip_prefix("error: ")).unwrap();
    let id = line.split_once(' ').unwrap().0;
    for terminal in TERMINALS {
        for (verb, code) in [("watch", 6), ("answer", 6)] {
            let (status, shown) = harmless(folder.path(), terminal, &["tasks", verb, id], None);
            assert!(status.code() == Some(code) && shown.contains("Asked"), "{verb}: {status} {shown:?}");
            let shown = harmless_to_a_person(folder.path(), terminal, &["tasks", verb, id], "Field");
            assert!(shown.contains("Asked"), "{verb}: {shown:?}");
        }
        let wrong = ["tasks", "answer", id, "how=\u{202e}\u{1b}]0;owned\u{7}many"];
        let (status, shown) = harmless(folder.path(), terminal, &wrong, None);
        assert!(status.code() == Some(2) && shown.contains("how"), "{status} {shown:?}");
    }
}

#[test]
fn mistakes_are_harmless_at_every_terminal() {
    let folder = hostile_folder();
    let server = Server::start(folder.path());
    let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    // TOML lets the first stand as it is, and not the second.
    file(
        "evil.toml",
        "[tools.test]\ndescription = \"x\" # \u{9b}2J\u{202e}\ncommand = \"run \u{9b}2J\u{202e}it\"\n\"\u{9b}2J\" = 1\n",
    );
    file("raw.toml", "# \u{1b}]0;owned\u{7}\u{1b}[2J\n[tools\n");
    let owned = "no\u{9b}2J\u{1b}]0;owned\u{7}.toml";
    file(&owned.replace("no", "good"), HOSTILE);
    for terminal in TERMINALS {
        for (words, code, said) in [
            (
                &["call", &server.url, "hostile", "wrod\u{202e}\u{1b}]0;owned\u{7}=x"][..],
                2,
                "has no argument",
            ),
            (&["call", &server.url, "hostile", "\u{9b}2Jword"], 2, "is no argument"),
            (&["call", &server.url, "\u{9b}2Jhostile"], 5, "hostile"),
            (&["check", "evil.toml"], 2, "evil.toml"),
            (&["check", "raw.toml"], 2, "raw.toml"),
            (&["check", owned], 2, "cannot read the configuration"),
            (&["check", &owned.replace("no", "good")], 0, "no mistakes"),
            (&["check", "longhaul.toml", owned], 2, "unexpected argument"),
        ] {
            let (status, shown) = harmless(folder.path(), terminal, words, None);
            assert!(status.code() == Some(code) && shown.contains(said), "{words:?}: {status} {shown:?}");
        }
    }
}

/// What a command shows at a terminal that is so wide.
fn at_terminal(width: u16, command: Command) -> (ExitStatus, String) {
    at_terminal_until(width, command, None, false)
}

/// The same of one that is asked to end once it has said something, and may have a person at its keyboard.
fn at_terminal_until(
    width: u16,
    mut command: Command,
    mut until: Option<&str>,
    has_person: bool,
) -> (ExitStatus, String) {
    let (master, terminal) = open_terminal();
    let mut size = rustix::termios::tcgetwinsize(&terminal).unwrap();
    (size.ws_col, size.ws_row) = (width, 24);
    rustix::termios::tcsetwinsize(&terminal, size).unwrap();
    let out = terminal.try_clone().unwrap();
    if has_person {
        command.stdin(terminal.try_clone().unwrap());
    }
    let mut running = command.env("TERM", "xterm").stdout(out).stderr(terminal).spawn().unwrap();
    // It has the other end of the terminal, too.
    drop(command);
    // One that never says it ends all the same.
    let (done, over) = mpsc::channel::<()>();
    let pid = Pid::from_child(&running);
    std::thread::spawn(move || {
        if over.recv_timeout(Duration::from_secs(60)) == Err(RecvTimeoutError::Timeout) {
            let _ = kill_process(pid, Signal::KILL);
        }
    });
    let (mut master, mut bytes, mut shown) = (std::fs::File::from(master), [0; 4096], Vec::new());
    while let Ok(read @ 1..) = master.read(&mut bytes) {
        shown.extend_from_slice(&bytes[..read]);
        if until.is_some_and(|said| String::from_utf8_lossy(&shown).contains(said)) {
            until = None;
            kill_process(Pid::from_child(&running), Signal::TERM).unwrap();
        }
    }
    let status = running.wait().unwrap();
    drop(done);
    (status, String::from_utf8_lossy(&shown).into_owned())
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

#[test]
fn a_secret_that_a_tool_is_called_with_is_kept_in_no_file() {
    let folder = folder();
    let tool = "[tools.keep]\ndescription = \"Work with a secret\"\ntask = \"always\"\nenv.TOKEN = \"{token}\"\n\
        command = [\"sh\", \"-c\", \"while [ -e longhaul.toml ] && [ ! -e go ]; do sleep 0.02; done; printf %s ${#TOKEN}\"]\n\
        input.token = { secret = true, required = false }\n";
    std::fs::write(folder.path().join("longhaul.toml"), tool).unwrap();
    let server = Server::start(folder.path());
    let at = |words: &[&str]| run(folder.path(), words);
    let begin = |words: &[&str]| {
        let err = leave(folder.path(), &[&[server.url.as_str(), "keep"], words].concat());
        let id = err.split_once("longhaul tasks watch ").unwrap_or_else(|| panic!("{err}")).1;
        id.split_whitespace().next().unwrap().to_owned()
    };
    let (secret, plain) = (begin(&["token=hunter2"]), begin(&[]));
    let kept = std::fs::read_to_string(folder.path().join("state/longhaul/tasks.json")).unwrap();
    assert!(kept.contains(&secret) && !kept.contains("hunter2"), "{kept}");
    let again = |id: &str| at(&["tasks", "again", id, "--url", &server.url]);
    let (code, _, err) = again(&secret);
    assert!(code == 2 && err.contains("is not known here what task"), "{err}");
    assert_eq!(again(&plain).0, 0);
    let_go(folder.path());
    eventually("the command is not given it", || at(&["tasks", "result", &secret]).1 == "7\n");
}
