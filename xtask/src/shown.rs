//! What was shown by runs that take too long for every change: of which code, and in what words. `cargo xtask tidy` warns of
//! those whose code has changed since.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

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
    /// How much of what it is to try it had no time for.
    pub(crate) left: usize,
}

impl Outcome {
    /// Of what sums itself up by its counts.
    pub(crate) fn of(name: &str, tally: Tally) -> Self {
        Self { tally, sum: vec![format!("{name}: {tally}")], left: 0 }
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

/// Whether a run of this name is about that file: what it runs, and what judges that.
pub(crate) fn is_about(what: &str, path: &str) -> bool {
    if is_prose(path) {
        return false;
    }
    let is_in_crates = path.starts_with("crates/");
    let is_code =
        builds_all(path) || is_in_crates && (path.contains("/src/") || path.ends_with("/Cargo.toml"));
    let others: &[&str] = match kind(what) {
        "sim" | "explore" => return crate::chaos::is_explored(path),
        "load" | "fleet" => &["chaos/Cargo.toml", "chaos/src/"],
        "behind" => &["conformance/interop/", "conformance/node/", "xtask/src/interop/", "xtask/src/wire.rs"],
        _ if is_in_crates && path.contains("/tests/") => return true,
        _ => &["chaos/Cargo.toml", "chaos/src/", "chaos/tests/", "chaos/sabotage/", "xtask/src/sabotage.rs"],
    };
    is_code || others.iter().any(|place| path.starts_with(place))
}

/// Whether a file is only read by people: the manual lies beside the code that shows it.
pub(crate) fn is_prose(path: &str) -> bool {
    path.ends_with(".md")
}

/// Whether whatever is built here is built by that file.
pub(crate) fn builds_all(path: &str) -> bool {
    matches!(path, "Cargo.lock" | "Cargo.toml" | ".cargo/config.toml")
}

/// What runs: the first word of a name.
fn kind(what: &str) -> &str {
    what.split(' ').next().unwrap_or_default()
}

/// The least numbers with which a run is kept: what is smaller shows less than its name says.
fn least(what: &str) -> &'static [(&'static str, u64)] {
    match kind(what) {
        "load" => &[("tasks", 10_000), ("kills", 1_000), ("processes", 3)],
        // From so many minutes on a fleet has to show everything.
        "fleet" => &[("minutes", 5), ("rate", 10)],
        "sim" => &[("seeds", 100_000)],
        "behind" => &[("sessions", 1_000)],
        _ => &[],
    }
}

/// Runs what has this name and these numbers. If it is to be kept and cannot be, it is not run, or fails.
///
/// # Errors
///
/// When it is too small to be kept, as `run`, or when the list cannot be read or written.
pub(crate) fn kept(
    keep: bool,
    root: &Path,
    what: &str,
    numbers: &[(&str, u64)],
    run: impl FnOnce() -> Result<Outcome>,
) -> Result<Tally> {
    if !keep {
        return Ok(run()?.tally);
    }
    let has = |(name, least): &(&str, u64)| numbers.iter().any(|(of, is)| of == name && is >= least);
    if let Some((name, least)) = least(what).iter().find(|number| !has(number)) {
        bail!("only a run with --{name} {least} or more is kept");
    }
    // The run takes hours: what is there at its end need not be what ran.
    let stamp = || stamp::of(root, |path| is_about(what, path));
    let (of, date, commit) = (
        stamp()?,
        said(Command::new("date").args(["-u", "+%F"]))?,
        said(
            Command::new("git").args(["describe", "--always", "--dirty", "--exclude", "*"]).current_dir(root),
        )?,
    );
    let Outcome { mut tally, sum, left } = run()?;
    let why_not = if !tally.is_success() {
        Some("it failed")
    } else if left > 0 {
        Some("there was no time for all of it")
    } else if stamp()? != of {
        Some("what it is about has changed meanwhile")
    } else {
        None
    };
    if let Some(why) = why_not {
        println!("not kept, for {why}");
        tally += Tally::one(false);
        return Ok(tally);
    }
    let said = sum.into_iter().rev().take(MOST).rev().collect();
    put(root, Run { what: what.to_owned(), command: command(std::env::args()), date, commit, of, said })?;
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
            ("sim", "crates/longhaul/src/manual/capacity.md", false),
            ("load", "crates/longhaul/src/manual/capacity.md", false),
            ("explore pairs", "crates/longhaul-tasks/src/lib.rs", true),
            ("fleet redis", "chaos/src/main.rs", true),
            ("fleet redis", "chaos/Cargo.toml", true),
            ("load", "crates/longhaul/tests/tools.rs", false),
            ("load", "crates/longhaul/Cargo.toml", true),
            ("sim", "crates/longhaul/Cargo.toml", true),
            ("sim", "crates/longhaul-cli/Cargo.toml", false),
            ("sim", "Cargo.toml", true),
            ("load", "Cargo.toml", true),
            ("sabotage", ".cargo/config.toml", true),
            ("sabotage", "xtask/src/sabotage.rs", true),
            ("behind", "Cargo.toml", true),
            ("behind", "xtask/src/interop/behind/killed.rs", true),
            ("behind", "xtask/src/wire.rs", true),
            ("behind", "xtask/src/main.rs", false),
            ("sabotage", "crates/longhaul/tests/tools.rs", true),
            ("sabotage", "chaos/sabotage/a.patch", true),
            ("sabotage", "chaos/tests/load.rs", true),
            ("sabotage", "chaos/explorer/src/lib.rs", false),
            ("behind", "crates/longhaul-cli/src/main.rs", true),
            ("behind", "README.md", false),
        ] {
            assert_eq!(is_about(what, path), about, "{what} {path}");
        }
    }

    /// A repository whose code is one file.
    fn repository() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("conformance")).unwrap();
        fs::write(root.path().join("Cargo.lock"), "one").unwrap();
        let git = |words: &[&str]| {
            let who = ["-c", "user.name=n", "-c", "user.email=n@localhost"];
            said(Command::new("git").args(who).args(words).current_dir(root.path())).unwrap()
        };
        git(&["init", "-q"]);
        git(&["add", "."]);
        git(&["commit", "-qm", "one"]);
        root
    }

    #[test]
    fn only_a_whole_run_of_what_is_still_there_is_kept() {
        let root = repository();
        let kept_of = |left: usize, passed: usize, meanwhile: Option<(&str, &str)>| {
            let ran = kept(true, root.path(), "sabotage", &[], || {
                if let Some((path, text)) = meanwhile {
                    fs::write(root.path().join(path), text)?;
                }
                Ok(Outcome { left, ..Outcome::of("sabotage", Tally { passed, failed: 0 }) })
            });
            (ran.unwrap().is_success(), root.path().join(LIST).exists())
        };
        assert_eq!(kept_of(0, 1, Some(("Cargo.lock", "two"))), (false, false), "the code changed");
        assert_eq!(kept_of(1, 1, None), (false, false), "it was not all");
        assert_eq!(kept_of(0, 0, None), (false, false), "it failed");
        assert_eq!(kept_of(0, 1, Some(("README.md", "other"))), (true, true));
        let list = List::parse(&fs::read_to_string(root.path().join(LIST)).unwrap()).unwrap();
        assert_eq!(list.run[0].of, stamp::of_files([("Cargo.lock", &b"two"[..])]));
    }

    #[test]
    fn what_is_too_small_is_not_run_to_be_kept() {
        let root = repository();
        let whole = [("tasks", 10_000), ("kills", 1_000), ("processes", 3)];
        let keep = |numbers: &[(&str, u64)]| {
            let mut ran = false;
            let kept = kept(true, root.path(), "load", numbers, || {
                ran = true;
                Ok(Outcome::of("load", Tally::one(true)))
            });
            (ran, kept.is_ok_and(Tally::is_success))
        };
        for at in 0..whole.len() {
            let mut less = whole;
            less[at].1 -= 1;
            assert_eq!(keep(&less), (false, false), "{less:?}");
        }
        assert_eq!(keep(&whole[..2]), (false, false), "of one it is not said");
        assert_eq!(keep(&whole), (true, true));
    }

    #[test]
    fn a_run_says_how_to_begin_it_again() {
        let words = ["target/debug/xtask", "chaos", "sim", "--keep", "--seeds", "9"].map(str::to_owned);
        assert_eq!(command(words.into_iter()), "cargo xtask chaos sim --seeds 9");
    }
}
