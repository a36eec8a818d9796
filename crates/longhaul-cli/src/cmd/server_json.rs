//! `longhaul server-json`: what a registry of MCP servers is told of a configuration.

use std::path::PathBuf;

use longhaul::auth::Resource;
use longhaul_gateway::config::Config;
use serde_json::{Map, Value, json};

use crate::configuration;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::target::{http_url, shown_url};
use crate::term::{note, print};

/// Print the server.json of a configuration, which tells the MCP registry of it.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Its version, title and address are those of the configuration: `version` and `title` of [server], and `resource` of `[auth]`.

Examples:
  longhaul server-json --name io.github.ann/ci --url https://ci.example.com/mcp > server.json
  longhaul server-json --name com.example/ci --package oci:ghcr.io/example/ci:1.2.0 --description \"Build and test\"
  mcp-publisher publish")]
pub(crate) struct Args {
    /// The configuration.
    #[arg(default_value = configuration::FILE)]
    file: PathBuf,
    /// Its name there: a domain of yours backwards, `/` and a name. Default: `name` of `[server]`, if it is one.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// What it does, in 100 characters at most. Default: the first sentence of `instructions` of `[server]`.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Where others reach it. Default: `resource` of `[auth]`.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Where others get it to run it themselves: npm, pypi, cargo, oci, nuget or mcpb, `:`, and what it is called there. It is to
    /// serve over its standard input and output.
    #[arg(long, value_name = "KIND:NAME")]
    package: Vec<String>,
    /// Where its sources are.
    #[arg(long, value_name = "URL")]
    repository: Option<String>,
}

pub(crate) fn run(args: &Args) -> Exit {
    let config = configuration::read(&args.file, "what a registry is told stands in it");
    let json = config.and_then(|config| server_json(args, &config));
    match json.and_then(|json| print(&format!("{json:#}"))) {
        Ok(()) => Exit::Done,
        Err(failure) => failure.report(false),
    }
}

fn server_json(args: &Args, config: &Config) -> Outcome<Value> {
    let mut server = Map::new();
    let mut put = |key: &str, value: Value| drop(server.insert(key.to_owned(), value));
    put("$schema", SCHEMA.into());
    put("name", name(args, config)?.into());
    if let Some(title) = &config.server.title {
        put("title", short("title", title)?.into());
    }
    put("description", description(args, config)?.into());
    put("version", version(&config.server.version)?.into());
    if let Some(url) = &args.repository {
        put("repository", repository(url)?);
    }
    let remote = remote(args, config)?;
    if remote.is_none() && args.package.is_empty() {
        let next = "say where others reach it, --url https://HOST/mcp, or where they get it, --package oci:IMAGE:TAG";
        return Err(
            Failure::usage("nobody could use the server: it is neither served nor packaged").next(next)
        );
    }
    if let Some(remote) = remote {
        put("remotes", json!([remote]));
    }
    let packages: Vec<Value> =
        args.package.iter().map(|text| package(text, args, config)).collect::<Outcome<_>>()?;
    if !packages.is_empty() {
        put("packages", packages.into());
    }
    Ok(Value::Object(server))
}

fn name<'a>(args: &'a Args, config: &'a Config) -> Outcome<&'a str> {
    let name = args.name.as_deref().unwrap_or(&config.server.name);
    let fits = |part: &str, more: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    };
    let parts = name.split_once('/').filter(|(domain, own)| fits(domain, ".-") && fits(own, "._-"));
    if parts.is_some() && name.len() <= 200 {
        return Ok(name);
    }
    let next = "give one with --name: a domain of yours backwards, `/` and a name, such as io.github.ann/ci";
    Err(Failure::usage(format!("`{name}` is no name in a registry")).next(next))
}

fn description(args: &Args, config: &Config) -> Outcome<String> {
    if let Some(text) = &args.description {
        return short("description", text);
    }
    let Some(instructions) = &config.server.instructions else {
        let next = "say what it does with --description, or in `instructions` of [server]";
        return Err(Failure::usage("the server has no description").next(next));
    };
    let end = instructions.find(['\n']).unwrap_or(instructions.len());
    let sentence = instructions[..end].split_inclusive(". ").next().unwrap_or_default();
    short("description", sentence)
}

/// What a registry takes as a title or a description.
fn short(what: &str, text: &str) -> Outcome<String> {
    let text = text.trim();
    match text.chars().count() {
        1..=LONGEST => Ok(text.to_owned()),
        0 => Err(Failure::usage(format!("the {what} is empty"))),
        length => {
            let why = format!("the {what} has {length} characters, and a registry takes {LONGEST}");
            Err(Failure::usage(why).next("write a shorter one: --description TEXT, or in [server]"))
        }
    }
}

fn version(version: &str) -> Outcome<&str> {
    let is_range = version.starts_with(['^', '~', '<', '>', '=']) || version.contains(['*', ' ', '|']);
    if is_range || version == "latest" {
        let why = format!("`{version}` is no version that a registry takes: it names several");
        return Err(Failure::usage(why).next("name one in `version` of [server], such as \"1.2.0\""));
    }
    Ok(version)
}

fn repository(url: &str) -> Outcome<Value> {
    let host = http_url(url)?.split('/').nth(2).unwrap_or_default();
    let source = host.strip_suffix(".com").filter(|name| ["github", "gitlab"].contains(name)).unwrap_or(host);
    Ok(json!({ "url": url, "source": source }))
}

/// How others reach it, if they can.
fn remote(args: &Args, config: &Config) -> Outcome<Option<Value>> {
    let resource = config.auth.as_ref().and_then(|auth| auth.resource.as_ref()).map(Resource::as_str);
    let Some(text) = args.url.as_deref().or(resource) else { return Ok(None) };
    let url = shown_url(text)?;
    if !url.starts_with("https://") {
        note(&format!(
            "note: {url} is not https: whoever is on the way reads along, and a registry may refuse it"
        ));
    }
    let mut remote = json!({ "type": "streamable-http", "url": url });
    // Where somebody grants tokens, clients find out by themselves.
    let hands_out = config.auth.as_ref().is_some_and(|auth| auth.issuers.is_empty() && auth.proxy.is_none());
    if hands_out {
        let token = json!({ "description": "A token of this server", "isRequired": true, "isSecret": true });
        remote["headers"] = json!([{
            "name": "Authorization",
            "value": "Bearer {token}",
            "isRequired": true,
            "isSecret": true,
            "variables": { "token": token },
        }]);
    }
    Ok(Some(remote))
}

fn package(text: &str, args: &Args, config: &Config) -> Outcome<Value> {
    let Some((kind, name)) =
        text.split_once(':').filter(|(kind, name)| KINDS.contains(kind) && !name.is_empty())
    else {
        let next = format!(
            "write its kind, one of {}, `:` and its name: oci:ghcr.io/ann/ci:1.2.0",
            KINDS.join(", ")
        );
        return Err(Failure::usage(format!("`{text}` is no package")).next(next));
    };
    // What only this machine has, whoever runs it elsewhere has to give.
    let variables: Vec<Value> = config
        .variables()
        .iter()
        .map(|name| json!({ "name": name, "isRequired": true, "isSecret": true }))
        .collect();
    let mut package = json!({ "registryType": kind, "identifier": name, "transport": { "type": "stdio" } });
    if kind == "cargo" {
        let server = self::name(args, config)?;
        note(&format!(
            "note: a registry looks for `mcp-name: {server}` in what the README of the crate shows; comments do not count"
        ));
    }
    if !["oci", "mcpb"].contains(&kind) {
        package["version"] = config.server.version.as_str().into();
    }
    if !variables.is_empty() {
        package["environmentVariables"] = variables.into();
    }
    Ok(package)
}

/// The form of `server.json` that is written.
const SCHEMA: &str = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json";

/// The most characters of a title or a description.
const LONGEST: usize = 100;

/// Where packages are.
const KINDS: [&str; 6] = ["npm", "pypi", "cargo", "oci", "nuget", "mcpb"];
