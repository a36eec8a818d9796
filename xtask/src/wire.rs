//! Holding every message that programs of ours say or hear in a stage against the schema of its revision.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::site::Site;
use crate::tally::Tally;
use crate::test::program;

/// Whose messages are held against the schemas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// What our servers and clients say.
    Ours,
    /// What they hear as well.
    All,
}

/// Carries out `stage`, whose programs note what they say in a folder of this name, and then checks that; it counts as
/// one part more.
///
/// # Errors
///
/// As `stage`, or when the notes cannot be kept or read.
pub(crate) fn held(
    site: &Site,
    name: &str,
    whose: Whose,
    stage: impl FnOnce(&Site) -> Result<Tally>,
) -> Result<Tally> {
    let folder = emptied(&site.target.join("wire").join(name))?;
    let mut noting = site.clone();
    noting.notes = Some(folder.clone());
    let mut tally = stage(&noting)?;
    let mut check = Command::new(program(site, "wire")?);
    check.current_dir(&site.root).arg(&folder).args((whose == Whose::All).then_some("--peers"));
    tally += Tally::one(site.run(&mut check)?.success);
    Ok(tally)
}

/// A folder with nothing in it.
///
/// # Errors
///
/// When it cannot be made.
pub(crate) fn emptied(folder: &Path) -> Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder.to_owned())
}
