//! The smallest server on ours and on rmcp, as whoever writes one builds it: how long a clean build takes, of how many
//! crates, and how long one takes after a tool was touched.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::figures::Figures;
use super::goal::Goal;
use super::report::Report;
use crate::site::{Site, shown};

/// How much of rmcp's time a clean build may take.
const CLEAN: Goal = Goal::AtMost(0.7);

/// How much of the number of rmcp's crates.
const CRATES: Goal = Goal::AlwaysUnder(1.0);

/// In seconds.
const TOUCHED: Goal = Goal::AlwaysUnder(2.0);

/// How often a tool is touched, a round.
const TOUCHES: u32 = 3;

/// What a tool says of itself, which is what is changed of it.
const SAID: &str = "Say the message back";

/// A server in a folder of its own, and its figures.
struct Row {
    name: &'static str,
    folder: PathBuf,
    crates: Figures,
    clean: Figures,
    touched: Figures,
}

pub(super) fn run(site: &Site, rounds: usize, report: &mut Report) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("bench-build-").tempdir_in(&site.target)?;
    let longhaul = format!("longhaul = {{ path = {:?} }}", site.root.join("crates/longhaul"));
    let rmcp = "rmcp = { version = \"=3.8.0\", features = [\"server\", \"transport-io\"] }\nserde = { version = \"1\", \
                features = [\"derive\"] }";
    let lock = site.root.join("benches/compare/Cargo.lock");
    let mut rows = [
        Row::new("longhaul", site, folder.path(), &longhaul, &site.root.join("Cargo.lock"))?,
        Row::new("rmcp 3.8.0", site, folder.path(), rmcp, &lock)?,
    ];
    for _ in 0..rounds {
        for row in &mut rows {
            row.measure(site).with_context(|| row.name)?;
        }
    }
    let cells = rows.each_ref().map(|row| {
        let [clean, touched] = [&row.clean, &row.touched].map(ToString::to_string);
        [row.name.to_owned(), format!("{:.0}", row.crates.median()), clean, touched]
    });
    report.table(["", "crates", "clean release build, s", "debug build of a touched tool, s"], &cells);
    report.plot("clean release build, s", &rows.each_ref().map(|row| (row.name, row.clean.median())));
    let [ours, rmcp] = &rows;
    report.judge(CLEAN, "clean release build, longhaul over rmcp", &ours.clean.over(&rmcp.clean));
    report.judge(CRATES, "crates, longhaul over rmcp", &ours.crates.over(&rmcp.crates));
    report.judge(TOUCHED, "debug build of a touched tool, s", &ours.touched);
    Ok(())
}

impl Row {
    /// Writes the server, with the versions that are locked here, and fetches what it depends on.
    fn new(name: &'static str, site: &Site, folder: &Path, dependency: &str, lock: &Path) -> Result<Self> {
        let source = name.split(' ').next().unwrap_or(name);
        let folder = folder.join(source);
        let manifest = format!(
            "[package]\nname = \"minimal-{source}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n{dependency}\n\
             tokio = {{ version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }}\n\n[workspace]\n"
        );
        let source = site.root.join("benches/minimal").join(source).with_extension("rs");
        let copied = || -> std::io::Result<()> {
            fs::create_dir_all(folder.join("src"))?;
            fs::write(folder.join("Cargo.toml"), manifest)?;
            fs::copy(&source, folder.join("src/main.rs"))?;
            fs::copy(lock, folder.join("Cargo.lock")).map(drop)
        };
        copied().with_context(|| format!("cannot copy {}", source.display()))?;
        let none = Figures::default;
        let row = Self { name, folder, crates: none(), clean: none(), touched: none() };
        site.must_run(&mut row.cargo(site, &["fetch", "--quiet"]))?;
        Ok(row)
    }

    fn measure(&mut self, site: &Site) -> Result<()> {
        let target = self.folder.join("target");
        if target.exists() {
            fs::remove_dir_all(&target).context("cannot make a build clean")?;
        }
        self.crates.push(self.count(site)?);
        self.clean.push(self.build(site, &["--release"])?);
        self.answers("release")?;
        self.build(site, &[])?;
        let mut touched = Figures::default();
        let file = self.folder.join("src/main.rs");
        let source = fs::read_to_string(&file)?;
        ensure!(source.contains(SAID), "{} has no tool to touch", file.display());
        for nth in 0..TOUCHES {
            fs::write(&file, source.replace(SAID, &format!("{SAID}, {nth}")))?;
            touched.push(self.build(site, &[])?);
        }
        self.answers("debug")?;
        fs::write(&file, source)?;
        self.touched.push(touched.median());
        Ok(())
    }

    /// How many seconds a build takes.
    fn build(&self, site: &Site, how: &[&str]) -> Result<f64> {
        let mut command = self.cargo(site, &["build", "--quiet", "--offline"]);
        let began = Instant::now();
        site.must_run(command.args(how))?;
        Ok(began.elapsed().as_secs_f64())
    }

    /// Of how many crates it is made, itself included.
    fn count(&self, site: &Site) -> Result<f64> {
        let mut command =
            self.cargo(site, &["tree", "--offline", "--edges", "normal,build", "--prefix", "none"]);
        let output = command.output().with_context(|| format!("cannot run {}", shown(&command)))?;
        ensure!(output.status.success(), "{} failed", shown(&command));
        let tree = String::from_utf8_lossy(&output.stdout);
        let crates: BTreeSet<&str> =
            tree.lines().map(|line| line.trim_end_matches(" (*)")).filter(|line| !line.is_empty()).collect();
        Ok(crates.len() as f64)
    }

    /// What is built has to be a server.
    fn answers(&self, profile: &str) -> Result<()> {
        let source = self.name.split(' ').next().unwrap_or(self.name);
        let program = self.folder.join("target").join(profile).join(format!("minimal-{source}"));
        let mut server = Command::new(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", program.display()))?;
        let mut input = server.stdin.take().context("a piped stdin")?;
        for line in SAYING {
            writeln!(input, "{line}").context("the server reads nothing")?;
        }
        // Its client stays until it has its answer, for a server may leave what is open when its client goes.
        let answer = read_answer(server.stdout.take().context("a piped stdout")?);
        drop(input);
        server.wait()?;
        let answer = answer?;
        ensure!(answer.contains("\"hello\""), "{} does not say back what it is told: {answer}", self.name);
        Ok(())
    }

    /// A cargo command for it, and nothing of what this one was started with.
    fn cargo(&self, site: &Site, arguments: &[&str]) -> Command {
        let mut command = site.cargo(arguments);
        command.current_dir(&self.folder).env("CARGO_TARGET_DIR", self.folder.join("target"));
        command.env("RUSTC_WRAPPER", "").env_remove("RUSTFLAGS");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CARGO_PROFILE_") {
                command.env_remove(name);
            }
        }
        command
    }
}

/// What a server is told.
const SAYING: [&str; 3] = [
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"}}}"#,
];

/// The line that answers the last of it.
fn read_answer(said: impl std::io::Read) -> Result<String> {
    use std::io::BufRead as _;
    for line in std::io::BufReader::new(said).lines() {
        let line = line?;
        if line.contains("\"id\":2") {
            return Ok(line);
        }
    }
    anyhow::bail!("the server ended without an answer")
}
