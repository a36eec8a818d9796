//! A real PgBouncer before the shared server, as its documentation and ours say: each transaction goes over another connection.

use std::{
    fs,
    os::unix::net::UnixStream,
    sync::{Mutex, OnceLock},
    thread,
    time::{Duration, Instant},
};

use crate::rig::{EMPTY, process::Process, query, shared, try_query};

/// The one pooler that all tests share.
pub(crate) fn pooler() -> &'static Pooler {
    static POOLER: OnceLock<Pooler> = OnceLock::new();
    POOLER.get_or_init(Pooler::start)
}

/// A pooler, which ends with this process.
#[derive(Debug)]
pub(crate) struct Pooler {
    process: Process,
    /// Databases that somebody has done with, as they are reached without it.
    used: Mutex<Vec<String>>,
}

impl Pooler {
    fn start() -> Self {
        let mut process = Process::in_folder("longhaul-pgbouncer-", "postgres");
        let folder = process.folder.display().to_string();
        let file = process.folder.join("pgbouncer.ini");
        let settings = SETTINGS.replace("SERVER", &shared().folder().display().to_string());
        fs::write(&file, settings.replace("FOLDER", &folder)).expect("the folder takes a file");
        let socket = process.folder.join(format!(".s.PGSQL.{PORT}"));
        let words = ["/usr/sbin/pgbouncer", "-q", &file.display().to_string()].map(str::to_owned);
        process.launch(GUARD, words.iter().map(String::as_str), || UnixStream::connect(&socket).is_ok());
        Self { process, used: Mutex::default() }
    }

    /// A database of one's own, which is an empty store: its URL there, and without the pooler.
    pub(crate) fn database(&self) -> (String, String) {
        let used = self.used.lock().unwrap().pop();
        let url = used.unwrap_or_else(|| shared().database());
        // Its connections stay open, for whoever comes next.
        let patience = Instant::now() + Duration::from_secs(60);
        while !try_query(&url, QUIET) {
            assert!(Instant::now() < patience, "something goes on in {url}");
            thread::sleep(Duration::from_millis(10));
        }
        query(&url, EMPTY);
        let (host, name) = (self.process.folder.display().to_string(), url.rsplit('/').next().unwrap());
        let host = host.replace('/', "%2F");
        (format!("postgres://tester@{host}:{PORT}/{name}?pooler=true"), url)
    }

    /// Has somebody else use a database, on which nothing that a session keeps may have been left behind.
    pub(crate) fn give_back(&self, url: String) {
        assert!(try_query(&url, UNHELD), "a session of the pooler holds a lock of somebody");
        self.used.lock().unwrap().push(url);
    }
}

const PORT: u16 = 6432;

/// Of several connections each transaction is given the next, and none is cleared of what the one before has left on it.
const SETTINGS: &str = "[databases]
* = host=SERVER port=5432 user=tester

[pgbouncer]
pool_mode = transaction
listen_port = 6432
unix_socket_dir = FOLDER
unix_socket_mode = 0777
auth_type = any
default_pool_size = 3
min_pool_size = 2
server_round_robin = 1
max_client_conn = 500
";

/// Runs the pooler until its input ends.
const GUARD: &str = r#"trap '' INT; "$@" & server=$!; read -r word
    kill -KILL $server; wait $server; [ "$word" = keep ] || rm -rf "$PWD""#;

/// Fails while anything is done in this database.
const QUIET: &str = "SELECT 1 / (count(*) = 0)::int FROM pg_stat_activity \
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'";

/// Fails where a session holds a lock as a node does that lives.
const UNHELD: &str = "SELECT 1 / (count(*) = 0)::int FROM pg_locks WHERE locktype = 'advisory' \
    AND mode = 'ExclusiveLock' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
