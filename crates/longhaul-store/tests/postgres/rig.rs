//! Real PostgreSQL servers, as an unprivileged user, in temporary folders and on Unix sockets there.

use std::{
    fs,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use longhaul_store::Postgres;
use rustix::process::{Pid, Signal, kill_process};
use tokio_postgres::SimpleQueryMessage;

pub(crate) use self::process::block_on;
use self::process::{Process, free_port};

#[path = "../networked/process.rs"]
pub(crate) mod process;

/// The one server that all tests share which do it no harm.
pub(crate) fn shared() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(Server::start)
}

/// A server, which ends with its handle.
#[derive(Debug)]
pub(crate) struct Server {
    process: Process,
    bin: PathBuf,
    settings: Vec<String>,
    port: u16,
    databases: AtomicU32,
    /// Databases that somebody has done with.
    used: Mutex<Vec<String>>,
}

impl Server {
    /// A server of one's own, with a database of which others are copied that has the format of this release.
    pub(crate) fn start() -> Self {
        Self::start_with([])
    }

    /// The same, with settings that it starts with.
    pub(crate) fn start_with<const N: usize>(settings: [&str; N]) -> Self {
        let mut server = Self::new();
        server.settings.extend(settings.map(str::to_owned));
        server.made()
    }

    /// The same, which is spoken to over TLS by whoever is not its test.
    pub(crate) fn over_tls() -> Self {
        let mut server = Self::new();
        server.process.certify();
        server.port = free_port();
        let file = |name: &str| server.process.folder.join(name).display().to_string();
        let (certificate, key) = (file("server.pem"), file("server.key"));
        server.settings = vec!["listen_addresses=127.0.0.1".to_owned(), "ssl=on".to_owned()];
        server.settings.extend([format!("ssl_cert_file={certificate}"), format!("ssl_key_file={key}")]);
        server.made()
    }

    fn new() -> Self {
        // It refuses to run as root.
        let process = Process::in_folder("longhaul-pg-", "postgres");
        let (bin, settings) = (bin(), vec!["listen_addresses=".to_owned()]);
        Self { process, bin, settings, port: 5432, databases: AtomicU32::new(0), used: Mutex::default() }
    }

    fn made(mut self) -> Self {
        self.make(
            "initdb",
            &[
                "--no-sync",
                "--no-instructions",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "--username=tester",
                "--pgdata",
            ],
        );
        self.launch();
        self.admin("CREATE DATABASE made");
        drop(block_on(Postgres::open(&self.url("made"))).expect("a database can be given its format"));
        self
    }

    /// Whoever vouches for it.
    pub(crate) fn authority(&self) -> PathBuf {
        self.process.folder.join("ca.pem")
    }

    /// The URL of the one store that is spoken to over TLS, at a host of this name that this authority vouches for.
    pub(crate) fn store_over_tls(&self, host: &str, authority: &Path) -> String {
        let roots = authority.display();
        format!("postgres://tester@{host}:{}/made?sslmode=verify-full&sslrootcert={roots}", self.port)
    }

    /// A standby of this one, which follows it.
    pub(crate) fn standby(&self) -> Self {
        let mut server = Self::new();
        server.make(
            "pg_basebackup",
            &[
                "--no-sync",
                "--checkpoint=fast",
                "--write-recovery-conf",
                "--username=tester",
                "--host",
                &self.process.folder.display().to_string(),
                "--pgdata",
            ],
        );
        server.launch();
        server
    }

    /// Has a program make its data.
    fn make(&self, program: &str, arguments: &[&str]) {
        let mut words = self.process.prefix();
        words.push(self.bin.join(program).display().to_string());
        let mut making = Command::new(&words[0]);
        making.args(&words[1..]).args(arguments).arg(self.data()).current_dir(&self.process.folder);
        let made = making.stdin(Stdio::null()).output().expect("it can be started");
        assert!(made.status.success(), "{program}: {}", String::from_utf8_lossy(&made.stderr));
    }

    /// Starts the server in its folder and waits until it answers.
    pub(crate) fn launch(&mut self) {
        let text = |path: &Path| path.display().to_string();
        let (folder, data) = (text(&self.process.folder), text(&self.data()));
        let (program, probe) = (text(&self.bin.join("postgres")), self.bin.join("pg_isready"));
        let mut words = vec![program.as_str(), "-D", &data, "-k", &folder];
        let port = self.port.to_string();
        let settings = ["max_connections=300", "shared_buffers=32MB", "unix_socket_permissions=0777"];
        words.extend(
            settings.into_iter().chain(self.settings.iter().map(String::as_str)).flat_map(|set| ["-c", set]),
        );
        words.extend(["-p", &port]);
        let answers = || {
            let mut probe = Command::new(&probe);
            probe.args(["-q", "-h", &folder, "-p", &port]).stdout(Stdio::null()).stderr(Stdio::null());
            probe.status().is_ok_and(|status| status.success())
        };
        self.process.launch(GUARD, words, answers);
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
        query(&url, END);
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
        format!("postgres://tester@{}:{}/{database}", self.host(), self.port)
    }

    /// Where its socket is.
    pub(crate) fn folder(&self) -> &Path {
        &self.process.folder
    }

    /// Where it is, as a URL says that.
    pub(crate) fn host(&self) -> String {
        self.process.folder.display().to_string().replace('/', "%2F")
    }

    /// How many transactions have written anything.
    pub(crate) fn writes(&self) -> u64 {
        let said = run(&self.url("postgres"), "SELECT pg_current_xact_id()").expect("the statement runs");
        said.first().and_then(|number| number.parse().ok()).expect("it numbers transactions")
    }

    /// Kills the server and all that belongs to it, as a loss of power to its machine would.
    pub(crate) fn kill(&mut self) {
        kill_process(self.postmaster(), Signal::KILL).expect("the server can be killed");
        self.process.end();
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

    fn data(&self) -> PathBuf {
        self.process.folder.join("data")
    }
}

/// Has more tasks that are as this one is, called by a name and their numbers.
pub(crate) fn multiply(url: &str, task: &str, name: &str, numbers: RangeInclusive<u64>) {
    let (first, last) = numbers.into_inner();
    query(
        url,
        &format!(
            "INSERT INTO longhaul.tasks SELECT another.* FROM longhaul.tasks t, generate_series({first}, {last}) n, \
             LATERAL jsonb_populate_record(t, jsonb_build_object('ord', nextval('longhaul.seq'), 'nth', n, 'id', '{name}' || n)) another \
             WHERE t.id = '{task}'"
        ),
    );
}

/// Runs statements whose answers nobody needs.
pub(crate) fn query(url: &str, sql: &str) {
    let _answers = run(url, sql).expect("the statement runs");
}

/// Whether the statements run.
pub(crate) fn try_query(url: &str, sql: &str) -> bool {
    run(url, sql).is_ok()
}

/// A session of somebody else's, which lasts as long as its handle.
pub(crate) async fn session(url: &str) -> tokio_postgres::Client {
    let (client, connection) =
        tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("it connects");
    tokio::spawn(connection);
    client
}

/// Runs statements, and gives what stands first in each row of their answers.
pub(crate) fn run(url: &str, sql: &str) -> Result<Vec<String>, tokio_postgres::Error> {
    let (url, sql) = (url.to_owned(), sql.to_owned());
    let ran = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
            let driven = tokio::spawn(connection);
            let ran = client.simple_query(&sql).await;
            drop(client);
            let _ended = driven.await;
            let first = |message| match message {
                SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            };
            Ok(ran?.into_iter().filter_map(first).collect())
        })
    });
    ran.join().expect("it does not panic")
}

/// The newest of the versions that Debian's packages have installed.
fn bin() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").map(|found| found.flatten().collect::<Vec<_>>());
    let number = |path: &Path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
    let newest = versions.unwrap_or_default().into_iter().map(|entry| entry.path());
    let newest = newest.filter(|path| path.join("bin/postgres").exists()).max_by_key(|path| number(path));
    newest.expect("PostgreSQL is there: apt-get install -y postgresql").join("bin")
}

/// Runs the server until its input ends, or says that its folder, which is its own, is kept.
const GUARD: &str = r#"trap '' INT; "$@" & server=$!; read -r word
    kill -QUIT $server; wait $server; [ "$word" = keep ] || rm -rf "$PWD""#;

/// Ends whatever still goes on in a database.
const END: &str = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity \
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";

/// Empties a database in which nothing goes on.
pub(crate) const EMPTY: &str = "DELETE FROM longhaul.tasks; DELETE FROM longhaul.steps; DELETE FROM longhaul.parts; DELETE FROM longhaul.streams; \
    DELETE FROM longhaul.events; DELETE FROM longhaul.entries; DELETE FROM longhaul.accounts; DELETE FROM longhaul.nodes; \
    UPDATE longhaul.totals SET open = 0, retained = 0, event_bytes = 0, entries = 0; UPDATE longhaul.store SET time = 0";
