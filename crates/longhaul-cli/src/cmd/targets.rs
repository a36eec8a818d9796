//! `longhaul targets`: the servers that the editors and assistants of this user have, by names that other verbs take.

use comfy_table::Table;
use serde_json::json;

use crate::exit::Exit;
use crate::failure::Outcome;
use crate::hosts::{Entry, Here, Host};
use crate::term::{clean, is_terminal, note, print};

/// Show the servers that editors and assistants have here, by names to call them by.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
They are those of the project here and of its user: Claude Code, Claude Desktop, VS Code, Cursor, Codex, Gemini CLI, Zed, opencode, \
Continue, LM Studio, Kiro and Cline.
No argument, variable or header of theirs is shown.

Examples:
  longhaul targets
  longhaul tools vscode:ci")]
pub(crate) struct Args {
    /// Only those of this host: claude, claude-desktop, vscode, cursor, codex, gemini, zed, opencode, continue, lmstudio, kiro or cline.
    #[arg(value_name = "HOST")]
    host: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Exit {
    show(args).unwrap_or_else(|failure| failure.report(args.json))
}

fn show(args: &Args) -> Outcome {
    let here = Here::now();
    let only = args.host.as_deref().map(Host::named).transpose()?;
    let hosts = Host::all().iter().filter(|host| only.is_none_or(|only| only.name == host.name));
    let mut entries = Vec::new();
    for host in hosts {
        let (found, problems) = host.servers(&here);
        entries.extend(found);
        for problem in problems {
            note(&format!("note: {}", clean::line(&problem, 400)));
        }
    }
    if args.json {
        let target = |entry: &Entry| {
            json!({
                "target": entry.target(), "host": entry.host.name, "name": entry.name, "place": entry.place(),
                "file": entry.file.display().to_string(),
            })
        };
        let targets: Vec<_> = entries.iter().map(target).collect();
        print(&clean::json(&json!({ "targets": targets }).to_string()))?;
        return Ok(Exit::Done);
    }
    let Some(first) = entries.first() else {
        note("no host has a server here; `longhaul connect HOST` gives it one");
        return Ok(Exit::Done);
    };
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(["TARGET", "SERVER", "FILE"]);
    for entry in &entries {
        let file = clean::line(&entry.file.display().to_string(), 200);
        table.add_row([clean::line(&entry.target(), 80), entry.place(), file]);
    }
    print(&table.trim_fmt())?;
    if is_terminal() {
        note(&format!("\nuse one: longhaul tools {}", clean::line(&first.target(), 80)));
    }
    Ok(Exit::Done)
}
