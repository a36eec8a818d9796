//! What the tools of other servers are called here: by their own names, or with their server's before it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::config::{COMPANIONS, UpstreamServer};

/// The names that are taken. One that was given is kept for as long as this process serves, so that no server's tool ever
/// takes the name that another's had.
#[derive(Debug)]
pub struct Names(Mutex<HashMap<String, Of>>);

/// Whose a name is.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Of {
    /// A tool of the configuration.
    Here,
    /// A tool of a server, by both their names.
    There(String, String),
}

impl Names {
    /// Those that are taken from the start, beside the tools of this server itself.
    pub fn new(taken: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let taken = taken.into_iter().map(Into::into).chain(COMPANIONS.map(str::to_owned));
        Self(Mutex::new(taken.map(|name| (name, Of::Here)).collect()))
    }

    /// The name of a tool of `server`: the same whenever it is asked for.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub(super) fn give(&self, server: &UpstreamServer, tool: &str) -> Result<String, String> {
        let own = mended(tool);
        let of = Of::There(server.name.clone(), tool.to_owned());
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = match &server.prefix {
            Some(prefix) => vec![format!("{prefix}{own}")],
            None => vec![own.clone(), format!("{}_{own}", server.name)],
        };
        for name in &wanted {
            if own.is_empty() || name.len() > LONGEST {
                return Err(format!("`{name}` is no name of 1 to {LONGEST} characters"));
            }
            if taken.entry(name.clone()).or_insert_with(|| of.clone()) == &of {
                return Ok(name.clone());
            }
        }
        let name = wanted.last().map(String::as_str).unwrap_or_default();
        Err(format!("the name `{name}` is taken: give `[servers.{}]` another `prefix`", server.name))
    }
}

/// The name in the letters that every revision takes.
fn mended(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    name.chars().map(|c| if fits(c) { c } else { '_' }).collect()
}

/// The longest name of a tool, in characters.
const LONGEST: usize = 128;

/// Names longer than this are dropped or renamed by some hosts, which put more before them.
pub(super) const LONG: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::check;

    fn server(name: &str, more: &str) -> UpstreamServer {
        let text = format!("[servers.{name}]\ncommand = [\"x\"]\n{more}");
        check("longhaul.toml", &text).unwrap().config.servers.remove(0)
    }

    #[test]
    fn a_name_that_is_taken_gets_its_servers_before_it_and_stays() {
        let names = Names::new(["build"]);
        let (files, notes) = (server("files", ""), server("notes", ""));
        assert_eq!(names.give(&files, "read").unwrap(), "read");
        assert_eq!(names.give(&notes, "read").unwrap(), "notes_read");
        assert_eq!(names.give(&files, "build").unwrap(), "files_build");
        assert_eq!(names.give(&files, "read").unwrap(), "read", "it is asked for again");
        let taken = names.give(&server("notes", "prefix = \"\""), "build").unwrap_err();
        assert!(taken.contains("`build` is taken") && taken.contains("[servers.notes]"), "{taken}");
    }

    #[test]
    fn a_name_is_one_that_hosts_take() {
        let names = Names::new(["build"; 0]);
        let files = server("files", "prefix = \"fs.\"");
        assert_eq!(names.give(&files, "list/all files").unwrap(), "fs.list_all_files");
        assert!(names.give(&files, "").is_err());
        assert!(names.give(&files, &"x".repeat(126)).is_err());
        // What mends to a name that is taken does not take it over.
        assert!(names.give(&files, "list_all/files").is_err());
    }
}
