//! Real Redis servers, as an unprivileged user, in temporary folders and on Unix sockets there.

use std::{
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
pub(crate) use self::process::block_on;

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
        let mut server = Self { process, settings, stores: AtomicU32::new(0) };
        server.launch();
        server
    }

    /// Starts the server in its folder and waits until it answers.
    pub(crate) fn launch(&mut self) {
        let at = self.socket();
        let socket = at.display().to_string();
        let mut words =
            vec!["redis-server", "--port", "0", "--unixsocket", &socket, "--unixsocketperm", "777"];
        words.extend(["--save", "", "--appendonly", "yes", "--appendfsync", "always", "--pidfile", "pid"]);
        words.extend(self.settings.iter().map(String::as_str));
        self.process.launch(GUARD, words, || try_ask(&at, &["PING"]).is_ok_and(|answer| answer == "+PONG"));
    }

    /// The URL of a store that holds nothing.
    pub(crate) fn store(&self) -> String {
        let number = self.stores.fetch_add(1, Ordering::Relaxed);
        format!("redis+unix://{}?name=t{number}", self.socket().display())
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

    fn socket(&self) -> PathBuf {
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
