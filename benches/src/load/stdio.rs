//! Calls over a server's stdin and stdout: one thread pipes every call without waiting, one reads every answer.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::echo::{Answers, Expected, SHORT, line};
use super::numbered::{FIRST, MOST};
use super::report::Figures;

/// How long a server may take to answer everything before it is killed.
const PATIENCE: Duration = Duration::from_secs(300);

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1.0.0"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Starts the server, makes the calls, and ends it.
pub(crate) fn run(calls: u32, command: &[String]) -> Result<Figures> {
    ensure!(calls <= MOST, "at most {MOST} calls can be told apart");
    let (program, arguments) = command.split_first().context("name a server")?;
    let mut server = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {program}"))?;
    let measured = measure(&mut server, calls);
    if measured.is_err() {
        server.kill()?;
    }
    server.wait()?;
    measured
}

fn measure(server: &mut Child, calls: u32) -> Result<Figures> {
    let mut input = server.stdin.take().context("a piped stdin")?;
    let mut answers = BufReader::with_capacity(1 << 20, server.stdout.take().context("a piped stdout")?);
    writeln!(input, "{INITIALIZE}")?;
    let mut answer = Vec::new();
    answers.read_until(b'\n', &mut answer)?;
    ensure!(
        memchr::memmem::find(&answer, b"\"protocolVersion\":\"2025-11-25\"").is_some(),
        "no session: {}",
        String::from_utf8_lossy(&answer)
    );
    writeln!(input, "{INITIALIZED}")?;
    let lines = lines(calls);
    let pid = server.id();
    let cpu_before = cpu_seconds(pid)?;
    thread::scope(|scope| {
        let late = scope.spawn(move || overdue(pid, PATIENCE));
        let began = Instant::now();
        let writer = scope.spawn(move || write(input, &lines));
        let read = read(&mut answers, calls);
        let took = began.elapsed();
        // Before the server's input ends, and with it the server.
        let after = read.and_then(|answer| Ok((answer, cpu_seconds(pid)?, peak_rss_kb(pid)?)));
        late.thread().unpark();
        let (answer, cpu, rss) = after?;
        drop(writer.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??);
        let mut figures = Figures::new(calls, took);
        figures.cpu_seconds = Some(cpu - cpu_before);
        figures.peak_rss_kb = Some(rss);
        figures.answer = answer;
        Ok(figures)
    })
}

fn lines(calls: u32) -> Vec<u8> {
    let mut call = line();
    let mut lines = Vec::with_capacity(calls as usize * call.of(FIRST).len());
    for number in FIRST..FIRST + calls {
        lines.extend_from_slice(call.of(number));
    }
    lines
}

/// Writes everything, and gives the input back unclosed.
fn write(mut input: ChildStdin, lines: &[u8]) -> std::io::Result<ChildStdin> {
    input.write_all(lines)?;
    Ok(input)
}

/// Reads as many answers as there were calls, in any order, each once; returns what they look like.
fn read(answers: &mut impl BufRead, calls: u32) -> Result<Option<String>> {
    let mut known = Answers::new(Expected::Message(SHORT));
    let mut answered = vec![false; calls as usize];
    let mut line = Vec::new();
    for count in 0..calls {
        line.clear();
        answers.read_until(b'\n', &mut line)?;
        ensure!(line.pop() == Some(b'\n'), "the server ended after {count} of {calls} answers");
        let number = known.check(&line)?;
        let first = answered.get_mut((number - FIRST) as usize).map(|seen| !std::mem::replace(seen, true));
        ensure!(first == Some(true), "call {number} was answered twice, or never made");
    }
    Ok(known.pattern())
}

/// Kills a server that is not done in time, so that nothing waits for it.
fn overdue(pid: u32, patience: Duration) {
    let until = Instant::now() + patience;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        thread::park_timeout(left);
        if Instant::now() < until {
            return;
        }
    }
    // What cannot be killed has ended.
    drop(Command::new("kill").args(["-KILL", &pid.to_string()]).status());
}

/// User and system time so far. The kernel counts in hundredths of a second.
fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the server has ended")?;
    let (_, fields) = stat.rsplit_once(')').context("an unknown form of /proc/PID/stat")?;
    let ticks: Option<u64> =
        fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().ok()).sum();
    Ok(ticks.context("an unknown form of /proc/PID/stat")? as f64 / 100.0)
}

fn peak_rss_kb(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the server has ended")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok()).context("VmHWM is missing")
}
