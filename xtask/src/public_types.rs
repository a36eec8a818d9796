//! `cargo xtask public`: whose types the published crates show in their own interfaces. Each such dependency stands in
//! `[package.metadata.public-dependencies]` of its crate, with the reason: a new major version of it is one of ours.
//!
//! The compiler finds them, by a lint that is not stable yet; the program it builds on the way is not used.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::site::Site;
use crate::tally::Tally;
use crate::workspace::Workspace;

/// The lint that tells of them.
const LINT: &str = "exported_private_dependencies";

/// A line that cargo prints with `--message-format=json`.
#[derive(Debug, Deserialize)]
struct Line {
    #[serde(default)]
    package_id: String,
    message: Option<Message>,
}

#[derive(Debug, Deserialize)]
struct Message {
    code: Option<Code>,
    message: String,
    spans: Vec<Span>,
    rendered: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Code {
    code: String,
}

#[derive(Debug, Deserialize)]
struct Span {
    file_name: String,
    line_start: usize,
}

/// Compares what is shown with what may be.
///
/// # Errors
///
/// When cargo cannot be run, does not end in time, or prints what is not understood.
pub(crate) fn run(site: &Site) -> Result<Tally> {
    let workspace = Workspace::members(&site.root)?;
    let published: Vec<_> = workspace.our_packages().filter(|package| package.is_published()).collect();
    let mut command = site.patient_cargo(&["check", "--locked", "--all-features", "-Zpublic-dependency"]);
    command.args(["--message-format=json", "--quiet"]);
    command.args(published.iter().flat_map(|package| ["-p", &package.name]));
    // Apart, for every crate is compiled with other words than otherwise.
    command.env("RUSTC_BOOTSTRAP", "1").env("CARGO_TARGET_DIR", site.target.join("public"));
    // An edition of an error that a person reads is among what is parsed below.
    let ran = site.run_telling(&mut command, |_| Vec::new())?;
    let mut shown: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
    for line in ran.lines.iter().filter(|line| line.starts_with('{')) {
        let line: Line = serde_json::from_str(line).context("cargo printed what is no message")?;
        let Some(message) = line.message else { continue };
        if message.code.as_ref().is_none_or(|code| code.code != LINT) {
            if let Some(rendered) = message.rendered.filter(|_| !ran.success) {
                println!("{rendered}");
            }
            continue;
        }
        let package = published.iter().find(|package| package.is_named_by(&line.package_id));
        let package = package.with_context(|| format!("{} is none of ours", line.package_id))?;
        let dependency = dependency(&message.message)
            .with_context(|| format!("the lint names no dependency: {}", message.message))?;
        let place = message.spans.first().map(|span| format!("{}:{}", span.file_name, span.line_start));
        let told = format!("{}: {}", place.unwrap_or_default(), message.message);
        shown.entry(&package.name).or_default().entry(dependency.to_owned()).or_insert(told);
    }
    let ours: BTreeSet<String> = published.iter().map(|package| package.name.replace('-', "_")).collect();
    let mut tally = Tally::one(ran.success);
    for package in published {
        let shown = shown.remove(package.name.as_str()).unwrap_or_default();
        for complaint in compare(&package.name, &shown, &package.public_dependencies(), &ours) {
            println!("{complaint}");
            tally += Tally::one(false);
        }
        tally += Tally::one(true);
    }
    Ok(tally)
}

/// The dependency that the lint tells of.
fn dependency(message: &str) -> Option<&str> {
    message.split_once("private dependency '")?.1.split('\'').next()
}

/// What is wrong with what a package shows.
fn compare(
    package: &str,
    shown: &BTreeMap<String, String>,
    allowed: &BTreeSet<&str>,
    ours: &BTreeSet<String>,
) -> Vec<String> {
    let unlisted = shown.iter().filter(|(name, _)| !ours.contains(*name) && !allowed.contains(name.as_str()));
    let unlisted = unlisted.map(|(name, told)| {
        format!(
            "{told}\n  keep it out of the interface, or name `{name}` in [package.metadata.public-dependencies] of {package} \
             and say why"
        )
    });
    let gone = allowed.iter().filter(|name| !shown.contains_key(**name)).map(|name| {
        format!("{package} shows nothing of `{name}` any more: take it out of its [package.metadata.public-dependencies]")
    });
    unlisted.chain(gone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_listed_and_what_is_listed_is_shown() {
        let message = "type `RawValue` from private dependency 'serde_json' in public interface";
        assert_eq!(dependency(message), Some("serde_json"));
        let shown =
            |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), "here:1".to_owned())).collect();
        let ours = BTreeSet::from(["ours_too".to_owned()]);
        let compare = |names, allowed: &[&str]| {
            compare("ours", &shown(names), &allowed.iter().copied().collect(), &ours)
        };
        assert!(compare(&["http", "ours_too"], &["http"]).is_empty());
        assert!(compare(&["http"], &[])[0].contains("name `http`"));
        assert!(compare(&[], &["http"])[0].contains("nothing of `http`"));
    }
}
