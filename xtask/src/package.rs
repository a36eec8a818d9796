//! `cargo xtask package`: every published crate as a registry would get it, built from its archive.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::site::Site;
use crate::tally::Tally;
use crate::workspace::Workspace;

/// Makes the archives and builds each, against those of the others it needs.
///
/// # Errors
///
/// When cargo cannot be run, or does not end in time.
pub(crate) fn run(site: &Site) -> Result<Tally> {
    let workspace = Workspace::members(&site.root)?;
    let published: Vec<_> = workspace.our_packages().filter(|package| package.is_published()).collect();
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home =
        home.or_else(|| Some(std::env::home_dir()?.join(".cargo"))).context("there is no home folder")?;
    // Of its own: what cargo has built of an archive it would build anew only if the version were another.
    let target = site.target.join("packages");
    for package in &published {
        forget(
            &home.join("registry/src"),
            &target.join("debug/.fingerprint"),
            &package.name,
            &package.version,
        )?;
    }
    let mut command = site.cargo(&["package", "--locked"]);
    command.args(published.iter().flat_map(|package| ["-p", &package.name]));
    let made = site.run(command.arg("--target-dir").arg(&target))?;
    println!("archives: {}", target.join("package").display());
    // It makes an archive of a manifest that tells nobody what the crate is, too.
    let warnings: Vec<_> = made.lines.iter().filter(|line| line.starts_with("warning: ")).collect();
    warnings.iter().for_each(|warning| println!("{warning}"));
    Ok(Tally::one(made.success && warnings.is_empty()))
}

/// Removes what was `unpacked` of an archive that was made here before, and the note of what was `built` of it. Cargo tells both by
/// name and version alone, so others would be built against that one.
fn forget(unpacked: &Path, built: &Path, name: &str, version: &str) -> Result<()> {
    let archive = format!("{name}-{version}");
    // The registry of such archives is a folder, which has no host.
    for registry in named(unpacked, |registry| registry.starts_with('-'))? {
        named(&registry, |folder| folder == archive)?.iter().try_for_each(|path| remove(path))?;
    }
    let is_its = |folder: &str| folder.rsplit_once('-').is_some_and(|(of, _)| of == name);
    named(built, is_its)?.iter().try_for_each(|path| remove(path))
}

/// What a folder holds by such names; nothing if there is no folder.
fn named(folder: &Path, is_such: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let all = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let all: Vec<_> = all.collect::<Result<_, _>>()?;
    let such = all.iter().filter(|it| it.file_name().to_str().is_some_and(&is_such));
    Ok(such.map(fs::DirEntry::path).collect())
}

fn remove(folder: &Path) -> Result<()> {
    fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_of_an_earlier_archive_is_forgotten() {
        let home = tempfile::tempdir().unwrap();
        let (unpacked, built) = (home.path().join("src"), home.path().join("built"));
        forget(&unpacked, &built, "ours", "0.1.0").unwrap();
        let gone = [unpacked.join("-1f/ours-0.1.0"), built.join("ours-0123456789abcdef")];
        let kept = [
            unpacked.join("-1f/ours-0.0.9"),
            unpacked.join("-1f/other-0.1.0"),
            unpacked.join("index-2e/ours-0.1.0"),
            built.join("ours-too-0123456789abcdef"),
        ];
        for folder in gone.iter().chain(&kept) {
            fs::create_dir_all(folder).unwrap();
        }
        forget(&unpacked, &built, "ours", "0.1.0").unwrap();
        assert!(gone.iter().all(|folder| !folder.exists()));
        assert!(kept.iter().all(|folder| folder.exists()));
    }
}
