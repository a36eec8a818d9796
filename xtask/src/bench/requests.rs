//! CPU per request over HTTP, of every kind and size.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::http::{GOAL, OF_RMCP, TAIL, same_answer};
use super::programs::{Launch, Programs};
use super::report::Report;
use super::row::{Asked, CALLS, HEADS, Row};
use crate::site::Site;

/// Something that is asked.
struct Case {
    name: &'static str,
    asked: Asked,
    /// How many tools there are.
    tools: u32,
    /// How often it is asked in a round; peers, which take longer, are asked a third of it.
    times: u32,
    /// The method whose answer the bare handler is told, for it makes those of calls only.
    told: Option<&'static str>,
}

const fn call(name: &'static str, bytes: u32, connections: u32, times: u32) -> Case {
    Case { name, asked: Asked { bytes, connections, ..CALLS }, tools: 2, times, told: None }
}

const fn kind(name: &'static str, what: &'static str, told: Option<&'static str>) -> Case {
    Case { name, asked: Asked { what, ..CALLS }, tools: 2, times: 60_000, told }
}

const fn list(name: &'static str, tools: u32, times: u32) -> Case {
    Case { tools, times, ..kind(name, "tools", Some("tools/list")) }
}

const CASES: [Case; 13] = [
    call("a call, 1 connection", 27, 1, 40_000),
    call("a call, 256 connections", 27, 256, 80_000),
    call("a call with 1 kB", 1_000, 32, 60_000),
    call("a call with 64 kB", 64_000, 32, 12_000),
    call("a call with 1 MB", 1_000_000, 32, 900),
    kind("a call answered with a stream", "told", None),
    kind("a call in a session", "session", None),
    list("a list of 10 tools", 10, 60_000),
    list("a list of 100 tools", 100, 30_000),
    list("a list of 1,000 tools", 1_000, 4_000),
    kind("a resource", "resource", Some("resources/read")),
    kind("a prompt", "prompt", Some("prompts/get")),
    kind("a discovery", "discover", Some("server/discover")),
];

pub(super) fn run(site: &Site, programs: &Programs, rounds: usize, report: &mut Report) -> Result<()> {
    let mut bars = Vec::new();
    for case in &CASES {
        let rows = case.measure(site, programs, rounds)?;
        report.remark(case.name);
        let cells = rows.iter().map(Row::cells).collect::<Result<Vec<_>>>()?;
        report.table(HEADS, &cells);
        let [ours, bare, rmcp, tower] = &rows;
        same_answer(bare, ours).context(case.name)?;
        let of = |what: &str| format!("{}: {what}", case.name);
        report.ratio(&of("CPU, tower-mcp over longhaul"), &tower.cpu.over(&ours.cpu));
        report.judge(GOAL, &of("CPU, longhaul over bare axum"), &ours.cpu.over(&bare.cpu));
        let alone = ("the bare handler's over rmcp", &bare.cpu.over(&rmcp.cpu));
        report.judge_beside(OF_RMCP, &of("CPU, longhaul over rmcp"), &ours.cpu.over(&rmcp.cpu), alone);
        report.judge(TAIL, &of("p99, longhaul over bare axum"), &ours.p99.over(&bare.p99));
        bars.push((case.name, ours.cpu.over(&bare.cpu).median()));
    }
    report.plot("CPU per request over HTTP, longhaul over bare axum", &bars);
    Ok(())
}

impl Case {
    /// Ours, the bare handler, rmcp and tower-mcp.
    fn measure(&self, site: &Site, programs: &Programs, rounds: usize) -> Result<[Row; 4]> {
        let start = |name, server: Launch, times| {
            Row::start(programs, name, &server, self.asked, times).with_context(|| self.name)
        };
        let tools = self.tools.to_string();
        let ours = start("longhaul", programs.server().with("http").with(&tools), self.times)?;
        let mut bare = programs.bare_axum();
        if let Some(method) = self.told {
            let answer = ours.answer.as_deref().context("our server answers alike each time")?;
            let file = written(&site.target, answer)?;
            bare = bare.with(format!("{method}={}", file.display()));
        }
        let rmcp = match self.asked.what {
            "session" => programs.rmcp().with("sessions"),
            _ => programs.rmcp().with("http").with(&tools),
        };
        let mut rows = [
            ours,
            start("bare axum", bare, self.times)?,
            start("rmcp 3.8.0", rmcp, self.times / 3)?,
            start("tower-mcp 0.25.0", programs.tower().with("http").with(&tools), self.times / 3)?,
        ];
        for _ in 0..rounds {
            for row in &mut rows {
                row.measure(programs)?;
            }
        }
        Ok(rows)
    }
}

/// Writes what an answer has of a result into a file.
fn written(folder: &Path, answer: &str) -> Result<PathBuf> {
    let file = folder.join("bench-result.json");
    fs::write(&file, result(answer)?).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

/// The result of an answer, byte for byte.
fn result(answer: &str) -> Result<&str> {
    let result = answer.split_once(r#","result":"#).and_then(|(_, rest)| rest.strip_suffix('}'));
    result.with_context(|| format!("an answer of another form: {answer}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_cut_out_of_its_answer() {
        let answer = r#"{"jsonrpc":"2.0","id":1000000,"result":{"tools":[{"result":{}}]}}"#;
        assert_eq!(result(answer).unwrap(), r#"{"tools":[{"result":{}}]}"#);
        assert!(result(r#"{"jsonrpc":"2.0","id":1,"error":{}}"#).is_err());
    }
}
