//! Node and its packages, apart from whatever else is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Folder, system};
use crate::site::Site;

/// Where a newer Node is locked, for systems whose own is too old.
const RUNTIME: &str = "conformance/node";

/// A folder with the packages of one committed lock file, and a Node to run scripts there.
#[derive(Debug)]
pub(crate) struct Node {
    program: PathBuf,
    folder: PathBuf,
}

impl Node {
    /// Sets up `target/tools/<name>` from the `package-lock.json` in `source`, a path from the root, and copies the
    /// scripts of that folder beside the packages, since a script's imports are looked up from where it stands. The
    /// packages need Node `oldest` or later.
    ///
    /// # Errors
    ///
    /// When npm is missing or a package cannot be installed.
    pub(crate) fn with(site: &Site, name: &str, source: &str, oldest: u32) -> Result<Self> {
        system::require(site, &system::NPM)?;
        let _alone = super::alone();
        let program = match major_version("node") {
            Some(version) if version >= oldest => PathBuf::from("node"),
            _ => runtime(site, oldest)?,
        };
        let folder = install(site, name, source)?;
        copy_scripts(&site.root.join(source), &folder)?;
        Ok(Self { program, folder })
    }

    /// Where the packages lie.
    pub(crate) fn packages(&self) -> PathBuf {
        self.folder.join("node_modules")
    }

    /// A command that runs a script: named from the folder it was copied from, or by its whole path where it stands.
    pub(crate) fn script(&self, site: &Site, path: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(self.folder.join(path)).current_dir(&site.root);
        command
    }
}

/// Node from npm, for a system whose own is too old.
fn runtime(site: &Site, oldest: u32) -> Result<PathBuf> {
    let folder = install(site, "node", RUNTIME)?;
    let modules = folder.join("node_modules");
    for entry in fs::read_dir(&modules).with_context(|| format!("cannot list {}", modules.display()))? {
        let program = entry?.path().join("bin/node");
        if program.exists() {
            return Ok(program);
        }
    }
    bail!(
        "node is older than {oldest}, and {RUNTIME} has none for this system: install Node {oldest} or later"
    )
}

/// Installs what a lock file says, unless that was done.
fn install(site: &Site, name: &str, source: &str) -> Result<PathBuf> {
    let source = site.root.join(source);
    let files = ["package.json", "package-lock.json"];
    let folder = Folder::new(site, name, &files.map(|file| source.join(file)))?;
    if !folder.is_current() {
        folder.make(|path| {
            for file in files {
                fs::copy(source.join(file), path.join(file))
                    .with_context(|| format!("cannot copy {file}"))?;
            }
            let mut npm = Command::new("npm");
            // Nothing a package brings runs while it is installed.
            npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(path);
            site.must_run(&mut npm).map(drop)
        })?;
    }
    Ok(folder.path)
}

fn copy_scripts(from: &Path, to: &Path) -> Result<()> {
    // A script that was removed or renamed must not live on in the copy.
    for old in scripts(to)? {
        fs::remove_file(&old).with_context(|| format!("cannot remove {}", old.display()))?;
    }
    for script in scripts(from)? {
        let name = script.file_name().unwrap_or_default();
        fs::copy(&script, to.join(name)).with_context(|| format!("cannot copy {}", script.display()))?;
    }
    Ok(())
}

fn scripts(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    Ok(paths.into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "mjs")).collect())
}

/// The first number of `v20.1.2`, as the program says it.
fn major_version(program: &str) -> Option<u32> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}
