//! Servers as processes of tests: of somebody who may do little, in temporary folders, and none outlives its test.

use std::{
    fs,
    io::Write as _,
    net::TcpListener,
    os::unix::fs::chown,
    path::PathBuf,
    pin::pin,
    process::{Child, Command, Stdio},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

/// A server that ends with its handle, or with this process if that ends first, however it does.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) folder: PathBuf,
    /// As whom it runs, if this is root.
    user: Option<(u32, u32)>,
    /// It waits for the end of its standard input, then ends the server.
    guard: Option<Child>,
}

impl Process {
    /// The folder of one that is to run as the user of this name, or as nobody.
    pub(crate) fn in_folder(prefix: &str, user: &str) -> Self {
        let folder = tempfile::Builder::new().prefix(prefix).tempdir().expect("a temporary folder").keep();
        let user = unprivileged(user);
        if let Some((user, group)) = user {
            chown(&folder, Some(user), Some(group)).expect("the folder can be given away");
        }
        Self { folder, user, guard: None }
    }

    /// What makes a command one of somebody who may do little: words that go before it.
    pub(crate) fn prefix(&self) -> Vec<String> {
        let Some((user, group)) = self.user else { return Vec::new() };
        let [user, group] = [format!("--reuid={user}"), format!("--regid={group}")];
        vec!["setpriv".to_owned(), user, group, "--clear-groups".to_owned()]
    }

    /// Makes a certificate of `localhost` in the folder, the server's own, and `ca.pem` of who vouches for it.
    pub(crate) fn certify(&self) {
        fs::write(self.folder.join("openssl.cnf"), CERTIFICATES).expect("the folder takes a file");
        let certificate = |of: &[&str]| {
            let mut words = self.prefix();
            words.extend(["openssl", "req", "-x509", "-config", "openssl.cnf", "-noenc"].map(str::to_owned));
            words.extend(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"].map(str::to_owned));
            let mut openssl = Command::new(&words[0]);
            let made = openssl.args(&words[1..]).args(of).current_dir(&self.folder).output();
            let made = made.expect("openssl can be started: apt-get install -y openssl");
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        };
        certificate(&["-subj", "/CN=authority", "-extensions", "ca", "-keyout", "ca.key", "-out", "ca.pem"]);
        let vouched =
            ["-CA", "ca.pem", "-CAkey", "ca.key", "-subj", "/CN=localhost", "-extensions", "server"];
        certificate(&[&vouched[..], &["-keyout", "server.key", "-out", "server.pem"]].concat());
    }

    /// Starts this program under a guard, which is a script of the shell, and waits until it answers.
    pub(crate) fn launch<'a>(
        &mut self,
        guard: &str,
        program: impl IntoIterator<Item = &'a str>,
        answers: impl Fn() -> bool,
    ) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.folder.join("log"));
        let log = log.expect("a log");
        let mut command = Command::new("sh");
        command.args(["-c", guard, "guard"]).args(self.prefix()).args(program);
        command.current_dir(&self.folder).stdin(Stdio::piped());
        command.stdout(log.try_clone().expect("a second handle")).stderr(log);
        let guard = self.guard.insert(command.spawn().expect("sh can be started"));
        let patience = Instant::now() + LONGEST;
        let said = || fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        while !answers() {
            assert!(Instant::now() < patience, "the server does not start: {}", said());
            assert!(guard.try_wait().expect("its state is known").is_none(), "it has ended: {}", said());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Has the guard end, and keep the folder.
    pub(crate) fn end(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            let mut words = guard.stdin.take().expect("it is written to once");
            words.write_all(b"keep\n").expect("the guard listens");
            drop(words);
            guard.wait().expect("the guard ends");
        }
    }
}

impl Drop for Process {
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

/// As whom servers run, if this is root: the user that the package has made, or nobody.
fn unprivileged(name: &str) -> Option<(u32, u32)> {
    let id = |arguments: &[&str]| {
        let output =
            Command::new("id").args(arguments).output().ok().filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok()?.trim().parse::<u32>().ok()
    };
    if id(&["-u"]) != Some(0) {
        return None;
    }
    let of = |name| Some((id(&["-u", name])?, id(&["-g", name])?));
    Some(of(name).or_else(|| of("nobody")).expect("somebody who may do little"))
}

/// What certificates say.
const CERTIFICATES: &str = "[req]\ndistinguished_name = name\n[name]\n[ca]\nbasicConstraints = critical,CA:TRUE\n\
    [server]\nbasicConstraints = critical,CA:FALSE\nsubjectAltName = DNS:localhost\n";

/// A port of this machine that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.local_addr().expect("it has an address").port()
}

/// How long a server may take until it answers.
const LONGEST: Duration = Duration::from_secs(60);
