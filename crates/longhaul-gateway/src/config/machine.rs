//! Whether the machine that a configuration is read on has what its tools need. It may get it later, so that what is
//! missing is only warned about.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use super::{diagnostic::Diagnostic, tool::CommandTool};
use crate::command::{DEFAULT_PATH, is_executable};

/// A warning of the folder or the program of a tool, if it is not there.
pub(super) fn missing(tool: &CommandTool) -> Option<Diagnostic> {
    let (name, cwd) = (tool.name.escape_debug(), tool.cwd.as_path());
    if !cwd.is_dir() {
        let message = format!("`cwd` of tool `{name}` is no folder: {}", cwd.display());
        return Some(Diagnostic::warning(message).help("every call fails until it is one"));
    }
    let program = tool.command.first()?.as_literal()?;
    let path = program.contains('/');
    if !path && tool.sets("PATH") {
        // Its value may not be known before a call.
        return None;
    }
    let searched = if path { program.into() } else { search_path() };
    let is_there = |place: PathBuf| is_executable(&place).unwrap_or(false);
    let found = match path {
        true => is_there(cwd.join(program)),
        false => std::env::split_paths(&searched).any(|folder| is_there(cwd.join(folder).join(program))),
    };
    let message = format!("tool `{name}` has no program to run: `{}` is not found", program.escape_debug());
    let looked = if path { cwd.join(program) } else { Path::new(&searched).to_owned() };
    let help = format!("it is looked for in {}: install it, or correct the name", looked.display());
    (!found).then(|| Diagnostic::warning(message).help(help))
}

fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into())
}
