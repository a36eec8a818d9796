//! `cargo xtask stories`: what the README has a newcomer do, for each of the three whom it asks for, timed from a clean
//! clone to the first result.
//!
//! The lines that are followed stand in the README: one that is no longer there fails its story.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::interop::HttpServer;
use crate::site::{Site, shown};
use crate::tally::Tally;
use crate::tools::system;

/// What goes through the last of the stories.
const IN_RUST: &str = "crates/longhaul/src/manual/start_in_rust.md";

/// What says how the program is installed.
const INSTALLING: &str = "packaging/README.md";

/// How long all three may take, compilers included.
pub(crate) const BUDGET: Duration = Duration::from_secs(60 * 60);

/// How long one may take from its first line to its first result, without its compiler.
const LONGEST: Duration = Duration::from_secs(5 * 60);

/// A story, told by the README.
type Story = (&'static str, fn(&mut Newcomer<'_>) -> Result<()>);

const STORIES: &[Story] = &[
    ("a command as a tool", command),
    ("an existing server made durable", existing_server),
    ("a Rust tool with a step", rust_tool),
];

/// Clones the repository, installs the program, and does what each story says.
///
/// # Errors
///
/// When there is no clone, or the program does not build.
pub(crate) fn run(site: &Site) -> Result<Tally> {
    system::require(site, &system::GIT)?;
    // Not below the repository, which would make a new project a member of its workspace.
    let folder = tempfile::tempdir().context("there is no room for a clone")?;
    let clone = folder.path().join("longhaul");
    site.must_run(Command::new("git").args(["clone", "--quiet"]).args([&site.root, &clone]))?;
    let read =
        |page: &str| fs::read_to_string(clone.join(page)).with_context(|| format!("the clone has no {page}"));
    let readme = read("README.md")? + &read(IN_RUST)? + &read(INSTALLING)?;
    let target = site.target.join("stories");
    let mut newcomer =
        Newcomer { site, folder: folder.path(), clone, target, readme, compiling: Duration::ZERO };
    newcomer.install()?;
    println!("the program was installed in {:.0} s", newcomer.compiling.as_secs_f64());
    let mut tally = Tally::default();
    for (name, story) in STORIES {
        println!("\n-- {name}");
        newcomer.compiling = Duration::ZERO;
        let begun = Instant::now();
        let told = story(&mut newcomer);
        let compiled = newcomer.compiling;
        let took = begun.elapsed().saturating_sub(compiled);
        match told {
            Ok(()) if took <= LONGEST => {
                println!(
                    "ok - {name}: {:.1} s, and {:.1} s of compiling",
                    took.as_secs_f64(),
                    compiled.as_secs_f64()
                );
                tally += Tally::one(true);
            }
            Ok(()) => {
                println!("not ok - {name}: {:.1} s are too long", took.as_secs_f64());
                tally += Tally::one(false);
            }
            Err(error) => tally += site.failed(name, &error),
        }
    }
    Ok(tally)
}

/// Whoever reads the README for the first time.
struct Newcomer<'s> {
    site: &'s Site,
    /// Where everything of theirs is.
    folder: &'s Path,
    clone: PathBuf,
    /// Where what they compile is kept.
    target: PathBuf,
    /// What it says, and behind that the chapter for who writes Rust and what is said of installing.
    readme: String,
    /// How long compilers have run in this story.
    compiling: Duration,
}

impl Newcomer<'_> {
    /// That the README says this line, so that what is done here is what it says.
    fn reads(&self, line: &str) -> Result<()> {
        let is_said = |said: &str| said.split(" #").next().is_some_and(|said| said.trim() == line);
        ensure!(self.readme.lines().any(is_said), "README.md no longer says `{line}`");
        Ok(())
    }

    /// The program that the README is written in.
    fn source(&self) -> Result<&str> {
        let blocks = self.readme.split("```rust,no_run\n").skip(1);
        let mut programs = blocks.filter_map(|block| block.split("```").next());
        programs
            .find(|block| block.contains("async fn main()"))
            .context("README.md has no whole program in Rust")
    }

    /// Installs the program from the clone, into a folder of its own.
    fn install(&mut self) -> Result<()> {
        let line = "cargo install --locked --path crates/longhaul-cli";
        ensure!(self.readme.contains(&format!("`{line}`")), "{INSTALLING} no longer says `{line}`");
        let root = self.root().to_str().context("the path of the folder is not UTF-8")?.to_owned();
        let words: Vec<&str> = line.split(' ').skip(1).chain(["--root", &root]).collect();
        self.compile(&self.clone.clone(), &words)
    }

    /// Where programs are installed.
    fn root(&self) -> PathBuf {
        self.folder.join("installed")
    }

    fn compile(&mut self, project: &Path, arguments: &[&str]) -> Result<()> {
        let begun = Instant::now();
        let mut command = self.site.cargo(arguments);
        self.site.must_run(command.current_dir(project).env("CARGO_TARGET_DIR", &self.target))?;
        self.compiling += begun.elapsed();
        Ok(())
    }

    /// `longhaul` as it is installed, in the clone, which knows of no tasks but those of these stories. Where the README has it run by
    /// cargo, it is the same program.
    fn longhaul(&self) -> Command {
        let mut command = Command::new(self.root().join("bin/longhaul"));
        command.current_dir(&self.clone).env("XDG_STATE_HOME", self.folder.join("state"));
        // `count` compiles its own.
        command.env_remove("CARGO_TARGET_DIR");
        command
    }

    fn serve(&self, config: &str) -> Result<HttpServer> {
        self.reads(&format!("cargo run --release -- serve {config}"))?;
        HttpServer::run(|address| {
            let mut command = self.longhaul();
            command.args(["serve", config, "--no-page", "--http", &address.to_string()]);
            Ok(command)
        })
    }

    /// What `longhaul` with these arguments says on its standard output, if it exits so.
    fn says(&self, exits: i32, arguments: &[&str]) -> Result<String> {
        let mut command = self.longhaul();
        command.args(arguments).stdin(Stdio::null());
        println!("$ {}", shown(&command));
        let output = command.output().with_context(|| format!("cannot run {}", shown(&command)))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        print!("{said}");
        if output.status.code() != Some(exits) {
            bail!("{}, not {exits}: {}", output.status, String::from_utf8_lossy(&output.stderr));
        }
        Ok(said)
    }

    /// The id of the task that was called last.
    fn newest_task(&self) -> Result<String> {
        let said = self.says(0, &["tasks", "list", "--json"])?;
        let tasks: Value = serde_json::from_str(&said).context("`tasks list --json` is no JSON")?;
        let id = tasks["tasks"][0]["taskId"].as_str().context("no task was remembered")?;
        Ok(id.to_owned())
    }
}

/// The commands of the quickstart: a quick call, and one that is left and whose server is killed.
fn command(newcomer: &mut Newcomer<'_>) -> Result<()> {
    let mut server = newcomer.serve("examples/quickstart/longhaul.toml")?;
    let url = server.url();
    newcomer.reads("cargo run --release -- tools http://127.0.0.1:8420/mcp")?;
    ensure!(newcomer.says(0, &["tools", &url])?.contains("count"), "the tool is not listed");
    newcomer.reads("cargo run --release -- call http://127.0.0.1:8420/mcp count limit=500000000")?;
    newcomer.says(7, &["call", &url, "count", "limit=20000000", "--wait", "3s"])?;
    server.kill_alone()?;
    server.start_again()?;
    let task = newcomer.newest_task()?;
    newcomer.says(0, &["tasks", "wait", &task])?;
    let counted = newcomer.says(0, &["tasks", "result", &task])?;
    ensure!(counted.contains("1270607"), "there are 1270607 primes below 20000000");
    Ok(())
}

/// A server of somebody else, killed with the call that it was at.
fn existing_server(newcomer: &mut Newcomer<'_>) -> Result<()> {
    let mut server = newcomer.serve("examples/existing-server/longhaul.toml")?;
    let url = server.url();
    newcomer.reads("cargo run --release -- call http://127.0.0.1:8420/mcp index")?;
    newcomer.says(7, &["call", &url, "index", "--wait", "4s"])?;
    server.kill_alone()?;
    server.start_again()?;
    let task = newcomer.newest_task()?;
    newcomer.says(0, &["tasks", "wait", &task])?;
    Ok(())
}

/// The program of the README in a project of its own, killed between its question and the answer.
fn rust_tool(newcomer: &mut Newcomer<'_>) -> Result<()> {
    let project = newcomer.folder.join("orders");
    newcomer.reads("cargo new orders && cd orders")?;
    let mut new = newcomer.site.cargo(&["new", "--quiet"]);
    newcomer.site.must_run(new.arg(&project))?;
    for add in [
        "cargo add --path ../longhaul/crates/longhaul --features http,sqlite",
        "cargo add schemars serde tokio --features serde/derive,tokio/full",
    ] {
        newcomer.reads(add)?;
        let words: Vec<&str> = add.split(' ').skip(1).collect();
        newcomer.site.must_run(newcomer.site.cargo(&words).arg("--quiet").current_dir(&project))?;
    }
    let source = newcomer.source()?.to_owned();
    let program = newcomer.target.join("debug/orders");
    let mut build = |address: SocketAddr| {
        // Its own address may be somebody else's on this machine.
        fs::write(project.join("src/main.rs"), source.replace("127.0.0.1:8420", &address.to_string()))?;
        newcomer.compile(&project, &["build", "--quiet"])?;
        let mut command = Command::new(&program);
        command.current_dir(&project);
        Ok(command)
    };
    let mut server = HttpServer::run(&mut build)?;
    let url = server.url();
    newcomer.reads("longhaul call http://127.0.0.1:8420/mcp order amount=5 --no-input")?;
    newcomer.says(6, &["call", &url, "order", "amount=5", "--no-input"])?;
    server.kill_alone()?;
    server.start_again()?;
    let task = newcomer.newest_task()?;
    for line in ["answer order go=true", "wait order", "result order"] {
        newcomer.reads(&format!("longhaul tasks {line}"))?;
    }
    newcomer.says(0, &["tasks", "answer", &task, "go=true"])?;
    newcomer.says(0, &["tasks", "wait", &task])?;
    ensure!(newcomer.says(0, &["tasks", "result", &task])?.contains("charged 5"), "nothing was charged");
    Ok(())
}
