//! What the tools and prompts of other servers are called here, by their own names or with their server's before them; and whose
//! a URI is, which is called nothing else.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use crate::config::{COMPANIONS, UpstreamServer};

/// The names that are taken. One that was given is kept for as long as this process serves, so that nothing of one server ever
/// takes the name that something of another had.
#[derive(Debug)]
pub(super) struct Names {
    tools: Taken,
    prompts: Taken,
    /// URIs, and templates of them.
    uris: Taken,
    /// Resources that no server lists, and the server that had each when it was read, the latest last.
    found: Mutex<VecDeque<(String, String)>>,
}

/// Names of one kind, and whose they are.
#[derive(Debug, Default)]
struct Taken(Mutex<HashMap<String, Of>>);

/// Whose a name is.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Of {
    /// Something of the configuration.
    Here,
    /// Something of a server, by both their names.
    There(String, String),
}

impl Names {
    /// Those of tools that are taken from the start, beside the tools of this server itself.
    pub(super) fn new(taken: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let taken = taken.into_iter().map(Into::into).chain(COMPANIONS.map(str::to_owned));
        let tools = Taken(Mutex::new(taken.map(|name| (name, Of::Here)).collect()));
        Self { tools, prompts: Taken::default(), uris: Taken::default(), found: Mutex::default() }
    }

    /// Takes the name of a tool for the configuration itself.
    ///
    /// # Errors
    ///
    /// The server that has it: what callers know as a tool of that one does not become another.
    pub(super) fn take_tool(&self, name: &str) -> Result<(), String> {
        match self.tools.take(name, &Of::Here) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.tools.server_of(name).unwrap_or_default()),
            // There is no room for it, but nobody else has it either.
            Err(_) => Ok(()),
        }
    }

    /// The name of a tool of `server`: the same whenever it is asked for.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub(super) fn of_tool(&self, server: &UpstreamServer, tool: &str) -> Result<String, String> {
        self.tools.give(server, tool, &mended(tool))
    }

    /// The same of a prompt. People type its name, so that it may have any letters.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub(super) fn of_prompt(&self, server: &UpstreamServer, prompt: &str) -> Result<String, String> {
        self.prompts.give(server, prompt, prompt)
    }

    /// Takes a URI, or a template of URIs, for that server.
    ///
    /// # Errors
    ///
    /// That it is another's.
    pub(super) fn take_uri(&self, server: &UpstreamServer, uri: &str) -> Result<(), String> {
        let of = Of::There(server.name.clone(), uri.to_owned());
        match self.uris.take(uri, &of)? {
            true => Ok(()),
            false => Err("another server has it".to_owned()),
        }
    }

    /// The server that has this URI, if one has said that it does.
    pub(super) fn server_of(&self, uri: &str) -> Option<String> {
        self.uris.server_of(uri)
    }
}

impl Names {
    /// A resource that no server lists was read at that one.
    pub(super) fn found(&self, uri: &str, server: &str) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = found.iter().position(|(known, _)| known == uri) {
            found.remove(at);
        } else if found.len() >= MOST_FOUND {
            found.pop_front();
        }
        found.push_back((uri.to_owned(), server.to_owned()));
    }

    /// The server at which such a resource was read, if it was lately.
    pub(super) fn finder_of(&self, uri: &str) -> Option<String> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.iter().find(|(known, _)| known == uri).map(|(_, server)| server.clone())
    }
}

impl Taken {
    /// The name of `item` of that server, whose own name reads `own` here.
    fn give(&self, server: &UpstreamServer, item: &str, own: &str) -> Result<String, String> {
        let of = Of::There(server.name.clone(), item.to_owned());
        let wanted = match &server.prefix {
            Some(prefix) => vec![format!("{prefix}{own}")],
            None => vec![own.to_owned(), format!("{}_{own}", server.name)],
        };
        for name in &wanted {
            if own.is_empty() || name.chars().count() > LONGEST {
                return Err(format!("`{}` is no name of 1 to {LONGEST} characters", name.escape_debug()));
            }
            if self.take(name, &of)? {
                return Ok(name.clone());
            }
        }
        let name = wanted.last().map(|name| name.escape_debug().to_string()).unwrap_or_default();
        Err(format!("the name `{name}` is taken: give `[servers.{}]` another `prefix`", server.name))
    }

    /// The server that has this name.
    fn server_of(&self, name: &str) -> Option<String> {
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name)? {
            Of::There(server, _) => Some(server.clone()),
            Of::Here => None,
        }
    }

    /// Whether the name is theirs from here on.
    fn take(&self, name: &str, of: &Of) -> Result<bool, String> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = taken.get(name) {
            return Ok(known == of);
        }
        if taken.len() >= MOST {
            return Err(format!("there were {MOST} names already, and none is given to another"));
        }
        taken.insert(name.to_owned(), of.clone());
        Ok(true)
    }
}

/// The name in the letters that every revision takes.
fn mended(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    name.chars().map(|c| if fits(c) { c } else { '_' }).collect()
}

/// The longest name of a tool, in characters.
const LONGEST: usize = 128;

/// How many names of one kind are kept: servers name whatever they like, and again and again.
const MOST: usize = 200_000;

/// How many resources are remembered that no list shows and that were read.
const MOST_FOUND: usize = 1_000;

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
    fn s37_a_name_that_is_taken_gets_its_servers_before_it_and_stays() {
        let names = Names::new(["build"]);
        let (files, notes) = (server("files", ""), server("notes", ""));
        assert_eq!(names.of_tool(&files, "read").unwrap(), "read");
        assert_eq!(names.of_tool(&notes, "read").unwrap(), "notes_read");
        assert_eq!(names.of_tool(&files, "build").unwrap(), "files_build");
        assert_eq!(names.of_tool(&files, "read").unwrap(), "read", "it is asked for again");
        let taken = names.of_tool(&server("notes", "prefix = \"\""), "build").unwrap_err();
        assert!(taken.contains("`build` is taken") && taken.contains("[servers.notes]"), "{taken}");
    }

    #[test]
    fn a_uri_is_the_first_servers_that_lists_it() {
        let names = Names::new(["build"; 0]);
        let (files, notes) = (server("files", ""), server("notes", "prefix = \"n-\""));
        assert!(names.take_uri(&files, "file:///a").is_ok() && names.take_uri(&files, "file:///a").is_ok());
        assert!(names.take_uri(&notes, "file:///a").is_err());
        assert_eq!(names.server_of("file:///a").as_deref(), Some("files"));
        assert_eq!(names.server_of("file:///b"), None);
        assert_eq!(names.of_prompt(&notes, "look at it").unwrap(), "n-look at it");
    }

    #[test]
    fn a_name_is_one_that_hosts_take() {
        let names = Names::new(["build"; 0]);
        let files = server("files", "prefix = \"fs.\"");
        assert_eq!(names.of_tool(&files, "list/all files").unwrap(), "fs.list_all_files");
        assert!(names.of_tool(&files, "").is_err());
        assert!(names.of_tool(&files, &"x".repeat(126)).is_err());
        // What mends to a name that is taken does not take it over.
        assert!(names.of_tool(&files, "list_all/files").is_err());
    }
}
