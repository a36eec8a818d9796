//! A server that listens on a port of its own for as long as the value lives.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::site::{Site, kill_tree, shown};

/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running server.
#[derive(Debug)]
pub(crate) struct HttpServer {
    child: Child,
    command: Command,
    address: SocketAddr,
}

impl HttpServer {
    /// Starts `program arguments… --http ADDRESS` and waits until it listens.
    ///
    /// # Errors
    ///
    /// When it cannot be started, ends, or does not listen in time.
    pub(crate) fn start(site: &Site, program: &str, arguments: &[&str]) -> Result<Self> {
        Self::run(|address| {
            let mut command = Command::new(program);
            command.args(arguments).arg("--http").arg(address.to_string()).envs(site.noting());
            Ok(command)
        })
    }

    /// Starts what listens on the address it is given, and waits until it does.
    ///
    /// # Errors
    ///
    /// As [`HttpServer::start`].
    pub(crate) fn run(command: impl FnOnce(SocketAddr) -> Result<Command>) -> Result<Self> {
        let address = free_port()?;
        let mut command = command(address)?;
        println!("$ {} &", shown(&command));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().with_context(|| format!("cannot run {}", shown(&command)))?;
        let mut server = Self { child, command, address };
        server.listens()?;
        Ok(server)
    }

    /// Kills it where it stands, and starts it anew on the same address.
    ///
    /// # Errors
    ///
    /// As [`HttpServer::start`].
    pub(crate) fn kill_and_start_again(&mut self) -> Result<()> {
        kill_tree(&mut self.child);
        self.start_again()
    }

    /// Starts it anew on the same address, once it has ended.
    ///
    /// # Errors
    ///
    /// As [`HttpServer::start`].
    pub(crate) fn start_again(&mut self) -> Result<()> {
        self.child = self.command.spawn().context("cannot run the server again")?;
        self.listens()
    }

    /// Kills it where it stands, and nothing that it has started.
    ///
    /// # Errors
    ///
    /// When it cannot be killed.
    pub(crate) fn kill_alone(&mut self) -> Result<()> {
        self.child.kill().context("the server cannot be killed")?;
        self.child.wait().context("the server's end is not seen")?;
        Ok(())
    }

    fn listens(&mut self) -> Result<()> {
        let (program, address) = (self.command.get_program().display(), self.address);
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{program} ended ({status}) before it listened on {address}");
            }
            if Instant::now() > until {
                bail!("{program} did not listen on {address} within {} s", PATIENCE.as_secs());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The number of its process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of its endpoint.
    pub(crate) fn url(&self) -> String {
        self.at("mcp")
    }

    /// Its address, of a Redis.
    pub(super) fn redis(&self) -> String {
        format!("redis://{}/0", self.address)
    }

    /// The address of an endpoint by its path.
    pub(super) fn at(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        kill_tree(&mut self.child);
    }
}

/// A port of this machine that nothing listens on now.
fn free_port() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot find a free port")?;
    listener.local_addr().context("cannot find a free port")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_was_killed_is_another_process_on_the_same_address() {
        let site = Site::new(".".into(), ".".into(), Instant::now());
        let script = r#"import socket, sys; s = socket.socket(); s.setsockopt(1, 2, 1)
s.bind(("127.0.0.1", int(sys.argv[-1].split(":")[1]))); s.listen()
while True: s.accept()"#;
        let mut server = HttpServer::start(&site, "python3", &["-c", script]).unwrap();
        let (first, url) = (server.child.id(), server.url());
        server.kill_and_start_again().unwrap();
        assert!(server.child.id() != first && server.url() == url);
    }

    #[test]
    fn a_server_that_ends_at_once_is_an_error() {
        let site = Site::new(".".into(), ".".into(), Instant::now());
        let error = HttpServer::start(&site, "false", &[]).unwrap_err().to_string();
        assert!(error.contains("ended") && error.contains("before it listened"), "{error}");
    }
}
