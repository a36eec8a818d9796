//! `[tools.<name>]`: reading one tool and everything that belongs to it.

use std::{num::NonZeroU32, path::Path, path::PathBuf, time::Duration};

use longhaul::{
    server::TaskMode,
    store::{OnOrphan, OrphanRule, Rerun},
};
use toml::de::DeValue;

use super::{Annotations, CommandTool, Progress, command, limits, variable};
use crate::config::{
    auth::scopes,
    diagnostic::{Diagnostic, Edit},
    duration::parse_duration,
    environment::{Sources, Withheld},
    input::{read::Declared, rules::compile},
    outline::Form,
    policy::{Join, Output},
    reader::{At, Entry, Reader, Section, quoted},
    spelling::nearest,
    template::{Template, Token, tokens},
    versions::{self, Versions},
};

/// What a tool is read against: the folder of the file, and where variables come from.
#[derive(Clone, Copy)]
pub(in crate::config) struct Context<'c> {
    pub(in crate::config) base: &'c Path,
    pub(in crate::config) sources: &'c dyn Sources,
}

/// Reads one tool; `None` when it has a mistake that keeps it from being built.
pub(in crate::config) fn read(
    reader: &mut Reader<'_>,
    entry: &Entry<'_>,
    context: Context<'_>,
    withheld: &Withheld,
) -> Option<CommandTool> {
    check_name(reader, entry);
    let tool = format!("tool `{}`", entry.key.escape_debug());
    let section = reader.table(entry, tool)?;
    reject_unknown(reader, &section, &KEYS);
    let mut inputs = inputs(reader, &section);
    let command = command_line(reader, &section, &mut inputs);
    let env = variable::read(reader, &section, &mut inputs, context);
    let stdin = reader.text(&section, "stdin").and_then(|text| {
        let template = command::template(reader, &section.place, &text, &mut inputs)?;
        command::reject_lists(reader, &section.place, "`stdin`", &text, &template, &inputs);
        Some(template)
    });
    warn_of_unused(reader, &section, &inputs);
    let range = (limits::MAX_OUTPUT_MIN, limits::MAX_OUTPUT_MAX);
    let max_output = reader.size(&section, "max_output", range).unwrap_or(limits::MAX_OUTPUT);
    let ttl = (limits::TTL_MIN, limits::TTL_MAX);
    let grace = (Duration::ZERO, limits::GRACE_MAX);
    Some(CommandTool {
        name: entry.key.to_owned(),
        title: reader.owned(&section, "title"),
        description: description(reader, &section, &KEYS),
        cwd: cwd(reader, &section, context.base),
        timeout: reader.duration(&section, "timeout", (limits::TIMEOUT_MIN, limits::TIMEOUT_MAX)),
        grace: reader.duration(&section, "grace", grace).unwrap_or(limits::GRACE),
        limit: reader.count_of(&section, "limit", 1).and_then(|limit| NonZeroU32::new(limit.value)),
        output: reader.word(&section, "output", &OUTPUTS).unwrap_or_default(),
        max_output,
        annotations: annotations(reader, &section),
        scopes: scopes(reader, &section, "scope").unwrap_or_default(),
        task: task(reader, &section).unwrap_or(TaskMode::After(limits::TASK_AFTER)),
        ttl: reader.duration(&section, "ttl", ttl).unwrap_or(limits::TTL),
        orphan: orphan(reader, &section),
        rerun: rerun(reader, &section).unwrap_or(Rerun::Reattach),
        versions: versions::read(reader, &section, &Versions::default()),
        hold: reader.duration(&section, "hold", (limits::HOLD_MIN, limits::DAY)).unwrap_or(limits::HOLD),
        progress: progress(reader, &section),
        join: reader.word(&section, "join", &JOINS).unwrap_or_default(),
        command: command?,
        env: env?,
        withheld: withheld.clone(),
        stdin,
        inputs: inputs.into_iter().map(|declared| declared.input).collect::<Option<_>>()?,
    })
}

/// When a task is an orphan, and what becomes of it then.
pub(in crate::config) fn orphan(reader: &mut Reader<'_>, section: &Section<'_>) -> OrphanRule {
    let range = (limits::ORPHAN_GRACE_MIN, limits::ORPHAN_GRACE_MAX);
    let grace = reader.duration(section, "orphan_grace", range).unwrap_or(limits::ORPHAN_GRACE);
    OrphanRule::new(grace, reader.word(section, "on_orphan", &ON_ORPHAN).unwrap_or_default())
}

pub(in crate::config) fn check_name(reader: &mut Reader<'_>, entry: &Entry<'_>) {
    let name = entry.key;
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let length = name.chars().count();
    if name.is_empty() || length > limits::MAX_NAME || !name.chars().all(is_part) {
        let message = format!("`{}` cannot be the name of a tool", name.escape_debug());
        let label = if name.is_empty() {
            "empty"
        } else if length > limits::MAX_NAME {
            "too long"
        } else {
            "not a name"
        };
        let diagnostic = Diagnostic::error(message).at(entry.key_span.clone(), label);
        let mended: String = name.trim().chars().map(|c| if is_part(c) { c } else { '-' }).collect();
        let form = format!(
            "a name is 1 to {} of the letters a to z, A to Z, digits, `_`, `.` and `-`",
            limits::MAX_NAME
        );
        reader.push(if mended.chars().any(char::is_alphanumeric) && length <= limits::MAX_NAME {
            let key = if mended.contains('.') { quoted(&mended) } else { mended };
            diagnostic.fix(form, vec![Edit::new(entry.key_span.clone(), key)])
        } else {
            diagnostic.help(form)
        });
    } else if COMPANIONS.contains(&name) {
        let message = format!("`{name}` is a tool of the server itself");
        let diagnostic = Diagnostic::error(message).at(entry.key_span.clone(), "taken");
        reader.push(
            diagnostic.help("callers that know no tasks follow their calls with it: choose another name"),
        );
    } else if length > limits::LONG_NAME {
        let message = format!("the name of this tool is {length} characters long");
        let label = format!("over {} characters", limits::LONG_NAME);
        let diagnostic = Diagnostic::warning(message).at(entry.key_span.clone(), label);
        reader.push(
            diagnostic.help(
                "hosts put the server's name before it, and drop or rename tools whose name is too long",
            ),
        );
    }
}

pub(in crate::config) fn inputs(reader: &mut Reader<'_>, tool: &Section<'_>) -> Vec<Declared> {
    let place = format!("`input` of {}", tool.place);
    let Some(section) = reader.section(tool, "input", place) else { return Vec::new() };
    section.entries().iter().map(|entry| Declared::read(reader, entry, &tool.place)).collect()
}

fn command_line(
    reader: &mut Reader<'_>,
    section: &Section<'_>,
    inputs: &mut [Declared],
) -> Option<Vec<Template>> {
    if section.entry("command").is_none() {
        if !misspells(section, "command", &KEYS) {
            let message = format!("{} has no command", section.place);
            let help =
                "say what to run, the program and each argument apart: `command = [\"cargo\", \"test\"]`";
            let diagnostic = Diagnostic::error(message).at(section.span.clone(), "no `command`");
            reader.push(diagnostic.help(help));
        }
        return None;
    }
    let Some(words) = words(reader, section) else {
        // What could not be read may have used any of them.
        inputs.iter_mut().for_each(|input| input.used = true);
        return None;
    };
    let templates: Vec<_> =
        words.iter().map(|word| command::template(reader, &section.place, word, inputs)).collect();
    let templates: Vec<Template> = templates.into_iter().collect::<Option<_>>()?;
    command::command(reader, &section.place, &words, &templates, inputs);
    Some(templates)
}

/// The words of a `command`, the program first.
pub(in crate::config) fn words<'t>(
    reader: &mut Reader<'_>,
    section: &Section<'t>,
) -> Option<Vec<At<&'t str>>> {
    let entry = section.entry("command")?;
    if let DeValue::String(text) = entry.value {
        let diagnostic = reader.wrong_type(&entry, &section.place, "an array of strings");
        let plain = !text.contains(['\'', '"', '\\', '|', '&', ';', '<', '>', '$', '`', '*', '(', ')']);
        let words: Vec<String> = text.split_whitespace().map(quoted).collect();
        let edit = Edit::new(entry.span.clone(), format!("[{}]", words.join(", ")));
        reader.push(if plain && !words.is_empty() {
            diagnostic.fix("write each word as an item", vec![edit])
        } else {
            diagnostic.help("no shell reads it: for one, write `[\"sh\", \"-c\", \"…\"]`")
        });
        return None;
    }
    let words = reader.texts(section, "command")?;
    if words.is_empty() {
        let message = format!("`command` of {} is empty", section.place);
        let help = "its first item is the program to run: `command = [\"cargo\", \"test\"]`";
        reader.push(Diagnostic::error(message).at(entry.span, "nothing to run").help(help));
        return None;
    }
    Some(words)
}

/// Reports every key that is not in `known`. Hosts have the arguments of a program under a key of their own.
pub(in crate::config) fn reject_unknown(reader: &mut Reader<'_>, section: &Section<'_>, known: &[&str]) {
    reader.reject_unknown_but(section, known, &["args"]);
    if let Some(args) = section.entry("args") {
        let message = format!("unknown key `args` in {}", section.place);
        let help =
            "put each of them into `command`, behind the program: `command = [\"npx\", \"-y\", \"…\"]`";
        reader.push(Diagnostic::error(message).at(args.key_span, "unknown key").help(help));
    }
}

pub(in crate::config) fn cwd(reader: &mut Reader<'_>, section: &Section<'_>, base: &Path) -> PathBuf {
    let Some(text) = reader.text(section, "cwd") else { return base.to_owned() };
    if text.value.is_empty() || text.value.contains('\0') {
        let message = format!("`cwd` of {} is not a folder", section.place);
        let help = "leave the key out for the folder of this file";
        reader.push(Diagnostic::error(message).at(text.span.clone(), "not a folder").help(help));
    }
    if let Some(Token::Input { name, .. }) =
        tokens(text.value).into_iter().find(|token| matches!(token, Token::Input { .. }))
    {
        let message = format!("`cwd` of {} takes no placeholders", section.place);
        let help =
            format!("give `{{{name}}}` to the program instead, as `make -C` and `git -C` take a folder");
        reader.push(Diagnostic::error(message).at(text.span.clone(), format!("`{{{name}}}`")).help(help));
    }
    base.join(text.value)
}

pub(in crate::config) fn description(
    reader: &mut Reader<'_>,
    section: &Section<'_>,
    keys: &[&str],
) -> Option<String> {
    let help = "models choose tools by their description: say what it does and when to use it";
    match section.entry("description") {
        None if misspells(section, "description", keys) => None,
        None => {
            let message = format!("{} has no description", section.place);
            reader.push(Diagnostic::warning(message).at(section.span.clone(), "no `description`").help(help));
            None
        }
        Some(_) => {
            let text = reader.text(section, "description")?;
            if text.value.trim().is_empty() {
                let message = format!("`description` of {} is empty", section.place);
                reader.push(Diagnostic::warning(message).at(text.span, "empty").help(help));
            }
            Some(text.value.to_owned())
        }
    }
}

/// Whether an unknown key is this one misspelled, which is reported and explains why it is missing.
pub(in crate::config) fn misspells(section: &Section<'_>, key: &str, keys: &[&str]) -> bool {
    let unknown = |entry: &Entry<'_>| {
        !keys.contains(&entry.key) && nearest(entry.key, keys.iter().copied()) == Some(key)
    };
    section.entries().iter().any(unknown)
}

pub(in crate::config) fn annotations(reader: &mut Reader<'_>, tool: &Section<'_>) -> Annotations {
    let place = format!("`annotations` of {}", tool.place);
    let Some(section) = reader.section(tool, "annotations", place) else { return Annotations::default() };
    reader.reject_unknown(&section, &["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"]);
    let read_only = reader.boolean(&section, "readOnlyHint");
    let destructive = reader.boolean(&section, "destructiveHint");
    if let (Some(At { value: true, span }), Some(At { value: true, span: other })) =
        (&read_only, &destructive)
    {
        let message = format!("{} both changes nothing and destroys", tool.place);
        reader.push(
            Diagnostic::warning(message)
                .at(other.clone(), "it destroys")
                .at(span.clone(), "it changes nothing")
                .help("clients ignore `destructiveHint` of a tool that is read-only: remove one of the two"),
        );
    }
    Annotations {
        read_only_hint: read_only.map(|at| at.value),
        destructive_hint: destructive.map(|at| at.value),
        idempotent_hint: reader.boolean(&section, "idempotentHint").map(|at| at.value),
        open_world_hint: reader.boolean(&section, "openWorldHint").map(|at| at.value),
    }
}

pub(in crate::config) fn task(reader: &mut Reader<'_>, section: &Section<'_>) -> Option<TaskMode> {
    reader.asks(section, "task", || Form::Task);
    let entry = section.entry("task")?;
    let DeValue::String(word) = entry.value else {
        let diagnostic = reader.wrong_type(&entry, &section.place, "a string");
        reader.push(diagnostic);
        return None;
    };
    let text = At { value: word.as_ref(), span: entry.span };
    let words = text.value.trim();
    let delay = match words {
        "never" => return Some(TaskMode::Never),
        "always" => return Some(TaskMode::After(Duration::ZERO)),
        "required" => return Some(TaskMode::Required),
        _ => words.strip_prefix("after").map(str::trim_start),
    };
    let message = format!("`task` of {} must be {TASK_WORDS}", section.place);
    let diagnostic = Diagnostic::error(message).at(text.span.clone(), "unknown word");
    let meant = match delay.map(parse_duration) {
        Some(Ok(delay)) if delay <= limits::DAY && words.starts_with("after ") => {
            return Some(TaskMode::After(delay));
        }
        Some(Ok(delay)) if delay > limits::DAY => {
            let message = format!("`task` of {} waits longer than a day", section.place);
            let diagnostic = Diagnostic::error(message).at(text.span, "too long");
            reader.push(diagnostic.help("to answer every call in place, write \"never\""));
            return None;
        }
        Some(Err(error)) => {
            let message = format!("`task` of {} has no duration behind `after`: it {error}", section.place);
            let diagnostic = Diagnostic::error(message).at(text.span, "not a duration");
            reader.push(diagnostic.help("write whole numbers with units: \"after 2s\", \"after 1m30s\""));
            return None;
        }
        _ => match parse_duration(delay.unwrap_or(words)).ok() {
            Some(delay) => Some(format!("after {}", crate::config::format_duration(delay))),
            None => nearest(words, ["never", "always", "required"]).map(str::to_owned),
        },
    };
    reader.push(match meant {
        Some(meant) => {
            diagnostic.fix(format!("write \"{meant}\""), vec![Edit::new(text.span, quoted(&meant))])
        }
        None => diagnostic,
    });
    None
}

fn rerun(reader: &mut Reader<'_>, section: &Section<'_>) -> Option<Rerun> {
    let entry = section.entry("rerun")?;
    if let DeValue::String(word) = entry.value
        && matches!(word.as_ref(), "resumable" | "restart")
    {
        let message = format!("`rerun = \"{word}\"` is not for commands: {}", section.place);
        reader.push(
            Diagnostic::error(message)
                .at(entry.span.clone(), "not in this release")
                .note("a command outlives its server, so it is taken up again where it is, never run twice")
                .fix("write \"reattach\"", vec![Edit::new(entry.span, "\"reattach\"")]),
        );
        return None;
    }
    reader.word(section, "rerun", &RERUNS)
}

fn progress(reader: &mut Reader<'_>, section: &Section<'_>) -> Option<Progress> {
    let text = reader.text(section, "progress")?;
    let pattern = compile(reader, section, "progress", &text)?;
    let groups = pattern.groups();
    if groups == 0 || groups > limits::MAX_PATTERN_GROUPS {
        let message = format!(
            "`progress` of {} has {groups} groups, not 1 or {}",
            section.place,
            limits::MAX_PATTERN_GROUPS
        );
        reader.push(
            Diagnostic::error(message)
                .at(text.span, if groups == 0 { "no group" } else { "too many groups" })
                .help("the groups are the progress made and the total: `(\\d+)/(\\d+)`"),
        );
        return None;
    }
    Some(Progress { pattern })
}

fn warn_of_unused(reader: &mut Reader<'_>, tool: &Section<'_>, inputs: &[Declared]) {
    // A command that could not be read at all says nothing about what it would have used.
    if tool.entry("command").is_none() {
        return;
    }
    for declared in inputs.iter().filter(|declared| !declared.used) {
        let name = &declared.name;
        let message = format!("input `{}` of {} is never used", name.escape_debug(), tool.place);
        reader.push(
            Diagnostic::warning(message)
                .at(declared.span.clone(), "never used")
                .help(format!("write \"{{{name}}}\" in `command`, `env` or `stdin`, or remove the input")),
        );
    }
}

const KEYS: [&str; 24] = [
    "title",
    "description",
    "command",
    "cwd",
    "env",
    "stdin",
    "timeout",
    "grace",
    "limit",
    "output",
    "max_output",
    "input",
    "annotations",
    "scope",
    "task",
    "ttl",
    "on_orphan",
    "orphan_grace",
    "rerun",
    "version",
    "accepts",
    "hold",
    "progress",
    "join",
];

/// The tools that the server adds for callers that know no tasks.
pub(crate) const COMPANIONS: [&str; 4] = ["task_wait", "task_output", "task_answer", "task_cancel"];

pub(in crate::config) const OUTPUTS: [(&str, Output); 2] = [("text", Output::Text), ("json", Output::Json)];
pub(in crate::config) const RERUNS: [(&str, Rerun); 2] =
    [("reattach", Rerun::Reattach), ("never", Rerun::Never)];
const ON_ORPHAN: [(&str, OnOrphan); 2] = [("keep", OnOrphan::Keep), ("cancel", OnOrphan::Cancel)];
pub(in crate::config) const JOINS: [(&str, Join); 2] =
    [("same-arguments", Join::SameArguments), ("never", Join::Never)];
const TASK_WORDS: &str = "\"never\", \"always\", \"required\" or \"after <duration>\"";
