//! `cargo xtask semver`: whether what the published libraries show is still what it was in a release, as their version numbers say.

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
/// When there is nothing to compare with, or what compares cannot be installed or run.
pub(crate) fn run(site: &Site, against: Option<String>) -> Result<Tally> {
    let workspace = Workspace::members(&site.root)?;
    let before = match against {
        Some(revision) => revision,
        None => last_release(site)?,
    };
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

/// The newest tag of a release.
fn last_release(site: &Site) -> Result<String> {
    let mut tags = Command::new("git");
    tags.current_dir(&site.root).args(["tag", "--list", "v*", "--sort=-version:refname"]);
    let printed = tags.output().context("cannot run git")?;
    let newest = String::from_utf8_lossy(&printed.stdout).lines().next().map(str::to_owned);
    let Some(newest) = newest else {
        bail!(
            "there is no release to compare with: name a revision, as in cargo xtask semver --against HEAD~1"
        );
    };
    Ok(newest)
}
