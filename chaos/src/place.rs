//! One server's world: a fresh folder with a configuration whose commands count their own runs.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::server::Server;

/// A folder of its own, with everything a server under test reads and writes.
#[derive(Debug)]
pub(crate) struct Place {
    folder: TempDir,
    program: PathBuf,
    token: String,
}

/// How a tool of the configuration becomes a task, and for what it is here.
pub(crate) const ALWAYS: &str = "always";
/// Promoted while it runs.
pub(crate) const AFTER: &str = "after";
/// Forgotten a second after its end.
pub(crate) const BRIEF: &str = "brief";
/// Never a task unless the caller asks: its run is removed as it is answered.
pub(crate) const QUICK: &str = "quick";

/// What a server's own processes carry in their environment, to be found by.
const TOKEN: &str = "CHAOS_PLACE";

impl Place {
    /// A fresh folder for servers that run `program`.
    pub(crate) fn new(program: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("longhaul-chaos-").tempdir()?;
        let mut bits = [0; 8];
        getrandom::fill(&mut bits).context("the system has no randomness")?;
        let token = bits.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
        let place = Self { folder, program: program.to_owned(), token };
        fs::create_dir(place.path("effects"))?;
        fs::write(place.path("work.sh"), SCRIPT)?;
        fs::write(place.path("longhaul.toml"), configuration())?;
        Ok(place)
    }

    /// A file in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The store's file.
    pub(crate) fn store(&self) -> PathBuf {
        self.path("tasks.db")
    }

    /// The folder of run directories.
    pub(crate) fn runs(&self) -> PathBuf {
        self.path("tasks.db.runs")
    }

    /// The program that servers run.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// The variable that marks this place's processes, and its value.
    pub(crate) fn mark(&self) -> (&'static str, &str) {
        (TOKEN, &self.token)
    }

    /// What stands in the environment of all of this place's processes, for whoever outlives the place.
    pub(crate) fn mark_of_all(&self) -> String {
        format!("{TOKEN}={}", self.token)
    }

    /// Starts a server with these variables added and waits until it serves.
    pub(crate) fn serve(&self, variables: &[(&str, &str)]) -> Result<Server> {
        let server = self.start(variables)?;
        server.ready().with_context(|| format!("the server did not come up; it said:\n{}", server.said()))?;
        Ok(server)
    }

    /// Starts a server that may die at once.
    pub(crate) fn start(&self, variables: &[(&str, &str)]) -> Result<Server> {
        Server::start(self, &self.program, &[], variables)
    }

    /// How often the command of this key has begun.
    pub(crate) fn effects(&self, key: &str) -> Result<usize> {
        match fs::read_to_string(self.path("effects").join(key)) {
            Ok(text) => Ok(text.lines().count()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error).with_context(|| format!("the effects of {key} cannot be read")),
        }
    }

    /// Keeps the folder for whoever looks into a failure, and says where it is.
    pub(crate) fn keep(self) -> PathBuf {
        self.folder.keep()
    }
}

/// What one call's command is to do.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// Names the effect file, and stands in every line of output.
    pub(crate) key: String,
    /// How many lines it writes to each stream.
    pub(crate) lines: usize,
    /// Seconds between two of them.
    pub(crate) pause: f64,
}

impl Job {
    /// A command that ends by itself.
    pub(crate) fn new(key: impl Into<String>, lines: usize, pause: f64) -> Self {
        Self { key: key.into(), lines, pause }
    }

    /// A command that outlives every test unless it is ended.
    pub(crate) fn endless(key: impl Into<String>) -> Self {
        Self::new(key, 100_000, 0.2)
    }

    /// Whether only a cancel ends it.
    pub(crate) fn is_endless(&self) -> bool {
        self.lines >= 10_000
    }

    /// The call's arguments.
    pub(crate) fn arguments(&self) -> serde_json::Value {
        serde_json::json!({"key": self.key, "lines": self.lines, "pause": format!("{:.3}", self.pause)})
    }

    /// Everything the command writes to standard output.
    pub(crate) fn stdout(&self) -> String {
        self.text("out", &format!("{} end", self.key))
    }

    /// Everything the command writes to standard error.
    pub(crate) fn stderr(&self) -> String {
        self.text("err", "")
    }

    fn text(&self, stream: &str, end: &str) -> String {
        let mut text = String::new();
        for line in 0..self.lines {
            writeln!(text, "{} {stream} {line} größer 🚚", self.key).expect("a string takes any text");
        }
        text + end
    }
}

/// Counts its run, leaves a process that escapes its session, and writes slowly.
const SCRIPT: &str = r#"echo "$1" >> "effects/$1"
setsid sleep 1000 </dev/null >/dev/null 2>&1 3>&- &
line=0
while [ "$line" -lt "$2" ]; do
    echo "$1 out $line größer 🚚"
    echo "$1 err $line größer 🚚" >&2
    line=$((line + 1))
    sleep "$3"
done
printf '%s end' "$1"
"#;

fn configuration() -> String {
    let tools = [
        (ALWAYS, "task = \"always\""),
        (AFTER, "task = \"after 300ms\""),
        (BRIEF, "task = \"always\"\nttl = \"1s\""),
        (QUICK, "task = \"after 1m\""),
    ];
    let mut text = "[server]\nname = \"chaos\"\n".to_owned();
    for (name, task) in tools {
        write!(
            text,
            "\n[tools.{name}]\ndescription = \"Counts its runs and writes slowly\"\n\
             command = [\"sh\", \"work.sh\", \"{{key}}\", \"{{lines}}\", \"{{pause}}\"]\n\
             {task}\nhold = \"1s\"\ngrace = \"300ms\"\nmax_output = \"4MB\"\n\
             [tools.{name}.input.key]\npattern = \"^[a-z0-9-]+$\"\n\
             [tools.{name}.input.lines]\ntype = \"integer\"\n\
             [tools.{name}.input.pause]\npattern = \"^[0-9.]+$\"\n"
        )
        .expect("a string takes any text");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_has_no_mistake() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("longhaul.toml");
        fs::write(&file, configuration()).unwrap();
        let checked = longhaul_gateway::config::load(&file).map_err(|mistakes| format!("{mistakes:?}"));
        assert_eq!(checked.unwrap().config.tools.len(), 4);
    }

    #[test]
    fn the_script_writes_what_is_expected_of_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("effects")).unwrap();
        let job = Job::new("k-1", 2, 0.0);
        // Without the process that escapes: nobody would end it here.
        let script: String =
            SCRIPT.lines().filter(|line| !line.starts_with("setsid")).collect::<Vec<_>>().join("\n");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script, "work.sh", &job.key, "2", "0"]).current_dir(folder.path());
        let output = command.output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), job.stdout());
        assert_eq!(String::from_utf8(output.stderr).unwrap(), job.stderr());
    }
}
