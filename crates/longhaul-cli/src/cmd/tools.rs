//! `longhaul tools`: what a server offers, as one would call it.

use longhaul::client::Client;
use longhaul::proto::jsonrpc::ObjectWriter;
use longhaul::proto::model::Tool;

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::near::nearest;
use crate::signature::Signature;
use crate::target::{Server, TargetArgs};
use crate::term::{clean, is_terminal, is_watched, note, print};

/// Show the tools of a server, or one of them in full.
#[derive(clap::Args, Debug)]
#[command(
    override_usage = "longhaul tools [OPTIONS] SERVER [NAME]\n       \
                      longhaul tools [OPTIONS] [NAME] -- COMMAND...",
    after_help = "\
Examples:
  longhaul tools http://127.0.0.1:8420/mcp
  longhaul tools http://127.0.0.1:8420/mcp test
  longhaul tools vscode:ci
  longhaul tools -- npx -y @modelcontextprotocol/server-everything"
)]
pub(crate) struct Args {
    /// The server, its URL or a name such as vscode:ci, unless a command follows after `--`; then the name of a tool.
    #[arg(value_name = "WORDS", num_args = 0..=2)]
    words: Vec<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

pub(crate) fn run(args: &Args) -> Exit {
    crate::runtime::run(args.json, list(args))
}

async fn list(args: &Args) -> Outcome {
    let (server, rest) = args.target.server(&args.words, "tools")?;
    let name = match rest {
        [] => None,
        [name] => Some(name.as_str()),
        [_, extra, ..] => return Err(Failure::usage(format!("`{extra}` is one word too many"))),
    };
    let client = server.connect(args.target.options(&server)?, args.json).await?;
    let shown = show(&client, name, args.json, &server).await;
    client.close().await;
    shown
}

async fn show(client: &Client, name: Option<&str>, json: bool, server: &Server) -> Outcome {
    let tools = client.list_tools().await?;
    match name {
        Some(name) => {
            let tool = find(&tools, name)?;
            if json { print(&one(client, tool))? } else { in_full(tool)? }
        }
        None if json => print(&all(client, &tools))?,
        None => {
            for tool in &tools {
                in_short(tool)?;
            }
            if tools.is_empty() {
                note("this server has no tools");
            } else if is_terminal() && is_watched() {
                let target = server.named().map_or_else(String::new, |url| format!("{url} "));
                note(&format!(
                    "\none in full: longhaul tools {target}NAME    call: longhaul call {target}NAME key=value"
                ));
            }
        }
    }
    Ok(Exit::Done)
}

/// The tool of that name, or what was probably meant.
pub(crate) fn find<'t>(tools: &'t [Tool], name: &str) -> Outcome<&'t Tool> {
    if let Some(tool) = tools.iter().find(|tool| tool.name == name) {
        return Ok(tool);
    }
    let failure = Failure::new(Exit::NotFound, "no_such_tool", format!("no tool is called `{name}`"));
    let names = || tools.iter().map(|tool| tool.name.as_str());
    Err(match nearest(name, names()) {
        Some(near) => failure.next(format!("did you mean `{near}`?")),
        None if tools.is_empty() => failure.next("this server has no tools"),
        None => failure.next(format!("there are {}", names().take(12).collect::<Vec<_>>().join(", "))),
    })
}

fn in_short(tool: &Tool) -> Outcome<()> {
    print(&Signature::of(tool).line())?;
    let description = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
    if description.is_empty() { Ok(()) } else { print(&format!("    {}", clean::line(description, 160))) }
}

fn in_full(tool: &Tool) -> Outcome<()> {
    let signature = Signature::of(tool);
    print(&signature.line())?;
    if let Some(title) = &tool.title {
        print(&format!("  {}", clean::line(title, 160)))?;
    }
    for line in clean::text(tool.description.as_deref().unwrap_or_default()).lines() {
        print(&format!("  {line}"))?;
    }
    if !signature.parameters.is_empty() {
        print("\nArguments:")?;
    }
    for parameter in &signature.parameters {
        print(&format!("  {}", clean::line(&parameter.line(), 200)))?;
        if let Some(description) = &parameter.description {
            for line in clean::text(description).lines() {
                print(&format!("      {line}"))?;
            }
        }
    }
    if let Some(hints) = &tool.annotations {
        let hints: Vec<&str> = [
            (hints.read_only_hint, "changes nothing"),
            (hints.destructive_hint, "may destroy something"),
            (hints.idempotent_hint, "can be called again safely"),
            (hints.open_world_hint, "reaches the outside world"),
        ]
        .into_iter()
        .filter_map(|(hint, words)| hint.unwrap_or(false).then_some(words))
        .collect();
        if !hints.is_empty() {
            print(&format!("\nThe server says that it {}.", hints.join(", ")))?;
        }
    }
    Ok(())
}

/// A tool as its server listed it, as far as this release knows its members.
fn one(client: &Client, tool: &Tool) -> String {
    let mut out = Vec::new();
    client.dialect().write_tool(tool, &mut out);
    clean::json(&String::from_utf8_lossy(&out))
}

fn all(client: &Client, tools: &[Tool]) -> String {
    let mut out = Vec::new();
    let mut object = ObjectWriter::new(&mut out);
    object.array("tools", tools, |out, tool| client.dialect().write_tool(tool, out));
    object.end();
    clean::json(&String::from_utf8_lossy(&out))
}
