//! Real Redis servers, as an unprivileged user, in temporary folders and on Unix sockets there.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::{fs::chown, net::UnixStream},
    path::PathBuf,
    pin::pin,
    process::{Child, Command, Stdio},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

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

/// A server that ends with its handle, or with this process if that ends first, however it does.
#[derive(Debug)]
pub(crate) struct Server {
    folder: PathBuf,
    settings: Vec<String>,
    /// It waits for the end of its standard input, then ends the server.
    guard: Option<Child>,
    stores: AtomicU32,
}

impl Server {
    /// A server of one's own that syncs what it writes before it answers.
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// The same, otherwise set.
    pub(crate) fn with(settings: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("longhaul-redis-").tempdir();
        let folder = folder.expect("a temporary folder").keep();
        if let Some((user, group)) = unprivileged() {
            chown(&folder, Some(user), Some(group)).expect("the folder can be given away");
        }
        let settings = settings.iter().map(|word| (*word).to_owned()).collect();
        let mut server = Self { folder, settings, guard: None, stores: AtomicU32::new(0) };
        server.launch();
        server
    }

    /// Starts the server in its folder and waits until it answers.
    pub(crate) fn launch(&mut self) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.folder.join("log"));
        let mut guard = Command::new("sh");
        guard.arg("-c").arg(GUARD).arg("guard").args(prefix()).args(["redis-server", "--port", "0"]);
        guard.arg("--unixsocket").arg(self.socket()).args(["--unixsocketperm", "777", "--save", ""]);
        guard
            .args(["--appendonly", "yes", "--appendfsync", "always", "--pidfile", "pid"])
            .args(&self.settings);
        guard.current_dir(&self.folder).stdin(Stdio::piped()).stderr(Stdio::null());
        guard.stdout(log.expect("a log"));
        self.guard = Some(guard.spawn().expect("sh can be started"));
        let patience = Instant::now() + LONGEST_START;
        while !self.answers() {
            let said = || fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(Instant::now() < patience, "the server does not start: {}", said());
            let guard = self.guard.as_mut().expect("it was just started");
            if guard.try_wait().expect("its state is known").is_some() {
                panic!("no server starts; is it there (apt-get install -y redis-server)? {}", said());
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// The URL of a store that holds nothing.
    pub(crate) fn store(&self) -> String {
        let number = self.stores.fetch_add(1, Ordering::Relaxed);
        format!("redis+unix://{}?name=t{number}", self.socket().display())
    }

    /// Kills the server.
    pub(crate) fn kill(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            let mut words = guard.stdin.take().expect("it is written to once");
            words.write_all(b"keep\n").expect("the guard listens");
            drop(words);
            guard.wait().expect("the guard ends");
        }
    }

    /// Says something to the server that it agrees to.
    pub(crate) fn say(&self, words: &[&str]) {
        let answer = self.ask(words);
        assert!(!answer.starts_with('-'), "{words:?}: {answer}");
    }

    /// Says something to the server, and gives its answer as it comes over the wire, up to the end of the first text.
    pub(crate) fn ask(&self, words: &[&str]) -> String {
        self.try_ask(words).expect("the server answers")
    }

    fn try_ask(&self, words: &[&str]) -> std::io::Result<String> {
        let mut stream = UnixStream::connect(self.socket())?;
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

    fn answers(&self) -> bool {
        self.try_ask(&["PING"]).is_ok_and(|answer| answer == "+PONG")
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
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

/// Waits until it is so, on this thread.
pub(crate) fn until_so(mut is_so: impl FnMut() -> bool) {
    let patience = Instant::now() + LONGEST_START;
    while !is_so() {
        assert!(Instant::now() < patience, "it does not become so");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The same, while others go on.
pub(crate) async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let patience = Instant::now() + LONGEST_START;
    while !is_so().await {
        assert!(Instant::now() < patience, "it does not become so");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What makes a command one of somebody who may do little.
fn prefix() -> Vec<String> {
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
    Some(of("redis").or_else(|| of("nobody")).expect("somebody who may do little"))
}

/// Runs the server until its input ends, or says that its folder, which is its own, is kept: then it is killed.
const GUARD: &str = r#"trap '' INT; exec 3<&0; "$@" </dev/null 3<&- & server=$!
    (read -r word <&3; kill -KILL $server; [ "$word" = keep ] || rm -rf "$PWD") & wait $server"#;

/// How long a server may take until it answers, or anything else until it is so.
const LONGEST_START: Duration = Duration::from_secs(60);
