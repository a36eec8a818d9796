//! A folder with a configuration, what its command has done, and servers in it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::wire::eventually;

/// A folder with a configuration.
#[derive(Debug)]
pub(crate) struct Place(TempDir);

/// A command that goes on until it may end, and says how far it is; one that is quick; and one that fails.
const TOOLS: &str = r#"
[server]
name = "ci"

[tools.build]
description = "Build"
command = ["sh", "-c", '''
echo >> begun
trap 'echo >> ended; exit 1' TERM
i=0
while [ ! -e open ] && [ -e longhaul.toml ]; do i=$((i+1)); echo $i >&3; sleep 0.2; done
printf built''']
task = "after 500ms"
hold = "HOLD"

[tools.quick]
description = "Be quick"
command = ["printf", "hello"]
task = "after 30m"
hold = "1h"

[tools.fails]
description = "Fail"
command = ["sh", "-c", "echo no such crate >&2; exit 3"]
task = "always"
"#;

/// By what Ann is known, where callers sign in.
pub(crate) const ANNS_TOKEN: &str = "anns-0123456789abcdef0123456789abcdef";

impl Place {
    /// A place where calls of `build` are held for so long.
    pub(crate) fn new(hold: &str) -> Self {
        let place = Self(tempfile::Builder::new().prefix("longhaul-hosts-").tempdir().unwrap());
        fs::write(place.path("longhaul.toml"), TOOLS.replace("HOLD", hold)).unwrap();
        place
    }

    /// The same, of whose callers the server knows one.
    pub(crate) fn where_ann_signs_in(hold: &str) -> Self {
        let place = Self::new(hold);
        let tokens = "[auth.tokens.ann]\nfrom = \"env:ANNS_TOKEN\"\n".to_owned();
        fs::write(place.path("longhaul.toml"), tokens + &TOOLS.replace("HOLD", hold)).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Lets the command end.
    pub(crate) fn open(&self) {
        self.opener()();
    }

    /// The same, from elsewhere.
    pub(crate) fn opener(&self) -> impl FnOnce() + Send + 'static {
        let path = self.path("open");
        move || fs::write(path, "").unwrap()
    }

    /// How often the command has begun.
    pub(crate) fn begun(&self) -> usize {
        fs::read_to_string(self.path("begun")).map_or(0, |text| text.lines().count())
    }

    /// Waits until the command was told to end, and has.
    pub(crate) fn ended(&self) {
        eventually("the end of the command", || self.path("ended").exists().then_some(()));
    }

    /// `longhaul serve` here.
    pub(crate) fn program(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.args(["serve", "longhaul.toml", "--store", "sqlite:tasks.db"]);
        command.current_dir(self.0.path()).env("ANNS_TOKEN", ANNS_TOKEN).stderr(Stdio::piped());
        command
    }

    /// A server over HTTP.
    pub(crate) fn serve(&self) -> Server {
        self.serve_at(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// The same, at this address.
    pub(crate) fn serve_at(&self, address: SocketAddr) -> Server {
        let mut command = self.program();
        command.args(["--http", &address.to_string()]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let mut said = String::new();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        while !said.contains("\nready") {
            let line = lines.next().unwrap_or_else(|| panic!("it ended; it said:\n{said}"));
            said += &format!("{line}\n");
        }
        // Whoever is not read from any more must not wait to be.
        std::thread::spawn(move || lines.for_each(drop));
        let (_, url) = said.split_once("http://").unwrap();
        let address = url.split('/').next().unwrap().parse().unwrap();
        Server { child, address }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open();
    }
}

/// A server over HTTP. Ends with the test.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Ends it with SIGKILL.
    pub(crate) fn kill(&mut self) {
        // One that is gone already is gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
