//! cargo-mutants, which breaks the code in small ways.

use std::path::PathBuf;

use anyhow::Result;

use crate::site::Site;

/// Which one: another makes other mutants, so that figures would not compare.
const VERSION: &str = "27.1.0";

/// Installs it, unless that was done, and gives its program.
///
/// # Errors
///
/// When cargo cannot install it.
pub(crate) fn require(site: &Site) -> Result<PathBuf> {
    let folder = site.target.join("tools").join(format!("cargo-mutants-{VERSION}"));
    let program = folder.join("bin/cargo-mutants");
    if !program.exists() {
        // It mostly waits for cargo, so that it need not be fast itself.
        let install = ["install", "cargo-mutants", "--version", VERSION, "--locked", "--debug", "--quiet"];
        let mut install = site.cargo(&install);
        install.arg("--root").arg(&folder).env("CARGO_TARGET_DIR", folder.join("build"));
        site.must_run(&mut install)?;
        std::fs::remove_dir_all(folder.join("build"))?;
    }
    Ok(program)
}
