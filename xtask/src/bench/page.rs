//! The program's page: how long whoever looks waits for the list of tasks among many, and how one fares that follows much.

mod following;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::figures::Figures;
use super::goal::Goal;
use super::load::pinned;
use super::report::Report;
use super::server::PROCESSOR;
use crate::site::{Site, kill_tree, shown};

/// How many tasks there are.
const TASKS: u32 = 100_000;

/// How many pages behind the first one is looked at, too.
const FAR: usize = 300;

/// How often each is asked for, a round, and before that.
const LOOKS: usize = 200;
const WARM_UP: usize = 20;

/// Between two looks: nobody may ask more than 200 times a second for long.
const PAUSE: Duration = Duration::from_millis(6);

/// In milliseconds: what still feels like at once.
const GOAL: Goal = Goal::AlwaysUnder(100.0);

pub(super) fn run(site: &Site, rounds: usize, report: &mut Report) -> Result<()> {
    let node = following::set_up(site)?;
    let mut build = site.cargo(&["build", "--release", "--locked", "--quiet"]);
    build.args(["-p", "longhaul-cli", "--bin", "longhaul"]);
    site.must_run(&mut build)?;
    let mut build = site.cargo(&["build", "--release", "--locked", "--quiet"]);
    build.args(["-p", "longhaul-bench", "--bin", "bench-fill"]);
    site.must_run(&mut build)?;
    let (programs, folder) = (site.target.join("release"), site.target.join("bench-page"));
    if folder.exists() {
        fs::remove_dir_all(&folder).context("cannot empty the folder of the store")?;
    }
    fs::create_dir_all(&folder).context("cannot make a folder for the store")?;
    site.must_run(
        Command::new(programs.join("bench-fill")).arg(folder.join("tasks.db")).arg(TASKS.to_string()),
    )?;
    let visitor = Visitor::of(&programs.join("longhaul"), &folder)?;
    let far = visitor.far()?;
    let looks = [
        ("the newest hundred", "/".to_owned()),
        ("the same as JSON", "/admin/api/tasks".to_owned()),
        ("a page far behind", far),
        ("one crate, failed", "/?q=crate-13&status=failed".to_owned()),
        ("words that nothing has", "/?q=nothing-has-these".to_owned()),
    ];
    let mut rows = Vec::new();
    for (what, path) in &looks {
        let [mut median, mut slow, mut bytes] = [(); 3].map(|()| Figures::default());
        for _ in 0..rounds {
            for _ in 0..WARM_UP {
                visitor.get(path)?;
            }
            let mut took = Vec::with_capacity(LOOKS);
            for _ in 0..LOOKS {
                let (page, time) = visitor.get(path)?;
                took.push(time.as_secs_f64() * 1e3);
                bytes.push(page.len() as f64 / 1024.0);
            }
            took.sort_by(f64::total_cmp);
            median.push(took[LOOKS / 2]);
            slow.push(took[LOOKS * 99 / 100]);
        }
        rows.push([(*what).to_owned(), median.to_string(), slow.to_string(), bytes.to_string()]);
        report.judge(GOAL, &format!("{what} among {TASKS}, p99 in ms"), &slow);
    }
    report.table(["", "p50 ms", "p99 ms", "kB"], &rows);
    drop(visitor);
    fs::remove_dir_all(&folder).context("cannot remove the store")?;
    following::run(site, &node, rounds, report)
}

/// Whoever looks at the pages of a server that lives as long as this.
struct Visitor {
    child: Child,
    address: String,
    cookie: String,
}

impl Visitor {
    /// Starts the program over the store in a folder, and opens its pages.
    fn of(program: &Path, folder: &Path) -> Result<Self> {
        let tool = "[tools.test]\ndescription = \"Run the tests\"\ncommand = [\"true\"]\n";
        fs::write(folder.join("longhaul.toml"), tool).context("cannot write a configuration")?;
        let mut command = pinned(PROCESSOR, program);
        command.args(["serve", "--http", "127.0.0.1:0", "--store", "sqlite:tasks.db"]).current_dir(folder);
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot run {}", shown(&command)))?;
        let mut lines = BufReader::new(child.stderr.take().context("a piped stderr")?).lines();
        let mut visitor = Self { child, address: String::new(), cookie: String::new() };
        let mut key = None;
        for line in lines.by_ref() {
            let line = line.context("the server says nothing more")?;
            if let Some((_, link)) = line.split_once("http://").filter(|(_, link)| link.contains("/?key=")) {
                let (address, path) = link.split_once('/').context("a link to the page")?;
                address.clone_into(&mut visitor.address);
                key = path.split_whitespace().next().map(|path| format!("/{path}"));
            }
            if line.starts_with("ready") {
                break;
            }
        }
        // Whoever is not read from any more must not wait to be.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let entered = visitor.ask(&key.context("the server says no link to its page")?)?;
        let cookie =
            entered.lines().find_map(|line| line.strip_prefix("set-cookie: ")).context("no cookie")?;
        cookie.split(';').next().unwrap_or_default().clone_into(&mut visitor.cookie);
        Ok(visitor)
    }

    /// What is answered, head and all.
    fn ask(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(&self.address).context("cannot reach the server")?;
        let Self { address, cookie, .. } = self;
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// A page that there is, and how long it took.
    fn get(&self, path: &str) -> Result<(String, Duration)> {
        std::thread::sleep(PAUSE);
        let begun = Instant::now();
        let answer = self.ask(path)?;
        let took = begun.elapsed();
        let (head, page) = answer.split_once("\r\n\r\n").context("no answer of HTTP")?;
        ensure!(head.starts_with("HTTP/1.1 200 "), "{path}: {head}");
        Ok((page.to_owned(), took))
    }

    /// The path of a page far behind the first.
    fn far(&self) -> Result<String> {
        let mut path = "/".to_owned();
        for _ in 0..FAR {
            let (page, _) = self.get(&path)?;
            let Some((_, link)) = page.split_once("class=\"more\"") else { bail!("{path} is the last page") };
            let place = link.split("href=\"").nth(1).and_then(|rest| rest.split('"').next());
            path = place.context("no link to older tasks")?.replace("&amp;", "&");
        }
        Ok(path)
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        kill_tree(&mut self.child);
    }
}
