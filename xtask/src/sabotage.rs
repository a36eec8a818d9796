//! Sabotage: takes one guard out of the code after the other, and sees the test of it fail.
//!
//! A patch of `chaos/sabotage/` says above its difference what it takes away (`# Why: `) and which tests must fail then
//! (`# Red: `, a `cargo test`). That it still applies is a rule of `cargo xtask tidy`.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::shown;
use crate::site::Site;
use crate::tally::Tally;
use crate::tidy;
use crate::workspace::Workspace;

/// Where the patches are.
pub(crate) const FOLDER: &str = "chaos/sabotage/";

/// How long all of it may take.
pub(crate) const BUDGET: Duration = Duration::from_secs(4 * 60 * 60);

/// How long one command may take: only a hang gets there, and a hang shows nothing.
const LONGEST: Duration = Duration::from_secs(20 * 60);

/// One guard, and what fails without it.
#[derive(Debug)]
pub(crate) struct Patch<'t> {
    /// What is no more.
    pub(crate) why: &'t str,
    /// What must fail.
    pub(crate) red: &'t str,
    /// The files, each with its pieces.
    pub(crate) files: Vec<(&'t str, Vec<Piece<'t>>)>,
}

/// Some lines in a row that the patch changes.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Piece<'t> {
    /// As they are before.
    lines: Vec<&'t str>,
    /// No line that stays is behind them: git looks for such a piece at the end of its file alone.
    is_last: bool,
}

impl Piece<'_> {
    fn stands_in(&self, lines: &[&str]) -> bool {
        let is_anywhere = || lines.windows(self.lines.len()).any(|window| window == self.lines);
        if self.is_last { lines.ends_with(&self.lines) } else { is_anywhere() }
    }
}

impl<'t> Patch<'t> {
    /// Reads a patch.
    ///
    /// # Errors
    ///
    /// What it lacks.
    pub(crate) fn parse(text: &'t str) -> Result<Self> {
        let said = |what: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(what));
            line.map(str::trim).filter(|said| !said.is_empty()).with_context(|| format!("no line `{what}`"))
        };
        let (why, red) = (said("# Why: ")?, said("# Red: ")?);
        if !red.starts_with("cargo test ") {
            bail!("what must fail is no `cargo test`");
        }
        let mut files: Vec<(&str, Vec<Piece<'_>>)> = Vec::new();
        for line in text.lines().skip_while(|line| !line.starts_with("--- ")) {
            if let Some(path) = line.strip_prefix("--- a/") {
                files.push((path, Vec::new()));
            } else if line.starts_with("@@ ") {
                files.last_mut().context("a piece of no file")?.1.push(Piece::default());
            } else if line.starts_with([' ', '-', '+']) && !line.starts_with("+++ ") {
                let pieces = files.last_mut().map(|(_, pieces)| pieces);
                let piece = pieces.and_then(|pieces| pieces.last_mut()).context("a line of no piece")?;
                piece.lines.extend(line.strip_prefix([' ', '-']));
                piece.is_last = !line.starts_with(' ');
            }
        }
        if files.is_empty() || files.iter().any(|(_, pieces)| pieces.is_empty()) {
            bail!("it changes nothing");
        }
        Ok(Self { why, red, files })
    }

    /// Whose tests must fail.
    fn package(&self) -> Result<&'t str> {
        let mut words = self.red.split_whitespace().skip_while(|word| *word != "-p");
        words.nth(1).with_context(|| format!("`{}` names no package by -p", self.red))
    }

    /// The file that is no longer as the patch finds it, if any; `text` is what a path holds.
    pub(crate) fn outdated<'a>(&self, text: impl Fn(&str) -> Option<&'a str>) -> Option<&'t str> {
        let holds = |path: &str, pieces: &[Piece<'_>]| {
            let lines: Vec<&str> = text(path).unwrap_or_default().lines().collect();
            pieces.iter().all(|piece| piece.stands_in(&lines))
        };
        self.files.iter().find(|(path, pieces)| !holds(path, pieces)).map(|(path, _)| *path)
    }
}

/// Applies each patch in a copy of the tree, and runs what must fail. What has been shown of the same code before is not
/// shown again, unless `again`.
///
/// # Errors
///
/// When the copy cannot be made.
pub(crate) fn run(site: &Site, only: &[String], again: bool) -> Result<Tally> {
    let bench = Bench::new(site)?;
    if again {
        bench.forget()?;
    }
    let patches = bench.patches(only)?;
    let mut tally = Tally::default();
    let mut sound: BTreeMap<String, bool> = BTreeMap::new();
    for (name, text) in &patches {
        let stamp = bench.stamp(name, text).with_context(|| format!("{name}.patch"))?;
        if stamp.exists() {
            println!("ok      {name}   shown before");
            tally += Tally::one(true);
            continue;
        }
        let shown = bench.show(text, &mut sound);
        bench.restore()?;
        match &shown {
            Ok(why) => {
                fs::write(stamp, why)?;
                println!("ok      {name}   {why}");
            }
            Err(error) => println!("FAILED  {name}   {error:#}"),
        }
        tally += Tally::one(shown.is_ok());
    }
    Ok(tally)
}

/// Where it is done: a copy of the tree with a build folder of its own.
struct Bench {
    site: Site,
    tree: PathBuf,
    target: PathBuf,
    stamps: PathBuf,
    files: BTreeMap<String, Vec<u8>>,
    workspace: Workspace,
}

impl Bench {
    fn new(site: &Site) -> Result<Self> {
        let mut files = BTreeMap::new();
        for path in tidy::committable(&site.root)? {
            let full = site.root.join(&path);
            if full.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
                files.insert(path, fs::read(full)?);
            }
        }
        let place = site.target.join("sabotage");
        let [tree, target, stamps] = ["tree", "target", "shown"].map(|name| place.join(name));
        fs::create_dir_all(&stamps)?;
        let bench = Self {
            site: site.clone(),
            tree,
            target,
            stamps,
            files,
            workspace: Workspace::members(&site.root)?,
        };
        bench.remove_strangers()?;
        bench.restore()?;
        Ok(bench)
    }

    /// What the copy has from an earlier tree.
    fn remove_strangers(&self) -> Result<()> {
        if !self.tree.exists() {
            return Ok(());
        }
        for path in tidy::walk(&self.tree)? {
            if !self.files.contains_key(&path) {
                fs::remove_file(self.tree.join(path))?;
            }
        }
        Ok(())
    }

    /// Makes the copy what the tree is. What is the same is not touched, so that cargo does not build it again.
    fn restore(&self) -> Result<()> {
        for (path, bytes) in &self.files {
            let copy = self.tree.join(path);
            if fs::read(&copy).is_ok_and(|there| there == *bytes) {
                continue;
            }
            if let Some(folder) = copy.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(copy, bytes)?;
        }
        Ok(())
    }

    fn forget(&self) -> Result<()> {
        fs::remove_dir_all(&self.stamps)?;
        Ok(fs::create_dir_all(&self.stamps)?)
    }

    /// The patches by name, those of one command together: what it builds is there already.
    fn patches(&self, only: &[String]) -> Result<Vec<(String, String)>> {
        let mut patches = Vec::new();
        for (path, bytes) in self.files.range(FOLDER.to_owned()..) {
            let Some(file) = path.strip_prefix(FOLDER) else { break };
            let Some(name) = file.strip_suffix(".patch") else { continue };
            if only.is_empty() || only.iter().any(|part| name.contains(part.as_str())) {
                patches.push((name.to_owned(), String::from_utf8(bytes.clone())?));
            }
        }
        let red = |text: &str| Patch::parse(text).map(|patch| patch.red.to_owned()).unwrap_or_default();
        patches.sort_by_cached_key(|(name, text)| (red(text), name.clone()));
        Ok(patches)
    }

    /// Where it is noted that a patch was shown of this code: of all that its tests are built with.
    fn stamp(&self, name: &str, text: &str) -> Result<PathBuf> {
        let package = Patch::parse(text)?.package()?;
        let needed = self.workspace.needed_by(package);
        let others = self.workspace.our_packages().filter(|other| !needed.contains(other.name.as_str()));
        let elsewhere: Vec<_> = others.map(|other| format!("{}/", self.workspace.folder(other))).collect();
        let is_built = |path: &str| {
            let is_elsewhere =
                path.starts_with(FOLDER) || elsewhere.iter().any(|other| path.starts_with(other));
            shown::is_about("sabotage", path) && !is_elsewhere
        };
        let mut digest = DefaultHasher::new();
        text.hash(&mut digest);
        self.files.iter().filter(|(path, _)| is_built(path)).for_each(|file| file.hash(&mut digest));
        Ok(self.stamps.join(format!("{name}-{:016x}", digest.finish())))
    }

    /// Shows that the tests which pass fail once the patch is applied; what it takes away.
    fn show(&self, text: &str, sound: &mut BTreeMap<String, bool>) -> Result<String> {
        let patch = Patch::parse(text)?;
        let passes = match sound.get(patch.red) {
            Some(passes) => *passes,
            None => *sound.entry(patch.red.to_owned()).or_insert(self.passes(patch.red)?),
        };
        if !passes {
            bail!("`{}` fails without it too", patch.red);
        }
        self.apply(text)?;
        if !self.cargo(patch.red, true)? {
            bail!("what it makes of the code does not compile; write it so that it does");
        }
        if self.cargo(patch.red, false)? {
            bail!("`{}` passes all the same: nothing tests this ({})", patch.red, patch.why);
        }
        Ok(patch.why.to_owned())
    }

    fn passes(&self, red: &str) -> Result<bool> {
        Ok(self.cargo(red, true)? && self.cargo(red, false)?)
    }

    fn apply(&self, text: &str) -> Result<()> {
        let file = self.stamps.join(".patch");
        fs::write(&file, text)?;
        let mut git = Command::new("git");
        git.args(["apply", "--whitespace=nowarn"]).arg(&file).current_dir(&self.tree);
        // The copy is no repository, though it lies in one.
        git.env("GIT_CEILING_DIRECTORIES", self.tree.parent().unwrap_or(&self.tree))
            .env_remove("GIT_DIR")
            .env_remove("GIT_WORK_TREE");
        if !self.site.run(&mut git)?.success {
            bail!("it no longer applies; make it anew, or remove it if its guard is no more");
        }
        Ok(())
    }

    /// Runs a `cargo test` in the copy, or only builds what it needs; whether that went well.
    fn cargo(&self, red: &str, build: bool) -> Result<bool> {
        let words: Vec<&str> = red.split_whitespace().skip(1).collect();
        let own = words.iter().position(|word| *word == "--").unwrap_or(words.len());
        let mut command = self.site.cargo(&words[..own]);
        if build {
            command.args(["--no-run", "--quiet"]);
        } else {
            command.args(&words[own..]);
        }
        command.current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.target);
        command.env("RUST_BACKTRACE", "0").env("CARGO_PROFILE_DEV_DEBUG", "0");
        let mut site = self.site.clone();
        site.deadline = site.deadline.min(Instant::now() + LONGEST);
        Ok(site.run(&mut command)?.success)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "# Why: a lock\n# Red: cargo test -p a\n--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1,3 +1,2 @@ fn a\n \
                         one\n-two\n three\n@@ -9,2 +8,2 @@\n nine\n-ten\n+eleven\n";

    #[test]
    fn a_patch_says_what_it_takes_away_and_what_fails_then() {
        let patch = Patch::parse(PATCH).unwrap();
        assert_eq!((patch.why, patch.red), ("a lock", "cargo test -p a"));
        let pieces = [(vec!["one", "two", "three"], false), (vec!["nine", "ten"], true)];
        let pieces = pieces.map(|(lines, is_last)| Piece { lines, is_last });
        assert_eq!(patch.files, [("src/a.rs", Vec::from(pieces))]);
        for (part, instead) in [("# Why: a lock", ""), ("cargo test", "sh"), ("@@ -1,3 +1,2 @@ fn a\n", "")] {
            assert!(Patch::parse(&PATCH.replacen(part, instead, 1)).is_err(), "{part}");
        }
    }

    #[test]
    fn a_patch_is_outdated_once_what_it_changes_is_gone() {
        let patch = Patch::parse(PATCH).unwrap();
        let held = |text: &'static str| patch.outdated(move |path| (path == "src/a.rs").then_some(text));
        assert_eq!(held("zero\none\ntwo\nthree\nfour\nnine\nten\n"), None);
        let moved = held("one\ntwo\nthree\nnine\nten\neleven\n");
        assert_eq!(moved, Some("src/a.rs"), "git looks for it at the end");
        assert_eq!(held("one\n2\nthree\nnine\nten\n"), Some("src/a.rs"));
        assert_eq!(patch.outdated(|_| None), Some("src/a.rs"));
    }
}
