//! Real Redis servers, as an unprivileged user, in temporary folders and on Unix sockets there.

use std::{
    env,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use self::process::Process;
pub(crate) use self::process::{block_on, free_port};

#[path = "../networked/process.rs"]
mod process;

/// The one server that all tests share which do it no harm: a cluster of its own, so that whatever would not hold in a larger
/// one fails, and the log of which is never synced, for nobody takes its power away.
pub(crate) fn shared() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let server = Server::with(&["--cluster-enabled", "yes", "--appendfsync", "no"]);
        server.say(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
        until_so(|| server.ask(&["CLUSTER", "INFO"]).contains("cluster_state:ok"));
        server
    })
}

/// A server, which ends with its handle.
#[derive(Debug)]
pub(crate) struct Server {
    process: Process,
    settings: Vec<String>,
    /// Where it is spoken to over TLS, if it is.
    tls_port: u16,
    stores: AtomicU32,
}

impl Server {
    /// A server of one's own that syncs what it writes before it answers.
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// The same, otherwise set.
    pub(crate) fn with(settings: &[&str]) -> Self {
        let process = Process::in_folder("longhaul-redis-", "redis");
        let settings = settings.iter().map(|word| (*word).to_owned()).collect();
        let mut server = Self { process, settings, tls_port: 0, stores: AtomicU32::new(0) };
        server.launch();
        server
    }

    /// A server that is spoken to over TLS by whoever is not its test.
    pub(crate) fn over_tls() -> Self {
        let process = Process::in_folder("longhaul-redis-", "redis");
        process.certify();
        let port = free_port();
        let mut settings = vec!["--tls-port".to_owned(), port.to_string(), "--bind".to_owned()];
        settings.extend(
            ["127.0.0.1", "--tls-auth-clients", "no", "--tls-ca-cert-file", "ca.pem"].map(Into::into),
        );
        settings.extend(["--tls-cert-file", "server.pem", "--tls-key-file", "server.key"].map(Into::into));
        let mut server = Self { process, settings, tls_port: port, stores: AtomicU32::new(0) };
        server.launch();
        server
    }

    /// Whoever vouches for it.
    pub(crate) fn authority(&self) -> PathBuf {
        self.process.folder.join("ca.pem")
    }

    /// The URL of a store that holds nothing, at a host of this name that this authority vouches for.
    pub(crate) fn store_over_tls(&self, host: &str, authority: &Path) -> String {
        format!("rediss://{host}:{}?sslrootcert={}", self.tls_port, authority.display())
    }

    /// Starts the server in its folder and waits until it answers.
    pub(crate) fn launch(&mut self) {
        let at = self.socket();
        let socket = at.display().to_string();
        // Another that speaks its protocol, such as `valkey-server`.
        let program = env::var("LONGHAUL_REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
        let mut words =
            vec![program.as_str(), "--port", "0", "--unixsocket", &socket, "--unixsocketperm", "777"];
        words.extend(["--save", "", "--appendonly", "yes", "--appendfsync", "always", "--pidfile", "pid"]);
        words.extend(self.settings.iter().map(String::as_str));
        self.process.launch(GUARD, words, || try_ask(&at, &["PING"]).is_ok_and(|answer| answer == "+PONG"));
    }

    /// The URL of a store that holds nothing.
    pub(crate) fn store(&self) -> String {
        let number = self.stores.fetch_add(1, Ordering::Relaxed);
        format!("redis+unix://{}?name=t{number}", self.socket().display())
    }

    /// How many scripts it has run.
    pub(crate) fn writes(&self) -> u64 {
        self.calls("evalsha")
    }

    /// How often it was given a command.
    pub(crate) fn calls(&self, command: &str) -> u64 {
        let said = self.ask(&["INFO", "commandstats"]);
        let begins = format!("cmdstat_{command}:calls=");
        let calls = said.lines().find_map(|line| line.strip_prefix(&begins)?.split(',').next());
        calls.map_or(0, |calls| calls.parse().expect("it is a number"))
    }

    /// Kills the server.
    pub(crate) fn kill(&mut self) {
        self.process.end();
    }

    /// Says something to the server that it agrees to.
    pub(crate) fn say(&self, words: &[&str]) {
        let answer = self.ask(words);
        assert!(!answer.starts_with('-'), "{words:?}: {answer}");
    }

    /// Says something to the server, and gives its answer as it comes over the wire, up to the end of the first text.
    pub(crate) fn ask(&self, words: &[&str]) -> String {
        try_ask(&self.socket(), words).expect("the server answers")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.process.folder.join("socket")
    }
}

fn try_ask(socket: &Path, words: &[&str]) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    let mut command = format!("*{}\r\n", words.len());
    for word in words {
        command.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    stream.write_all(command.as_bytes())?;
    let (mut answer, mut line) = (BufReader::new(stream), String::new());
    answer.read_line(&mut line)?;
    if let Some(length) = line.strip_prefix('$').and_then(|digits| digits.trim().parse().ok()) {
        let mut text = vec![0; length];
        answer.read_exact(&mut text)?;
        line = String::from_utf8_lossy(&text).into_owned();
    }
    Ok(line.trim_end().to_owned())
}

/// Waits until it is so, on this thread.
pub(crate) fn until_so(mut is_so: impl FnMut() -> bool) {
    let patience = Instant::now() + LONGEST;
    while !is_so() {
        assert!(Instant::now() < patience, "it does not become so");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Runs the server until its input ends, or says that its folder, which is its own, is kept: then it is killed.
const GUARD: &str = r#"trap '' INT; exec 3<&0; "$@" </dev/null 3<&- & server=$!
    (read -r word <&3; kill -KILL $server; [ "$word" = keep ] || rm -rf "$PWD") & wait $server"#;

/// How long anything may take until it is so.
const LONGEST: Duration = Duration::from_secs(60);
