//! `cargo xtask package`: every published crate as a registry would get it, built from its archive.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::site::Site;
use crate::tally::Tally;
use crate::workspace::{Package, Workspace};

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
    let named = |package: &&Package| format!("{}-{}", package.name, package.version);
    forget_unpacked(&home, &published.iter().map(named).collect::<Vec<_>>())?;
    let mut command = site.cargo(&["package", "--locked"]);
    command.args(published.iter().flat_map(|package| ["-p", &package.name]));
    let made = site.run(&mut command)?;
    println!("archives: {}", site.target.join("package").display());
    // It makes an archive of a manifest that tells nobody what the crate is, too.
    let warnings: Vec<_> = made.lines.iter().filter(|line| line.starts_with("warning: ")).collect();
    warnings.iter().for_each(|warning| println!("{warning}"));
    Ok(Tally::one(made.success && warnings.is_empty()))
}

/// Removes what cargo has unpacked of archives that were made here before. It keeps that by name and version alone, so it would
/// build a crate against others as they were then.
fn forget_unpacked(cargo_home: &Path, crates: &[String]) -> Result<()> {
    let unpacked = cargo_home.join("registry/src");
    if !unpacked.exists() {
        return Ok(());
    }
    for registry in fs::read_dir(&unpacked)? {
        let registry = registry?;
        // The registry of such archives is a folder, which has no host.
        if !registry.file_name().as_encoded_bytes().starts_with(b"-") {
            continue;
        }
        for name in crates {
            let folder = registry.path().join(name);
            if folder.exists() {
                fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_unpacked_of_a_registry_with_a_host_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let at = |path: &str| home.path().join("registry/src").join(path);
        let (ours, older, other, hosted) =
            (at("-1f/ours-0.1.0"), at("-1f/ours-0.0.9"), at("-1f/other-0.1.0"), at("index-2e/ours-0.1.0"));
        forget_unpacked(home.path(), &[]).unwrap();
        for folder in [&ours, &older, &other, &hosted] {
            fs::create_dir_all(folder).unwrap();
        }
        forget_unpacked(home.path(), &["ours-0.1.0".to_owned()]).unwrap();
        assert!(!ours.exists());
        assert!(older.exists() && other.exists() && hosted.exists());
    }
}
