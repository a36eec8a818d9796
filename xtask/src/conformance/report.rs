//! What the suite wrote down of one run, held against what its authors' own SDKs reach.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::tally::Tally;

/// How many checks of each scenario must succeed, by the scenario's name.
#[derive(Debug)]
pub(super) struct Expected(Vec<(String, usize)>);

impl Expected {
    /// Reads lines `scenario successes`; those that begin with `#` are for people.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or a line is neither.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        let entry = |line: &str| {
            let (name, successes) = line.split_once(' ').with_context(|| format!("no number in {line:?}"))?;
            Ok((name.to_owned(), successes.trim().parse()?))
        };
        Ok(Self(lines.map(entry).collect::<Result<_>>()?))
    }

    /// The scenarios' names.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// One part for each scenario: nothing failed in it, nothing was warned of, enough succeeded, and a client of ours
    /// got to its end. A scenario that was not run failed.
    pub(super) fn compare(&self, found: &BTreeMap<String, Found>) -> Tally {
        let mut tally = Tally::default();
        for (name, least) in &self.0 {
            let of = found.get(name);
            let checks = of.map(|found| found.checks.as_slice()).unwrap_or_default();
            let successes = checks.iter().filter(|check| check.status == "SUCCESS").count();
            let bad: Vec<&Check> = checks.iter().filter(|check| check.is_bad()).collect();
            let unfinished = of.and_then(|found| found.unfinished.as_deref());
            let passed = bad.is_empty() && successes >= *least && of.is_some() && unfinished.is_none();
            let word = if passed { "ok" } else { "not ok" };
            println!("{word} - {name}: {successes} of {least} checks");
            for check in bad {
                let why = check.error_message.as_deref().unwrap_or("no reason given");
                println!("    {} {}: {}", check.status, check.id, why.lines().next().unwrap_or_default());
            }
            if let Some(complaint) = unfinished {
                println!("    the client did not get to its end: {complaint}");
            }
            tally += Tally::one(passed);
        }
        tally
    }
}

/// What came of a scenario.
#[derive(Debug, Default)]
pub(super) struct Found {
    checks: Vec<Check>,
    /// What the client that the suite started said last, if it did not say that it got to its end.
    unfinished: Option<String>,
}

/// One check of a scenario.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Check {
    id: String,
    status: String,
    #[serde(default)]
    error_message: Option<String>,
}

impl Check {
    /// A warning is about something that should be so: it counts.
    fn is_bad(&self) -> bool {
        matches!(self.status.as_str(), "FAILURE" | "WARNING")
    }
}

/// What came of every scenario of a run, from the folder it wrote. The names of what it wrote begin with `prefix`.
///
/// # Errors
///
/// When the folder or a file in it cannot be read.
pub(super) fn read(folder: &Path, prefix: &str) -> Result<BTreeMap<String, Found>> {
    let mut found = BTreeMap::new();
    read_within(folder, "", prefix, &mut found)?;
    Ok(found)
}

/// As [`read`], of a folder in it: those of scenarios with a `/` in their names are.
fn read_within(folder: &Path, path: &str, prefix: &str, found: &mut BTreeMap<String, Found>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = format!("{path}{}", entry.file_name().to_string_lossy());
        let file = entry.path().join("checks.json");
        if !file.exists() {
            if entry.path().is_dir() {
                read_within(&entry.path(), &format!("{name}/"), prefix, found)?;
            }
            continue;
        }
        let Some(scenario) = scenario(&name, prefix) else { continue };
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let checks: Vec<Check> = serde_json::from_str(&text)
            .with_context(|| format!("{} is not a list of checks", file.display()))?;
        let of = found.entry(scenario.to_owned()).or_default();
        of.checks.extend(checks);
        of.unfinished = of.unfinished.take().or_else(|| unfinished(&entry.path()));
    }
    Ok(())
}

/// What a client said last in the scenario of that folder, unless it was [`DONE`] or no client was started.
fn unfinished(folder: &Path) -> Option<String> {
    let said = fs::read_to_string(folder.join("stdout.txt")).ok()?;
    let complaint = fs::read_to_string(folder.join("stderr.txt")).unwrap_or_default();
    let is_done = said.lines().last() == Some(DONE);
    (!is_done).then(|| complaint.lines().last().unwrap_or("it said nothing").to_owned())
}

/// What a client of ours says when it got to its end.
const DONE: &str = "done";

/// The scenario in `<prefix><scenario>-2026-01-01T00-00-00-000Z`.
fn scenario<'f>(folder: &'f str, prefix: &str) -> Option<&'f str> {
    let rest = folder.strip_prefix(prefix)?;
    let end = rest.len().checked_sub("-2026-01-01T00-00-00-000Z".len())?;
    rest.get(..end).filter(|_| rest.ends_with('Z'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: &str) -> Check {
        Check { id: "x".to_owned(), status: status.to_owned(), error_message: None }
    }

    #[test]
    fn a_scenario_passes_when_enough_succeeds_and_nothing_else_is_said() {
        let expected = Expected(vec![("a".to_owned(), 2)]);
        let judged = |checks: Vec<Check>| {
            expected.compare(&BTreeMap::from([("a".to_owned(), Found { checks, unfinished: None })]))
        };
        assert_eq!(judged(vec![check("SUCCESS"), check("SUCCESS"), check("INFO")]), Tally::one(true));
        assert_eq!(judged(vec![check("SUCCESS")]), Tally::one(false));
        for bad in ["FAILURE", "WARNING"] {
            assert_eq!(judged(vec![check("SUCCESS"), check("SUCCESS"), check(bad)]), Tally::one(false));
        }
        assert_eq!(expected.compare(&BTreeMap::new()), Tally::one(false));
    }

    #[test]
    fn a_client_that_did_not_get_to_its_end_fails_whatever_the_checks_say() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("auth/x-2026-11-20T14-44-51-599Z");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("checks.json"), r#"[{"id":"x","status":"SUCCESS"}]"#).unwrap();
        let expected = Expected(vec![("auth/x".to_owned(), 1)]);
        for (said, passed) in [("", false), ("half", false), ("half\ndone\n", true)] {
            fs::write(folder.join("stdout.txt"), said).unwrap();
            assert_eq!(expected.compare(&read(root.path(), "").unwrap()), Tally::one(passed), "{said:?}");
        }
    }

    #[test]
    fn a_folder_is_named_after_its_scenario() {
        assert_eq!(scenario("server-tools-list-2026-11-20T14-44-51-599Z", "server-"), Some("tools-list"));
        assert_eq!(scenario("auth/dpop-2026-11-20T14-44-51-599Z", ""), Some("auth/dpop"));
        assert_eq!(scenario("server-x", "server-"), None);
    }
}
