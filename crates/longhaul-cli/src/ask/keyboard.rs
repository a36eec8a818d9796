//! The person at this terminal: what they are shown goes to standard error, what they say is read a line at a time.

use std::io::{BufRead, IsTerminal, Read as _, Write};
use std::sync::Arc;

use tokio::sync::mpsc;

use super::fill::Dialogue;
use crate::term::{Show, note};

/// Whether somebody sits here who can be asked.
pub(crate) fn is_there() -> bool {
    // What runs in the name of continuous integration may have been given a terminal, and has nobody in front of it.
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal() && std::env::var_os("CI").is_none()
}

/// The terminal, for whoever has the turn to ask.
#[derive(Debug, Default)]
pub(super) struct Keyboard {
    /// The lines that were typed, once the first was asked for.
    lines: Option<mpsc::Receiver<String>>,
}

impl Keyboard {
    /// Takes the terminal for one question: nothing else is drawn meanwhile.
    pub(super) fn turn<'k>(&'k mut self, show: &'k Arc<Show>) -> Turn<'k> {
        show.pause();
        Turn { keyboard: self, show }
    }
}

/// One turn at the terminal.
pub(super) struct Turn<'k> {
    keyboard: &'k mut Keyboard,
    show: &'k Arc<Show>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.show.go_on();
    }
}

impl Dialogue for Turn<'_> {
    fn say(&mut self, line: &str) {
        note(line);
    }

    async fn ask(&mut self, prompt: &str) -> Option<String> {
        {
            let mut out = std::io::stderr().lock();
            // If nobody sees it, nobody answers.
            out.write_all(prompt.as_bytes()).and_then(|()| out.flush()).ok()?;
        }
        self.keyboard.lines.get_or_insert_with(read_lines).recv().await
    }
}

/// Reads lines for as long as there are any. A read cannot be given up, so what was typed for a question that is asked no
/// more is there for the next.
fn read_lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            match (&mut input).take(LONGEST).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let line = String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned();
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// The longest line, in bytes.
const LONGEST: u64 = 64 << 10;
