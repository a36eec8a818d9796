//! The programs in which people use MCP servers, and the files in which each keeps which it has.

pub(crate) mod change;
mod entry;
pub(crate) mod file;
mod variables;

use std::path::{Path, PathBuf};

pub(crate) use entry::Entry;

use crate::failure::{Failure, Outcome};
use crate::near::nearest;
use crate::target::Server;
use crate::term::clean;

/// One such program.
#[derive(Debug)]
pub(crate) struct Host {
    /// How it is named here.
    pub(crate) name: &'static str,
    /// Other names for it.
    aliases: &'static [&'static str],
    pub(crate) title: &'static str,
    /// Where its projects keep servers, from their folder on.
    project: Option<&'static str>,
    /// Where its user does.
    user: Home,
    /// The member under which its files have the servers.
    pub(crate) member: &'static str,
    pub(crate) variables: Variables,
}

/// Where a user's file is.
#[derive(Clone, Copy, Debug)]
enum Home {
    /// From the home on.
    At(&'static str),
    /// From the folder of configurations on: on Linux `~/.config`.
    Configuration(&'static str),
    /// The same, but `~/.config` on macOS, too.
    Xdg(&'static str),
}

/// Whose file it is.
#[derive(Clone, Copy, Debug)]
enum Of {
    Project,
    User,
}

/// What is replaced in what a file says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Variables {
    /// Nothing.
    None,
    /// `${NAME}` and `${NAME:-else}`; `bare` also `$NAME`.
    Shell { bare: bool },
    /// `${env:NAME}`, `${workspaceFolder}` and their kin; `inputs` also `${input:ID}`.
    Editor { inputs: bool },
    /// `{env:NAME}`.
    Braces,
}

/// Those that are known, as their makers document them.
static ALL: [Host; 12] = [
    Host {
        name: "claude",
        aliases: &["claude-code"],
        title: "Claude Code",
        project: Some(".mcp.json"),
        user: Home::At(".claude.json"),
        member: "mcpServers",
        variables: Variables::Shell { bare: false },
    },
    Host {
        name: "claude-desktop",
        aliases: &[],
        title: "Claude Desktop",
        project: None,
        user: Home::Configuration("Claude/claude_desktop_config.json"),
        member: "mcpServers",
        variables: Variables::None,
    },
    Host {
        name: "vscode",
        aliases: &["code"],
        title: "VS Code",
        project: Some(".vscode/mcp.json"),
        user: Home::Configuration("Code/User/mcp.json"),
        member: "servers",
        variables: Variables::Editor { inputs: true },
    },
    Host {
        name: "cursor",
        aliases: &[],
        title: "Cursor",
        project: Some(".cursor/mcp.json"),
        user: Home::At(".cursor/mcp.json"),
        member: "mcpServers",
        variables: Variables::Editor { inputs: false },
    },
    Host {
        name: "codex",
        aliases: &[],
        title: "Codex",
        project: Some(".codex/config.toml"),
        user: Home::At(".codex/config.toml"),
        member: "mcp_servers",
        variables: Variables::None,
    },
    Host {
        name: "gemini",
        aliases: &[],
        title: "Gemini CLI",
        project: Some(".gemini/settings.json"),
        user: Home::At(".gemini/settings.json"),
        member: "mcpServers",
        variables: Variables::Shell { bare: true },
    },
    Host {
        name: "zed",
        aliases: &[],
        title: "Zed",
        project: Some(".zed/settings.json"),
        user: Home::Xdg("zed/settings.json"),
        member: "context_servers",
        variables: Variables::None,
    },
    Host {
        name: "opencode",
        aliases: &[],
        title: "opencode",
        project: Some("opencode.json"),
        user: Home::Xdg("opencode/opencode.json"),
        member: "mcp",
        variables: Variables::Braces,
    },
    Host {
        name: "continue",
        aliases: &[],
        title: "Continue",
        // It reads every file of that folder.
        project: Some(".continue/mcpServers/mcp.json"),
        user: Home::At(".continue/mcpServers/mcp.json"),
        member: "mcpServers",
        variables: Variables::None,
    },
    Host {
        name: "lmstudio",
        aliases: &["lm-studio"],
        title: "LM Studio",
        project: None,
        user: Home::At(".lmstudio/mcp.json"),
        member: "mcpServers",
        variables: Variables::None,
    },
    Host {
        name: "kiro",
        aliases: &[],
        title: "Kiro",
        project: Some(".kiro/settings/mcp.json"),
        user: Home::At(".kiro/settings/mcp.json"),
        member: "mcpServers",
        variables: Variables::Shell { bare: false },
    },
    Host {
        name: "cline",
        aliases: &[],
        title: "Cline",
        project: None,
        user: Home::At(".cline/data/settings/cline_mcp_settings.json"),
        member: "mcpServers",
        variables: Variables::None,
    },
];

/// Where the program runs, and for whom.
#[derive(Clone, Debug)]
pub(crate) struct Here {
    pub(crate) folder: PathBuf,
    pub(crate) home: Option<PathBuf>,
    /// Where programs keep their configurations.
    pub(crate) configuration: Option<PathBuf>,
}

impl Here {
    pub(crate) fn now() -> Self {
        let of = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = of("HOME").or_else(|| of("USERPROFILE"));
        let configuration = if cfg!(target_os = "macos") {
            home.as_ref().map(|home| home.join("Library/Application Support"))
        } else if cfg!(windows) {
            of("APPDATA")
        } else {
            of("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")))
        };
        Self { folder: std::env::current_dir().unwrap_or_default(), home, configuration }
    }
}

impl Host {
    pub(crate) fn all() -> &'static [Self] {
        &ALL
    }

    /// The host of that name.
    pub(crate) fn named(name: &str) -> Outcome<&'static Self> {
        Self::find(name).ok_or_else(|| {
            let names = || ALL.iter().map(|host| host.name);
            let failure = Failure::usage(format!("no host is called `{}`", clean::line(name, 80)));
            match nearest(name, names()) {
                Some(near) => failure.next(format!("did you mean `{near}`?")),
                None => failure.next(format!("there are {}", names().collect::<Vec<_>>().join(", "))),
            }
        })
    }

    fn find(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|host| host.name == name || host.aliases.contains(&name))
    }

    /// Whether a server may be given this name.
    ///
    /// # Errors
    ///
    /// When nobody could name it, it looks like a path that leads elsewhere, or the host takes what has it for a setting.
    pub(crate) fn check_name(&self, name: &str) -> Outcome<()> {
        let is_path = name.split(['/', '\\']).any(|part| matches!(part.trim(), "" | "." | ".."));
        if is_path {
            return Err(Failure::usage(format!("`{}` is no name of a server", clean::line(name, 80)))
                .next("--name NAME gives it one, such as ci"));
        }
        if self.name == "opencode" && matches!(name, "servers" | "timeout") {
            return Err(Failure::usage(format!("{} takes `{name}` for a setting, not a server", self.title))
                .next("--name NAME gives it another"));
        }
        Ok(())
    }

    /// The file of the project that `here` is in: the one that is there, or that would be.
    pub(crate) fn project_file(&self, here: &Here) -> Option<PathBuf> {
        let there = self.project_files(here).into_iter().next();
        Some(there.unwrap_or(here.folder.join(self.project?)))
    }

    /// The file of its user: the one that is there, or that would be.
    pub(crate) fn user_file(&self, here: &Here) -> Option<PathBuf> {
        let there = self.user_files(here).into_iter().find(|file| file.exists());
        there.or_else(|| self.user_place(here))
    }

    /// The files of the project that are there, in the nearest folder that has any; what the first says counts.
    fn project_files(&self, here: &Here) -> Vec<PathBuf> {
        let Some(name) = self.project else { return Vec::new() };
        let folders = here.folder.ancestors().take_while(|folder| here.home.as_deref() != Some(folder));
        let there = |folder: &Path| -> Vec<PathBuf> {
            let files = self.forms(&folder.join(name), Of::Project).into_iter();
            files.filter(|file| file.is_file()).collect()
        };
        folders.map(there).find(|files| !files.is_empty()).unwrap_or_default()
    }

    /// Where its user's file is, if it has the name that most have.
    fn user_place(&self, here: &Here) -> Option<PathBuf> {
        Some(match self.user {
            Home::At(file) => here.home.as_ref()?.join(file),
            Home::Xdg(file) if cfg!(target_os = "macos") => here.home.as_ref()?.join(".config").join(file),
            Home::Configuration(file) | Home::Xdg(file) => here.configuration.as_ref()?.join(file),
        })
    }

    /// The files that it reads in the place of one: what the first says counts.
    fn forms(&self, file: &Path, of: Of) -> Vec<PathBuf> {
        let file = file.to_owned();
        match of {
            _ if self.name != "opencode" => vec![file],
            Of::Project => vec![file.clone(), file.with_extension("jsonc")],
            Of::User => vec![file.with_extension("jsonc"), file],
        }
    }

    /// The files that its user may have.
    fn user_files(&self, here: &Here) -> Vec<PathBuf> {
        self.user_place(here).map(|file| self.forms(&file, Of::User)).unwrap_or_default()
    }

    /// Whether a file is its user's, and no project's.
    fn has_for_user(&self, file: &Path, here: &Here) -> bool {
        self.user_files(here).iter().any(|users| users == file)
    }

    /// The servers that it has, those nearest to the project first; and which files could not be read.
    pub(crate) fn servers(&'static self, here: &Here) -> (Vec<Entry>, Vec<String>) {
        let (mut entries, mut problems) = (Vec::<Entry>::new(), Vec::new());
        let files = self.project_files(here).into_iter().chain(self.user_files(here));
        for file in files.filter(|file| file.exists()) {
            match file::read(self, &file, here) {
                // What is nearer hides what is farther.
                Ok(found) => {
                    for entry in found {
                        if !entries.iter().any(|known| known.name == entry.name) {
                            entries.push(entry);
                        }
                    }
                }
                Err(problem) => problems.push(format!("{}: {problem}", file.display())),
            }
        }
        (entries, problems)
    }
}

/// Whether a word of a command line names a server of a host: `vscode:ci`.
pub(crate) fn is_name(word: &str) -> bool {
    let Some((host, name)) = word.split_once(':') else { return false };
    let is_word = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if name.is_empty() || host.is_empty() || !is_word(host) || name.starts_with("//") || host == "unix" {
        return false;
    }
    // `localhost:8420/mcp` is an address.
    let is_port = name.starts_with(|c: char| c.is_ascii_digit())
        && name.split('/').next().is_some_and(|port| port.chars().all(|c| c.is_ascii_digit()));
    Host::find(host).is_some()
        || !is_port && !name.starts_with('=') && nearest(host, ALL.iter().map(|host| host.name)).is_some()
}

/// The server that a host has under a name.
pub(crate) fn server(word: &str, here: &Here) -> Outcome<Server> {
    let (host, name) = word.split_once(':').unwrap_or((word, ""));
    let host = Host::named(host)?;
    let (entries, problems) = host.servers(here);
    if let Some(entry) = entries.iter().find(|entry| entry.name == name) {
        return entry.resolve(here);
    }
    let failure = Failure::usage(format!("{} has no server `{}`", host.title, clean::line(name, 80)));
    let names = || entries.iter().map(|entry| entry.name.as_str());
    Err(match nearest(name, names()) {
        Some(near) => failure.next(format!("did you mean `{}:{}`?", host.name, clean::line(near, 80))),
        None if !problems.is_empty() => failure.next(problems.join("\n")),
        None if entries.is_empty() => {
            failure.next(format!("it has none; looked in {}", looked_in(host, here)))
        }
        None => {
            let names: Vec<String> = names().take(12).map(|name| clean::line(name, 80)).collect();
            failure.next(format!("it has {}; `longhaul targets` shows all", names.join(", ")))
        }
    })
}

fn looked_in(host: &Host, here: &Here) -> String {
    let files = [host.project_file(here), host.user_file(here)];
    let files: Vec<String> = files.into_iter().flatten().map(|file| file.display().to_string()).collect();
    files.join(" and ")
}

/// The name of a folder, as editors tell it.
pub(crate) fn name_of(folder: &Path) -> String {
    folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
