//! What was shown by runs that take too long for every change: of which code, and in what words. `cargo xtask tidy` warns of
//! those whose code has changed since.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::site::Site;
use crate::stamp;
use crate::tally::Tally;

/// Where it is kept.
pub(crate) const LIST: &str = "conformance/shown.toml";

/// The most lines that are kept of a run.
const MOST: usize = 40;

/// What a run came to, and how it sums that up.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    pub(crate) sum: Vec<String>,
}

impl Outcome {
    /// Of what sums itself up by its counts.
    pub(crate) fn of(name: &str, tally: Tally) -> Self {
        Self { tally, sum: vec![format!("{name}: {tally}")] }
    }
}

/// The runs that were kept, in the order of their names.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct List {
    #[serde(default)]
    pub(crate) run: Vec<Run>,
}

/// One run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    /// Its name; the latest of a name stands for all.
    pub(crate) what: String,
    /// How it was begun.
    pub(crate) command: String,
    date: String,
    commit: String,
    /// The stamp of the code that it is about.
    pub(crate) of: String,
    said: Vec<String>,
}

impl List {
    /// Reads the list.
    ///
    /// # Errors
    ///
    /// When it is none.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).with_context(|| format!("cannot read {LIST}"))
    }

    fn put(&mut self, run: Run) {
        self.run.retain(|known| known.what != run.what);
        self.run.push(run);
        self.run.sort_by(|one, other| one.what.cmp(&other.what));
    }
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# What takes too long for every change, and was run. Each command writes its part itself, with `--keep`; `of`"
        )?;
        writeln!(
            f,
            "# is the stamp of the code that it is about: `cargo xtask tidy` warns when that has changed since."
        )?;
        for Run { what, command, date, commit, of, said } in &self.run {
            let text = |text: &str| toml::Value::from(text);
            writeln!(f, "\n[[run]]\nwhat = {}\ncommand = {}", text(what), text(command))?;
            writeln!(f, "date = {}\ncommit = {}\nof = {}\nsaid = [", text(date), text(commit), text(of))?;
            said.iter().try_for_each(|line| writeln!(f, "    {},", text(line)))?;
            writeln!(f, "]")?;
        }
        Ok(())
    }
}

/// Whether a run of this name is about that file.
pub(crate) fn is_about(what: &str, path: &str) -> bool {
    let is_code = path == "Cargo.lock" || path.starts_with("crates/") && path.contains("/src/");
    match what.split(' ').next().unwrap_or_default() {
        "sim" | "explore" => crate::chaos::is_explored(path),
        "load" | "fleet" => is_code || path.starts_with("chaos/src/"),
        "behind" => is_code || path.starts_with("conformance/interop/"),
        _ => is_code || path.starts_with("crates/") && path.contains("/tests/") || path.starts_with("chaos/"),
    }
}

/// Keeps what a run came to if that is wanted, and it is something.
///
/// # Errors
///
/// When the list cannot be read or written.
pub(crate) fn kept(keep: bool, site: &Site, what: &str, outcome: Outcome) -> Result<Tally> {
    let Outcome { tally, mut sum } = outcome;
    if !keep {
        return Ok(tally);
    }
    if !tally.is_success() {
        println!("not kept, for it failed");
        return Ok(tally);
    }
    sum.drain(..sum.len().saturating_sub(MOST));
    let (date, commit) = (
        said(Command::new("date").args(["-u", "+%F"]))?,
        said(
            Command::new("git")
                .args(["describe", "--always", "--dirty", "--exclude", "*"])
                .current_dir(&site.root),
        )?,
    );
    let of = stamp::of(&site.root, |path| is_about(what, path))?;
    put(
        &site.root,
        Run { what: what.to_owned(), command: command(std::env::args()), date, commit, of, said: sum },
    )?;
    println!("kept in {LIST}");
    Ok(tally)
}

fn put(root: &Path, run: Run) -> Result<()> {
    let path = root.join(LIST);
    let mut list = match fs::read_to_string(&path) {
        Ok(text) => List::parse(&text)?,
        Err(_) => List::default(),
    };
    list.put(run);
    fs::write(&path, list.to_string()).with_context(|| format!("cannot write {LIST}"))
}

/// How a run is begun again.
fn command(arguments: impl Iterator<Item = String>) -> String {
    let words = arguments.skip(1).filter(|word| word != "--keep");
    ["cargo".to_owned(), "xtask".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

/// The one line that a program says.
fn said(program: &mut Command) -> Result<String> {
    let said = program.output().with_context(|| format!("cannot run {}", program.get_program().display()))?;
    if !said.status.success() {
        bail!("{} failed: {}", program.get_program().display(), String::from_utf8_lossy(&said.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(what: &str, said: &str) -> Run {
        let text = str::to_owned;
        Run {
            what: text(what),
            command: text("cargo xtask chaos sim"),
            date: text("2026-01-01"),
            commit: text("abc"),
            of: text("1"),
            said: vec![text(said), text("a \"second\" line")],
        }
    }

    #[test]
    fn the_latest_run_of_a_name_is_kept_and_read_as_it_was_written() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("conformance")).unwrap();
        for (what, said) in [("sim", "first"), ("load", "loaded"), ("sim", "second")] {
            put(root.path(), run(what, said)).unwrap();
        }
        let text = fs::read_to_string(root.path().join(LIST)).unwrap();
        let list = List::parse(&text).unwrap();
        let kept: Vec<_> = list.run.iter().map(|run| (&*run.what, &*run.said[0])).collect();
        assert_eq!(kept, [("load", "loaded"), ("sim", "second")]);
        assert_eq!(list.run[1].said[1], "a \"second\" line");
        assert_eq!(list.to_string(), text);
    }

    #[test]
    fn a_run_is_about_what_it_runs() {
        for (what, path, about) in [
            ("sim", "chaos/explorer/src/sim/mod.rs", true),
            ("sim", "chaos/src/main.rs", false),
            ("explore pairs", "crates/longhaul-tasks/src/lib.rs", true),
            ("fleet redis", "chaos/src/main.rs", true),
            ("load", "crates/longhaul/tests/tools.rs", false),
            ("sabotage", "crates/longhaul/tests/tools.rs", true),
            ("sabotage", "chaos/sabotage/a.patch", true),
            ("behind", "crates/longhaul-cli/src/main.rs", true),
            ("behind", "README.md", false),
        ] {
            assert_eq!(is_about(what, path), about, "{what} {path}");
        }
    }

    #[test]
    fn a_run_says_how_to_begin_it_again() {
        let words = ["target/debug/xtask", "chaos", "sim", "--keep", "--seeds", "9"].map(str::to_owned);
        assert_eq!(command(words.into_iter()), "cargo xtask chaos sim --seeds 9");
    }
}
