//! A fresh folder for one server's world, which must be empty of processes when it is left.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A folder with a configuration, whose processes can all be found.
#[derive(Debug)]
pub(crate) struct Place {
    folder: TempDir,
    token: String,
}

/// What everything started in a place has in its environment; supervisors, which have none, name the folder.
const MARK: &str = "BAD_INPUT_PLACE";

/// Two tools that every place has: one that answers in place, however slow the machine is, and one that waits for a file.
const ALWAYS_THERE: &str = r#"
[server]
name = "attacked"

[tools.echo]
description = "Say it back"
command = ["printf", "%s", "{text}"]
task = "after 30m"
hold = "1h"
input.text = { type = "string" }

[tools.gate]
description = "Wait until the gate is open"
command = ["sh", "-c", 'echo >> "runs-of-$1"; while [ ! -e "$1" ]; do sleep 0.05; done; printf open', "gate", "{key}"]
task = "always"
hold = "2s"
grace = "200ms"
join = "never"
input.key = { type = "string", pattern = "^[a-z0-9]+$" }
"#;

impl Place {
    /// A place whose configuration has these tools besides.
    pub(crate) fn new(more: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("longhaul-bad-").tempdir().unwrap();
        let token = folder.path().file_name().unwrap().to_str().unwrap().to_owned();
        let place = Self { folder, token };
        fs::write(place.path("longhaul.toml"), format!("{ALWAYS_THERE}\n{more}")).unwrap();
        place
    }

    /// A file in the place.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program under attack, started here.
    pub(crate) fn program(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.current_dir(self.folder.path()).env(MARK, &self.token);
        command
    }

    /// How often the gate command of that key has begun.
    pub(crate) fn begun(&self, key: &str) -> usize {
        fs::read_to_string(self.path(&format!("runs-of-{key}"))).map_or(0, |text| text.lines().count())
    }

    /// The living processes of this place: number and command line.
    pub(crate) fn processes(&self) -> Vec<(i32, String)> {
        let own = std::process::id().cast_signed();
        let numbers = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let mine = |pid: &i32| {
            *pid != own
                && lives(*pid)
                && ["cmdline", "environ"].iter().any(|f| read(*pid, f).contains(&self.token))
        };
        numbers.filter(mine).map(|pid| (pid, read(pid, "cmdline"))).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let until = Instant::now() + Duration::from_secs(20);
        let mut left = self.processes();
        while !left.is_empty() && Instant::now() < until {
            thread::sleep(Duration::from_millis(50));
            left = self.processes();
        }
        for (pid, _) in &left {
            // Commands first and their supervisors with them: whoever is gone by now needs no signal.
            let _ = Pid::from_raw(*pid).map(|pid| kill_process(pid, Signal::KILL));
        }
        assert!(left.is_empty() || thread::panicking(), "left behind: {left:?}");
    }
}

/// Whether a process runs; one that ended and was not reaped yet by its parent does not.
pub(crate) fn lives(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

fn read(pid: i32, file: &str) -> String {
    let bytes = fs::read(Path::new("/proc").join(pid.to_string()).join(file)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}
