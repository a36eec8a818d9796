//! `cargo xtask semver`: whether what the published libraries show is still what it was in a release, as their version numbers say.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::site::Site;
use crate::tally::Tally;
use crate::tools::installed;
use crate::workspace::Workspace;

/// Compares each published library, with all its features, with what it was at `against`: the last release, unless that is said.
///
/// # Errors
///
/// When it cannot be known what was released, or what compares cannot be installed or run.
pub(crate) fn run(site: &Site, against: Option<String>) -> Result<Tally> {
    let before = match against {
        Some(revision) => Some(revision),
        None => last_release(&site.root)?,
    };
    let Some(before) = before else {
        println!(
            "nothing is released yet, so nobody depends on anything: name a revision to compare with it, as in \
             cargo xtask semver --against HEAD~1"
        );
        return Ok(Tally::one(true));
    };
    let workspace = Workspace::members(&site.root)?;
    let programs = installed::install(site, &installed::CARGO_SEMVER_CHECKS)?;
    let libraries: Vec<&str> = workspace
        .our_packages()
        .filter(|package| package.is_published() && package.builds("lib"))
        .map(|package| package.name.as_str())
        .collect();
    let mut tally = Tally::default();
    // One at a time, so that one that was not there yet keeps nobody from the others.
    for library in libraries {
        let mut compare = Command::new(programs.join("cargo-semver-checks"));
        compare.current_dir(&site.root).args(["semver-checks", "check-release", "--all-features"]);
        compare.args(["--baseline-rev", &before, "--package", library]);
        compare.env("CARGO_TARGET_DIR", site.target.join("semver"));
        tally += Tally::one(site.run(&mut compare)?.success);
    }
    println!("semver: compared with {before}");
    Ok(tally)
}

/// The newest tag of a release, if there is any.
fn last_release(root: &Path) -> Result<Option<String>> {
    let newest =
        git(root, &["tag", "--list", "v*", "--sort=-version:refname"])?.lines().next().map(str::to_owned);
    if newest.is_none() && git(root, &["rev-parse", "--is-shallow-repository"])?.trim() == "true" {
        bail!("this clone is shallow and may lack the tags of releases: git fetch --unshallow --tags");
    }
    Ok(newest)
}

fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("git").current_dir(root).args(arguments).output().context("cannot run git")?;
    if !output.status.success() {
        bail!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// A repository with one commit.
    fn repository(folder: &Path) {
        git(folder, &["init", "--quiet"]).unwrap();
        let who = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
        let commit = ["commit", "--quiet", "--allow-empty", "--message", "Begin"];
        git(folder, &[&who[..], &commit].concat()).unwrap();
    }

    #[test]
    fn the_last_release_is_the_newest_of_the_tags_if_there_are_any() {
        let folder = tempfile::tempdir().unwrap();
        assert!(last_release(folder.path()).is_err(), "where there is no repository nobody knows");
        repository(folder.path());
        git(folder.path(), &["tag", "nightly"]).unwrap();
        assert_eq!(last_release(folder.path()).unwrap(), None);
        for version in ["v0.9.0", "v0.10.0"] {
            git(folder.path(), &["tag", version]).unwrap();
        }
        assert_eq!(last_release(folder.path()).unwrap().as_deref(), Some("v0.10.0"));
    }

    #[test]
    fn nothing_that_is_released_is_no_failure() {
        let folder = tempfile::tempdir().unwrap();
        repository(folder.path());
        let site = Site::new(folder.path().to_owned(), folder.path().to_owned(), Instant::now());
        assert_eq!(run(&site, None).unwrap(), Tally::one(true));
    }

    #[test]
    fn a_clone_without_its_history_is_not_taken_for_one_without_releases() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        std::fs::create_dir(&from).unwrap();
        repository(&from);
        let address = format!("file://{}", from.display());
        git(folder.path(), &["clone", "--quiet", "--depth=1", &address, to.to_str().unwrap()]).unwrap();
        assert!(last_release(&to).unwrap_err().to_string().contains("shallow"));
    }
}
