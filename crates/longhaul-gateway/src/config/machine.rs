//! Whether the machine that a configuration is read on has what its tools and servers need. It may get it later, so that what is
//! missing is only warned about.

use std::{
    ffi::OsString,
    ops::Range,
    path::{Path, PathBuf},
};

use toml::de::{DeTable, DeValue};

use super::{
    Config,
    diagnostic::Diagnostic,
    reader::Section,
    tool::CommandTool,
    upstream::{Reach, UpstreamServer},
};
use crate::command::{DEFAULT_PATH, is_executable};

/// Warnings of the folders and programs that are not there, each with its place in the text of the configuration.
pub(super) fn missing(config: &Config, text: &str) -> Vec<Diagnostic> {
    let tools = config.tools.iter().map(Program::of_tool);
    let programs = tools.chain(config.servers.iter().filter_map(Program::of_server));
    programs.filter_map(|program| program.missing(text)).collect()
}

/// A program that the configuration names.
struct Program<'c> {
    /// What it is for, `tool` or `server`.
    of: &'static str,
    /// The name of that.
    name: &'c str,
    cwd: &'c Path,
    /// `None` where it is not known before a call.
    program: Option<&'c str>,
    /// What is without effect as long as its folder is not there.
    fails: &'static str,
}

impl<'c> Program<'c> {
    fn of_tool(tool: &'c CommandTool) -> Self {
        let program = tool.command.first().and_then(|word| word.as_literal());
        let program = program.filter(|program| program.contains('/') || !tool.sets("PATH"));
        Self {
            of: "tool",
            name: &tool.name,
            cwd: &tool.cwd,
            program,
            fails: "every call fails until it is one",
        }
    }

    /// That of a server which is one.
    fn of_server(server: &'c UpstreamServer) -> Option<Self> {
        let Reach::Command(command) = &server.reach else { return None };
        let program = command.argv.first().map(String::as_str);
        let program = program.filter(|program| program.contains('/') || !command.sets("PATH"));
        let fails = "it cannot be started until it is one";
        Some(Self { of: "server", name: &server.name, cwd: &command.cwd, program, fails })
    }

    fn missing(&self, text: &str) -> Option<Diagnostic> {
        let (of, name, cwd) = (self.of, self.name.escape_debug(), self.cwd);
        if !cwd.is_dir() {
            let message = format!("`cwd` of {of} `{name}` is no folder: {}", cwd.display());
            return Some(self.warning(text, "cwd", message, "no folder").help(self.fails));
        }
        let program = self.program?;
        let path = program.contains('/');
        let searched = if path { program.into() } else { search_path() };
        let is_there = |place: PathBuf| is_executable(&place).unwrap_or(false);
        let found = match path {
            true => is_there(cwd.join(program)),
            false => std::env::split_paths(&searched).any(|folder| is_there(cwd.join(folder).join(program))),
        };
        let message =
            format!("{of} `{name}` has no program to run: `{}` is not found", program.escape_debug());
        let looked = if path { cwd.join(program) } else { Path::new(&searched).to_owned() };
        let help = format!("it is looked for in {}: install it, or correct the name", looked.display());
        (!found).then(|| self.warning(text, "command", message, "not found").help(help))
    }

    fn warning(&self, text: &str, key: &str, message: String, label: &str) -> Diagnostic {
        let diagnostic = Diagnostic::warning(message);
        match self.place(text, key) {
            Some(place) => diagnostic.at(place, label),
            None => diagnostic,
        }
    }

    /// Where the value of one of its keys stands in the text; of a list its first item.
    fn place(&self, text: &str, key: &str) -> Option<Range<usize>> {
        let root = DeTable::parse(text).ok()?;
        let mut section = Section { table: root.get_ref(), place: String::new(), span: 0..0 };
        for key in [self.of.to_owned() + "s", self.name.to_owned()] {
            let entry = section.entry(&key)?;
            let DeValue::Table(table) = entry.value else { return None };
            section.table = table;
        }
        let entry = section.entry(key)?;
        match entry.value {
            DeValue::Array(items) => items.first().map(toml::Spanned::span),
            _ => Some(entry.span),
        }
    }
}

fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into())
}
