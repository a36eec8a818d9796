//! Checking a whole file: its text, its TOML, its sections, its tools.

use std::{io::Read, path::Path};

use toml::de::DeTable;

use super::{
    Config,
    audit::Audit,
    auth::Auth,
    calls::Calls,
    diagnostic::{Diagnostic, Diagnostics, Edit},
    environment::{self, Machine, Sources, Withheld},
    http::Http,
    job,
    machine::missing,
    metrics::Metrics,
    page::Page,
    polls::Polls,
    reader::{Entry, Reader, Section, quoted},
    server::Server,
    size::format_size,
    spelling::nearest,
    store::Store,
    tool::read::{self, Context},
    upstream,
    written::Written,
};

/// A configuration that can be used, with what its author should still look at.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Checked {
    /// The configuration.
    pub config: Config,
    /// What probably is not as its author wants; often empty.
    pub warnings: Diagnostics,
}

/// Reads and checks a configuration file. Every path in the model is absolute.
///
/// # Errors
///
/// When the file cannot be read, is larger than [`MAX_FILE`] or not UTF-8, and every mistake in it otherwise.
pub fn load(path: &Path) -> Result<Checked, Diagnostics> {
    let name = path.display().to_string();
    let whole = |diagnostic| Diagnostics::new(&name, "", vec![diagnostic]);
    let cannot = |error: std::io::Error| {
        let diagnostic = Diagnostic::error(format!("cannot read the configuration: {error}"));
        whole(match error.kind() {
            std::io::ErrorKind::NotFound => diagnostic.help("name the file that describes your tools"),
            _ => diagnostic,
        })
    };
    let file = environment::open(path).map_err(cannot)?;
    let metadata = file.metadata().map_err(cannot)?;
    if metadata.is_dir() {
        let diagnostic = Diagnostic::error("cannot read the configuration: it is a folder");
        return Err(whole(diagnostic.help("name the file inside it, such as `longhaul.toml`")));
    }
    if !metadata.is_file() {
        let diagnostic =
            Diagnostic::error("cannot read the configuration: it is a pipe, a socket or a device");
        return Err(whole(diagnostic.help("name a file: a server reads it again when it changes")));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > MAX_FILE {
        let message = format!("the configuration is larger than {}", format_size(MAX_FILE));
        return Err(whole(Diagnostic::error(message).help("is it the right file?")));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        // Up to the first wrong byte the repaired text is the file's own, and that byte is one replacement character.
        let repaired = String::from_utf8_lossy(error.as_bytes()).into_owned();
        let span = valid..valid + char::REPLACEMENT_CHARACTER.len_utf8();
        let diagnostic = Diagnostic::error("the configuration is not UTF-8 text").at(span, "not UTF-8");
        Diagnostics::new(&name, &repaired, vec![diagnostic.help("save the file as UTF-8")])
    })?;
    let absolute = std::path::absolute(path).map_err(cannot)?;
    let mut checked = check_in(&name, folder_of(&absolute), &text, &Machine)?;
    if others_can_write(&metadata) {
        let diagnostic = Diagnostic::warning("every user of this machine can change the configuration")
            .help("whoever changes it chooses the commands that run: `chmod o-w` it");
        checked.warnings.push(diagnostic);
    }
    for warning in missing(&checked.config, &text) {
        checked.warnings.push(warning);
    }
    Ok(checked)
}

/// Checks the text of a configuration file called `name`, whose folder is where relative paths start.
///
/// # Errors
///
/// Every mistake in the text.
pub fn check(name: &str, text: &str) -> Result<Checked, Diagnostics> {
    check_with(name, text, &Machine)
}

/// Checks as [`check`] does, with variables and files of `sources` instead of the machine's.
///
/// # Errors
///
/// Every mistake in the text.
pub fn check_with(name: &str, text: &str, sources: &dyn Sources) -> Result<Checked, Diagnostics> {
    check_in(name, folder_of(Path::new(name)), text, sources)
}

fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or_else(|| Path::new(""))
}

fn check_in(name: &str, base: &Path, text: &str, sources: &dyn Sources) -> Result<Checked, Diagnostics> {
    if text.len() as u64 > MAX_FILE {
        let message = format!("the configuration is larger than {}", format_size(MAX_FILE));
        return Err(Diagnostics::new(name, "", vec![Diagnostic::error(message)]));
    }
    let mut reader = Reader::new(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    // A key given twice leaves no doubt about the rest; after any other mistake the tree is a guess.
    let readable = errors.iter().all(|error| error.message() == DUPLICATE);
    let mut last_line = None;
    for error in &errors {
        // One mistake of syntax often causes others on its line: the first says most.
        let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count());
        if line.is_none() || line != last_line {
            reader.push(syntax(text, error));
        }
        last_line = line;
    }
    let root = Section { table: table.get_ref(), place: "the configuration".to_owned(), span: 0..0 };
    let config = readable.then(|| read_root(&mut reader, &root, Context { base, sources }));
    let diagnostics = Diagnostics::new(name, text, reader.into_diagnostics());
    match config {
        Some(config) if diagnostics.errors() == 0 => Ok(Checked { config, warnings: diagnostics }),
        _ => Err(diagnostics),
    }
}

/// Reads a whole configuration.
pub(super) fn read_root(reader: &mut Reader<'_>, root: &Section<'_>, context: Context<'_>) -> Config {
    reader.knows(root, &SECTIONS);
    for entry in root.entries() {
        if !SECTIONS.contains(&entry.key) {
            reader.push(unknown_section(&entry));
        }
    }
    let server = reader.section(root, "server", "`[server]`".to_owned());
    let store = reader.section(root, "store", "`[store]`".to_owned());
    let http = reader.section(root, "http", "`[http]`".to_owned());
    let page = reader.section(root, "page", "`[page]`".to_owned());
    let metrics = reader.section(root, "metrics", "`[metrics]`".to_owned());
    let calls = reader.section(root, "calls", "`[calls]`".to_owned());
    let polls = reader.section(root, "polls", "`[polls]`".to_owned());
    let audit = reader.section(root, "audit", "`[audit]`".to_owned());
    let auth = reader.section(root, "auth", "`[auth]`".to_owned());
    let written = Written::of(reader.source());
    let config = Config {
        server: server.map(|section| Server::read(reader, &section)).unwrap_or_default(),
        store: match store {
            Some(section) => Store::read(reader, &section, context),
            None => Store::defaults(context.base),
        },
        http: http.map(|section| Http::read(reader, &section, context.base)).unwrap_or_default(),
        page: page.map(|section| Page::read(reader, &section)).unwrap_or_default(),
        metrics: metrics.map(|section| Metrics::read(reader, &section, context.base)),
        calls: calls.map(|section| Calls::read(reader, &section)).unwrap_or_default(),
        polls: polls.map(|section| Polls::read(reader, &section)).unwrap_or_default(),
        audit: audit.and_then(|section| Audit::read(reader, &section, context.base)),
        auth: auth.map(|section| Auth::read(reader, &section, context)),
        tools: Vec::new(),
        jobs: Vec::new(),
        servers: Vec::new(),
        withheld: Withheld::of(written.variables()),
        written,
    };
    let sections = ["tools", "jobs", "servers"].map(|key| entries(reader, root, key));
    let [Some(entries), Some(jobs), Some(servers)] = sections else { return config };
    // A misspelled section explains by itself why there are no tools.
    if entries.is_empty()
        && jobs.is_empty()
        && servers.is_empty()
        && root.entries().iter().all(|entry| SECTIONS.contains(&entry.key))
    {
        let help = "a tool is a section of its own: `[tools.NAME]` with a `description` and a `command`";
        reader.push(Diagnostic::warning("the configuration has no tools").help(help));
    }
    let withheld = &config.withheld;
    let tools: Vec<_> =
        entries.iter().filter_map(|entry| read::read(reader, entry, context, withheld)).collect();
    let http_jobs: Vec<_> = jobs.iter().filter_map(|entry| job::read::read(reader, entry, context)).collect();
    let others: Vec<_> =
        servers.iter().filter_map(|entry| upstream::read::read(reader, entry, context, withheld)).collect();
    for entry in &jobs {
        if let Some(other) = entries.iter().find(|other| other.key == entry.key) {
            let message = format!("two tools are called `{}`", entry.key.escape_debug());
            let diagnostic = Diagnostic::error(message).at(entry.key_span.clone(), "a job of this name");
            let diagnostic = diagnostic.at(other.key_span.clone(), "a command of this name");
            reader.push(
                diagnostic.help("callers know a tool by its name alone: choose another for one of them"),
            );
        }
    }
    if config.auth.is_none() {
        let scopes = tools.iter().map(|tool| (tool.name.as_str(), &tool.scopes));
        let scopes = scopes.chain(http_jobs.iter().map(|job| (job.name.as_str(), &job.scopes)));
        for (name, scopes) in scopes {
            let entry = entries.iter().chain(&jobs).find(|entry| entry.key == name);
            if let Some(entry) = entry.filter(|_| !scopes.is_empty()) {
                reader.push(warning_of_scope("tool", entry));
            }
        }
        for server in &others {
            let asks =
                server.tools.values().chain([&server.defaults]).any(|policy| !policy.scopes.is_empty());
            if let Some(entry) = servers.iter().find(|entry| asks && entry.key == server.name) {
                reader.push(warning_of_scope("server", entry));
            }
        }
    }
    Config { tools, jobs: http_jobs, servers: others, ..config }
}

/// The entries of a section that may be missing; `None` when it is no section.
fn entries<'s>(reader: &mut Reader<'_>, root: &Section<'s>, key: &str) -> Option<Vec<Entry<'s>>> {
    match root.entry(key) {
        Some(_) => reader.section(root, key, format!("`[{key}]`")).map(|section| section.entries()),
        None => Some(Vec::new()),
    }
}

/// A scope that nobody is asked for protects nothing.
fn warning_of_scope(what: &str, entry: &Entry<'_>) -> Diagnostic {
    let message = format!("{what} `{}` asks for a scope, and nobody has to sign in", entry.key);
    let help = "say in `[auth]` who may call and how they prove it";
    Diagnostic::warning(message).at(entry.key_span.clone(), "everybody may call it").help(help)
}

fn unknown_section(entry: &Entry<'_>) -> Diagnostic {
    let key = entry.key.escape_debug();
    let what = if matches!(entry.value, toml::de::DeValue::Table(_)) { "section" } else { "key" };
    let diagnostic = Diagnostic::error(format!("unknown {what} `{key}` in the configuration"))
        .at(entry.key_span.clone(), format!("unknown {what}"));
    match nearest(entry.key, SECTIONS) {
        Some(near) => diagnostic.fix(
            format!("a section with a similar name exists: `{near}`"),
            vec![Edit::new(entry.key_span.clone(), near)],
        ),
        None => diagnostic.help(
            "the sections are `[server]`, `[store]`, `[http]`, `[page]`, `[metrics]`, `[calls]`, `[polls]`, `[audit]`, `[auth]`, `[tools.NAME]`, `[jobs.NAME]` and `[servers.NAME]`",
        ),
    }
}

fn syntax(text: &str, error: &toml::de::Error) -> Diagnostic {
    let message = error.message();
    if message == DUPLICATE {
        let span = error.span().unwrap_or_default();
        let key = text.get(span.clone()).unwrap_or_default();
        return Diagnostic::error(format!("`{}` is given twice", key.escape_debug()))
            .at(span, "given before")
            .help("remove one of the two");
    }
    // The message says what is wrong, and behind a comma what was expected: the second is the label.
    let (what, expected) = match message.split_once(", expected ") {
        Some((what, expected)) => (what, format!("expected {expected}")),
        None => (message, String::new()),
    };
    let diagnostic = |what| Diagnostic::error(format!("this is not TOML: {what}"));
    let Some(span) = error.span() else { return diagnostic(what) };
    match text.get(span.clone()) {
        Some("") if what == UNQUOTED => diagnostic("a value is missing").at(span, "expected a value"),
        Some(word) if what == UNQUOTED && !word.is_empty() => {
            let edit = Edit::new(span.clone(), quoted(word));
            diagnostic(what).at(span, "a word without quotes").fix("write it as a string", vec![edit])
        }
        _ => diagnostic(what).at(span, expected),
    }
}

#[cfg(unix)]
fn others_can_write(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    metadata.is_file() && metadata.mode() & 0o002 != 0
}

#[cfg(not(unix))]
fn others_can_write(_: &std::fs::Metadata) -> bool {
    false
}

/// The largest configuration file, in bytes.
pub const MAX_FILE: u64 = 1 << 20;

const SECTIONS: [&str; 12] = [
    "server", "store", "http", "page", "metrics", "calls", "polls", "audit", "auth", "tools", "jobs",
    "servers",
];

/// What the parser calls a key that is given twice; a test holds it to that.
const DUPLICATE: &str = "duplicate key";

/// What the parser says where a value is missing or has no quotes; a test holds it to that.
const UNQUOTED: &str = "string values must be quoted";
