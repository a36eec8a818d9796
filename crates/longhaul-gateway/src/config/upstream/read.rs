//! `[servers.<name>]`: reading one server and what is said of its tools.

use std::{collections::BTreeMap, num::NonZeroU32, path::PathBuf};

use longhaul::{
    proto::dialect::Revision,
    server::TaskMode,
    store::{OrphanRule, Rerun},
};
use reqwest::Url;
use toml::de::DeValue;

use super::{Reach, UpstreamCommand, UpstreamPolicy, UpstreamServer, UpstreamStart, UpstreamUrl, limits};
use crate::config::{
    auth::scopes,
    diagnostic::{Diagnostic, Edit},
    environment::{Setting, Withheld},
    job::{
        BoundHeader,
        read::message::{Names, headers},
    },
    outline::Form,
    policy::Join,
    reader::{Entry, Reader, Section},
    tool::{
        limits as of_tools,
        read::{self as tool, Context, JOINS},
        variable,
    },
    versions::{self, Versions},
};

/// Reads one server; `None` when it has a mistake that keeps it from being built.
pub(in crate::config) fn read(
    reader: &mut Reader<'_>,
    entry: &Entry<'_>,
    context: Context<'_>,
    withheld: &Withheld,
) -> Option<UpstreamServer> {
    check_name(reader, entry);
    let section = reader.table(entry, format!("server `{}`", entry.key.escape_debug()))?;
    let known: Vec<&str> = KEYS.iter().chain(&POLICY_KEYS).copied().collect();
    tool::reject_unknown(reader, &section, &known);
    let reach = reach(reader, &section, &known, context, withheld);
    let revisions = Revision::ALL.map(|revision| (revision.as_str(), revision));
    let revision = reader.word(&section, "revision", &revisions);
    let prefix = prefix(reader, &section);
    let pins = pins(reader, &section, context);
    let start = reader.word(&section, "start", &UpstreamStart::ALL).unwrap_or_default();
    let range = (limits::START_WITHIN_MIN, limits::START_WITHIN_MAX);
    let start_within = reader.duration(&section, "start_within", range).unwrap_or(limits::START_WITHIN);
    let range = (limits::PING_WITHIN_MIN, limits::PING_WITHIN_MAX);
    let ping_within = reader.duration(&section, "ping_within", range).unwrap_or(limits::PING_WITHIN);
    let at_once = reader.count_of(&section, "at_once", 1).and_then(|count| NonZeroU32::new(count.value));
    let defaults = policy(reader, &section, &defaults());
    let tools = tools(reader, &section, &defaults);
    let mut is_served = |key| reader.boolean(&section, key).is_none_or(|served| served.value);
    let (prompts, resources) = (is_served("prompts"), is_served("resources"));
    let name = entry.key.to_owned();
    let server = UpstreamServer {
        name,
        reach: reach?,
        revision,
        prefix,
        pins,
        start,
        prompts,
        resources,
        start_within,
        ping_within,
        at_once,
        defaults,
        tools,
    };
    Some(server)
}

/// It stands before the names of tools, so it is short and of their characters.
fn check_name(reader: &mut Reader<'_>, entry: &Entry<'_>) {
    let (name, length) = (entry.key, entry.key.chars().count());
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if (1..=limits::MAX_NAME).contains(&length) && name.chars().all(is_part) {
        return;
    }
    let message = format!("`{}` cannot be the name of a server", name.escape_debug());
    let label = match length {
        0 => "empty",
        _ if length > limits::MAX_NAME => "too long",
        _ => "not a name",
    };
    let help = format!(
        "a name is 1 to {} of the letters a to z, A to Z, digits, `_` and `-`: it can stand before the names of tools",
        limits::MAX_NAME
    );
    reader.push(Diagnostic::error(message).at(entry.key_span.clone(), label).help(help));
}

fn reach(
    reader: &mut Reader<'_>,
    section: &Section<'_>,
    known: &[&str],
    context: Context<'_>,
    withheld: &Withheld,
) -> Option<Reach> {
    match (section.entry("command"), section.entry("url")) {
        (Some(command), Some(url)) => {
            let message = format!("{} has both a command and a URL", section.place);
            let help = "a server is a program to run, or is reached at a URL: remove one of the two";
            let diagnostic = Diagnostic::error(message).at(url.key_span, "reached there");
            reader.push(diagnostic.at(command.key_span, "a program").help(help));
            None
        }
        (Some(_), None) => {
            let of_urls = "it is sent over HTTP, and a program is reached by its standard input and output: pass what it needs in `env`";
            refuse(reader, section, &["headers"], "is not for a command", of_urls);
            command(reader, section, context, withheld).map(Reach::Command)
        }
        (None, Some(_)) => {
            let of_commands =
                "it is for a program that is run here: remove it, or write `command` instead of `url`";
            refuse(reader, section, &["env", "cwd"], "is not for a URL", of_commands);
            at_url(reader, section, context).map(Reach::Url)
        }
        (None, None) => {
            if !["command", "url"].iter().any(|key| tool::misspells(section, key, known)) {
                let message = format!("{} has neither a command nor a URL", section.place);
                let help = "write the program that serves, `command = [\"npx\", \"-y\", \"…\"]`, or where it is: `url = \"https://…/mcp\"`";
                let diagnostic = Diagnostic::error(message).at(section.span.clone(), "not reachable");
                reader.push(diagnostic.help(help));
            }
            None
        }
    }
}

fn refuse(reader: &mut Reader<'_>, section: &Section<'_>, keys: &[&str], what: &str, help: &str) {
    for entry in keys.iter().filter_map(|key| section.entry(key)) {
        let message = format!("`{}` of {} {what}", entry.key, section.place);
        reader.push(Diagnostic::error(message).at(entry.key_span, "without use").help(help));
    }
}

fn command(
    reader: &mut Reader<'_>,
    section: &Section<'_>,
    context: Context<'_>,
    withheld: &Withheld,
) -> Option<UpstreamCommand> {
    let words = tool::words(reader, section);
    let cwd = tool::cwd(reader, section, context.base);
    let env = env(reader, section, context);
    let words = words?;
    if let Some(word) = words.iter().find(|word| word.value.contains('\0')) {
        let message =
            format!("an argument of {} holds a NUL character, which no program can be given", section.place);
        reader.push(Diagnostic::error(message).at(word.span.clone(), "holds a NUL character"));
    }
    if let Some(program) = words.first().filter(|word| word.value.trim().is_empty()) {
        let message = format!("the program of {} is empty", section.place);
        let help = "the first item of `command` is the program to run";
        reader.push(Diagnostic::error(message).at(program.span.clone(), "no program").help(help));
    }
    let argv = words.iter().map(|word| word.value.to_owned()).collect();
    Some(UpstreamCommand { argv, cwd, env: env?, withheld: withheld.clone() })
}

/// The variables that are set, each a text as it stands or read elsewhere.
fn env(
    reader: &mut Reader<'_>,
    section: &Section<'_>,
    context: Context<'_>,
) -> Option<Vec<(String, Setting)>> {
    if section.entry("env").is_none() {
        return Some(Vec::new());
    }
    let table = reader.section(section, "env", format!("the environment of {}", section.place))?;
    let mut settings = Vec::new();
    for entry in table.entries() {
        variable::check_name(reader, &entry);
        reader.asks(&table, entry.key, || Form::Text);
        let setting = match entry.value {
            DeValue::String(text) => Some(Setting::Value(text.to_string())),
            DeValue::Table(_) => {
                let fails = "it is read whenever the server is started, and it cannot be until that is there";
                variable::env_source(reader, &section.place, &entry, context, fails).map(Setting::From)
            }
            _ => {
                let diagnostic = reader.wrong_type(&entry, &table.place, "a string or `{ from = … }`");
                reader.push(diagnostic);
                None
            }
        };
        settings.push(setting.map(|setting| (entry.key.to_owned(), setting)));
    }
    settings.into_iter().collect()
}

fn at_url(reader: &mut Reader<'_>, section: &Section<'_>, context: Context<'_>) -> Option<UpstreamUrl> {
    let headers = headers(reader, section, context, &mut Names::Fixed);
    let text = reader.text(section, "url")?;
    let what = match Url::parse(text.value) {
        Ok(url) if !matches!(url.scheme(), "http" | "https") => "it is not of `http` or `https`".to_owned(),
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            "it holds a user name or a password".to_owned()
        }
        Ok(url) if url.fragment().is_some() => "it ends with a fragment, which is never sent".to_owned(),
        Ok(url) => {
            // Nothing stands for anything in them, so that they can be bound to nothing.
            let bound: Option<Vec<_>> =
                headers?.iter().map(|header| header.bind(&[], &[]).ok().flatten()).collect();
            let Some(headers) = bound else {
                let message =
                    format!("a header of {} holds a character that no header can have", section.place);
                reader.push(Diagnostic::error(message).at(section.span.clone(), "its headers"));
                return None;
            };
            warn_of_plain(reader, section, &url, &text.span, &headers);
            return Some(UpstreamUrl { url, headers });
        }
        Err(error) => error.to_string(),
    };
    let message = format!("`url` of {} cannot be used: {what}", section.place);
    let help = "a URL is whole, `https://host/mcp`; what signs in stands in `headers`, or is kept by `longhaul login`";
    reader.push(Diagnostic::error(message).at(text.span, "not usable").help(help));
    None
}

/// Whoever is on the way reads what signs in.
fn warn_of_plain(
    reader: &mut Reader<'_>,
    section: &Section<'_>,
    url: &Url,
    span: &std::ops::Range<usize>,
    headers: &[BoundHeader],
) {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let is_here =
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    if url.scheme() == "http" && !is_here && !headers.is_empty() {
        let message = format!("the headers of {} are sent unencrypted", section.place);
        let help = "whoever is on the way can read them: write `https`";
        reader.push(Diagnostic::warning(message).at(span.clone(), "not `https`").help(help));
    }
}

fn prefix(reader: &mut Reader<'_>, section: &Section<'_>) -> Option<String> {
    let text = reader.text(section, "prefix")?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    if text.value.chars().count() <= limits::MAX_NAME && text.value.chars().all(fits) {
        return Some(text.value.to_owned());
    }
    let message = format!("`prefix` of {} cannot begin the name of a tool", section.place);
    let help =
        format!("it is at most {} of the letters a to z, A to Z, digits, `_`, `.` and `-`", limits::MAX_NAME);
    reader.push(Diagnostic::error(message).at(text.span, "not a prefix").help(help));
    None
}

/// Where it is kept what tools said of themselves.
fn pins(reader: &mut Reader<'_>, section: &Section<'_>, context: Context<'_>) -> Option<PathBuf> {
    let text = reader.text(section, "pins")?;
    if !text.value.is_empty() {
        return Some(context.base.join(text.value));
    }
    let message = format!("`pins` of {} is empty", section.place);
    let help = "name a file, made if it is not there: `pins = \"longhaul.pins\"`";
    reader.push(Diagnostic::error(message).at(text.span, "no file").help(help));
    None
}

fn tools(
    reader: &mut Reader<'_>,
    section: &Section<'_>,
    defaults: &UpstreamPolicy,
) -> BTreeMap<String, UpstreamPolicy> {
    let place = format!("`tools` of {}", section.place);
    let Some(table) = reader.section(section, "tools", place) else { return BTreeMap::new() };
    let mut tools = BTreeMap::new();
    for entry in table.entries() {
        let place = format!("tool `{}` of {}", entry.key.escape_debug(), section.place);
        let Some(tool) = reader.table(&entry, place) else { continue };
        let known: Vec<&str> = TOOL_KEYS.iter().chain(&POLICY_KEYS).copied().collect();
        reader.reject_unknown(&tool, &known);
        let mut policy = policy(reader, &tool, defaults);
        policy.enabled = reader.boolean(&tool, "enabled").is_none_or(|enabled| enabled.value);
        tools.insert(entry.key.to_owned(), policy);
    }
    tools
}

/// What is said here, on top of what holds otherwise.
fn policy(reader: &mut Reader<'_>, section: &Section<'_>, otherwise: &UpstreamPolicy) -> UpstreamPolicy {
    let ttl = (of_tools::TTL_MIN, of_tools::TTL_MAX);
    let hold = (of_tools::HOLD_MIN, of_tools::DAY);
    let timeout = (of_tools::TIMEOUT_MIN, of_tools::TIMEOUT_MAX);
    let said = tool::orphan(reader, section);
    let mut orphan: OrphanRule = otherwise.orphan;
    if section.entry("orphan_grace").is_some() {
        orphan.grace = said.grace;
    }
    if section.entry("on_orphan").is_some() {
        orphan.then = said.then;
    }
    let limit = reader.count_of(section, "limit", 1).and_then(|limit| NonZeroU32::new(limit.value));
    UpstreamPolicy {
        enabled: otherwise.enabled,
        scopes: scopes(reader, section, "scope").unwrap_or_else(|| otherwise.scopes.clone()),
        task: tool::task(reader, section).unwrap_or(otherwise.task),
        ttl: reader.duration(section, "ttl", ttl).unwrap_or(otherwise.ttl),
        orphan,
        rerun: rerun(reader, section).unwrap_or(otherwise.rerun),
        versions: versions::read(reader, section, &otherwise.versions),
        hold: reader.duration(section, "hold", hold).unwrap_or(otherwise.hold),
        join: reader.word(section, "join", &JOINS).unwrap_or(otherwise.join),
        limit: limit.or(otherwise.limit),
        timeout: reader.duration(section, "timeout", timeout).or(otherwise.timeout),
        idle: reader.duration(section, "idle", timeout).or(otherwise.idle),
    }
}

/// What holds where nothing is said.
fn defaults() -> UpstreamPolicy {
    UpstreamPolicy {
        enabled: true,
        scopes: Default::default(),
        task: TaskMode::After(of_tools::TASK_AFTER),
        ttl: of_tools::TTL,
        orphan: OrphanRule::default(),
        rerun: Rerun::Never,
        versions: Versions::default(),
        hold: of_tools::HOLD,
        join: Join::default(),
        limit: None,
        timeout: None,
        idle: None,
    }
}

fn rerun(reader: &mut Reader<'_>, section: &Section<'_>) -> Option<Rerun> {
    let entry = section.entry("rerun")?;
    if let DeValue::String(word) = entry.value
        && matches!(word.as_ref(), "resumable" | "reattach")
    {
        let message = format!("`rerun = \"{word}\"` is not for calls of another server: {}", section.place);
        let diagnostic = Diagnostic::error(message)
            .at(entry.span.clone(), "not for a call")
            .note("a call of which the other server has made a task is gone on with in any case; of any other the answer is lost with this server")
            .fix("let it be called again", vec![Edit::new(entry.span.clone(), "\"restart\"")])
            .fix("or end it as lost", vec![Edit::new(entry.span, "\"never\"")]);
        reader.push(diagnostic);
        return None;
    }
    reader.word(section, "rerun", &RERUNS)
}

const KEYS: [&str; 15] = [
    "command",
    "cwd",
    "env",
    "url",
    "headers",
    "revision",
    "prefix",
    "pins",
    "start",
    "prompts",
    "resources",
    "start_within",
    "ping_within",
    "at_once",
    "tools",
];

const TOOL_KEYS: [&str; 1] = ["enabled"];

const POLICY_KEYS: [&str; 13] = [
    "scope",
    "task",
    "ttl",
    "on_orphan",
    "orphan_grace",
    "rerun",
    "version",
    "accepts",
    "hold",
    "join",
    "limit",
    "timeout",
    "idle",
];

const RERUNS: [(&str, Rerun); 2] = [("never", Rerun::Never), ("restart", Rerun::Restart)];
