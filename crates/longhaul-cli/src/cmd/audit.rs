//! `longhaul audit`: what became of tasks, from the folder of a trail, and whether it was changed.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Subcommand;
use longhaul::audit::{self, Entry, Party, Verdict};
use longhaul::store::Owner;

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::term::{clean, note, print};

/// Show the audit trail, or find out whether it was changed.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  longhaul audit verify audit\n  longhaul audit show audit --task build-3q9v"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Find out whether entries were changed or taken out; ends with 1 if so, and with 5 where there is no trail.
    #[command(after_help = "Example:\n  longhaul audit verify audit --head DIGEST")]
    Verify {
        /// The folder of the trail (`[audit] path`).
        folder: PathBuf,
        /// A digest that an earlier `verify` printed: its entry must still be there, or it ends with 1. May be given several times.
        #[arg(long, value_name = "DIGEST")]
        head: Vec<String>,
    },
    /// Show what happened, a line each.
    #[command(after_help = "Example:\n  longhaul audit show audit --task build-3q9v --json")]
    Show {
        /// The folder of the trail (`[audit] path`).
        folder: PathBuf,
        /// Only what happened to this task.
        #[arg(long, value_name = "ID")]
        task: Option<String>,
        /// Only what this principal did, or what was done to its tasks.
        #[arg(long, value_name = "PRINCIPAL")]
        who: Option<String>,
        /// As JSON, an entry a line.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: &Args) -> Exit {
    let done = match &args.verb {
        Verb::Verify { folder, head } => verify(folder, head),
        Verb::Show { folder, task, who, json } => show(folder, task.as_deref(), who.as_deref(), *json),
    };
    let json = matches!(args.verb, Verb::Show { json: true, .. });
    done.unwrap_or_else(|failure| failure.report(json))
}

fn verify(folder: &Path, kept: &[String]) -> Outcome<Exit> {
    let read = audit::verify(folder, kept).map_err(|error| unreadable(folder, &error))?;
    let Verdict { entries, files, heads, problems, remarks, .. } = read;
    // An empty file proves as little as none. Whoever has kept a digest knows that there was more.
    if entries == 0 && problems.is_empty() {
        return Err(no_trail(folder));
    }
    for head in &heads {
        print(&shown(&format!("{} {} {}", head.hash, head.node, head.seq)))?;
    }
    for remark in &remarks {
        note(&shown(&format!("note: {remark}")));
    }
    if entries == 0 {
        note(&shown(&format!("note: there is no entry in {}", folder.display())));
    }
    for problem in &problems {
        note(&shown(&format!("error: {problem}")));
    }
    if problems.is_empty() {
        note(&format!(
            "{entries} entries in {files} files are as they were written; keep the digests elsewhere"
        ));
        return Ok(Exit::Done);
    }
    note("the trail is not as it was written");
    Ok(Exit::Failed)
}

fn show(folder: &Path, task: Option<&str>, who: Option<&str>, json: bool) -> Outcome<Exit> {
    let who =
        who.map(Owner::principal).transpose().map_err(|error| Failure::usage(format!("--who: {error}")))?;
    let who = who.map(|owner| Party::of(&owner));
    let is_theirs = |entry: &Entry, who: &Party| {
        [&entry.by, &entry.owner].into_iter().flatten().any(|party| *party == who.as_str())
    };
    let wanted = |entry: &Entry| {
        task.is_none_or(|task| entry.task.as_deref() == Some(task))
            && who.as_ref().is_none_or(|who| is_theirs(entry, who))
    };
    let mut is_there = false;
    let wanted = |entry: &Entry| {
        is_there = true;
        wanted(entry)
    };
    let entries = audit::entries(folder, wanted).map_err(|error| unreadable(folder, &error))?;
    if !is_there {
        return Err(no_trail(folder));
    }
    for entry in entries {
        if json {
            let line = serde_json::to_string(&entry).context("an entry cannot be written")?;
            print(&clean::json(&line))?;
        } else {
            print(&shown(&line(&entry)))?;
        }
    }
    Ok(Exit::Done)
}

/// That nothing is in the folder, and so nothing of it can be shown, or is as it was written.
fn no_trail(folder: &Path) -> Failure {
    Failure::new(Exit::NotFound, "no_trail", format!("there is no trail in {}", folder.display())).next(
        "name the folder that `[audit] path` names; if this is the one, its files were moved or removed: a server that runs begins \
         another with what happens next",
    )
}

fn unreadable(folder: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("the trail in {} cannot be read: {error}", folder.display()))
        .next("name the folder that `[audit] path` names")
}

/// A line that does no harm: whoever could write to the folder could write anything.
fn shown(text: &str) -> String {
    clean::line(text, LONGEST)
}

const LONGEST: usize = 1000;

/// What happened, in one line.
fn line(entry: &Entry) -> String {
    let mut line = format!("{}  {:<9}", entry.at, entry.what);
    let mut add = |word: &str, value: Option<&str>| {
        if let Some(value) = value {
            line.extend([" ", word, value]);
        }
    };
    let (count, code) = (entry.count.map(|n| n.to_string()), entry.code.map(|n| n.to_string()));
    add("", entry.task.as_deref());
    add("tool=", entry.tool.as_deref());
    add("outcome=", entry.outcome.as_deref());
    add("code=", code.as_deref());
    add("reason=", entry.reason.as_deref());
    add("lost=", entry.lost.as_deref());
    add("date=", entry.date.as_deref());
    add("count=", count.as_deref());
    add("owner=", entry.owner.as_deref());
    add("by=", entry.by.as_deref());
    add("node=", Some(&entry.node));
    line
}
