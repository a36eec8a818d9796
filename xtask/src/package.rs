//! `cargo xtask package`: every published crate as a registry would get it, built from its archive.

use anyhow::Result;

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
    let mut command = site.cargo(&["package", "--locked"]);
    command.args(published.iter().flat_map(|package| ["-p", &package.name]));
    let made = site.run(&mut command)?;
    println!("archives: {}", site.target.join("package").display());
    // It makes an archive of a manifest that tells nobody what the crate is, too.
    let warnings: Vec<_> = made.lines.iter().filter(|line| line.starts_with("warning: ")).collect();
    warnings.iter().for_each(|warning| println!("{warning}"));
    Ok(Tally::one(made.success && warnings.is_empty()))
}
