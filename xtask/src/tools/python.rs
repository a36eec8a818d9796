//! Python and its packages, in a virtual environment of their own.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::{Folder, system};
use crate::site::Site;

/// A virtual environment with the packages of one committed requirements file.
#[derive(Debug)]
pub(crate) struct Python {
    program: PathBuf,
}

impl Python {
    /// Sets up `target/tools/<name>` from `requirements`, a path from the root whose lines all carry hashes.
    ///
    /// # Errors
    ///
    /// When Python is missing or a package cannot be installed.
    pub(crate) fn with(site: &Site, name: &str, requirements: &str) -> Result<Self> {
        system::require(site, &system::PYTHON)?;
        let _alone = super::alone();
        let requirements = site.root.join(requirements);
        let folder = Folder::new(site, name, std::slice::from_ref(&requirements))?;
        let program = folder.path.join("bin/python");
        if !folder.is_current() {
            folder.make(|path| {
                site.must_run(Command::new("python3").args(["-m", "venv"]).arg(path))?;
                let mut install = Command::new(&program);
                install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
                // The file names every package there is to be: none is chosen here, for what is released meanwhile.
                install.args(["--only-binary", ":all:", "--no-deps", "--require-hashes", "-r"]);
                site.must_run(install.arg(&requirements))?;
                site.must_run(Command::new(&program).args(["-m", "pip", "check"])).map(drop)
            })?;
        }
        Ok(Self { program })
    }

    /// A command that runs a script of the repository.
    pub(crate) fn script(&self, site: &Site, path: &str) -> Command {
        let mut command = Command::new(&self.program);
        // No cache beside the sources, output as it comes.
        command.args(["-B", "-u"]).arg(site.root.join(path)).current_dir(&site.root);
        command
    }
}
