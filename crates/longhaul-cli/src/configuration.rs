//! The configuration that a verb goes by without serving what it says.

use std::path::Path;

use longhaul_gateway::config::{self, Config};

use crate::failure::{Failure, Outcome};

/// The file that is meant where none is named.
pub(crate) const FILE: &str = "longhaul.toml";

/// What a file says; `otherwise` is how the verb does without one, or why it cannot.
///
/// # Errors
///
/// When it is not there, or cannot be used.
pub(crate) fn read(file: &Path, otherwise: &str) -> Outcome<Config> {
    let name = file.display();
    match config::load(file) {
        Ok(checked) => Ok(checked.config),
        Err(_) if !file.exists() => Err(Failure::usage(format!("there is no {name}"))
            .next(format!("go where it is, or name it; {otherwise}"))),
        Err(_) => Err(Failure::usage(format!("{name} is no configuration that can be used"))
            .next(format!("`longhaul check {name}` says why; {otherwise}"))),
    }
}
