//! Real PostgreSQL servers, as an unprivileged user, in temporary folders and on Unix sockets there.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    pin::pin,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use longhaul_store::Postgres;
use rustix::process::{Pid, Signal, kill_process};

/// The one server that all tests share which do it no harm.
pub(crate) fn shared() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(Server::start)
}

/// A server that ends with its handle, or with this process if that ends first, however it does.
#[derive(Debug)]
pub(crate) struct Server {
    folder: PathBuf,
    bin: PathBuf,
    /// It waits for the end of its standard input, then ends the server.
    guard: Option<Child>,
    databases: AtomicU32,
    /// Databases that somebody has done with.
    used: Mutex<Vec<String>>,
}

impl Server {
    /// A server of one's own, with a database of which others are copied that has the format of this release.
    pub(crate) fn start() -> Self {
        let folder =
            tempfile::Builder::new().prefix("longhaul-pg-").tempdir().expect("a temporary folder").keep();
        let mut server =
            Self { folder, bin: bin(), guard: None, databases: AtomicU32::new(0), used: Mutex::default() };
        if let Some((user, group)) = unprivileged() {
            chown(&server.folder, Some(user), Some(group)).expect("the folder can be given away");
        }
        let mut made = server.command("initdb");
        made.args(["--no-sync", "--no-instructions", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
        made.args(["--username=tester", "--pgdata"]).arg(server.data());
        let made = made.stdin(Stdio::null()).output().expect("initdb can be started");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        server.launch();
        server.admin("CREATE DATABASE made");
        drop(block_on(Postgres::open(&server.url("made"))).expect("a database can be given its format"));
        server
    }

    /// Starts the server in its folder and waits until it answers.
    pub(crate) fn launch(&mut self) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.folder.join("log"));
        let mut guard = Command::new("sh");
        guard.arg("-c").arg(GUARD);
        guard.arg("guard").args(self.prefix()).arg(self.bin.join("postgres")).arg("-D").arg(self.data());
        guard.arg("-k").arg(&self.folder).args(["-c", "listen_addresses=", "-c", "max_connections=300"]);
        guard.args(["-c", "shared_buffers=32MB", "-c", "unix_socket_permissions=0777"]);
        guard
            .current_dir(&self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log.expect("a log"));
        self.guard = Some(guard.spawn().expect("sh can be started"));
        let patience = Instant::now() + LONGEST_START;
        while !self.answers() {
            let said = || fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(Instant::now() < patience, "the server does not start: {}", said());
            let guard = self.guard.as_mut().expect("it was just started");
            if guard.try_wait().expect("its state is known").is_some() {
                panic!("the server's guard has ended: {}", said());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// A database of one's own, which is a store already.
    pub(crate) fn database(&self) -> String {
        let name = format!("t{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.admin(&format!("CREATE DATABASE {name} TEMPLATE made"));
        self.url(&name)
    }

    /// The same, perhaps one that somebody has [done with](Self::give_back): to make one takes longer than to empty it.
    pub(crate) fn emptied_database(&self) -> String {
        let used = self.used.lock().unwrap().pop();
        let Some(url) = used else { return self.database() };
        query(&url, EMPTY);
        url
    }

    /// Has somebody else use a database.
    pub(crate) fn give_back(&self, url: String) {
        self.used.lock().unwrap().push(url);
    }

    /// A database with nothing in it.
    pub(crate) fn empty_database(&self) -> String {
        let name = format!("t{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.admin(&format!("CREATE DATABASE {name}"));
        self.url(&name)
    }

    pub(crate) fn url(&self, database: &str) -> String {
        let folder = self.folder.display().to_string().replace('/', "%2F");
        format!("postgres://tester@{folder}/{database}")
    }

    /// Kills the server and all that belongs to it, as a loss of power to its machine would.
    pub(crate) fn kill(&mut self) {
        kill_process(self.postmaster(), Signal::KILL).expect("the server can be killed");
        if let Some(mut guard) = self.guard.take() {
            let mut words = guard.stdin.take().expect("it is written to once");
            words.write_all(b"keep\n").expect("the guard listens");
            drop(words);
            guard.wait().expect("the guard ends");
        }
    }

    fn postmaster(&self) -> Pid {
        let found = fs::read_to_string(self.data().join("postmaster.pid")).expect("it runs");
        let pid = found.lines().next().and_then(|pid| pid.trim().parse().ok()).and_then(Pid::from_raw);
        pid.expect("its process is known")
    }

    /// Does something as the one who may do everything.
    pub(crate) fn admin(&self, sql: &str) {
        query(&self.url("postgres"), sql);
    }

    fn answers(&self) -> bool {
        let mut probe = Command::new(self.bin.join("pg_isready"));
        probe.arg("-q").arg("-h").arg(&self.folder).stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// What makes a command one of somebody who may do little: PostgreSQL refuses to run as root.
    fn prefix(&self) -> Vec<String> {
        match unprivileged() {
            Some((user, group)) => [
                "setpriv".to_owned(),
                format!("--reuid={user}"),
                format!("--regid={group}"),
                "--clear-groups".to_owned(),
            ]
            .into(),
            None => Vec::new(),
        }
    }

    fn command(&self, program: &str) -> Command {
        let mut words = self.prefix();
        words.push(self.bin.join(program).display().to_string());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(&self.folder);
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            drop(guard.stdin.take());
            let _ended = guard.wait();
        }
        let _cleared = fs::remove_dir_all(&self.folder);
    }
}

/// Runs statements whose answers nobody needs.
pub(crate) fn query(url: &str, sql: &str) {
    run(url, sql).expect("the statement runs");
}

/// Whether the statements run.
pub(crate) fn try_query(url: &str, sql: &str) -> bool {
    run(url, sql).is_ok()
}

fn run(url: &str, sql: &str) -> Result<(), tokio_postgres::Error> {
    let (url, sql) = (url.to_owned(), sql.to_owned());
    let ran = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
            let driven = tokio::spawn(connection);
            let ran = client.batch_execute(&sql).await;
            drop(client);
            let _ended = driven.await;
            ran
        })
    });
    ran.join().expect("it does not panic")
}

/// Runs a future to its end on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// The newest of the versions that Debian's packages have installed.
fn bin() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").map(|found| found.flatten().collect::<Vec<_>>());
    let number = |path: &Path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
    let newest = versions.unwrap_or_default().into_iter().map(|entry| entry.path());
    let newest = newest.filter(|path| path.join("bin/postgres").exists()).max_by_key(|path| number(path));
    newest.expect("PostgreSQL is there: apt-get install -y postgresql").join("bin")
}

/// As whom servers run, if this is root: the user that the package has made, or nobody.
fn unprivileged() -> Option<(u32, u32)> {
    let id = |arguments: &[&str]| {
        let output =
            Command::new("id").args(arguments).output().ok().filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok()?.trim().parse::<u32>().ok()
    };
    if id(&["-u"]) != Some(0) {
        return None;
    }
    let of = |name| Some((id(&["-u", name])?, id(&["-g", name])?));
    Some(of("postgres").or_else(|| of("nobody")).expect("somebody who may do little"))
}

/// Runs the server until its input ends, or says that its folder, which is its own, is kept.
const GUARD: &str = r#"trap '' INT; "$@" & server=$!; read -r word
    kill -QUIT $server; wait $server; [ "$word" = keep ] || rm -rf "$PWD""#;

/// Ends whatever still goes on in a database and empties it.
const EMPTY: &str = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity \
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'; \
    DELETE FROM longhaul.tasks; DELETE FROM longhaul.steps; DELETE FROM longhaul.parts; DELETE FROM longhaul.streams; \
    DELETE FROM longhaul.events; DELETE FROM longhaul.entries; DELETE FROM longhaul.accounts; DELETE FROM longhaul.nodes; \
    UPDATE longhaul.totals SET open = 0, retained = 0, event_bytes = 0, entries = 0; UPDATE longhaul.store SET time = 0";

/// How long a server may take until it answers.
const LONGEST_START: Duration = Duration::from_secs(60);
