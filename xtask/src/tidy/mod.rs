//! `cargo xtask tidy`: the shape of the tree, kept by rules that fail the build.

mod exception;
mod finding;
mod function;
mod rule;
mod source;
mod tree;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::tally::Tally;
use crate::workspace::Workspace;
use exception::Exceptions;
use finding::Report;
pub(crate) use source::{Source, reads};
pub(crate) use tree::{Tree, committable, walk};

/// What the rules look at.
#[derive(Debug, Default)]
pub(crate) struct Repository {
    pub(crate) workspace: Workspace,
    pub(crate) tree: Tree,
    /// The version of the compiler that builds it here.
    pub(crate) rustc: Option<String>,
}

/// Checks the repository at `root` against every rule and prints one line per finding, and per warning, which fails nothing.
///
/// The tally counts the things examined: a file, an arrow or a path, once for each rule that examines it.
///
/// # Errors
///
/// When the repository cannot be read.
pub(crate) fn run(root: &Path) -> Result<Tally> {
    let repository = Repository {
        workspace: Workspace::resolved(root)?,
        tree: Tree::load(root)?,
        rustc: Some(rustc(root)?),
    };
    let exceptions = Exceptions::load(&repository.tree)?;
    let mut whole = Report::default();
    for (name, _, check) in rule::ALL {
        let report = check(&repository, &exceptions);
        for finding in &report.findings {
            println!("{finding} [{name}]");
        }
        for warning in &report.warnings {
            println!("warning: {warning} [{name}]");
        }
        whole.merge(report);
    }
    Ok(whole.tally())
}

/// What compiler cargo uses.
fn rustc(root: &Path) -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc).arg("--version").current_dir(root).output().context("cannot run rustc")?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let version = said.split_whitespace().nth(1).with_context(|| format!("rustc says of itself {said:?}"))?;
    Ok(version.to_owned())
}

/// The rules, a line each, for the help text.
pub(crate) fn rules() -> String {
    rule::ALL.iter().map(|(name, what, _)| format!("  {name:<13} {what}\n")).collect()
}
