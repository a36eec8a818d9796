//! What the manual has a newcomer do, done as it is written, and what it says that is printed.
//!
//! The blocks of a chapter are run in their order by one shell, in a folder that is empty but for its configuration. Of what a block of
//! text shows each line must be printed, in this order, by the blocks of commands before it; `…` stands for whatever is there.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use super::LONGHAUL;
use super::fleet::{redis, rig};

/// A block of a chapter.
enum Block<'c> {
    Commands,
    Printed(&'c str),
}

/// What is between fences, each with its language.
fn fenced(chapter: &str) -> impl Iterator<Item = (&str, &str)> {
    let blocks = chapter.split("\n```").skip(1).step_by(2);
    blocks.map(|block| block.split_once('\n').unwrap())
}

fn chapter(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../longhaul/src/manual").join(name);
    fs::read_to_string(path).unwrap()
}

/// A port that nobody listens on, nor has a connection from: those are given higher ones.
fn free_port() -> String {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 1_000) as u16 * 10;
    let mut ports = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed));
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap().to_string()
}

/// Does what a chapter says; `store` is what it calls `STORE`.
fn follow(name: &str, store: Option<&str>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    // Its own addresses may be somebody else's on this machine.
    let chapter = ["8420", "8421"].iter().fold(chapter(name), |text, port| text.replace(port, &free_port()));
    let chapter = chapter.replace("~/longhaul", root.to_str().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let at = |file: &str| folder.path().join(file);
    let (mut script, mut blocks) = (String::new(), Vec::new());
    for (language, text) in fenced(&chapter) {
        match language {
            "toml" => fs::write(at("longhaul.toml"), text).unwrap(),
            "sh" => {
                script += &commands(text, blocks.len());
                blocks.push(Block::Commands);
            }
            "text" => blocks.push(Block::Printed(text)),
            other => panic!("{name} has a block in {other}"),
        }
    }
    // What it has begun ends with it.
    script += "kill -9 $(jobs -p)\n";
    fs::write(at("script"), script).unwrap();
    let path = Path::new(LONGHAUL).parent().unwrap().to_str().unwrap();
    let mut shell = Command::new("bash");
    shell.arg("script").current_dir(folder.path()).stdin(Stdio::null());
    shell.env("PATH", format!("{path}:{}", std::env::var("PATH").unwrap()));
    shell.env("XDG_STATE_HOME", at("home")).envs(store.map(|store| ("STORE", store)));
    shell.status().unwrap();
    let printed = |number: usize| fs::read_to_string(at(&format!("printed-{number}"))).unwrap();
    let mut so_far = String::new();
    for (number, block) in blocks.iter().enumerate() {
        match block {
            Block::Commands => so_far += &printed(number),
            Block::Printed(shown) => is_printed(shown, &std::mem::take(&mut so_far)),
        }
    }
}

/// The commands of a block, which print to a file of their own, and then wait until what they serve answers.
fn commands(text: &str, number: usize) -> String {
    let serves = text.lines().filter(|line| line.starts_with("longhaul serve"));
    let ports = serves.filter_map(|line| line.split_once("127.0.0.1:")?.1.split(' ').next());
    let ready = |port| format!("curl -sf http://127.0.0.1:{port}/readyz >/dev/null");
    let wait = |port| format!("for _ in {{1..1200}}; do {} && break; sleep 0.05; done\n", ready(port));
    let waits: String = ports.map(wait).collect();
    // Who types the next line sees that what was killed is gone; a script is quicker than that.
    let gone = |line: &str| match line.strip_prefix("kill -9 ") {
        Some(process) => format!("{line}; wait {process}\n"),
        None => format!("{line}\n"),
    };
    let text: String = text.lines().map(gone).collect();
    format!("exec >printed-{number} 2>&1\n{text}\n{waits}")
}

/// Each line of `shown` is one of `printed`, in their order.
fn is_printed(shown: &str, printed: &str) {
    let mut lines = printed.lines();
    for line in shown.lines() {
        let parts: Vec<&str> = line.split('…').collect();
        assert!(
            lines.any(|printed| is_like(printed, &parts)),
            "{line:?} is not printed, or not there:\n{printed}"
        );
    }
}

/// Whether a line is these parts with whatever between them.
fn is_like(line: &str, parts: &[&str]) -> bool {
    let [first, between @ ..] = parts else { return false };
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let Some((last, between)) = between.split_last() else { return rest.is_empty() };
    for part in between {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[test]
fn the_chapter_on_commands_is_what_happens() {
    follow("start_with_commands.md", None);
}

#[test]
fn the_chapter_on_a_server_is_what_happens() {
    follow("start_with_a_server.md", None);
}

#[test]
fn the_chapter_on_a_fleet_is_what_happens_on_postgresql() {
    follow("start_a_fleet.md", Some(&rig::shared().database()));
}

#[test]
fn the_chapter_on_a_fleet_is_what_happens_on_redis() {
    follow("start_a_fleet.md", Some(&redis::shared().store()));
}

#[test]
fn the_chapter_in_rust_has_the_program_of_the_readme() {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).unwrap();
    let program = |text: &str| {
        let found = fenced(text).find(|(_, block)| block.contains("async fn main()"));
        found.map(|(_, block)| block.to_owned()).unwrap()
    };
    assert_eq!(program(&chapter("start_in_rust.md")), program(&readme));
    // `cargo xtask stories` follows these lines.
    for line in readme.lines().filter(|line| line.starts_with("cargo new") || line.starts_with("cargo add")) {
        assert!(chapter("start_in_rust.md").contains(line), "{line}");
    }
}
