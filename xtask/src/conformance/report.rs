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

    /// One part for each scenario: nothing failed in it, nothing was warned of, and enough succeeded. A scenario
    /// that was not run failed.
    pub(super) fn compare(&self, found: &BTreeMap<String, Vec<Check>>) -> Tally {
        let mut tally = Tally::default();
        for (name, least) in &self.0 {
            let checks = found.get(name).map(Vec::as_slice).unwrap_or_default();
            let successes = checks.iter().filter(|check| check.status == "SUCCESS").count();
            let bad: Vec<&Check> = checks.iter().filter(|check| check.is_bad()).collect();
            let passed = bad.is_empty() && successes >= *least && found.contains_key(name);
            let word = if passed { "ok" } else { "not ok" };
            println!("{word} - {name}: {successes} of {least} checks");
            for check in bad {
                let why = check.error_message.as_deref().unwrap_or("no reason given");
                println!("    {} {}: {}", check.status, check.id, why.lines().next().unwrap_or_default());
            }
            tally += Tally::one(passed);
        }
        tally
    }
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

/// The checks of every scenario of a run, from the folder it wrote.
///
/// # Errors
///
/// When the folder or a file in it cannot be read.
pub(super) fn read(folder: &Path) -> Result<BTreeMap<String, Vec<Check>>> {
    let mut found: BTreeMap<String, Vec<Check>> = BTreeMap::new();
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(scenario) = scenario(&name) else { continue };
        let file = entry.path().join("checks.json");
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let checks: Vec<Check> = serde_json::from_str(&text)
            .with_context(|| format!("{} is not a list of checks", file.display()))?;
        found.entry(scenario.to_owned()).or_default().extend(checks);
    }
    Ok(found)
}

/// The scenario in `server-<scenario>-2026-01-01T00-00-00-000Z`.
fn scenario(folder: &str) -> Option<&str> {
    let rest = folder.strip_prefix("server-")?;
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
        let judged = |checks: Vec<Check>| expected.compare(&BTreeMap::from([("a".to_owned(), checks)]));
        assert_eq!(judged(vec![check("SUCCESS"), check("SUCCESS"), check("INFO")]), Tally::one(true));
        assert_eq!(judged(vec![check("SUCCESS")]), Tally::one(false));
        for bad in ["FAILURE", "WARNING"] {
            assert_eq!(judged(vec![check("SUCCESS"), check("SUCCESS"), check(bad)]), Tally::one(false));
        }
        assert_eq!(expected.compare(&BTreeMap::new()), Tally::one(false));
    }

    #[test]
    fn a_folder_is_named_after_its_scenario() {
        assert_eq!(scenario("server-tools-list-2026-11-20T14-44-51-599Z"), Some("tools-list"));
        assert_eq!(scenario("server-x"), None);
    }
}
