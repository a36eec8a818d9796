//! How soon the program answers after its start, how large it is, and what it takes while nobody calls.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::figures::Figures;
use super::goal::Goal;
use super::load::pinned;
use super::report::Report;
use super::server::{PROCESSOR, rss_of};
use crate::site::{Site, kill_tree, shown};

/// How often it is started, a round.
const STARTS: usize = 20;

/// How long nobody has called a server that idles.
const IDLE: Duration = Duration::from_secs(2);

/// In milliseconds, on each way.
const STDIO: Goal = Goal::AtMost(10.0);
const HTTP: Goal = Goal::AtMost(15.0);

/// In MB.
const SIZE: Goal = Goal::AtMost(12.0);
const MEMORY: Goal = Goal::AtMost(8.0);

pub(super) fn run(site: &Site, rounds: usize, report: &mut Report) -> Result<()> {
    let mut build = site.cargo(&["build", "--release", "--locked", "--quiet"]);
    site.must_run(build.args(["-p", "longhaul-cli", "--bin", "longhaul"]))?;
    let program = site.target.join("release").join("longhaul");
    let folder = tempfile::tempdir().context("cannot make a folder for the store")?;
    let tool = "[tools.test]\ndescription = \"Run the tests\"\ncommand = [\"true\"]\n";
    fs::write(folder.path().join("longhaul.toml"), tool).context("cannot write a configuration")?;
    let [mut stdio, mut http, mut size, mut memory] = [(); 4].map(|()| Figures::default());
    size.push(stripped(site, &program, folder.path())?);
    for _ in 0..rounds {
        let [mut on_stdio, mut on_http] = [(); 2].map(|()| Figures::default());
        for _ in 0..STARTS {
            on_stdio.push(Started::on_stdio(&program, folder.path())?.took);
            on_http.push(Started::on_http(&program, folder.path())?.took);
        }
        stdio.push(on_stdio.median());
        http.push(on_http.median());
        let idle = Started::on_http(&program, folder.path())?;
        thread::sleep(IDLE);
        memory.push(rss_of(idle.child.id())?);
    }
    report.remark("with a store in SQLite and one tool; the program's file without its symbols");
    report.judge(STDIO, "from the start to the first answer over stdio, ms", &stdio);
    report.judge(HTTP, "from the start to the first answer over HTTP, ms", &http);
    report.judge(SIZE, "size of the program, MB", &size);
    report.judge(MEMORY, "memory of a server that idles, MB", &memory);
    Ok(())
}

/// How many MB the program has without its symbols.
fn stripped(site: &Site, program: &Path, folder: &Path) -> Result<f64> {
    let bare = folder.join("bare");
    site.must_run(Command::new("strip").arg("-o").arg(&bare).arg(program))?;
    Ok(fs::metadata(&bare).context("strip wrote nothing")?.len() as f64 / 1e6)
}

/// A server that has answered once, and how many milliseconds after its start.
struct Started {
    child: Child,
    took: f64,
}

impl Started {
    fn on_stdio(program: &Path, folder: &Path) -> Result<Self> {
        let mut command = serving(program, folder, &["--stdio"]);
        let begun = Instant::now();
        let mut server =
            Self::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()))?;
        let mut input = server.child.stdin.take().context("a piped stdin")?;
        let hello = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\",\
                     \"capabilities\":{},\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}\n";
        input.write_all(hello.as_bytes()).context("the server reads nothing")?;
        let mut answer = String::new();
        BufReader::new(server.child.stdout.take().context("a piped stdout")?).read_line(&mut answer)?;
        server.took = begun.elapsed().as_secs_f64() * 1e3;
        ensure!(answer.contains("\"result\""), "not an answer: {answer:?}");
        Ok(server)
    }

    fn on_http(program: &Path, folder: &Path) -> Result<Self> {
        let mut command = serving(program, folder, &["--http", "127.0.0.1:0"]);
        let begun = Instant::now();
        let mut server =
            Self::spawn(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()))?;
        let mut lines = BufReader::new(server.child.stderr.take().context("a piped stderr")?).lines();
        let address = loop {
            let line = lines.next().context("the server did not say where it listens")??;
            if let Some((_, rest)) = line.split_once("http://") {
                break rest.split(['/', ' ']).next().unwrap_or_default().to_owned();
            }
        };
        let mut stream =
            TcpStream::connect(&address).with_context(|| format!("nobody listens at {address}"))?;
        let body = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\",\"params\":{\"_meta\":{\
                    \"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\
                    \"io.modelcontextprotocol/clientCapabilities\":{}}}}";
        write!(
            stream,
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
             Mcp-Method: server/discover\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        server.took = begun.elapsed().as_secs_f64() * 1e3;
        ensure!(
            answer.starts_with("HTTP/1.1 200 ") && answer.contains("\"result\""),
            "not an answer: {answer:?}"
        );
        // Whoever is not read from any more must not wait to be.
        thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Ok(server)
    }

    fn spawn(command: &mut Command) -> Result<Self> {
        let child = command.spawn().with_context(|| format!("cannot run {}", shown(command)))?;
        Ok(Self { child, took: f64::NAN })
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        kill_tree(&mut self.child);
    }
}

fn serving(program: &Path, folder: &Path, place: &[&str]) -> Command {
    let mut command = pinned(PROCESSOR, program);
    command.arg("serve").args(place).args(["--store", "sqlite:tasks.db"]).current_dir(folder);
    command
}
