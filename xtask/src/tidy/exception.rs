//! The listed exceptions to the rules, each with its reason: `xtask/tidy.toml`.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::finding::Finding;
use super::tree::Tree;

/// Where the exceptions are listed.
pub(crate) const PATH: &str = "xtask/tidy.toml";

/// What may break a rule, and why.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exceptions {
    /// Files over the length limit, each with the reason it is better whole.
    #[serde(default)]
    pub(crate) long_files: BTreeMap<String, String>,
    /// The one file of the engine that touches clock and spawn.
    pub(crate) engine_clock: Option<String>,
}

impl Exceptions {
    /// Reads the list; a tree without one has no exceptions.
    ///
    /// # Errors
    ///
    /// When the file is not the TOML this expects.
    pub(crate) fn load(tree: &Tree) -> Result<Self> {
        let text = tree.file(PATH).and_then(|file| file.text.as_deref()).unwrap_or_default();
        toml::from_str(text).with_context(|| format!("cannot read {PATH}"))
    }

    /// The finding for an exception that nothing needs any more.
    pub(crate) fn stale(path: &str, why: &str) -> Finding {
        Finding::new(PATH, 1, format!("the exception for {path} {why}"), "remove it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_list_is_refused() {
        let tree = Tree::of(&[(PATH, "[long_file]\n\"a.rs\" = \"x\"")]);
        assert!(Exceptions::load(&tree).is_err());
        assert!(Exceptions::load(&Tree::default()).unwrap().long_files.is_empty());
    }
}
