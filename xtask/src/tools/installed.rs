//! Programs that cargo installs from their source.

use std::path::PathBuf;

use anyhow::Result;

use crate::site::Site;

/// A package of programs, and which version of it.
#[derive(Debug)]
pub(crate) struct Package {
    name: &'static str,
    version: &'static str,
}

/// Breaks the code in small ways. Another version makes other mutants, so that figures would not compare.
pub(crate) const CARGO_MUTANTS: Package = Package { name: "cargo-mutants", version: "27.1.0" };

/// Compares what a library shows with what it showed before.
pub(crate) const CARGO_SEMVER_CHECKS: Package = Package { name: "cargo-semver-checks", version: "0.51.0" };

/// Folds stacks, and draws them.
pub(crate) const INFERNO: Package = Package { name: "inferno", version: "0.12.8" };

/// Installs its programs, unless that was done, and gives their folder.
///
/// # Errors
///
/// When cargo cannot install it.
pub(crate) fn install(site: &Site, package: &Package) -> Result<PathBuf> {
    let Package { name, version } = package;
    let folder = site.target.join("tools").join(format!("{name}-{version}"));
    let programs = folder.join("bin");
    if !programs.exists() {
        // None has much to do itself, so that none need be fast.
        let install = ["install", name, "--version", version, "--locked", "--debug", "--quiet"];
        let mut install = site.cargo(&install);
        install.arg("--root").arg(&folder).env("CARGO_TARGET_DIR", folder.join("build"));
        site.must_run(&mut install)?;
        std::fs::remove_dir_all(folder.join("build"))?;
    }
    Ok(programs)
}
