//! Tasks in Redis, beside FastMCP's with Docket in the same one: from create to result, asked after, and after a kill. And
//! what asking takes by itself: a bare handler that reads a hash and answers.

mod caller;

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use self::caller::{Caller, each};
use super::figures::Figures;
use super::goal::Goal;
use super::programs::Launch;
use super::report::Report;
use super::server::{Server, cpu_of};
use crate::interop;
use crate::site::{Site, kill_tree};
use crate::tools::{Python, system};

/// Who calls at once.
const CLIENTS: usize = 8;

/// How many tasks each of them makes and sees to their end, and how often each asks after one that has ended, of a server of ours and
/// of theirs: as many as take some seconds.
const OURS: (u32, u32) = (1_000, 4_000);
const THEIRS: (u32, u32) = (100, 200);

/// How long a task that is interrupted works, and how long it is waited for after its server was killed.
const INTERRUPTED: f64 = 0.5;
const PATIENCE: Duration = Duration::from_secs(30);

/// What was found of a server.
#[derive(Debug, Default)]
struct Found {
    tasks: Figures,
    task_cpu: Figures,
    task_redis: Figures,
    polls: Figures,
    poll_cpu: Figures,
    /// Seconds from the kill to the result, without the work itself; those of the patience if there was none.
    recovery: Figures,
}

pub(super) fn run(site: &Site, rounds: usize, report: &mut Report) -> Result<()> {
    system::require(site, &system::REDIS)?;
    let build = ["build", "--release", "--locked", "--quiet", "-p", "longhaul-bench-stores"];
    site.must_run(site.cargo(&build).args(["--bin", "bench-tasks", "--bin", "bench-bare-gets"]))?;
    let python = Python::with(site, "interop-python", interop::PYTHON_PACKAGES)?;
    let [mut ours, mut theirs, mut bare] = [(); 3].map(|()| Found::default());
    for _ in 0..rounds {
        let redis = Redis::start(site)?;
        let own: Launch = site.target.join("release/bench-tasks").into();
        measure(&own.with(format!("{}?name=bench", redis.url())), OURS, &redis, &mut ours)?;
        let handler: Launch = site.target.join("release/bench-bare-gets").into();
        let server = Server::start(&handler.with(redis.url()))?;
        ask_after(&server, OURS.1, &mut bare)?;
        drop(server);
        let set = format!("FASTMCP_DOCKET_URL={}", redis.url());
        let script = python.script(site, "benches/compare/docket_server.py");
        let words = std::iter::once(script.get_program()).chain(script.get_args());
        let their = words
            .fold(Launch::from(std::path::PathBuf::from("env")).with(set), |launch, word| launch.with(word));
        measure(&their, THEIRS, &redis, &mut theirs)?;
    }
    let row = |who: &str, found: &Found| {
        let Found { tasks, task_cpu, task_redis, polls, poll_cpu, recovery } = found;
        let figures = [tasks, task_cpu, task_redis, polls, poll_cpu, recovery].map(ToString::to_string);
        let [a, b, c, d, e, f] = figures;
        [who.to_owned(), a, b, c, d, e, f]
    };
    report.table(
        ["", "tasks/s", "CPU us/task", "Redis us/task", "tasks/get a s", "CPU us/get", "s after SIGKILL"],
        &[row("FastMCP with Docket", &theirs), row("longhaul", &ours), row("one HMGET behind axum", &bare)],
    );
    report.ratio("tasks a second, longhaul's over Docket's", &ours.tasks.over(&theirs.tasks));
    report.judge(
        Goal::AtLeast(20.0),
        "CPU a task, Docket's over longhaul's",
        &theirs.task_cpu.over(&ours.task_cpu),
    );
    report.judge(
        Goal::AtLeast(100.0),
        "CPU a tasks/get, Docket's over longhaul's",
        &theirs.poll_cpu.over(&ours.poll_cpu),
    );
    report.ratio("CPU a tasks/get, longhaul's over the bare handler's", &ours.poll_cpu.over(&bare.poll_cpu));
    report.judge(
        Goal::AlwaysUnder(2.0),
        "seconds from SIGKILL to the result, the work's own left out",
        &ours.recovery,
    );
    report.remark(&format!(
        "a task that was not there {} s after the kill is given up; Docket hands on what a dead worker had after 300 s by default",
        PATIENCE.as_secs()
    ));
    Ok(())
}

fn measure(launch: &Launch, (tasks, polls): (u32, u32), redis: &Redis, found: &mut Found) -> Result<()> {
    let server = Server::start(launch)?;
    // Whatever is made once is made before.
    each(CLIENTS, server.url(), |caller| caller.see_through(0.0).map(drop))?;
    let (cpu, database, began) = (server.cpu()?, redis.cpu()?, Instant::now());
    each(CLIENTS, server.url(), |caller| {
        for _ in 0..tasks {
            caller.see_through(0.0)?;
        }
        Ok(())
    })?;
    let (took, many) = (began.elapsed().as_secs_f64(), f64::from(tasks) * CLIENTS as f64);
    found.tasks.push(many / took);
    found.task_cpu.push((server.cpu()? - cpu) / many * 1e6);
    found.task_redis.push((redis.cpu()? - database) / many * 1e6);

    ask_after(&server, polls, found)?;
    found.recovery.push(recover(launch, server)?);
    Ok(())
}

/// Asks after tasks that have ended.
fn ask_after(server: &Server, polls: u32, found: &mut Found) -> Result<()> {
    let (cpu, began) = (server.cpu()?, Instant::now());
    each(CLIENTS, server.url(), |caller| {
        let id = caller.see_through(0.0)?;
        for _ in 0..polls {
            caller.status(&id)?;
        }
        Ok(())
    })?;
    let (took, many) = (began.elapsed().as_secs_f64(), f64::from(polls) * CLIENTS as f64);
    found.polls.push(many / took);
    found.poll_cpu.push((server.cpu()? - cpu) / many * 1e6);
    Ok(())
}

/// Kills a server at work, starts another, and says how long after the kill the task had its result, the work itself left out.
fn recover(launch: &Launch, server: Server) -> Result<f64> {
    let id = Caller::of(server.url())?.create(INTERRUPTED)?;
    // It is at work by now.
    std::thread::sleep(Duration::from_secs_f64(INTERRUPTED / 2.0));
    let killed = Instant::now();
    drop(server);
    let server = Server::start(launch)?;
    let mut caller = Caller::of(server.url())?;
    while killed.elapsed() < PATIENCE {
        if caller.status(&id)? == "completed" {
            return Ok((killed.elapsed().as_secs_f64() - INTERRUPTED).max(0.0));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(PATIENCE.as_secs_f64())
}

/// A Redis that keeps a log on disk, as both servers advise.
#[derive(Debug)]
struct Redis {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Redis {
    fn start(site: &Site) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("bench-redis-").tempdir_in(&site.target)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new(system::REDIS.name);
        command.args([
            "--bind",
            "127.0.0.1",
            "--port",
            &port.to_string(),
            "--save",
            "",
            "--appendonly",
            "yes",
        ]);
        command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
        let redis =
            Self { child: command.spawn().context("redis-server cannot be started")?, port, _folder: folder };
        let patience = Instant::now() + PATIENCE;
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            if Instant::now() > patience {
                bail!("redis-server does not listen");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(redis)
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    fn cpu(&self) -> Result<f64> {
        cpu_of(self.child.id())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        kill_tree(&mut self.child);
    }
}
