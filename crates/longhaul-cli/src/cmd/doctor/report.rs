//! What was found, a line each.

use serde::Serialize;
use serde_json::json;

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::term::{clean, print};

/// How it is with something.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Ok,
    Warn,
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    state: State,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// What was found so far.
#[derive(Debug)]
pub(super) struct Report {
    json: bool,
    findings: Vec<Finding>,
}

impl Report {
    pub(super) fn new(json: bool) -> Self {
        Self { json, findings: Vec::new() }
    }

    pub(super) fn ok(&mut self, check: &'static str, found: impl Into<String>) -> Outcome<()> {
        self.add(check, State::Ok, found.into(), None)
    }

    pub(super) fn warn(
        &mut self,
        check: &'static str,
        found: impl Into<String>,
        next: impl Into<String>,
    ) -> Outcome<()> {
        self.add(check, State::Warn, found.into(), Some(next.into()))
    }

    pub(super) fn fail(
        &mut self,
        check: &'static str,
        found: impl Into<String>,
        next: impl Into<String>,
    ) -> Outcome<()> {
        self.add(check, State::Fail, found.into(), Some(next.into()))
    }

    /// A failure of the program as a finding.
    pub(super) fn failure(&mut self, check: &'static str, failure: &Failure) -> Outcome<()> {
        let next = failure.next_step().map(str::to_owned);
        self.add(check, State::Fail, failure.line(), next)
    }

    fn add(&mut self, check: &'static str, state: State, found: String, next: Option<String>) -> Outcome<()> {
        let finding = Finding { check, state, found, next };
        if !self.json {
            let word = match state {
                State::Ok => "ok  ",
                State::Warn => "warn",
                State::Fail => "FAIL",
            };
            print(format!("{word}  {check:<9} {}", clean::line(&finding.found, 400)).trim_end())?;
            for line in finding.next.iter().flat_map(|next| next.lines()) {
                print(&format!("                {}", clean::line(line, 400)))?;
            }
        }
        self.findings.push(finding);
        Ok(())
    }

    /// How it ends: badly if anything failed.
    pub(super) fn end(self) -> Outcome {
        let of = |state| self.findings.iter().filter(|finding| finding.state == state).count();
        let (warned, failed) = (of(State::Warn), of(State::Fail));
        if self.json {
            let whole = json!({ "checks": self.findings, "warnings": warned, "failures": failed });
            print(&clean::json(&whole.to_string()))?;
        }
        if failed == 0 { Ok(Exit::Done) } else { Err(Failure::silent(Exit::Failed)) }
    }
}
