//! `longhaul connect`: a server told to a program that people use it in.

use std::collections::HashSet;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use longhaul_gateway::config::{Auth, Config, EnvSource, Listen};
use longhaul_gateway::dashboard::Snippet;
use longhaul_gateway::shell;
use reqwest::Url;
use serde_json::{Map, Value, json};

use crate::configuration;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::hosts::change::{self, Changed};
use crate::hosts::{Here, Host, Variables, file};
use crate::target::shown_url;
use crate::term::{clean, note, print};

/// Tell Claude Code, VS Code, Cursor and others of your server.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
What would be written is shown, and written when you agree; a copy of the file stays beside it.
All else in the file, comments included, stays as it is.

Examples:
  longhaul connect claude
  longhaul connect vscode longhaul.toml --print
  longhaul connect cursor --user --url https://mcp.example.com/mcp --name ci
  longhaul connect claude-desktop longhaul.toml --stdio")]
pub(crate) struct Args {
    /// claude, claude-desktop, vscode, cursor, codex, gemini, zed, opencode, continue, lmstudio, kiro or cline.
    #[arg(value_name = "HOST")]
    host: String,
    /// The configuration of the server.
    #[arg(value_name = "FILE", default_value = configuration::FILE)]
    file: PathBuf,
    /// A server at this URL, whatever the configuration says.
    #[arg(long, value_name = "URL", conflicts_with = "stdio")]
    url: Option<String>,
    /// Have the host start the server itself, and speak over its standard input and output.
    #[arg(long)]
    stdio: bool,
    /// What the host calls it. Default: the name of the configuration's server.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// For every project of yours, not only the one here.
    #[arg(long)]
    user: bool,
    /// Print the entry, and write nothing.
    #[arg(long)]
    print: bool,
    /// Write without asking.
    #[arg(long, conflicts_with = "print")]
    yes: bool,
}

pub(crate) fn run(args: &Args) -> Exit {
    connect(args).unwrap_or_else(|failure| failure.report(false))
}

fn connect(args: &Args) -> Outcome {
    let (host, here) = (Host::named(&args.host)?, Here::now());
    let project = if args.user { None } else { host.project_file(&here) };
    let is_users = project.is_none();
    let path = project.or_else(|| host.user_file(&here)).ok_or_else(|| {
        Failure::usage(format!("it is not known where {} keeps its servers", host.title))
            .next("set HOME to your home")
    })?;
    let (name, entry) = entry(args, host)?;
    host.check_name(&name)?;
    if let Some(variable) = blank(host, &entry) {
        let title = host.title;
        note(&format!(
            "note: {title} replaces nothing in its file: put the token itself in the place of {variable}"
        ));
    }
    let wrong = |problem: String| {
        Failure::usage(format!("{}: {problem}", path.display()))
            .next(format!("`{}` prints what to put there", args.to_print(host)))
    };
    let before = file::text_if_there(&path);
    if args.print {
        // Also of a file that cannot be read: what it has is a matter of form.
        let before = before.ok().flatten().unwrap_or_default();
        print(&clean::text(&change::alone(host, &path, &before, &name, &entry).map_err(wrong)?))?;
        note(&format!("into {}", path.display()));
        if let Some(link) = link(host, &name, &entry) {
            note(&format!("or open {link}"));
        }
        return Ok(Exit::Done);
    }
    let before = before.map_err(wrong)?;
    let said = before.as_deref().unwrap_or_default();
    let Changed { text: after, was } = change::with_entry(host, &path, said, &name, &entry).map_err(wrong)?;
    if before.as_deref() == Some(&after) {
        note(&format!("{} has it already: {}", host.title, path.display()));
        return Ok(Exit::Done);
    }
    note(&format!("{}{}", path.display(), if before.is_some() { "" } else { "   (a new file)" }));
    if let Some(was) = was {
        let name = clean::line(&name, 80);
        note(&format!("note: `{name}` is there already ({}): it is replaced", was.place()));
    }
    let alone = change::alone(host, &path, said, &name, &entry).map_err(wrong)?;
    show(file::unmarked(said), file::unmarked(&after), &alone);
    if !args.yes && !agrees()? {
        note("nothing is written");
        return Ok(Exit::Done);
    }
    let backup = change::write(&path, before.as_deref(), &after, is_users)
        .map_err(|error| wrong(error.to_string()))?;
    let kept = backup.map(|backup| format!("; what it was is in {}", backup.display())).unwrap_or_default();
    note(&format!("{} has `{}` now{kept}", host.title, clean::line(&name, 80)));
    note(&format!("try it: longhaul tools {}", shell::word(&format!("{}:{name}", host.name))));
    Ok(Exit::Done)
}

impl Args {
    /// The command line that prints what this one would write.
    fn to_print(&self, host: &Host) -> String {
        let mut line = format!("longhaul connect {}", host.name);
        let mut add = |words: &str, value: &str| {
            let value = shell::word(value);
            line.push_str(&format!(" {words}{value}"));
        };
        match &self.url {
            Some(url) => add("--url ", url),
            None if self.file != Path::new(configuration::FILE) => add("", &self.file.display().to_string()),
            None => {}
        }
        if let Some(name) = &self.name {
            add("--name ", name);
        }
        let flags = [("--stdio", self.stdio), ("--user", self.user), ("--print", true)];
        flags
            .iter()
            .filter(|(_, is_given)| *is_given)
            .for_each(|(flag, _)| line.push_str(&format!(" {flag}")));
        line
    }
}

/// The name and the entry.
fn entry(args: &Args, host: &Host) -> Outcome<(String, Map<String, Value>)> {
    if let Some(url) = &args.url {
        let name = args.name.clone().unwrap_or_else(|| "longhaul".to_owned());
        return Ok((name, at(host, shown_url(url)?, None)?));
    }
    let config = configuration::read(&args.file, "--url URL needs none")?;
    let name = args.name.clone().unwrap_or_else(|| config.server.name.to_string());
    if args.stdio || host.name == "claude-desktop" {
        return Ok((name, started(host, &args.file)?));
    }
    let url = match (&config.http.listen, known_as(&config)) {
        (_, Some(url)) => url,
        (Listen::Address(address), None) if address.ip().is_unspecified() => {
            format!("http://127.0.0.1:{}/mcp", address.port())
        }
        (Listen::Address(address), None) => format!("http://{address}/mcp"),
        (Listen::Socket(_), None) => {
            return Err(
                Failure::usage("hosts reach no Unix socket").next("have it started by the host: --stdio")
            );
        }
    };
    Ok((name, at(host, &url, config.auth.as_ref().and_then(token))?))
}

/// What to paste into each host, so that it knows a server at `url`, which was set up with `file`.
pub(crate) fn snippets(config: &Config, file: &Path, url: &str) -> Vec<Snippet> {
    let here = Here::now();
    let url = known_as(config).unwrap_or_else(|| url.to_owned());
    let snippet = |host: &'static Host| {
        let path = host.project_file(&here).or_else(|| host.user_file(&here))?;
        let entry = match host.name {
            "claude-desktop" => started(host, file),
            _ => at(host, &url, config.auth.as_ref().and_then(token)),
        };
        let (name, entry) = (&config.server.name, entry.ok()?);
        host.check_name(name).ok()?;
        let text = change::alone(host, &path, "", name, &entry).ok()?;
        let shown = path.strip_prefix(&here.folder).unwrap_or(&path).display().to_string();
        let how = match blank(host, &entry) {
            Some(variable) => format!("Into {shown}, with the token itself in the place of {variable}:"),
            None => format!("Into {shown}:"),
        };
        Some(Snippet::new(host.title, how, text).with_link(link(host, name, &entry).unwrap_or_default()))
    };
    Host::all().iter().filter_map(snippet).collect()
}

/// The URL that tokens know it by.
fn known_as(config: &Config) -> Option<String> {
    Some(config.auth.as_ref()?.resource.as_ref()?.as_str().to_owned())
}

/// The variable that holds a token for it, where no issuer gives one.
fn token(auth: &Auth) -> Option<&str> {
    let has_issuer = !auth.issuers.is_empty() || auth.proxy.is_some();
    match auth.tokens.first().map(|token| &token.source) {
        Some(EnvSource::Variable(name)) if !has_issuer => Some(name),
        _ => None,
    }
}

/// A server at a URL. No entry has a time limit: hosts take it for one of the whole call.
fn at(host: &Host, url: &str, token: Option<&str>) -> Outcome<Map<String, Value>> {
    let mut entry = match host.name {
        "claude" | "vscode" | "continue" => json!({ "type": "http", "url": url }),
        "cline" => json!({ "type": "streamableHttp", "url": url }),
        "opencode" => json!({ "type": "remote", "url": url, "enabled": true }),
        "gemini" => json!({ "httpUrl": url }),
        "claude-desktop" => {
            return Err(Failure::usage("Claude Desktop's file takes commands only").next(
                "add the URL as a connector in its settings, or leave --url out: it starts the server itself",
            ));
        }
        _ => json!({ "url": url }),
    };
    if let Some(name) = token {
        let bearer = match host.variables {
            Variables::Editor { .. } => format!("Bearer ${{env:{name}}}"),
            Variables::Shell { .. } => format!("Bearer ${{{name}}}"),
            Variables::Braces => format!("Bearer {{env:{name}}}"),
            Variables::None => format!("Bearer <{name}>"),
        };
        match host.name {
            "codex" => entry["bearer_token_env_var"] = name.into(),
            _ => entry["headers"] = json!({ "Authorization": bearer }),
        }
    }
    Ok(object(entry))
}

/// A server that the host starts. It may do so anywhere, so every path is whole.
fn started(host: &Host, file: &Path) -> Outcome<Map<String, Value>> {
    let program = std::env::current_exe().map_err(anyhow::Error::from)?;
    let file = std::path::absolute(file).map_err(anyhow::Error::from)?;
    let (program, file) = (program.display().to_string(), file.display().to_string());
    if host.name == "opencode" {
        let command = [&program, "serve", &file, "--stdio"];
        return Ok(object(json!({ "type": "local", "command": command, "enabled": true })));
    }
    let mut entry = json!({ "command": program, "args": ["serve", file, "--stdio"] });
    if matches!(host.name, "claude" | "vscode") {
        entry["type"] = "stdio".into();
    }
    Ok(object(entry))
}

/// What stands for a token that has to be put there by hand, where the host replaces nothing.
fn blank<'e>(host: &Host, entry: &'e Map<String, Value>) -> Option<&'e str> {
    let bearer = entry.get("headers")?.get("Authorization")?.as_str()?;
    bearer.strip_prefix("Bearer ").filter(|_| host.variables == Variables::None)
}

/// The link by which a host asks its user to take the entry, if it has such links and nothing of the entry is left blank.
fn link(host: &Host, name: &str, entry: &Map<String, Value>) -> Option<String> {
    let place = match host.name {
        "cursor" => "cursor://anysphere.cursor-deeplink/mcp/install",
        "lmstudio" => "lmstudio://add_mcp",
        _ => return None,
    };
    if blank(host, entry).is_some() {
        return None;
    }
    let config = STANDARD.encode(Value::Object(entry.clone()).to_string());
    let link = Url::parse_with_params(place, [("name", name), ("config", &config)]);
    link.ok().map(String::from)
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// The lines that come, as far as they are of the entry; the others may hold what nobody is to read over a shoulder, such as
/// a token on a line that got a comma.
fn show(before: &str, after: &str, alone: &str) {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest =
        old[same..].iter().rev().zip(new[same..].iter().rev()).take_while(|(old, new)| old == new).count();
    let (gone, come) = (&old[same..old.len() - rest], &new[same..new.len() - rest]);
    let bare = |line: &str| line.trim().trim_end_matches(',').to_owned();
    let own: HashSet<String> = alone.lines().map(bare).collect();
    note(&format!("@@ line {}", same + 1));
    if !gone.is_empty() {
        note(&format!("- {} of its lines", gone.len()));
    }
    for line in come {
        let shown = if own.contains(&bare(line)) { clean::text(line) } else { "…".to_owned() };
        note(&format!("+ {shown}"));
    }
}

fn agrees() -> Outcome<bool> {
    let input = std::io::stdin();
    if !input.is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Failure::usage("nobody is here to agree, so nothing is written")
            .next("--yes writes it, --print prints it"));
    }
    let _ = write!(std::io::stderr(), "write it? [y/N]: ");
    let mut line = String::new();
    input.read_line(&mut line).map_err(anyhow::Error::from)?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}
